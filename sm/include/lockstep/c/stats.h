// stats.h - of the C interface: counters, metrics, transactions that run, why a store stopped.
#ifndef LOCKSTEP_C_STATS_H
#define LOCKSTEP_C_STATS_H

#include <lockstep/c/base.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// The counters of lockstep_stats in their order: X(name) for each. For bindings.
// clang-format off
#define LOCKSTEP_COUNTERS(X) \
    X(commits) X(aborts) X(deadlock_retries) X(transactions_live) X(transactions_waiting) \
    X(packets_timed) X(lock_grants_at_once) X(lock_waits) X(lock_wait_nanos) X(deadlocks) \
    X(lock_timeouts) X(escalations) X(log_records) X(log_bytes) X(log_flushes) X(log_syncs) \
    X(log_used_bytes) X(log_capacity_bytes) X(durable_waits) X(pool_frames) X(pool_resident) \
    X(pool_dirty) X(page_reads) X(page_writes) X(evictions) X(page_repairs) X(lost_writes) \
    X(checkpoints) X(pages_total) X(reads_ahead) X(read_waiters) X(needs_walked) X(needs_used) \
    X(snapshots_open) X(snapshot_oldest_nanos) X(snapshots_too_old) X(version_bytes) X(switches) \
    X(threads_live) X(threads_max) X(worker_sleeps) X(remote_wakes) X(memory_pool) \
    X(memory_locks) X(memory_log) X(memory_stacks) X(backups) X(backup_bytes) X(backup_failures) \
    X(backup_page_repairs) X(archive_pieces) X(archive_bytes) X(archive_failures) \
    X(archive_gaps) X(archive_backlog_bytes) X(prepared_open) X(prepared_oldest_nanos) \
    X(pages_to_free) X(leaves_to_clean) X(uptime_nanos) X(failed)
// clang-format on
// Counters since the store was opened, and present values: the plain numbers of
// lockstep::StoreStats, each a uint64_t. Histograms and the counters of teams are in
// lockstep_metrics().
typedef struct lockstep_stats {
    size_t size;
#define LOCKSTEP_COUNTER(name) uint64_t name;
    LOCKSTEP_COUNTERS(LOCKSTEP_COUNTER)
#undef LOCKSTEP_COUNTER
} lockstep_stats;
// Copies the counters. Set stats->size before. Never waits.
int lockstep_get_stats(lockstep_store* store, lockstep_stats* stats, lockstep_error* error);
// All counters as text in the format of Prometheus. At most `room` bytes go to `buffer`, and no
// NUL. *bytes is the full length, about 40,000; if it is larger than `room`, call again with more.
// The text of two calls may differ in length. Never waits.
int lockstep_metrics(lockstep_store* store, char* buffer, size_t room, size_t* bytes,
                     lockstep_error* error);
// What stopped the store, as text into `buffer` as above. *bytes is 0 while the store works. Never
// waits.
int lockstep_failure(lockstep_store* store, char* buffer, size_t room, size_t* bytes,
                     lockstep_error* error);

// One transaction that runs: lockstep::TransactionInfo.
typedef struct lockstep_transaction_info {
    size_t size;
    uint64_t id;
    uint64_t age_nanos;
    uint64_t thread;
    uint32_t worker;
    // "idle", "running", "lock_wait", "rolling_back", "committing", "ended", "prepared"
    const char* state;
    bool read_only, internal, marked;
    uint64_t locks, log_bytes, undo_bytes, log_pinned_bytes;
    const char* waits_for;  // text; empty if it does not wait for a lock
    uint64_t waited_nanos;
    const uint64_t* waits_for_ids;  // up to three transactions
    size_t waits_for_count;
    lockstep_slice gid;  // while the state is "prepared": its global name
} lockstep_transaction_info;
// Calls each(arg, info) for all transactions that have begun and not ended, until it returns false.
int lockstep_transactions(lockstep_store* store,
                          bool (*each)(void* arg, const lockstep_transaction_info* info), void* arg,
                          lockstep_error* error);
// Ends a transaction of whatever thread: lockstep::Store::end_transaction(). Its next call returns
// LOCKSTEP_ENDED_BY_OPERATOR. Error: LOCKSTEP_TXN_ENDED if there is none.
int lockstep_end_transaction(lockstep_store* store, uint64_t id, lockstep_error* error);
// The same by the application itself: the next call returns LOCKSTEP_CANCELLED, and the logger is
// not told.
int lockstep_cancel_transaction(lockstep_store* store, uint64_t id, lockstep_error* error);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
