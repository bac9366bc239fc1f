// stats.h - of the C interface: counters, metrics, transactions that run, why a store stopped.
#ifndef LOCKSTEP_C_STATS_H
#define LOCKSTEP_C_STATS_H

#include <lockstep/c/base.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// Counters since the store was opened, and present values: the plain numbers of
// lockstep::StoreStats. Histograms and the counters of teams are in lockstep_metrics().
typedef struct lockstep_stats {
    size_t size;
    uint64_t commits, aborts, deadlock_retries, transactions_live, transactions_waiting;
    uint64_t packets_timed;
    uint64_t lock_grants_at_once, lock_waits, lock_wait_nanos, deadlocks, lock_timeouts;
    uint64_t escalations;
    uint64_t log_records, log_bytes, log_flushes, log_syncs, log_used_bytes, log_capacity_bytes;
    uint64_t durable_waits;
    uint64_t pool_frames, pool_resident, pool_dirty, page_reads, page_writes, evictions;
    uint64_t page_repairs, lost_writes, checkpoints, pages_total, reads_ahead, read_waiters;
    uint64_t needs_walked, needs_used;
    uint64_t snapshots_open, snapshot_oldest_nanos, snapshots_too_old, version_bytes;
    uint64_t switches, threads_live, threads_max, worker_sleeps, remote_wakes;
    uint64_t memory_pool, memory_locks, memory_log, memory_stacks;
    uint64_t backups, backup_bytes, backup_failures, backup_page_repairs;
    uint64_t archive_pieces, archive_bytes, archive_failures, archive_gaps, archive_backlog_bytes;
    uint64_t prepared_open, prepared_oldest_nanos;
    uint64_t pages_to_free, leaves_to_clean;
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
