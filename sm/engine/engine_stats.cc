// engine_stats.cc - gathers the statistics of all parts into one snapshot.
#include <algorithm>
#include <map>
#include <mutex>

#include "sm/backup/archiver.h"
#include "sm/backup/page_rebuild.h"
#include "sm/catalog/catalog.h"
#include "sm/engine/engine.h"
#include "sm/needs/needs.h"
#include "sm/recovery/recovery.h"
#include "sm/report/flow.h"
#include "sm/scan/service.h"
#include "sm/services/ghost_cleaner.h"
#include "sm/services/prepared_txns.h"
#include "sm/services/snapshots.h"

namespace lockstep::sm {

using threads::ParkReason;

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
void gather_long_ones(const Engine& e, StoreStats& s) {
    const VersionTable& versions = e.snapshots->table();
    s.snapshots_open = versions.snapshots().open();
    if (const Nanos began = versions.snapshots().oldest_began(); began != 0)
        s.snapshot_oldest_nanos = e.runtime->clock().now() - began;
    s.snapshots_too_old = versions.expelled();
    s.version_bytes = versions.bytes();
    s.pages_to_free = e.ghosts->pages_waiting();
    s.leaves_to_clean = e.ghosts->leaf_notes();
    const PreparedTxns::Counts in_doubt = e.prepared->counts();
    s.prepared_open = in_doubt.open;
    s.prepared_oldest_nanos = in_doubt.oldest;
}

void gather_archive(const Engine& e, StoreStats& s) {
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

TeamStats stats_of(const threads::TeamStats& s, std::string operation) {
    const auto count = [&](ParkReason reason) { return s.strays[static_cast<size_t>(reason)]; };
    uint64_t all = 0;
    for (const uint64_t strays : s.strays) all += strays;
    TeamStats f{.operation = std::move(operation),
                .teams = s.teams,
                .entered = s.entered,
                .left = s.left,
                .ready = s.ready,
                .strays = {}};
    // The worker counts on while this reads.
    if (f.left > f.entered) f.left = f.entered;
    f.strays.lock = count(ParkReason::lock);
    f.strays.page = count(ParkReason::page_read) + count(ParkReason::io);
    f.strays.latch = count(ParkReason::latch);
    f.strays.log = count(ParkReason::log);
    DCHECK(all >= f.strays.sum());
    f.strays.other = all - f.strays.sum();
    return f;
}

}  // namespace

StoreStats Engine::stats() {
    StoreStats s;
    if (forked()) return s;
    for (uint32_t i = 0; i < runtime->workers(); ++i) {
        s.commits += counters[i].commits.load(std::memory_order_relaxed);
        s.aborts += counters[i].aborts.load(std::memory_order_relaxed);
        s.deadlock_retries += counters[i].retries.load(std::memory_order_relaxed);
        s.needs_walked += needs[i].walked.load(std::memory_order_relaxed);
        s.needs_used += needs[i].used.load(std::memory_order_relaxed);
    }
    gather_long_ones(*this, s);
    s.uptime_nanos = runtime->clock().now() - up_since_;
    s.failed = failed() ? 1 : 0;
    s.transactions_live = txns->active();
    s.transactions_waiting = txns->waiting() + waiting_for_log.load(std::memory_order_relaxed);
    s.packets_timed = runtime->packets_timed();
    s.admission_stage = runtime->admission_stats();

    const auto lock_counts = locks->stats();
    s.lock_grants_at_once = lock_counts.granted_at_once;
    s.lock_waits = lock_counts.waits;
    s.lock_wait_nanos = lock_counts.wait_nanos;
    s.deadlocks = lock_counts.deadlocks;
    s.lock_timeouts = lock_counts.timeouts;
    s.escalations = lock_counts.escalations;
    s.lock_stage = locks->stage_stats();

    const auto log_counts = log->stats();
    s.log_records = log_counts.records;
    s.log_bytes = log_counts.bytes;
    s.log_flushes = log_counts.flushes;
    s.log_syncs = log_counts.syncs;
    s.log_used_bytes = log->used_bytes();
    s.log_capacity_bytes = log->capacity_bytes();
    s.durable_waits = log_counts.durable_waits;

    const auto page_counts = pool->stats();
    s.pool_frames = page_counts.frames;
    s.pool_resident = page_counts.resident;
    s.pool_dirty = page_counts.dirty;
    s.page_reads = page_counts.reads;
    s.page_writes = page_counts.writes;
    s.evictions = page_counts.evictions;
    s.page_repairs = page_counts.repairs;
    s.lost_writes = page_counts.lost_writes;
    s.reads_ahead = page_counts.reads_ahead;
    s.read_waiters = page_counts.read_waiters;
    s.io = runtime->io_stats();
    gather_archive(*this, s);
    s.checkpoints = checkpointer->completed();
    s.pages_total = space->pages_total();
    const auto thread_counts = runtime->stats();
    gather_waits(thread_counts, s.waits);
    s.switches = thread_counts.switches;
    s.threads_live = thread_counts.threads_live;
    s.threads_max = thread_counts.threads_max;
    s.worker_sleeps = thread_counts.sleeps;
    s.remote_wakes = thread_counts.remote_wakes;

    s.memory_pool = pool->memory_bytes();
    s.memory_locks = locks->memory_bytes();
    s.memory_log = options.log_ring_bytes.value_or(0);
    s.memory_stacks = s.threads_max * options.stack_bytes;
    s.io_backend = runtime->io_name();
    s.log_durability = log_durability();
    return s;
}

ReportStats Engine::report_stats() {
    if (forked()) return {};
    std::shared_ptr<scan::Service> service;
    {
        const std::lock_guard lock(reports_mutex);
        service = reports;
    }
    if (!service) return {};
    ReportStats stats = service->stats();
    stats.answers = service->operators->stats();
    return stats;
}

StepsStats Engine::steps_stats() {
    StepsStats stats;
    if (forked()) return stats;
    std::map<uint32_t, std::string> names;
    for (const auto& entry : catalog->list())
        names.emplace(entry.id.value % threads::kTeamObjects, entry.name);
    for (const auto& s : runtime->team_stats()) {
        std::string operation = threads::op_kind_name(s.op);
        if (s.merged) operation += " (merged)";
        else if (s.op >= threads::OpKind::fetch)
            operation += " (" +
                         (names.contains(s.object) ? names[s.object] : std::to_string(s.object)) +
                         ")";
        stats.teams.push_back(stats_of(s, std::move(operation)));
    }
    const threads::CtxStats ctx = runtime->ctx_stats();
    for (unsigned i = 0; i < threads::kCtxPoints; ++i)
        if (ctx.taken[i] + ctx.off[i] + ctx.alone[i] + ctx.latched[i] > 0)
            stats.points.push_back({threads::kCtxPointInfo[i].name, ctx.taken[i], ctx.off[i],
                                    ctx.alone[i], ctx.latched[i]});
    for (const threads::TunerStats& g : runtime->tuner_stats())
        if (g.setting.team_max != 0)
            stats.tuner.push_back(
                {g.setting.mode, g.setting.team_max, g.windows, g.trials, g.changes});
    return stats;
}

}  // namespace lockstep::sm
