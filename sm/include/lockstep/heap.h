// heap.h - an unordered collection of records that are found again by their record id.
//
// Limits     record 0..8000 bytes. Errors and blocking as index.h.
#pragma once

#include <functional>
#include <string>

#include <lockstep/index.h>

namespace lockstep {

namespace sm {
class HeapFile;
}

class Heap {
public:
    Heap() = default;
    explicit operator bool() const { return heap_ != nullptr; }

    // The id stays valid until the record is erased.
    Result<RecordId> insert(Txn& txn, Slice record) const;
    Result<bool> get(Txn& txn, RecordId id, std::string& record,
                     Access access = Access::read) const;
    Result<bool> update(Txn& txn, RecordId id, Slice record) const;  // false: no such record
    Result<bool> erase(Txn& txn, RecordId id) const;
    // All records in no particular order, until `each` returns false.
    Result<void> scan(Txn& txn, std::move_only_function<bool(RecordId, Slice)> each) const;

    ObjectId id() const;

private:
    friend class Store;
    Heap(sm::Engine* engine, sm::HeapFile* heap) : engine_(engine), heap_(heap) {}
    sm::Engine* engine_ = nullptr;
    sm::HeapFile* heap_ = nullptr;
};

}  // namespace lockstep
