// batch.h - of the C interface: many operations in one hand-over, with or without waiting for them.
#ifndef LOCKSTEP_C_BATCH_H
#define LOCKSTEP_C_BATCH_H

#include <lockstep/c/base.h>
#include <lockstep/c/options.h>
#include <lockstep/c/store.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// What an operation of a request does.
enum lockstep_operation_kind {
    LOCKSTEP_OP_GET = 1,
    LOCKSTEP_OP_INSERT = 2,
    LOCKSTEP_OP_PUT = 3,
    LOCKSTEP_OP_UPDATE = 4,
    LOCKSTEP_OP_PATCH = 5,
    LOCKSTEP_OP_ERASE = 6,
    LOCKSTEP_OP_HEAP_INSERT = 7,
    LOCKSTEP_OP_HEAP_GET = 8,
    LOCKSTEP_OP_HEAP_UPDATE = 9,
    LOCKSTEP_OP_HEAP_ERASE = 10,
    // As the gets above. But a value longer than `room` is the error LOCKSTEP_VALUE_TOO_LONG, so a
    // request that goes on to change something does not do so without the value. `bytes` is set.
    LOCKSTEP_OP_GET_WHOLE = 11,
    LOCKSTEP_OP_HEAP_GET_WHOLE = 12,
    // Calls the lockstep_function that `buffer` points to.
    LOCKSTEP_OP_CALL = 13
};
// A function as an operation: body(txn, arg) on the transaction's user thread. It must not end the
// transaction and must not block the kernel thread. A result that is not 0 is the operation's
// error. A deadlock victim is repeated, and the function called again.
typedef struct lockstep_function {
    lockstep_body body;
    void* arg;
} lockstep_function;
// One operation. Fields that its kind does not use are ignored.
typedef struct lockstep_operation {
    int kind;               // enum lockstep_operation_kind
    int access;             // get: enum lockstep_access
    lockstep_index* index;  // operations on an index
    lockstep_heap* heap;    // operations on a heap
    lockstep_slice key;
    lockstep_slice value;  // insert, put, update; patch: the part
    size_t offset;         // patch
    void* buffer;          // get: takes at most `room` bytes of the value; call: the function
    size_t room;
    lockstep_record_id id;  // heap: which record; insert sets it
    size_t bytes;           // set by get: the value's full length
    int code;               // set: 0, or the code of the error
    bool found;             // set: whether the record exists
} lockstep_operation;

// What follows the last operation of a request.
enum lockstep_request_end {
    LOCKSTEP_END_KEEP = 0,     // the transaction goes on
    LOCKSTEP_END_COMMIT = 1,   // it commits, and the handle ends as in lockstep_commit()
    LOCKSTEP_END_ABORT = 2,    // it is rolled back
    LOCKSTEP_END_PREPARE = 3,  // it is prepared as `gid`, and the handle ends: lockstep_prepare()
    // Ends what is prepared as `gid` in `store`, as lockstep_commit_prepared() and
    // lockstep_rollback_prepared() do. Without a transaction and without operations. `performed`
    // is 1 if it was prepared, else 0.
    LOCKSTEP_END_COMMIT_PREPARED = 4,
    LOCKSTEP_END_ROLLBACK_PREPARED = 5
};

// Operations of one transaction, as one piece of work. The request and all that it points to are
// the caller's and must stay until it is done.
typedef struct lockstep_request {
    size_t size;
    // The transaction. NULL: a new one in `store`, begun with `options` (NULL: defaults). With
    // LOCKSTEP_END_KEEP its handle is put here. Otherwise it is a whole transaction: a deadlock
    // victim is repeated, and an error rolls it back.
    lockstep_txn* txn;
    lockstep_store* store;
    const lockstep_txn_options* options;
    lockstep_operation* operations;  // performed in order, up to the first error
    size_t count;
    int end;                // enum lockstep_request_end; an error leaves an open transaction open
    size_t performed;       // set: operations that succeeded
    uint64_t lsn;           // set by a commit: for lockstep_wait_durable()
    lockstep_error* error;  // takes the error; may be NULL
    // lockstep_submit() only: called when the request is done, on a user thread of the store. It
    // must not block its kernel thread; it may submit. The request is the caller's again. NULL: not
    // called.
    void (*done)(void* arg, struct lockstep_request* request);
    void* done_arg;
    // lockstep_submit() only: an eventfd(2) that gets 1 added behind the end of each request; -1:
    // none. Keep it open until it has counted them all.
    int event_fd;
    int code;            // set: 0, or the code of the error
    uint64_t opaque[8];  // the library's
    lockstep_slice gid;  // for the ends that prepare, or end what is prepared
    int vote;            // set by a prepare: enum lockstep_vote
} lockstep_request;

// Clears the request, sets its size, and event_fd to -1. NULL does nothing. Never waits.
void lockstep_request_init(lockstep_request* request, size_t size);
// Performs the request and waits for it. The result is request->code.
int lockstep_batch(lockstep_request* request);
// Hands the request over and returns at once. Its end is told by request->done, by event_fd, or by
// lockstep_request_done(). Error, which also stands in request->code: the request was not taken,
// and nothing is told. A transaction of lockstep_run(), or begun on a user thread, cannot be used
// (LOCKSTEP_WRONG_THREAD). Never waits.
int lockstep_submit(lockstep_request* request);
// Whether a submitted request is done. True once: the caller may then reuse it. Never waits.
bool lockstep_request_done(const lockstep_request* request);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
