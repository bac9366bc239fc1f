// heap_snapshot.h - one data page of a heap after the other, as a snapshot sees them.
//
// Concepts   The page is copied under its shared latch, with the versions of those slots that the
//            snapshot sees otherwise. A slot never moves, so each slot is told by its own versions.
//            A stub that the snapshot sees leads to the slot where it sees the moved copy, which is
//            read after the latch is given up.
// Blocking   load() parks for pages and latches, never for locks.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sm/heap/heap_file.h"
#include "sm/version/snapshot_set.h"

namespace lockstep::sm {

class HeapPageCopy {
public:
    struct Record {
        RecordId id;
        Slice bytes;  // valid until the next load()
    };
    HeapPageCopy(HeapFile& heap, const Snapshot& snapshot)
        : heap_(heap), snapshot_(snapshot), page_(std::make_unique_for_overwrite<Page>()) {}
    // Takes the records of a data page of the heap. Errors: no_such_object and snapshot_too_old,
    // which come before all others; corrupt_page, and those of reading pages.
    Result<void> load(PageId id);
    // In the order of their ids.
    std::span<const Record> records() const { return records_; }
    const Snapshot& snapshot() const { return snapshot_; }
    // The newest change of a page that was read.
    Lsn newest() const { return newest_; }

private:
    enum class Where : uint8_t { page, text };
    struct Row {
        SlotNo slot;
        Where where;
        uint32_t at;  // in the copied page or text_
        uint32_t bytes;
        bool stub;  // until it has been followed
    };
    Result<void> load_page(PageId id);
    Result<bool> take(PageId id);
    bool take_slot(const Page& page, uint32_t number);
    void take_slot_of_page(const Page& page, uint32_t number);
    void add_text(SlotNo slot, Slice bytes, bool stub);
    Result<void> follow(PageId page, Row& row);
    Slice bytes_of_row(const Row& row) const;

    HeapFile& heap_;
    const Snapshot& snapshot_;
    const std::unique_ptr<Page> page_;
    std::string text_;
    RecordCopy version_;
    std::vector<Row> rows_;
    std::vector<Record> records_;
    Lsn newest_{};
};

}  // namespace lockstep::sm
