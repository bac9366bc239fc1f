// from_c.h - the C++ objects behind handles of the C interface, for a procedure object in C++
// (<lockstep/c/procedures.h>).
#pragma once

#include <lockstep/c/base.h>
#include <lockstep/store.h>

namespace lockstep {

// The store of a handle; null if the handle has ended or is no handle of a store. The caller makes
// sure that nobody closes the store while it uses it. Any thread; never blocks.
Store* store_of(lockstep_store* handle);

// The transaction of a handle, valid as long as the handle. Only on the user thread that the
// transaction belongs to, so within the body of lockstep_run(), lockstep_run_in() or
// lockstep_run_calls(); null elsewhere, and for what is no handle. The caller must not end the
// transaction through it. Never blocks.
Txn* transaction_of(lockstep_txn* handle);

}  // namespace lockstep
