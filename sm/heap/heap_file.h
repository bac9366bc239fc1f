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

#include "sm/buffer/buffer_pool.h"
#include "sm/core/env.h"
#include "sm/core/record.h"
#include "sm/core/structure_report.h"
#include "sm/space/space_map.h"

namespace lockstep::sm {

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

    // Takes the X lock on the new record.
    Result<RecordId> insert(txn::Transaction& txn, Slice record);
    Result<bool> fetch(txn::Transaction& txn, RecordId id, Access access, ValueOut& out);
    Result<bool> update(txn::Transaction& txn, RecordId id, Slice record);
    Result<bool> erase(txn::Transaction& txn, RecordId id);
    // All records in page order; stops when `each` returns false. Serializable takes S on the heap,
    // weaker isolation S on each record.
    Result<void> scan(txn::Transaction& txn, std::move_only_function<bool(RecordId, Slice)> each);

    Result<void> undo_insert(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_update(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_erase(txn::Transaction& txn, const txn::LogRecordView& record);

    Result<StructureReport> verify();

private:
    struct Ops;
    Env& env_;
    const ObjectId id_;
    const PageId first_;
    txn::ObjectLock lock_;
    struct Hints;
    std::shared_ptr<Hints> hints_;  // last insert page per worker
};

}  // namespace lockstep::sm
