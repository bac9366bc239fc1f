// heap.h - an unordered collection of records that are found again by their record id.
//
// Limits     A record has 0..8000 bytes.
// Blocking   Every call may suspend the calling user thread for locks, pages and log space.
// Errors     Those of index.h.
#pragma once

#include <string>

#include <lockstep/function_ref.h>
#include <lockstep/index.h>

namespace lockstep {

namespace sm {
class HeapFile;
}

// A handle on a heap. Copy it freely; it is valid while the store is open and the heap exists.
class Heap {
public:
    // The empty handle: every call through it returns no_such_object.
    Heap() = default;
    // False for the empty handle.
    explicit operator bool() const { return heap_ != nullptr; }

    // Stores a copy of `record`. The id names it until it is erased, wherever it moves.
    // Errors: value_too_long, read_only.
    Result<RecordId> insert(Txn& txn, Slice record) const;
    // Copies the record into `record`, which is resized to fit. False: there is no such record.
    // `access` is the lock that the read takes.
    Result<bool> get(Txn& txn, RecordId id, std::string& record,
                     Access access = Access::read) const;
    // Replaces the whole record. False: there is no such record. Errors: value_too_long, read_only.
    Result<bool> update(Txn& txn, RecordId id, Slice record) const;
    // Erases the record. False: there is no such record. Errors: read_only.
    Result<bool> erase(Txn& txn, RecordId id) const;
    // Calls each(id, record) for all records in no particular order, until it returns false. The
    // bytes are valid during the call only. `each` must not change this heap,
    // nor end or roll back `txn`: bad_argument there.
    Result<void> scan(Txn& txn, FunctionRef<bool(RecordId, Slice)> each) const;

    // The heap's number in the catalog; 0 for the empty handle.
    ObjectId id() const;

private:
    friend class Store;
    Heap(sm::Engine* engine, sm::HeapFile* heap) : engine_(engine), heap_(heap) {}
    sm::Engine* engine_ = nullptr;
    sm::HeapFile* heap_ = nullptr;
};

}  // namespace lockstep
