// stats.h - what a store counts. Plain numbers, read while threads run: a snapshot is not exact to
// the last event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/io_stats.h>
#include <lockstep/stage_stats.h>
#include <lockstep/steps_options.h>

namespace lockstep {

// What user threads wait for, and the names of the causes in that order. begin: for a free
// transaction, or for their turn under the admission limit of teams.
inline constexpr size_t kWaitCauses = 6;
inline constexpr const char* kWaitCauseNames[kWaitCauses] = {"lock", "page_read", "latch",
                                                             "log",  "io",        "begin"};

// Waits of user threads for one cause.
struct WaitStats {
    uint64_t count = 0;  // waits that have ended
    uint64_t nanos = 0;  // their length in all
    uint64_t now = 0;    // user threads that wait at the moment
};

// A snapshot of a store's counters; times in nanoseconds, sizes in bytes.
struct StoreStats {
    // transactions
    uint64_t commits = 0, aborts = 0, deadlock_retries = 0,
             transactions_live = 0;  // begun and not ended: the callers', and few of the store
    // Not begun yet: they wait in begin, because transactions_max are live or the log is nearly
    // full.
    uint64_t transactions_waiting = 0;
    uint64_t packets_timed = 0;  // packets (packet.h) that wait for a time
    // Packets and functions of start(), on their way to an executing thread.
    StageStats admission_stage;
    // locks
    uint64_t lock_grants_at_once = 0, lock_waits = 0, lock_wait_nanos = 0, deadlocks = 0,
             lock_timeouts = 0, escalations = 0;
    // The requests that had to wait: length of queues, wait, groups, overtaken requests.
    StageStats lock_stage;
    // log
    uint64_t log_records = 0, log_bytes = 0, log_flushes = 0, log_syncs = 0, log_used_bytes = 0,
             log_capacity_bytes = 0, durable_waits = 0;
    // pages
    uint64_t pool_frames = 0, pool_resident = 0, pool_dirty = 0, page_reads = 0, page_writes = 0,
             evictions = 0, page_repairs = 0,
             // Pages older on the volume than their last write, when they were read.
        lost_writes = 0, checkpoints = 0, pages_total = 0,
             reads_ahead = 0,  // of the reads: begun before a thread needed the page
        // Threads that wanted a page while another thread was reading it.
        read_waiters = 0;
    // Records announced by Txn::will_need() that were walked to, and operations of transactions
    // that have ended which took their places from there.
    uint64_t needs_walked = 0, needs_used = 0;
    // Snapshot transactions: open now; age of the oldest in nanoseconds, 0 if there is none; those
    // that got snapshot_too_old. Before-images kept for them, in bytes.
    uint64_t snapshots_open = 0, snapshot_oldest_nanos = 0, snapshots_too_old = 0,
             version_bytes = 0;
    // What transactions have left behind and is not cleaned yet: pages of large values that were
    // replaced or erased, mostly because an open snapshot may read them, and leaves with erased
    // records.
    uint64_t pages_to_free = 0, leaves_to_clean = 0;
    // Since the store was opened; and 1 if it has stopped (Store::failure()), else 0.
    uint64_t uptime_nanos = 0, failed = 0;
    // Transactions in doubt (prepared.h), and the age of the oldest by the time of day; 0 if there
    // is none.
    uint64_t prepared_open = 0, prepared_oldest_nanos = 0;
    // Backups made and failed, and bytes of those made. Pages rebuilt from a backup, part of
    // page_repairs. Pieces of log in the archive since the store was opened, their bytes, attempts
    // that failed, and gaps; durable log that the archive lacks now, in bytes.
    uint64_t backups = 0, backup_bytes = 0, backup_failures = 0, backup_page_repairs = 0,
             archive_pieces = 0, archive_bytes = 0, archive_failures = 0, archive_gaps = 0,
             archive_backlog_bytes = 0;
    // input and output: requests by class, what was merged and joined, batches, depth
    threads::IoStats io;
    // threads
    WaitStats waits[kWaitCauses];
    uint64_t switches = 0, threads_live = 0, threads_max = 0, worker_sleeps = 0, remote_wakes = 0;
    // memory, in bytes
    uint64_t memory_pool = 0, memory_locks = 0, memory_log = 0, memory_stacks = 0;
    std::string io_backend;  // "io_uring", "pool", "simulated"
    // How a write of the log becomes durable. "write": the write itself (RWF_DSYNC). "fdatasync": a
    // sync behind each write, because RWF_DSYNC is refused or not known to be honoured. "none":
    // not at all, as Options::sync is off.
    std::string log_durability;
};

// The teams of one operation, in the form of table 5-4 of S. Harizopoulos's thesis. Sums since the
// store was opened or set_steps() was called.
struct TeamStats {
    std::string operation;  // "begin", "fetch (customer)", ...
    uint64_t teams = 0;     // formed
    // Threads that began the operation in a team, and those that also ended it there (no strays).
    uint64_t entered = 0, left = 0;
    // Summed over the teams: threads that waited for their team when it was formed.
    uint64_t ready = 0;
    struct Strays {
        uint64_t lock = 0, page = 0, latch = 0, log = 0, other = 0;  // what a stray waited for
        // All strays.
        uint64_t sum() const { return lock + page + latch + log + other; }
    } strays;
};
// Passes of one CTX point.
struct CtxPointStats {
    std::string name;
    uint64_t taken = 0, off = 0, alone = 0, latched = 0;  // switches, and the reasons for none
};
// The present state of a worker's team-size tuner; see StepsOptions::window_records.
struct TunerStats {
    StepsMode mode = StepsMode::on;  // on, prefetch or off
    uint32_t team_max = 0;
    // Windows measured, candidates tried, and candidates kept.
    uint64_t windows = 0, trials = 0, changes = 0;
};
// Teams and CTX points since the store was opened, or since the last Store::set_steps().
struct StepsStats {
    std::vector<TeamStats> teams;
    std::vector<CtxPointStats> points;
    // By worker; empty if the tuner is off. A set_steps() with the same team_max begins none anew.
    std::vector<TunerStats> tuner;
    // The difference from an earlier snapshot. Counts that began anew in between stay as they are.
    StepsStats operator-(const StepsStats& earlier) const;
};

// Times that the calling user thread has waited since it began, in nanoseconds; zeros on other
// kernel threads. The difference of two calls gives one transaction's waits.
struct ThreadWaits {
    uint64_t lock = 0;  // transactions' locks
    // Pages: reads, free frames, and latches of other threads.
    uint64_t page = 0;
    uint64_t log = 0;  // the log: durability, and space in its buffer
    // The difference from an earlier snapshot.
    ThreadWaits operator-(const ThreadWaits& earlier) const {
        return {lock - earlier.lock, page - earlier.page, log - earlier.log};
    }
};
// Those of the calling user thread; zeros on other kernel threads.
ThreadWaits thread_waits();

}  // namespace lockstep
