// store.h - of the C interface: open, close, run, objects by name, maintenance, observation.
#ifndef LOCKSTEP_C_STORE_H
#define LOCKSTEP_C_STORE_H

#include <lockstep/c/base.h>
#include <lockstep/c/options.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// Opens the store in directory `path`, and makes it unless options->create is false. The path
// ":memory:" makes a new store in memory, which is gone when it is closed. Blocks. On success
// *store is a handle, which lockstep_close() ends; on error it is NULL. Errors: those of
// lockstep::Store::open().
int lockstep_open(const char* path, const lockstep_options* options, lockstep_store** store,
                  lockstep_error* error);
// Rolls the sessions back that are open, waits for transactions and requests that run, writes
// everything and closes the store. The handle ends in every case but LOCKSTEP_WRONG_THREAD (on a
// user thread of a store, in its lockstep_offload(), or in a callback of a call on the store) and
// LOCKSTEP_FORKED. Other calls get LOCKSTEP_STORE_CLOSED from then on.
int lockstep_close(lockstep_store* store, lockstep_error* error);

// A transaction as a function. 0 commits. Every other result rolls back: the code of the error that
// a call returned, or a negative number of the application. A positive number is always taken as a
// code: 1 is LOCKSTEP_IO_ERROR.
typedef int (*lockstep_body)(lockstep_txn* txn, void* arg);
// Calls body(txn, arg) on a user thread as a transaction, and waits. A deadlock victim is rolled
// back and called again, so `body` may run several times. `txn` ends with the call. Within `body`
// nothing may block the kernel thread. Its result is the result of this call if it is not 0.
// Errors: those of `body` and of the commit.
int lockstep_run(lockstep_store* store, lockstep_body body, void* arg,
                 const lockstep_txn_options* options, lockstep_error* error);
// Makes an error of the application: `return lockstep_user_error(txn, 7, "no such account");` in a
// lockstep_body rolls back, and nothing is repeated. lockstep_run() then returns the same
// LOCKSTEP_USER_ERROR; its lockstep_error has a = `code` and the text, cut to 1000 bytes. In the
// transaction nothing changes. Errors: those of a handle, LOCKSTEP_BAD_ARGUMENT for NULL as text.
int lockstep_user_error(lockstep_txn* txn, uint64_t code, const char* text);

// Finds a committed index or heap by name. The handle is valid until the store is closed. Errors:
// LOCKSTEP_NO_SUCH_OBJECT, LOCKSTEP_WRONG_KIND, LOCKSTEP_IO_ERROR, LOCKSTEP_CORRUPT_PAGE.
int lockstep_find_index(lockstep_store* store, const char* name, lockstep_index** index,
                        lockstep_error* error);
int lockstep_find_heap(lockstep_store* store, const char* name, lockstep_heap** heap,
                       lockstep_error* error);

// An index or heap.
typedef struct lockstep_object {
    size_t size;
    const char* name;
    bool is_index;  // else a heap
    uint32_t id;
    uint32_t of;  // a secondary index: the id of its primary; else 0
} lockstep_object;
// Calls each(arg, object) for all committed indexes and heaps by name, until it returns false.
int lockstep_list(lockstep_store* store, bool (*each)(void* arg, const lockstep_object* object),
                  void* arg, lockstep_error* error);

// Waits until everything up to `lsn`, which a commit gave, is on disk.
int lockstep_wait_durable(lockstep_store* store, uint64_t lsn, lockstep_error* error);
// Writes all dirty pages and recycles the log before them.
int lockstep_checkpoint(lockstep_store* store, lockstep_error* error);
// Cuts free pages off the data file. *bytes: what the file system got back; may be NULL.
int lockstep_give_back_space(lockstep_store* store, uint64_t* bytes, lockstep_error* error);

// Takes one line of text, NUL-terminated.
typedef void (*lockstep_line)(void* arg, const char* text);
// Checks every page and structure; no transaction may be active. `threads` user threads share the
// work. Calls each(arg, text) for each fault; *faults is their number. Both may be NULL.
int lockstep_verify(lockstep_store* store, uint32_t threads, lockstep_line each, void* arg,
                    size_t* faults, lockstep_error* error);

// Switches teams and CTX points while transactions run. Error: LOCKSTEP_WRONG_THREAD on a user
// thread of the store.
int lockstep_set_steps(lockstep_store* store, const lockstep_steps_options* steps,
                       lockstep_error* error);
// The options of the open store. *steps, if not NULL, takes those of STEPS, as lockstep_set_steps()
// chose them last. In *options the fields `steps`, `logger` and `logger_arg` are NULL. Set the
// field `size` of both before. Never waits.
int lockstep_get_options(lockstep_store* store, lockstep_options* options,
                         lockstep_steps_options* steps, lockstep_error* error);

// Gives the calling kernel thread a watch, in the place of the one before; NULL: none. While a call
// of this thread waits for the store, watch(arg) is called on it every 50 ms or so, and at once
// behind a signal handler that has interrupted the wait. It may make calls of its own. A result
// other than 0 asks to give the wait up: the transaction that the call is in is cancelled, as by
// lockstep_cancel_transaction(), and a call that has not begun its transaction does not begin it.
// Both then return LOCKSTEP_CANCELLED. Calls that are in no transaction, as lockstep_checkpoint()
// and lockstep_commit() behind its commit record, go on to their ends. So do lockstep_run_calls()
// and a lockstep_batch() that begins a transaction and keeps it open.
void lockstep_watch_waits(int (*watch)(void* arg), void* arg);
// Calls of user threads and of any others; outside a user thread they block. Let other user threads
// run; wait for `nanos` at least; time of the store's clock.
void lockstep_yield(void);
void lockstep_sleep_for(uint64_t nanos);
uint64_t lockstep_now(void);
// Calls fn(arg) on a kernel thread of the store's pool, where it may block, and suspends the user
// thread until it returns. On a foreign kernel thread it runs on the spot. The result is fn's.
// Errors, which come as their codes: LOCKSTEP_TOO_MANY, LOCKSTEP_BAD_ARGUMENT (fn is NULL).
int lockstep_offload(int (*fn)(void* arg), void* arg, lockstep_error* error);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
