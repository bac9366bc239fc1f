// changes.h - of the C interface: the change feed. <lockstep/changes.h> explains what a feed gives,
// what a position is, and how to copy a store.
#ifndef LOCKSTEP_C_CHANGES_H
#define LOCKSTEP_C_CHANGES_H

#include <lockstep/c/base.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// What happened: enum ChangeKind of <lockstep/changes.h>.
enum lockstep_change_kind {
    LOCKSTEP_CHANGE_INSERT = 0,
    LOCKSTEP_CHANGE_UPDATE = 1,
    LOCKSTEP_CHANGE_PATCH = 2,
    LOCKSTEP_CHANGE_ERASE = 3,
    LOCKSTEP_CHANGE_CREATE = 4,
    LOCKSTEP_CHANGE_DROP = 5,
    LOCKSTEP_CHANGE_RESET = 6,
    LOCKSTEP_CHANGE_COMMIT = 7
};
// "insert", "update" and so on; "unknown" for other numbers. A static string. Never waits.
const char* lockstep_change_kind_name(int kind);

// One change: lockstep::Change.
typedef struct lockstep_change {
    size_t size;
    int kind;               // enum lockstep_change_kind
    bool is_index;          // else a heap
    bool has_old;           // `old` was in the log
    uint32_t id;            // of the index or heap
    uint32_t of;            // of LOCKSTEP_CHANGE_CREATE: a secondary index of that index; else 0
    lockstep_slice object;  // its name; empty: it was dropped, and the log does not tell
    lockstep_slice key;     // of an index
    lockstep_record_id record;  // of a heap
    uint64_t offset;            // of LOCKSTEP_CHANGE_PATCH: where in the value
    lockstep_slice value;       // the new one, or the new part
    lockstep_slice old;         // what was replaced or erased
    uint64_t txn;               // number of the transaction
    uint64_t commit;            // LSN of its commit record
    uint64_t time;  // when it became durable, in nanoseconds since 1970 (UTC), at most so late; 0:
                    // not known
} lockstep_change;

// A feed. The handle lives until lockstep_changes_close(), or until its store is closed: calls
// return LOCKSTEP_TXN_ENDED then. One thread at a time uses it, else LOCKSTEP_WRONG_THREAD.
typedef struct lockstep_changes lockstep_changes;

// Begins to read the committed changes of the store behind `position`: that of a feed or of
// lockstep_changes_point(), or the text "oldest". An empty one stands for now. Errors:
// LOCKSTEP_BAD_ARGUMENT (no position of this store), LOCKSTEP_CHANGES_LOST, LOCKSTEP_CORRUPT_LOG,
// LOCKSTEP_IO_ERROR, LOCKSTEP_TOO_MANY (handles).
int lockstep_changes_begin(lockstep_store* store, lockstep_slice position, lockstep_changes** feed,
                           lockstep_error* error);
// Calls each(arg, change) for the changes that follow, until it returns false or no more are there.
// Waits up to `wait` nanoseconds for the first; UINT64_MAX waits for ever. *given, if not NULL, is
// their number, also if the call fails: what was given counts as read. `each` may make calls on
// the store, but not on the feed. lockstep_close() on another thread ends the wait with
// LOCKSTEP_STORE_CLOSED, and a watch (lockstep_watch_waits()) with LOCKSTEP_CANCELLED. Errors:
// those of lockstep::ChangeFeed::next().
int lockstep_changes_read(lockstep_changes* feed, uint64_t wait,
                          bool (*each)(void* arg, const lockstep_change* change), void* arg,
                          size_t* given, lockstep_error* error);
// The position behind what was given, as far as it fits into `room` bytes at `buffer`. *bytes is
// its full length, less than 100. It also moves on while nothing changes. Never waits.
int lockstep_changes_position(lockstep_changes* feed, char* buffer, size_t room, size_t* bytes,
                              lockstep_error* error);
// Ends the feed. Never waits.
int lockstep_changes_close(lockstep_changes* feed, lockstep_error* error);

// Where a feed goes on behind the snapshot of a transaction that reads one: its position, as in
// lockstep_changes_position(). *lsn, if not NULL: it sees the transactions whose
// lockstep_change::commit is below. Errors: LOCKSTEP_BAD_ARGUMENT if the transaction reads no
// snapshot.
int lockstep_changes_point(lockstep_txn* txn, char* buffer, size_t room, size_t* bytes,
                           uint64_t* lsn, lockstep_error* error);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
