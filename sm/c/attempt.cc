// attempt.cc - runs a body of the C interface within a transaction.
#include "sm/c/attempt.h"

namespace lockstep::c {

Result<void> outcome_of(int code, const Error& last) {
    if (code == 0) return {};
    if (code < 0) return fail(ErrorCode::rolled_back, "number that the function returned");
    if (code == static_cast<int>(last.code)) return Unexpected(last);
    if (code > int{LOCKSTEP_ARCHIVE_FAILED})
        return fail(ErrorCode::bad_argument, "code that the function returned",
                    static_cast<uint64_t>(code));
    return fail(static_cast<ErrorCode>(code), "returned by the function");
}

Result<void> Attempt::operator()(Txn& cpp) {
    TxnObject txn;
    txn.store = &store;
    txn.txn = &cpp;
    txn.thread = threads::current();
    DCHECK(txn.thread != nullptr);
    txn.thread_id = txn.thread->id;
    txn.handle = make_handle(Kind::txn, &txn, txn.thread, cpp.id().value);
    if (txn.handle == 0) return fail(ErrorCode::too_many, "handles");
    code = body(handle_of<lockstep_txn>(txn.handle), arg);
    if (txn.handle != 0) txn.end();
    return outcome_of(code, txn.last);
}

}  // namespace lockstep::c
