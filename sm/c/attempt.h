// attempt.h - a body of the C interface as a transaction of Store::run(), and what its result
// means.
#pragma once

#include <lockstep/c/store.h>
#include "sm/c/objects.h"

namespace lockstep::c {

// The error of a body that has returned `code`. `last`: the error of the transaction's last call
// that failed.
Result<void> outcome_of(int code, const Error& last);

// A transaction of Store::run(), on this user thread. It has no handle yet.
TxnObject txn_object_of(StoreObject& store, Txn& cpp);
// Gives it a handle, until txn.end().
Result<void> give_handle(TxnObject& txn);

// Calls a body within an open transaction, on its user thread. The handle is the thread's
// meanwhile, so the body can use it. `code`: what the body has returned.
Result<void> call_body(TxnObject& txn, lockstep_body body, void* arg, int& code);

// One attempt, on a user thread.
struct Attempt {
    StoreObject& store;
    lockstep_body body;
    void* arg;
    int code = 0;  // that the body has returned

    Result<void> operator()(Txn& cpp);
};

}  // namespace lockstep::c
