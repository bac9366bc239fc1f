// lockstep.h - the C interface of Lockstep: C11, and C++17 or newer.
//
// Concepts   Every function that can fail returns LOCKSTEP_OK or the code of its error, and fills
//            the lockstep_error that its last argument points to. That argument may be NULL. It is
//            written only if the call fails. Handles (lockstep_store, lockstep_txn ...) are opaque.
//            They are numbers and no addresses: the library recognises NULL, a handle that has
//            ended, one of another kind and a stray number, and returns an error. A transaction is
//            used in one of two forms, by the same calls. In the *callback form* lockstep_run()
//            calls a function of the application on a user thread. In the *session form* any kernel
//            thread calls lockstep_begin(): a user thread of the store serves the transaction, and
//            each call is handed over to it. lockstep_batch() hands over many operations at once.
//            lockstep_submit() does so without waiting.
// Memory     The library gives no memory away, so there is nothing to free but handles. Results go
//            to memory of the caller. What a callback gets is valid until it returns. What a call
//            is given need live only until it returns, unless the call says otherwise.
// Callbacks  In the session form, and in calls that take a store, callbacks run on the kernel
//            thread that made the call. They may block. In the callback form they run on the user
//            thread, with its small stack (lockstep_options::stack_bytes), and must not block.
//            Nothing may throw or jump out of a callback. The exceptions are named at the call.
// Blocking   Each call that takes a store or a transaction may wait, unless it says "never waits".
//            The wait suspends a user thread and blocks any other.
// Errors     Besides those named, each call returns LOCKSTEP_BAD_ARGUMENT for NULL where a pointer
//            is needed and for what is no handle, LOCKSTEP_STORE_CLOSED and LOCKSTEP_TXN_ENDED for
//            a handle that has ended, and LOCKSTEP_FORKED in the child of a fork(). The meaning of
//            each code, and what an error does to a transaction, is that of the C++ interface.
// ABI        Structs with the field `size` may grow. Set it to sizeof the struct; the functions
//            lockstep_..._init() do. A newer library treats what an older program does not know as
//            default. All other structs stay as they are.
#ifndef LOCKSTEP_LOCKSTEP_H
#define LOCKSTEP_LOCKSTEP_H

#include <lockstep/c/backup.h>       // keep: the whole interface
#include <lockstep/c/base.h>         // keep
#include <lockstep/c/batch.h>        // keep
#include <lockstep/c/changes.h>      // keep
#include <lockstep/c/heap.h>         // keep
#include <lockstep/c/index.h>        // keep
#include <lockstep/c/options.h>      // keep
#include <lockstep/c/prepared.h>     // keep
#include <lockstep/c/procedures.h>   // keep
#include <lockstep/c/report.h>       // keep
#include <lockstep/c/stats.h>        // keep
#include <lockstep/c/store.h>        // keep
#include <lockstep/c/transaction.h>  // keep
#include <lockstep/c/version.h>      // keep

#endif
