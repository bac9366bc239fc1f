// transaction.h - of the C interface: begin, commit, rollback, savepoints, needs; making and
// removing indexes and heaps.
#ifndef LOCKSTEP_C_TRANSACTION_H
#define LOCKSTEP_C_TRANSACTION_H

#include <lockstep/c/base.h>
#include <lockstep/c/options.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// Begins a transaction that the caller ends with lockstep_commit() or lockstep_abort(). On a user
// thread of the store it belongs to that thread. On a foreign kernel thread it is a session: any
// foreign kernel thread may use it, one call at a time. A second call meanwhile returns
// LOCKSTEP_WRONG_THREAD. Errors: those of lockstep::Store::begin(), LOCKSTEP_TOO_MANY.
int lockstep_begin(lockstep_store* store, const lockstep_txn_options* options, lockstep_txn** txn,
                   lockstep_error* error);
// Commits. *lsn, if not NULL, is the point for lockstep_wait_durable(), 0 if nothing was changed.
// The handle and its cursors end in every case but LOCKSTEP_WRONG_THREAD, and LOCKSTEP_BAD_ARGUMENT
// in a callback of a call on the transaction. Otherwise a transaction that cannot be committed is
// rolled back.
int lockstep_commit(lockstep_txn* txn, uint64_t* lsn, lockstep_error* error);
// Rolls back. The handle and its cursors end, as for lockstep_commit().
int lockstep_abort(lockstep_txn* txn, lockstep_error* error);
// Number of the transaction, which lockstep_end_transaction() takes. 0 for a handle that has ended.
// Never waits.
uint64_t lockstep_txn_id(lockstep_txn* txn);

// A state that lockstep_rollback_to() restores. A plain value.
typedef struct lockstep_savepoint {
    uint64_t txn;  // lockstep_txn_id()
    uint64_t number;
} lockstep_savepoint;
// Marks the present state.
int lockstep_set_savepoint(lockstep_txn* txn, lockstep_savepoint* savepoint, lockstep_error* error);
// Undoes what came after the savepoint; locks stay, and the savepoint remains usable. Cursors of
// the transaction stay. Error: LOCKSTEP_BAD_ARGUMENT if it is none of this transaction.
int lockstep_rollback_to(lockstep_txn* txn, const lockstep_savepoint* savepoint,
                         lockstep_error* error);

// One record that the transaction will use (<lockstep/need.h>).
typedef struct lockstep_need {
    lockstep_index* index;
    lockstep_slice key;
    int access;      // enum lockstep_access
    uint32_t bytes;  // of the value that will be read, as far as known; 0: 192
} lockstep_need;
// Tells which records the transaction will use, so that their cache misses and page reads overlap.
// The first 64 count. *walked, if not NULL: whether the store makes use of it at present.
int lockstep_will_need(lockstep_txn* txn, const lockstep_need* needs, size_t count, bool* walked,
                       lockstep_error* error);

// Takes the secondary keys of one record; given to lockstep_key_function.
typedef struct lockstep_keys lockstep_keys;
// Adds a key, which is copied. Only within the call of the key function. Never waits.
void lockstep_keys_add(lockstep_keys* keys, lockstep_slice key);
// Computes the secondary keys of a record by calls of lockstep_keys_add(). Equal records get equal
// keys. Runs on user threads and on several kernel threads at once, as long as the store is open.
// It must not block and must not use the store: calls in it return LOCKSTEP_WRONG_THREAD.
typedef void (*lockstep_key_function)(void* arg, lockstep_slice key, lockstep_slice value,
                                      lockstep_keys* keys);

// What a new secondary index is (<lockstep/secondary.h>).
typedef struct lockstep_secondary_options {
    size_t size;
    lockstep_index* of;  // the primary
    lockstep_key_function key;
    void* key_arg;  // must live as long as the store is open
    bool unique;
    uint64_t build_bytes;  // memory for building it
    // How far it is; NULL: not called. Runs on the caller's kernel thread in the session form.
    void (*progress)(void* arg, uint64_t pages_read, uint64_t entries_loaded);
    void* progress_arg;
} lockstep_secondary_options;
// Fills the struct with the defaults and sets its size. Never waits.
void lockstep_secondary_options_init(lockstep_secondary_options* options, size_t size);

// Makes an index within the transaction; `options` not NULL: a secondary index, filled from the
// records that exist. Errors: those of lockstep::Store::create_index().
int lockstep_create_index(lockstep_txn* txn, const char* name,
                          const lockstep_secondary_options* options, lockstep_index** index,
                          lockstep_error* error);
// Opens the index as the transaction sees it, or makes it. Of a secondary index it also attaches
// the key function.
int lockstep_open_or_create_index(lockstep_txn* txn, const char* name,
                                  const lockstep_secondary_options* options, lockstep_index** index,
                                  lockstep_error* error);
// The same for a heap.
int lockstep_create_heap(lockstep_txn* txn, const char* name, lockstep_heap** heap,
                         lockstep_error* error);
int lockstep_open_or_create_heap(lockstep_txn* txn, const char* name, lockstep_heap** heap,
                                 lockstep_error* error);
// Finds an index or heap as the transaction sees the name.
int lockstep_find_index_in(lockstep_txn* txn, const char* name, lockstep_index** index,
                           lockstep_error* error);
int lockstep_find_heap_in(lockstep_txn* txn, const char* name, lockstep_heap** heap,
                          lockstep_error* error);
// Removes an index or heap when the transaction commits.
int lockstep_drop(lockstep_txn* txn, const char* name, lockstep_error* error);
// Gives a secondary index its key function after an open. `arg` must live as long as the store is
// open.
int lockstep_attach_key(lockstep_store* store, const char* name, lockstep_key_function key,
                        void* arg, lockstep_error* error);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
