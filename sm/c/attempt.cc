// attempt.cc - runs a body of the C interface within a transaction.
#include "sm/c/attempt.h"

namespace lockstep::c {

Result<void> outcome_of(int code, const Error& last) {
    if (code == 0) return {};
    if (code < 0) return fail(ErrorCode::rolled_back, "number that the function returned");
    if (code == static_cast<int>(last.code)) return Unexpected(last);
    if (code > int{LOCKSTEP_CHANGES_LOST})
        return fail(ErrorCode::bad_argument, "code that the function returned",
                    static_cast<uint64_t>(code));
    return fail(static_cast<ErrorCode>(code), "returned by the function");
}

Result<void> call_body(TxnObject& txn, lockstep_body body, void* arg, int& code) {
    DCHECK(txn.handle != 0 && txn.thread == threads::current());
    auto* const handle = handle_of<lockstep_txn>(txn.handle);
    HandleEntry& entry = *entry_of(handle, Kind::txn);
    const bool session = txn.session != nullptr;
    if (session) entry.owner.store(txn.thread, std::memory_order_release);
    code = body(handle, arg);
    // Without the handle the transaction has ended, and may be gone.
    if (!entry.is(number_of(handle))) return outcome_of(code, Error{});
    if (session) entry.owner.store(nullptr, std::memory_order_release);
    return outcome_of(code, txn.last);
}

TxnObject txn_object_of(StoreObject& store, Txn& cpp) {
    TxnObject txn;
    txn.store = &store;
    txn.txn = &cpp;
    txn.thread = threads::current();
    DCHECK(txn.thread != nullptr);
    txn.thread_id = txn.thread->id;
    return txn;
}

Result<void> give_handle(TxnObject& txn) {
    DCHECK(txn.handle == 0 && txn.session == nullptr && txn.thread == threads::current());
    txn.handle = make_handle(Kind::txn, &txn, txn.thread, txn.txn->id().value);
    if (txn.handle == 0) return fail(ErrorCode::too_many, "handles");
    return {};
}

Result<void> Attempt::operator()(Txn& cpp) {
    TxnObject txn = txn_object_of(store, cpp);
    TRY(give_handle(txn));
    code = body(handle_of<lockstep_txn>(txn.handle), arg);
    if (txn.handle != 0) txn.end();
    return outcome_of(code, txn.last);
}

}  // namespace lockstep::c
