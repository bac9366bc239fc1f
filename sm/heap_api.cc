// heap_api.cc - public heap: check the transaction, cross the operation boundary, call the heap file.
#include <utility>

#include "sm/heap.h"
#include "sm/heap_file.h"
#include "sm/operation.h"

namespace lockstep {

using sm::OpKind;
using sm::TxnAccess;

namespace {

[[gnu::cold, gnu::noinline]] std::unexpected<Error> refused(const Txn& txn, const sm::HeapFile* heap) {
    if (!heap) return fail(ErrorCode::no_such_store, "empty heap handle");
    return std::unexpected(TxnAccess::why_not(txn));
}

}  // namespace

#define BEGIN_OPERATION(kind)                                                          \
    txn::Transaction* t = TxnAccess::usable(txn);                                      \
    if (!t || !heap_ || &TxnAccess::engine(txn) != engine_) [[unlikely]]               \
        return refused(txn, heap_);                                                    \
    sm::operation_boundary(*t, kind, heap_->id())
#define BEGIN_CHANGE(kind)                                                             \
    BEGIN_OPERATION(kind);                                                             \
    if (t->read_only) [[unlikely]]                                                     \
        return fail(ErrorCode::read_only, "transaction", t->id.value)

Result<RecordId> Heap::insert(Txn& txn, Slice record) const {
    BEGIN_CHANGE(OpKind::insert);
    return sm::finish(*t, heap_->insert(*t, record));
}

Result<bool> Heap::get(Txn& txn, RecordId id, std::string& record, For access) const {
    BEGIN_OPERATION(access == For::read ? OpKind::fetch : OpKind::fetch_for_update);
    sm::ValueOut out{.text = &record};
    return sm::finish(*t, heap_->fetch(*t, id, static_cast<sm::Access>(access), out));
}

Result<bool> Heap::update(Txn& txn, RecordId id, Slice record) const {
    BEGIN_CHANGE(OpKind::update);
    return sm::finish(*t, heap_->update(*t, id, record));
}

Result<bool> Heap::erase(Txn& txn, RecordId id) const {
    BEGIN_CHANGE(OpKind::erase);
    return sm::finish(*t, heap_->erase(*t, id));
}

Result<void> Heap::scan(Txn& txn, std::move_only_function<bool(RecordId, Slice)> each) const {
    BEGIN_OPERATION(OpKind::scan);
    return sm::finish(*t, heap_->scan(*t, std::move(each)));
}

StoreId Heap::id() const { return heap_ ? heap_->id() : StoreId{}; }

}  // namespace lockstep
