// attempt.h - a body of the C interface as a transaction of Store::run(), and what its result
// means.
#pragma once

#include <lockstep/c/store.h>
#include "sm/c/objects.h"

namespace lockstep::c {

// The error of a body that has returned `code`. `last`: the error of the transaction's last call
// that failed.
Result<void> outcome_of(int code, const Error& last);

// One attempt, on a user thread.
struct Attempt {
    StoreObject& store;
    lockstep_body body;
    void* arg;
    int code = 0;  // that the body has returned

    Result<void> operator()(Txn& cpp);
};

}  // namespace lockstep::c
