// restored_pages.h - the data file of a restore while log records are applied to its pages.
//
// Concepts   The pages that records change are kept in memory, as far as the restore may take it.
//            When there is no room, the half that has not changed for the longest time is written,
//            in the order of the page numbers. A page is read only if a record changes it and does
//            not bring it. So most pages that have their image in the log are never read.
// Invariants RSP-1 A part is applied only if the page's lsn is below the record's end. A page whose
//                 state comes from its own part goes back to that record's time; everything after
//                 it is in the log as well (RC-1). A freed page counts like others: an incremental
//                 backup made since the restored one may rely on its lsn.
//            RSP-2 At most `memory_bytes` of pages are in memory. [checked: assert_state()]
//            RSP-3 A page that is damaged in the file, or older than it must be, gets no part until
//                 one brings it. If none does, finish() fails. [checked: unknown_]
// Blocking   Blocks the calling kernel thread. One thread at a time.
// Source     G. Graefe, W. Guy, C. Sauer, "Instant Recovery with Write-Ahead Logging", 2016
//            (restore in one pass over the log).
#pragma once

#include <set>
#include <string>
#include <vector>

#include <lockstep/result.h>
#include <lockstep/types.h>
#include "sm/buffer/page.h"
#include "sm/change/log_kinds.h"
#include "threads/base/check.h"
#include "threads/io/aligned_buffer.h"
#include "threads/io/disk_file.h"
#include "txn/log/log_record.h"

namespace lockstep::sm {

class RestoredPages {
public:
    // The data file at `place` has as many pages as `lsns`, which has the lsn that each must have;
    // 0: not known. The entries follow what is written. `disk` and `lsns` outlive the object.
    // Errors: those of Disk::open(), out_of_memory.
    static Result<RestoredPages> open(threads::Disk& disk, const threads::Place& place,
                                      std::vector<uint64_t>& lsns, uint64_t memory_bytes);
    RestoredPages(RestoredPages&&) = default;
    // Applies the record's parts. Records come in the order of the log. Errors: corrupt_log, those
    // of the disk, out_of_memory.
    Result<void> apply(const txn::LogRecordView& record);
    // Writes what is in memory and syncs the file. Errors: bad_backup (RSP-3), those of the disk.
    Result<void> finish();

private:
    static constexpr uint32_t kNotHere = ~0u;
    static constexpr size_t kFramesOfChunk = 512;  // memory is taken in such pieces
    struct Frame {
        PageId page = kPageNone;
        uint64_t changed_at = 0;  // grows with each part
        bool dirty = false;
    };

    RestoredPages(threads::Disk& disk, threads::DiskFile file, std::vector<uint64_t>& lsns,
                  size_t frames_max, threads::AlignedBuffer run);
    Result<void> apply_part(const PartView& part, Lsn end);
    Result<uint32_t> frame_for(PageId id, bool brings_page);
    Result<bool> read(PageId id, Page& page);
    Result<void> grow(PageId id);
    Result<uint32_t> take_frame();
    Result<void> make_room();
    Result<void> write(std::vector<uint32_t> frames);
    Page& page_of(uint32_t frame) const {
        return reinterpret_cast<Page*>(
            chunks_[frame / kFramesOfChunk].get())[frame % kFramesOfChunk];
    }
    void assert_state() const {
        DCHECK(frames_.size() <= frames_max_ && free_.size() <= frames_.size());  // RSP-2
        DCHECK(here_.size() == lsns_->size());
    }

    threads::Disk* disk_;
    threads::DiskFile file_;
    std::vector<uint64_t>* lsns_;
    size_t frames_max_;
    std::vector<uint32_t> here_;  // by page: its frame, or kNotHere
    std::vector<Frame> frames_;
    std::vector<uint32_t> free_;
    std::vector<threads::AlignedBuffer> chunks_;
    threads::AlignedBuffer run_;  // neighbours that are written at once
    std::set<uint32_t> unknown_;  // pages that no part has brought yet
    uint64_t changes_ = 0;
};

}  // namespace lockstep::sm
