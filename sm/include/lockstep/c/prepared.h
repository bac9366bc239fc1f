// prepared.h - of the C interface: two-phase commit, the participant's side. <lockstep/prepared.h>
// says what a coordinator does, and what a transaction in doubt is.
#ifndef LOCKSTEP_C_PREPARED_H
#define LOCKSTEP_C_PREPARED_H

#include <lockstep/c/base.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// A gid, the name of a global transaction, has 1 to this number of bytes of any value.
#define LOCKSTEP_GID_BYTES_MAX 140

// What a participant answers to the first phase.
enum lockstep_vote {
    LOCKSTEP_VOTE_PREPARED = 0,  // it will commit or roll back, as the coordinator decides
    LOCKSTEP_VOTE_READ_ONLY = 1  // it changed nothing and has ended: nothing is to be decided
};

// The first phase: promises to commit or roll back as the calls below will say, also after a
// restart. *vote, if not NULL, is a number of enum lockstep_vote. On success the handle and its
// cursors end; the transaction keeps its locks and belongs to no thread. The errors that leave the
// transaction as it was are those of lockstep::Txn::prepare(), among them LOCKSTEP_ALREADY_EXISTS
// (the gid), LOCKSTEP_TOO_MANY, and LOCKSTEP_UNSUPPORTED: it has created, dropped or bulk-loaded an
// index or heap. Commit it alone, or make such changes in a transaction of their own before. The
// handle then stays. LOCKSTEP_STORE_FAILED ends it. A request prepares with LOCKSTEP_END_PREPARE.
int lockstep_prepare(lockstep_txn* txn, lockstep_slice gid, int* vote, lockstep_error* error);

// A transaction in doubt.
typedef struct lockstep_prepared_info {
    size_t size;
    lockstep_slice gid;
    uint64_t id;         // its number in lockstep_transactions()
    uint64_t age_nanos;  // since its prepare, by the time of day; goes on while the store is closed
    uint64_t locks;
} lockstep_prepared_info;
// Calls each(arg, info) for all transactions in doubt, the oldest first, until it returns false.
int lockstep_list_prepared(lockstep_store* store,
                           bool (*each)(void* arg, const lockstep_prepared_info* info), void* arg,
                           lockstep_error* error);

// The second phase: ends the transaction that is prepared as `gid`, on any thread. *ended, if not
// NULL, is false if none is in doubt under that name, because an earlier call has ended it. So a
// coordinator may repeat the call until it succeeds. A commit is durable when the call returns.
// Errors: those of lockstep::Store::commit_prepared() and rollback_prepared().
int lockstep_commit_prepared(lockstep_store* store, lockstep_slice gid, bool* ended,
                             lockstep_error* error);
int lockstep_rollback_prepared(lockstep_store* store, lockstep_slice gid, bool* ended,
                               lockstep_error* error);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
