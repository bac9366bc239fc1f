// heap_api.cc - public heap: check the transaction, cross the operation boundary, call the heap
// file.
#include <utility>

#include <lockstep/heap.h>
#include "sm/api/operation.h"
#include "sm/heap/heap_file.h"

namespace lockstep {

using sm::OpKind;

Result<RecordId> Heap::insert(Txn& txn, Slice record) const {
    return sm::perform_change(txn, engine_, heap_, OpKind::insert,
                              [&](txn::Transaction& t) { return heap_->insert(t, record); });
}

Result<bool> Heap::get(Txn& txn, RecordId id, std::string& record, Access access) const {
    return sm::perform(txn, engine_, heap_, OpKind::fetch, [&](txn::Transaction& t) {
        sm::ValueOut out{.text = &record};
        return heap_->fetch(t, id, access, out);
    });
}

Result<bool> Heap::update(Txn& txn, RecordId id, Slice record) const {
    return sm::perform_change(txn, engine_, heap_, OpKind::update,
                              [&](txn::Transaction& t) { return heap_->update(t, id, record); });
}

Result<bool> Heap::erase(Txn& txn, RecordId id) const {
    return sm::perform_change(txn, engine_, heap_, OpKind::erase,
                              [&](txn::Transaction& t) { return heap_->erase(t, id); });
}

Result<void> Heap::scan(Txn& txn, FunctionRef<bool(RecordId, Slice)> each) const {
    return sm::perform(txn, engine_, heap_, OpKind::scan, [&](txn::Transaction& t) {
        const sm::CallsBack inside(t);
        return heap_->scan(t, each);
    });
}

ObjectId Heap::id() const { return heap_ ? heap_->id() : ObjectId{}; }

}  // namespace lockstep
