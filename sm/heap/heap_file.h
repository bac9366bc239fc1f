// heap_file.h - unordered records with stable record ids.
//
// Concepts   A heap is a chain of map pages. Map pages list its data pages, each with a class of
//            free bytes, so an insert finds space without a walk. A record that outgrows its page
//            leaves a forwarding stub, so its id stays valid. Each worker remembers its last insert
//            page, so inserters do not contend for one page.
//            Locks are on records and on the whole heap. There are no page locks: one would cost
//            each insert 280 instructions. It would serve only scans below serializable, which lock
//            record by record.
// Invariants HF-1 A record id is given once per life of the record and stays valid until its delete
//                 commits.
//            HF-2 A stub points to exactly one moved record, which points back.
//            HF-3 A slot freed by a delete is not reused while the deleting transaction can still
//                 roll back. Its record lock is the test.
// Blocking   As btree.h.
#pragma once

#include <functional>
#include <vector>

#include <lockstep/function_ref.h>
#include "sm/buffer/buffer_pool.h"
#include "sm/core/env.h"
#include "sm/core/record.h"
#include "sm/core/structure_report.h"
#include "sm/space/space_map.h"
#include "sm/version/object_history.h"
#include "sm/version/record_state.h"

namespace lockstep::sm {

namespace heap {
struct Slot;
}
class Crew;
class HeapPageCopy;

inline constexpr size_t kHeapRecordBytesMax = 8000;

class HeapFile {
public:
    HeapFile(Env& env, ObjectId id, PageId first);
    // With `txn` a change whose rollback frees the page; with null permanent.
    static Result<PageId> create(Env& env, ObjectId id, txn::Transaction* txn = nullptr);
    Result<void> destroy();

    ObjectId id() const { return id_; }
    PageId first_page() const { return first_; }
    txn::ObjectLock& lock() { return lock_; }
    ObjectHistory& history() { return history_; }

    // Takes the X lock on the new record.
    Result<RecordId> insert(txn::Transaction& txn, Slice record);
    Result<bool> fetch(txn::Transaction& txn, RecordId id, Access access, ValueOut& out);
    Result<bool> update(txn::Transaction& txn, RecordId id, Slice record);
    Result<bool> erase(txn::Transaction& txn, RecordId id);
    // All records in page order; stops when `each` returns false. Serializable takes S on the heap,
    // weaker isolation S on each record.
    Result<void> scan(txn::Transaction& txn, std::move_only_function<bool(RecordId, Slice)> each);

    // Appends the data pages that the map page lists from entry `from` on. Returns the next map
    // page, or kPageNone.
    Result<PageId> list_pages(PageId map_page, uint32_t from, std::vector<PageId>& out);
    BufferPool& pool() const { return *env_.pool; }

    // The slot as its page has it, with the page latched; for versions.
    Result<void> see_record(RecordId id, FunctionRef<void(const RecordState& state)> see);

    // On the calling thread, or on the crew's.
    Result<StructureReport> verify(Crew* crew = nullptr);

private:
    friend class HeapPageCopy;
    // heap_space.cc. An exclusively latched page of this heap with `bytes` free; becomes the
    // worker's insert page.
    Result<ExclusivePage> page_with_room(txn::Transaction& txn, uint32_t bytes);
    [[gnu::cold, gnu::noinline]] Result<ExclusivePage> find_page(txn::Transaction& txn,
                                                                 uint32_t bytes);
    Result<void> extend();
    Result<void> load_hints();
    // Frees what ended transactions left on the page, until `bytes` are free or no more can be
    // freed.
    [[gnu::cold, gnu::noinline]] Result<void> reclaim(txn::Transaction& txn, ExclusivePage& page,
                                                      uint32_t bytes);
    // Brings the map up to date with the page's class; `offer`: others may insert there.
    Result<void> note_class(PageId id, bool offer);
    Result<bool> set_class(PageId map_id, uint16_t index, PageId id, uint8_t now);
    txn::LockName lock_of(PageId page, uint32_t index, const heap::Slot& s,
                          const Page& bytes) const;
    // No transaction holds a lock on the name, `txn` included.
    bool unlocked(txn::Transaction& txn, txn::LockName name);

    // The worker's insert page is damaged: it inserts elsewhere.
    void leave_damaged(PageId id);

    // heap_access.cc. False: no such page of this heap.
    bool plausible(RecordId id);
    bool is_data_page(const Page& page) const;
    bool is_map_page(const Page& page) const;
    [[gnu::cold, gnu::noinline]] std::unexpected<Error> damaged(PageId id) const;
    // The page is no data page of this heap. False: it has none of the heap's records. Error:
    // corrupt_page if it should have some. No latch is held.
    [[gnu::cold, gnu::noinline]] Result<bool> no_record_in(PageId id);
    const heap::Slot* record_at(const Page& page, SlotNo number);
    bool copy_at(const Page& page, SlotNo number, RecordId home);
    Result<bool> read(RecordId id, std::move_only_function<void(Slice)> take);
    // A read lock on the name is given back after the read: read committed, and not held otherwise.
    bool gives_back(txn::Transaction& txn, txn::LockName name);
    // Locks the record of that name; parks if it must wait.
    Result<void> lock_record(txn::Transaction& txn, RecordId id, txn::LockName name,
                             txn::LockMode mode);
    using Each = std::move_only_function<bool(RecordId, Slice)>;
    // One page of a scan; false: `each` wants no more.
    Result<void> scan_pages(FunctionRef<Result<bool>(PageId)> visit);
    Result<bool> scan_locked(PageId id, Each& each);
    Result<bool> scan_records(txn::Transaction& txn, PageId id, Each& each);

    // heap_snapshot.cc
    Result<RecordCopy> slot_seen(const Snapshot& snapshot, RecordId id, Lsn* newest = nullptr);
    Result<bool> follow(const Snapshot& snapshot, RecordId id, RecordCopy& home,
                        Lsn* newest = nullptr);
    Result<bool> fetch_snapshot(txn::Transaction& txn, RecordId id, Access access, ValueOut& out);
    Result<bool> scan_snapshot(HeapPageCopy& copy, PageId id, Each& each);

    // heap_change.cc
    enum class Outcome : uint8_t { done, missing, no_room };
    Result<Outcome> update_in_place(txn::Transaction& txn, RecordId id, Slice record);
    // False: things changed meanwhile, try everything again.
    Result<bool> move(txn::Transaction& txn, RecordId id, Slice record);
    Result<bool> move_home(txn::Transaction& txn, RecordId id, RecordId copy, Slice record);
    Result<bool> move_away(txn::Transaction& txn, RecordId id, RecordId copy, PageId fresh,
                           Slice record);
    Result<Outcome> splice(txn::Transaction& txn, ExclusivePage& page, SlotNo number, uint32_t skip,
                           Slice record);

    Env& env_;
    const ObjectId id_;
    const PageId first_;
    txn::ObjectLock lock_;
    ObjectHistory history_;
    struct Hints;
    std::shared_ptr<Hints> hints_;  // last insert page per worker
};

}  // namespace lockstep::sm
