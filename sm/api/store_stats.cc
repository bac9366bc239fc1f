// store_stats.cc - gathers the statistics of all parts into one snapshot.
#include <algorithm>

#include <lockstep/store.h>
#include "sm/backup/archiver.h"
#include "sm/backup/page_rebuild.h"
#include "sm/engine/engine.h"
#include "sm/host/engine_stats.h"
#include "sm/needs/needs.h"
#include "sm/recovery/recovery.h"
#include "sm/services/ghost_cleaner.h"
#include "sm/services/prepared_txns.h"
#include "sm/services/snapshots.h"

namespace lockstep {

using threads::ParkReason;

ThreadWaits thread_waits() {
    const threads::Thread* self = threads::current();
    if (self == nullptr) [[unlikely]]
        return {};
    const auto waited = [self](threads::ParkReason reason) {
        return self->waited[static_cast<size_t>(reason)];
    };
    return {.lock = waited(threads::ParkReason::lock),
            .page = waited(threads::ParkReason::page_read) + waited(threads::ParkReason::latch) +
                    waited(threads::ParkReason::io),
            .log = waited(threads::ParkReason::log)};
}

namespace {

void gather_waits(const threads::RuntimeStats& stats, WaitStats (&waits)[kWaitCauses]) {
    constexpr ParkReason kReasons[] = {ParkReason::lock,  ParkReason::page_read,
                                       ParkReason::latch, ParkReason::log,
                                       ParkReason::io,    ParkReason::admission};
    static_assert(std::size(kReasons) == kWaitCauses);
    static_assert(std::ranges::all_of(kReasons, threads::timed));  // the others have no time
    for (size_t i = 0; i < kWaitCauses; ++i) {
        const auto reason = static_cast<size_t>(kReasons[i]);
        DCHECK(reason < static_cast<size_t>(ParkReason::kCount));
        const uint64_t began = stats.parks[reason], ended = stats.waits_ended[reason];
        waits[i] = {.count = ended,
                    .nanos = stats.waited[reason],
                    .now = began > ended ? began - ended : 0};
    }
}

// Snapshots and transactions in doubt.
void gather_long_ones(const sm::Engine& e, StoreStats& s) {
    const sm::VersionTable& versions = e.snapshots->table();
    s.snapshots_open = versions.snapshots().open();
    if (const Nanos began = versions.snapshots().oldest_began(); began != 0)
        s.snapshot_oldest_nanos = e.runtime->clock().now() - began;
    s.snapshots_too_old = versions.expelled();
    s.version_bytes = versions.bytes();
    s.pages_to_free = e.ghosts->pages_waiting();
    s.leaves_to_clean = e.ghosts->leaf_notes();
    const sm::PreparedTxns::Counts in_doubt = e.prepared->counts();
    s.prepared_open = in_doubt.open;
    s.prepared_oldest_nanos = in_doubt.oldest;
}

void gather_archive(const sm::Engine& e, StoreStats& s) {
    s.backups = e.backups.load(std::memory_order_relaxed);
    s.backup_bytes = e.backup_bytes.load(std::memory_order_relaxed);
    s.backup_failures = e.backup_failures.load(std::memory_order_relaxed);
    if (e.rebuild) s.backup_page_repairs = e.rebuild->count();
    if (!e.archiver) return;
    const auto archive = e.archiver->stats();
    s.archive_pieces = archive.pieces;
    s.archive_bytes = archive.bytes;
    s.archive_failures = archive.failures;
    s.archive_gaps = archive.gaps;
    s.archive_backlog_bytes = archive.backlog_bytes;
}

}  // namespace

StoreStats Store::stats() const {
    const sm::Call call(engine_.get());
    return call ? sm::store_stats_of(*engine_) : StoreStats{};
}

StoreStats sm::store_stats_of(Engine& e) {
    StoreStats s;
    if (e.forked()) return s;
    for (uint32_t i = 0; i < e.runtime->workers(); ++i) {
        s.commits += e.counters[i].commits.load(std::memory_order_relaxed);
        s.aborts += e.counters[i].aborts.load(std::memory_order_relaxed);
        s.deadlock_retries += e.counters[i].retries.load(std::memory_order_relaxed);
        s.needs_walked += e.needs[i].walked.load(std::memory_order_relaxed);
        s.needs_used += e.needs[i].used.load(std::memory_order_relaxed);
    }
    gather_long_ones(e, s);
    s.transactions_live = e.txns->active();
    s.transactions_waiting = e.txns->waiting() + e.waiting_for_log.load(std::memory_order_relaxed);
    s.packets_timed = e.runtime->packets_timed();
    s.admission_stage = e.runtime->admission_stats();

    const auto locks = e.locks->stats();
    s.lock_grants_at_once = locks.granted_at_once;
    s.lock_waits = locks.waits;
    s.lock_wait_nanos = locks.wait_nanos;
    s.deadlocks = locks.deadlocks;
    s.lock_timeouts = locks.timeouts;
    s.escalations = locks.escalations;
    s.lock_stage = e.locks->stage_stats();

    const auto log = e.log->stats();
    s.log_records = log.records;
    s.log_bytes = log.bytes;
    s.log_flushes = log.flushes;
    s.log_syncs = log.syncs;
    s.log_used_bytes = e.log->used_bytes();
    s.log_capacity_bytes = e.log->capacity_bytes();
    s.durable_waits = log.durable_waits;

    const auto pool = e.pool->stats();
    s.pool_frames = pool.frames;
    s.pool_resident = pool.resident;
    s.pool_dirty = pool.dirty;
    s.page_reads = pool.reads;
    s.page_writes = pool.writes;
    s.evictions = pool.evictions;
    s.page_repairs = pool.repairs;
    s.lost_writes = pool.lost_writes;
    s.reads_ahead = pool.reads_ahead;
    s.read_waiters = pool.read_waiters;
    s.io = e.runtime->io_stats();
    gather_archive(e, s);
    s.checkpoints = e.checkpointer->completed();
    s.pages_total = e.space->pages_total();
    const auto threads = e.runtime->stats();
    gather_waits(threads, s.waits);
    s.switches = threads.switches;
    s.threads_live = threads.threads_live;
    s.threads_max = threads.threads_max;
    s.worker_sleeps = threads.sleeps;
    s.remote_wakes = threads.remote_wakes;

    s.memory_pool = e.pool->memory_bytes();
    s.memory_locks = e.locks->memory_bytes();
    s.memory_log = e.options.log_ring_bytes.value();
    s.memory_stacks = s.threads_max * e.options.stack_bytes;
    s.io_backend = e.runtime->io_name();
    s.log_durability = e.log_durability();
    return s;
}

}  // namespace lockstep
