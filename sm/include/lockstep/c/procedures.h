// procedures.h - of the C interface: shared objects with stored procedures, which run inside the
// process that has a store open.
//
// Concepts   A *procedure object* is a shared object that exports a lockstep_procedures under the
//            name LOCKSTEP_PROCEDURES_SYMBOL. A host, such as a shard of lockstep.cluster, loads
//            the object, opens it on its store, and hands calls to it. A *call* is the name of a
//            procedure and a request in bytes. Its outcome is a reply in bytes, or a code and a
//            text. The object links the same shared library as the host (liblockstep.so), so a
//            handle of the host is good in the object.
//            `run` takes calls that are transactions of their own, many at a time. `step` takes a
//            call that is a part of a transaction of the host, as in two-phase commit.
// Callbacks  Nothing may throw or jump out of a function of the object.
#ifndef LOCKSTEP_C_PROCEDURES_H
#define LOCKSTEP_C_PROCEDURES_H

#include <lockstep/c/base.h>
#include <lockstep/c/options.h>
#include <lockstep/c/store.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// A host refuses an object with another version.
#define LOCKSTEP_PROCEDURES_VERSION 1
#define LOCKSTEP_PROCEDURES_SYMBOL "lockstep_procedure_object"

// One call. The host fills `procedure` and `request`, which stay until the call has ended. The
// functions below set the rest, which belongs to the library until lockstep_call_clear().
typedef struct lockstep_call {
    size_t size;
    const char* procedure;  // one of lockstep_procedures::names
    lockstep_slice request;
    int code;              // 0, a number of enum lockstep_code, or a negative one of the object
    lockstep_slice reply;  // if `code` is 0
    const char* text;      // the error's text if `code` is not 0; may be NULL
    uint64_t opaque[4];
} lockstep_call;

// Clears the call and sets its size. NULL does nothing. Never waits.
void lockstep_call_init(lockstep_call* call, size_t size);
// Sets the reply to a copy of `bytes`, in the place of an earlier one. Never waits. Errors:
// LOCKSTEP_OUT_OF_MEMORY, LOCKSTEP_BAD_ARGUMENT; the call then has this code.
int lockstep_call_reply(lockstep_call* call, lockstep_slice bytes);
// Ends the call with an error: sets its code and a copy of `text`, and removes the reply. The
// result is `code`, so a body can return it. A `code` of 0 is LOCKSTEP_BAD_ARGUMENT. Never waits.
int lockstep_call_refuse(lockstep_call* call, int code, const char* text);
// Frees what the functions above have set. The call is as after lockstep_call_init(), and keeps
// its procedure and its request. NULL does nothing. Never waits.
void lockstep_call_clear(lockstep_call* call);

// The body of a call. 0 commits, every other result rolls back. A result that is not 0 becomes the
// code of the call, unless lockstep_call_refuse() has set one.
typedef int (*lockstep_call_body)(void* arg, lockstep_txn* txn, lockstep_call* call);
// Runs each call as a transaction of its own, body(arg, txn, call), and waits for all of them. The
// calls run on user threads of the store, many at a time and in any order. A deadlock victim is
// rolled back and its body called again, without the reply of the first time. Nothing in `body` may
// block the kernel thread. The outcome of each call stands in it. Errors, with which nothing has
// run: those of all calls on a store, LOCKSTEP_OUT_OF_MEMORY.
int lockstep_run_calls(lockstep_store* store, lockstep_call* calls, size_t count,
                       lockstep_call_body body, void* arg, const lockstep_txn_options* options,
                       lockstep_error* error);

// Calls body(txn, arg) on the user thread that the transaction belongs to, and waits: one hand-over
// for many operations. The transaction goes on behind it, whatever the result is. `body` must not
// end the transaction and must not block the kernel thread. Its result is the result of this call.
// Errors: those of `body`, and those of all calls on a transaction.
int lockstep_run_in(lockstep_txn* txn, lockstep_body body, void* arg, lockstep_error* error);

// What a procedure object exports:
//     const lockstep_procedures lockstep_procedure_object = {LOCKSTEP_PROCEDURES_VERSION, ...};
typedef struct lockstep_procedures {
    uint32_t version;  // LOCKSTEP_PROCEDURES_VERSION
    uint32_t size;     // sizeof(lockstep_procedures)
    // The names of its procedures, up to a NULL.
    const char* const* names;
    // Prepares the object for a store, which stays open until `close` has returned. `options` is a
    // text of the user, never NULL. *self is what the other functions get. May block its thread. On
    // error the host does not use the object.
    int (*open)(lockstep_store* store, const char* options, void** self, lockstep_error* error);
    // Nothing of the object runs any more.
    void (*close)(void* self);
    // Runs each call as a transaction of its own, and returns when all have ended. Called on
    // several kernel threads at once. lockstep_run_calls() does the work for most objects.
    void (*run)(void* self, lockstep_call* calls, size_t count);
    // Runs the call as a part of the transaction, on its user thread. If the call's code is not 0
    // afterwards, the host rolls the transaction back. NULL: the object has no such procedures.
    void (*step)(void* self, lockstep_txn* txn, lockstep_call* call);
} lockstep_procedures;

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
