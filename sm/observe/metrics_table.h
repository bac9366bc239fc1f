// metrics_table.h - name, type, unit and meaning of each metric. One row for each value that the
// statistics have.
//
// Concepts   Rows of one family stand side by side and differ by their labels. The first of them
//            has the help text: what is counted, then how to read it. Times are nanoseconds and
//            are printed as seconds. A counter ends in _total; a gauge may fall.
// Invariants MT-1 Each value has a row. [checked: the static_asserts below, by size;
//                 MetricsTest.EveryValueIsThere]
//            MT-2 Rows of a family are neighbours and have labels, only the first has a help text,
//                 and the name ends as type and unit demand. [checked: well_formed()]
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

#include <lockstep/c/stats.h>
#include <lockstep/report.h>
#include <lockstep/stats.h>

namespace lockstep::sm {

enum class MetricType : uint8_t { counter, gauge };
enum class MetricUnit : uint8_t { plain, seconds };

// One sample of each S. `labels`: as written, without braces.
template <class S>
struct Metric {
    const char* name;
    const char* labels;
    MetricType type;
    MetricUnit unit;
    uint64_t S::*value;
    const char* help;
};
// The samples _bucket, _sum and _count of each S, and a gauge for the largest value.
template <class S>
struct HistogramMetric {
    const char* name;
    MetricUnit unit;
    StageHistogram S::*value;
    const char* help;
};

inline constexpr auto kCounter = MetricType::counter;
inline constexpr auto kGauge = MetricType::gauge;
inline constexpr auto kPlain = MetricUnit::plain;
inline constexpr auto kSeconds = MetricUnit::seconds;

// clang-format off
inline constexpr Metric<StoreStats> kStoreMetrics[] = {
    {"lockstep_transactions_total", "outcome=\"committed\"", kCounter, kPlain,
     &StoreStats::commits,
     "Transactions that have ended. Their rate is the throughput."},
    {"lockstep_transactions_total", "outcome=\"rolled_back\"", kCounter, kPlain,
     &StoreStats::aborts, ""},
    {"lockstep_transaction_retries_total", "", kCounter, kPlain,
     &StoreStats::deadlock_retries,
     "Transactions that run() began again, as deadlock victims or after log_full."},
    {"lockstep_transactions_active", "state=\"begun\"", kGauge, kPlain,
     &StoreStats::transactions_live,
     "Transactions now: begun and not ended, or waiting in begin. Waiters mean that "
     "transactions_max are begun or that the log is nearly full."},
    {"lockstep_transactions_active", "state=\"waiting_to_begin\"", kGauge, kPlain,
     &StoreStats::transactions_waiting, ""},
    {"lockstep_uptime_seconds", "", kGauge, kSeconds, &StoreStats::uptime_nanos,
     "Time since the store was opened."},
    {"lockstep_store_failed", "", kGauge, kPlain, &StoreStats::failed,
     "1 if the store has stopped: close it, and open it again once the cause is mended."},
    {"lockstep_packets_timed", "", kGauge, kPlain,
     &StoreStats::packets_timed,
     "Packets that wait for a time. Packets that are due wait in the stage admission."},

    {"lockstep_lock_requests_total", "outcome=\"granted_at_once\"", kCounter, kPlain,
     &StoreStats::lock_grants_at_once,
     "Lock requests. Requests granted at once are counted when their transaction ends. The share "
     "that waited shows contention."},
    {"lockstep_lock_requests_total", "outcome=\"waited\"", kCounter, kPlain,
     &StoreStats::lock_waits, ""},
    {"lockstep_lock_wait_seconds_total", "", kCounter, kSeconds,
     &StoreStats::lock_wait_nanos,
     "Time that lock requests have waited, over all transactions. Its rate is the mean number of "
     "waiters."},
    {"lockstep_lock_refusals_total", "reason=\"deadlock\"", kCounter, kPlain,
     &StoreStats::deadlocks,
     "Waits for a lock that ended with an error. run() repeats deadlocks, but not timeouts."},
    {"lockstep_lock_refusals_total", "reason=\"timeout\"", kCounter, kPlain,
     &StoreStats::lock_timeouts, ""},
    {"lockstep_lock_escalations_total", "", kCounter, kPlain,
     &StoreStats::escalations,
     "Times that many record locks became one lock of a whole index or heap. Other writers of the "
     "object then wait."},

    {"lockstep_log_records_total", "", kCounter, kPlain,
     &StoreStats::log_records,
     "Log records written. Divide by transactions for the records of one."},
    {"lockstep_log_written_bytes_total", "", kCounter, kPlain,
     &StoreStats::log_bytes,
     "Bytes of log records written. Page images after a checkpoint raise it for a while."},
    {"lockstep_log_flushes_total", "", kCounter, kPlain,
     &StoreStats::log_flushes,
     "Writes of the log buffer to disk. Commits divided by it is the size of a group commit."},
    {"lockstep_log_syncs_total", "", kCounter, kPlain,
     &StoreStats::log_syncs,
     "Times that log was made durable. Its rate is bounded by the device."},
    {"lockstep_log_used_bytes", "", kGauge, kPlain,
     &StoreStats::log_used_bytes,
     "Live log, with the space reserved for rollbacks. Begin slows down from half of the capacity "
     "on."},
    {"lockstep_log_capacity_bytes", "", kGauge, kPlain,
     &StoreStats::log_capacity_bytes,
     "Bound on the live log: Options::log_bytes."},
    {"lockstep_log_durable_waits_total", "", kCounter, kPlain,
     &StoreStats::durable_waits,
     "Waits until a part of the log was durable. Most are durable commits."},

    {"lockstep_pool_frames", "", kGauge, kPlain,
     &StoreStats::pool_frames,
     "Pages of 8192 bytes that the buffer pool can hold."},
    {"lockstep_pool_resident_pages", "", kGauge, kPlain,
     &StoreStats::pool_resident,
     "Pages in the buffer pool. Near the number of frames, each new page evicts another one."},
    {"lockstep_pool_dirty_pages", "", kGauge, kPlain,
     &StoreStats::pool_dirty,
     "Pages in the buffer pool that were changed since they were written. A checkpoint writes "
     "them."},
    {"lockstep_pages_read_total", "", kCounter, kPlain,
     &StoreStats::page_reads,
     "Pages read from the data file. Its rate shows what the pool does not hold."},
    {"lockstep_pages_written_total", "", kCounter, kPlain,
     &StoreStats::page_writes,
     "Pages written to the data file, by checkpoints and to make room."},
    {"lockstep_pages_evicted_total", "", kCounter, kPlain,
     &StoreStats::evictions,
     "Pages that left the buffer pool for another page."},
    {"lockstep_pages_repaired_total", "", kCounter, kPlain,
     &StoreStats::page_repairs,
     "Damaged pages that were rebuilt from the log. More than 0: check the device."},
    {"lockstep_pages_lost_writes_total", "", kCounter, kPlain,
     &StoreStats::lost_writes,
     "Pages that were older on disk than their last write. More than 0: check the device."},
    {"lockstep_checkpoints_total", "", kCounter, kPlain,
     &StoreStats::checkpoints,
     "Checkpoints completed. Many in a short time mean that log_bytes is small."},
    {"lockstep_volume_pages", "", kGauge, kPlain,
     &StoreStats::pages_total,
     "Pages of 8192 bytes in the data file, used and free."},
    {"lockstep_pages_read_ahead_total", "", kCounter, kPlain,
     &StoreStats::reads_ahead,
     "Pages read before a thread needed them; part of the pages read."},
    {"lockstep_page_read_waiters_total", "", kCounter, kPlain,
     &StoreStats::read_waiters,
     "Threads that wanted a page while another thread was reading it."},
    {"lockstep_needs_walked_total", "", kCounter, kPlain, &StoreStats::needs_walked,
     "Records announced by transactions that were walked to before their use."},
    {"lockstep_needs_used_total", "", kCounter, kPlain, &StoreStats::needs_used,
     "Operations that took the place of their record from such a walk."},

    {"lockstep_snapshots_open", "", kGauge, kPlain, &StoreStats::snapshots_open,
     "Snapshot transactions that are open."},
    {"lockstep_snapshot_oldest_seconds", "", kGauge, kSeconds,
     &StoreStats::snapshot_oldest_nanos,
     "Age of the oldest open snapshot. Versions are kept at least as long."},
    {"lockstep_snapshots_too_old_total", "", kCounter, kPlain, &StoreStats::snapshots_too_old,
     "Snapshots that lost their versions. If it grows, raise version_bytes."},
    {"lockstep_version_bytes", "", kGauge, kPlain, &StoreStats::version_bytes,
     "Before-images that are kept for snapshots."},
    {"lockstep_pages_to_free", "", kGauge, kPlain, &StoreStats::pages_to_free,
     "Pages of large values that were replaced or erased and that an open snapshot may read. If it "
     "grows, end old snapshots."},
    {"lockstep_leaves_to_clean", "", kGauge, kPlain, &StoreStats::leaves_to_clean,
     "Leaves of indexes with erased records that wait for their cleaning. If it grows, a "
     "transaction that erased records has not ended."},
    {"lockstep_prepared_open", "", kGauge, kPlain, &StoreStats::prepared_open,
     "Transactions in doubt: prepared, and neither committed nor rolled back."},
    {"lockstep_prepared_oldest_seconds", "", kGauge, kSeconds, &StoreStats::prepared_oldest_nanos,
     "Age of the oldest transaction in doubt. It holds its locks and keeps the log. If it grows, "
     "its coordinator is lost: lockstep prepared, commit and rollback."},
    {"lockstep_backups_total", "outcome=\"made\"", kCounter, kPlain, &StoreStats::backups,
     "Backups that have ended."},
    {"lockstep_backups_total", "outcome=\"failed\"", kCounter, kPlain,
     &StoreStats::backup_failures, ""},
    {"lockstep_backup_bytes_total", "", kCounter, kPlain, &StoreStats::backup_bytes,
     "Bytes of the backups that were made."},
    {"lockstep_pages_rebuilt_from_backup_total", "", kCounter, kPlain,
     &StoreStats::backup_page_repairs,
     "Repaired pages that needed a backup and the archive. More than 0: check the device."},
    {"lockstep_archive_pieces_total", "", kCounter, kPlain, &StoreStats::archive_pieces,
     "Files of log that the archive has received."},
    {"lockstep_archive_bytes_total", "", kCounter, kPlain, &StoreStats::archive_bytes,
     "Bytes of these files."},
    {"lockstep_archive_failures_total", "", kCounter, kPlain, &StoreStats::archive_failures,
     "Attempts to archive that failed. If it grows, look at the archive and at the backlog."},
    {"lockstep_archive_gaps_total", "", kCounter, kPlain, &StoreStats::archive_gaps,
     "Times that log was recycled unarchived. More than 0: make a new backup."},
    {"lockstep_archive_backlog_bytes", "", kGauge, kPlain, &StoreStats::archive_backlog_bytes,
     "Durable log that the archive lacks. A loss of the store's disk loses so much."},
    {"lockstep_thread_switches_total", "", kCounter, kPlain,
     &StoreStats::switches,
     "Switches between user threads, without the fast ones inside teams."},
    {"lockstep_threads", "", kGauge, kPlain,
     &StoreStats::threads_live,
     "User threads that have not ended, those of the store included."},
    {"lockstep_threads_max", "", kGauge, kPlain,
     &StoreStats::threads_max,
     "Largest number of user threads at any time."},
    {"lockstep_worker_sleeps_total", "", kCounter, kPlain,
     &StoreStats::worker_sleeps,
     "Times that a worker had nothing to run and slept in the kernel."},
    {"lockstep_worker_remote_wakes_total", "", kCounter, kPlain,
     &StoreStats::remote_wakes,
     "User threads woken by another kernel thread. Some of these wakes cost a system call."},

    {"lockstep_memory_bytes", "part=\"pool\"", kGauge, kPlain,
     &StoreStats::memory_pool,
     "Memory of the large parts. Stacks count what the most threads ever had."},
    {"lockstep_memory_bytes", "part=\"locks\"", kGauge, kPlain, &StoreStats::memory_locks, ""},
    {"lockstep_memory_bytes", "part=\"log\"", kGauge, kPlain, &StoreStats::memory_log, ""},
    {"lockstep_memory_bytes", "part=\"stacks\"", kGauge, kPlain, &StoreStats::memory_stacks, ""},
};

// Label: cause.
inline constexpr Metric<WaitStats> kWaitMetrics[] = {
    {"lockstep_waits_total", "", kCounter, kPlain, &WaitStats::count,
     "Waits of user threads that have ended, by cause."},
    {"lockstep_wait_seconds_total", "", kCounter, kSeconds, &WaitStats::nanos,
     "Length of these waits, over all threads. The cause with the largest rate is the bottleneck."},
    {"lockstep_waiting_threads", "", kGauge, kPlain, &WaitStats::now,
     "User threads that wait now, by cause."},
};

// Label: stage.
inline constexpr Metric<StageStats> kStageMetrics[] = {
    {"lockstep_stage_entered_total", "", kCounter, kPlain, &StageStats::entered,
     "Requests that entered a stage: locks that were not free, or reads and writes."},
    {"lockstep_stage_left_total", "how=\"finished\"", kCounter, kPlain, &StageStats::finished,
     "Requests that left a stage. Cancelled lock requests are deadlocks and timeouts."},
    {"lockstep_stage_left_total", "how=\"forwarded\"", kCounter, kPlain, &StageStats::forwarded,
     ""},
    {"lockstep_stage_left_total", "how=\"cancelled\"", kCounter, kPlain, &StageStats::cancelled,
     ""},
    {"lockstep_stage_requeued_total", "", kCounter, kPlain, &StageStats::requeued,
     "Requests that went back into the queue from service."},
    {"lockstep_stage_requests", "state=\"queued\"", kGauge, kPlain, &StageStats::queued,
     "Requests in a stage now."},
    {"lockstep_stage_requests", "state=\"in_service\"", kGauge, kPlain, &StageStats::in_service,
     ""},
    {"lockstep_stage_overtaken_total", "", kCounter, kPlain, &StageStats::bypasses,
     "Times that the order of the stage let a later request pass an earlier one."},
    {"lockstep_stage_overtaken_max", "", kGauge, kPlain, &StageStats::bypassed_max,
     "Most times that one request was overtaken."},
    {"lockstep_stage_producer_waits_total", "", kCounter, kPlain, &StageStats::suspended,
     "Threads that waited because the stage was full."},
};
inline constexpr HistogramMetric<StageStats> kStageHistograms[] = {
    {"lockstep_stage_queue_length", kPlain, &StageStats::length,
     "Requests in the line when another one entered it."},
    {"lockstep_stage_wait_seconds", kSeconds, &StageStats::wait,
     "Time from entering the queue until service began."},
    {"lockstep_stage_batch_requests", kPlain, &StageStats::batch,
     "Requests served together. Larger batches cost less a request."},
};

inline constexpr Metric<threads::IoStats> kIoMetrics[] = {
    {"lockstep_io_batches_total", "", kCounter, kPlain, &threads::IoStats::batches,
     "Batches of reads and writes that workers have handed on."},
    {"lockstep_io_submissions_total", "", kCounter, kPlain, &threads::IoStats::submissions,
     "System calls that submitted reads and writes; 0 with the pool of kernel threads."},
    {"lockstep_io_split_transfers_total", "", kCounter, kPlain, &threads::IoStats::split,
     "Joined transfers that failed and were repeated one by one. More than 0: check the device."},
};
inline constexpr HistogramMetric<threads::IoStats> kIoHistograms[] = {
    {"lockstep_io_depth_requests", kPlain, &threads::IoStats::depth,
     "Requests on the device after each submission of a worker."},
};

// Label: class.
inline constexpr Metric<threads::IoClassStats> kIoClassMetrics[] = {
    {"lockstep_io_requests_total", "", kCounter, kPlain, &threads::IoClassStats::packets,
     "Reads and writes that were asked for."},
    {"lockstep_io_requested_bytes_total", "", kCounter, kPlain, &threads::IoClassStats::bytes,
     "Their bytes."},
    {"lockstep_io_merged_total", "", kCounter, kPlain, &threads::IoClassStats::merged,
     "Requests that another, equal request served."},
    {"lockstep_io_joined_total", "", kCounter, kPlain, &threads::IoClassStats::joined,
     "Requests that became part of a neighbour's transfer."},
    {"lockstep_io_transfers_total", "", kCounter, kPlain, &threads::IoClassStats::transfers,
     "Transfers that went to the device. Its rate is what the device sees."},
};

// Label: operation.
inline constexpr Metric<TeamStats> kTeamMetrics[] = {
    {"lockstep_team_teams_total", "", kCounter, kPlain, &TeamStats::teams,
     "Teams formed. set_steps() sets all metrics of teams back to 0."},
    {"lockstep_team_entered_total", "", kCounter, kPlain, &TeamStats::entered,
     "Threads that began the operation in a team. Divide by the teams for their size."},
    {"lockstep_team_left_total", "", kCounter, kPlain, &TeamStats::left,
     "Threads that also ended the operation in their team. The others are strays."},
    {"lockstep_team_ready_total", "", kCounter, kPlain, &TeamStats::ready,
     "Threads that waited for a team when one was formed, summed over the teams."},
};
inline constexpr Metric<TeamStats::Strays> kStrayMetrics[] = {
    {"lockstep_team_strays_total", "cause=\"lock\"", kCounter, kPlain, &TeamStats::Strays::lock,
     "Threads that left their team inside the operation, by what they waited for."},
    {"lockstep_team_strays_total", "cause=\"page\"", kCounter, kPlain, &TeamStats::Strays::page,
     ""},
    {"lockstep_team_strays_total", "cause=\"latch\"", kCounter, kPlain, &TeamStats::Strays::latch,
     ""},
    {"lockstep_team_strays_total", "cause=\"log\"", kCounter, kPlain, &TeamStats::Strays::log, ""},
    {"lockstep_team_strays_total", "cause=\"other\"", kCounter, kPlain, &TeamStats::Strays::other,
     ""},
};
// Label: point.
inline constexpr Metric<CtxPointStats> kCtxPointMetrics[] = {
    {"lockstep_ctx_point_passes_total", "result=\"taken\"", kCounter, kPlain,
     &CtxPointStats::taken,
     "Passes of team members through a CTX point: switched, or the reason for no switch."},
    {"lockstep_ctx_point_passes_total", "result=\"off\"", kCounter, kPlain,
     &CtxPointStats::off, ""},
    {"lockstep_ctx_point_passes_total", "result=\"alone\"", kCounter, kPlain,
     &CtxPointStats::alone, ""},
    {"lockstep_ctx_point_passes_total", "result=\"latched\"", kCounter, kPlain,
     &CtxPointStats::latched, ""},
};
// Labels: worker, and mode as the team-size tuner has set it.
inline constexpr Metric<TunerStats> kTunerMetrics[] = {
    {"lockstep_tuner_windows_total", "", kCounter, kPlain, &TunerStats::windows,
     "Windows that the team-size tuner of a worker has timed."},
    {"lockstep_tuner_trials_total", "", kCounter, kPlain, &TunerStats::trials,
     "Settings that it has tried."},
    {"lockstep_tuner_changes_total", "", kCounter, kPlain, &TunerStats::changes,
     "Settings that it has kept because they were faster."},
};

inline constexpr Metric<ReportStats> kReportMetrics[] = {
    {"lockstep_reports_total", "", kCounter, kPlain, &ReportStats::reports,
     "Reports begun."},
    {"lockstep_report_states_total", "", kCounter, kPlain, &ReportStats::states,
     "Committed states that reports share. Near the number of reports, a max_age would let them "
     "share more."},
    {"lockstep_report_scans_total", "", kCounter, kPlain, &ReportStats::scans,
     "Scans of indexes and heaps that reports have begun."},
    {"lockstep_report_chunks_made_total", "", kCounter, kPlain, &ReportStats::made,
     "Key ranges that were read and decoded for reports."},
    {"lockstep_report_chunks_made_again_total", "", kCounter, kPlain, &ReportStats::made_again,
     "Key ranges that were read again for the same state. Many: some scans are read slowly, and "
     "scan_bytes does not keep what they need."},
    {"lockstep_report_chunks_shared_total", "", kCounter, kPlain, &ReportStats::shared,
     "Times that a scan got a key range that was made for another."},
    {"lockstep_report_rows_total", "", kCounter, kPlain, &ReportStats::rows,
     "Rows decoded for reports."},
    {"lockstep_report_decoded_bytes_total", "", kCounter, kPlain, &ReportStats::bytes,
     "Bytes of the blocks that were made."},
    {"lockstep_report_busy_seconds_total", "", kCounter, kSeconds, &ReportStats::busy_nanos,
     "Time that passes have read and decoded. Its rate is their share of a worker."},
    {"lockstep_reports_open", "", kGauge, kPlain, &ReportStats::reports_open,
     "Reports now. Each keeps a state, and so versions."},
    {"lockstep_report_scans_open", "", kGauge, kPlain, &ReportStats::scans_open,
     "Scans of reports that have not ended."},
    {"lockstep_report_passes", "", kGauge, kPlain, &ReportStats::passes_open,
     "Indexes and heaps that a pass reads now."},
    {"lockstep_report_state_oldest_seconds", "", kGauge, kSeconds,
     &ReportStats::state_oldest_nanos,
     "Age of the oldest state of a report. Old states cost versions, and each read more time."},
    {"lockstep_report_kept_bytes", "", kGauge, kPlain, &ReportStats::kept_bytes,
     "Blocks that are kept for scans that come later, at most scan_bytes."},
    {"lockstep_report_behind_chunks_max", "", kGauge, kPlain, &ReportStats::behind_max,
     "Key ranges that were read without the slowest scan, and are kept or read again for it."},
};

inline constexpr Metric<AnswerStats> kAnswerMetrics[] = {
    {"lockstep_answers_total", "", kCounter, kPlain, &AnswerStats::answers,
     "Plans of reports that have been computed, or have failed."},
    {"lockstep_operators_total", "", kCounter, kPlain, &AnswerStats::operators,
     "Operators of plans begun."},
    {"lockstep_operators_shared_total", "", kCounter, kPlain, &AnswerStats::shared,
     "Times that a plan used an operator that another one had begun."},
    {"lockstep_operator_threads", "", kGauge, kPlain, &AnswerStats::threads,
     "User threads of the operators' stages now."},
    {"lockstep_operator_sharing_misses_total", "", kCounter, kPlain, &AnswerStats::sharing_misses,
     "Operators begun although the same one had run since their report began."},
    {"lockstep_answer_cycles_total", "", kCounter, kPlain, &AnswerStats::cycles,
     "Cycles of reports of one type."},
    {"lockstep_answers_as_one_total", "", kCounter, kPlain, &AnswerStats::together,
     "Plans that were computed as one with others of their type."},
    {"lockstep_answers_waiting", "", kGauge, kPlain, &AnswerStats::waiting,
     "Reports that wait for their cycle now."},
    {"lockstep_operator_deadlocks_total", "", kCounter, kPlain, &AnswerStats::deadlocks,
     "Deadlocks between operators that were resolved."},
    {"lockstep_operators_kept_total", "", kCounter, kPlain, &AnswerStats::kept,
     "Operators whose rows were kept in memory to resolve a deadlock."},
};
// clang-format on

// MT-2
template <class Rows>
constexpr bool well_formed(const Rows& rows) {
    for (size_t i = 0; i < std::size(rows); ++i) {
        const std::string_view name = rows[i].name, help = rows[i].help;
        const bool first = i == 0 || name != rows[i - 1].name;
        if (!name.starts_with("lockstep_") || first == help.empty()) return false;
        if (help.find_first_of("\\\n") != std::string_view::npos) return false;
        const bool seconds = name.ends_with("_seconds") || name.ends_with("_seconds_total");
        if (seconds != (rows[i].unit == kSeconds)) return false;
        if constexpr (requires { rows[i].type; }) {
            if (name.ends_with("_total") != (rows[i].type == kCounter)) return false;
            for (size_t j = i + 1; j < std::size(rows); ++j)
                if (name == rows[j].name && (name != rows[j - 1].name || rows[i].labels[0] == 0))
                    return false;
        }
    }
    return true;
}
static_assert(well_formed(kStoreMetrics));
static_assert(well_formed(kWaitMetrics));
static_assert(well_formed(kStageMetrics));
static_assert(well_formed(kStageHistograms));
static_assert(well_formed(kIoMetrics));
static_assert(well_formed(kIoHistograms));
static_assert(well_formed(kIoClassMetrics));
static_assert(well_formed(kTeamMetrics));
static_assert(well_formed(kStrayMetrics));
static_assert(well_formed(kCtxPointMetrics));
static_assert(well_formed(kTunerMetrics));
static_assert(well_formed(kReportMetrics));
static_assert(well_formed(kAnswerMetrics));

// MT-1: a value more in one of the structs needs a row more above.
static_assert(sizeof(StoreStats) == sizeof(uint64_t) * std::size(kStoreMetrics) +
                                        sizeof(WaitStats) * kWaitCauses + 2 * sizeof(StageStats) +
                                        sizeof(threads::IoStats) + 2 * sizeof(std::string));
static_assert(sizeof(lockstep_stats) ==
                  sizeof(size_t) + sizeof(uint64_t) * std::size(kStoreMetrics),
              "a counter is missing in LOCKSTEP_COUNTERS");
static_assert(sizeof(WaitStats) == sizeof(uint64_t) * std::size(kWaitMetrics));
static_assert(sizeof(StageStats) == sizeof(uint64_t) * std::size(kStageMetrics) +
                                        sizeof(StageHistogram) * std::size(kStageHistograms));
static_assert(sizeof(StageHistogram) == sizeof(std::vector<uint64_t>) + 3 * sizeof(uint64_t));
static_assert(sizeof(threads::IoStats) == sizeof(uint64_t) * std::size(kIoMetrics) +
                                              sizeof(StageStats) +
                                              sizeof(threads::IoClassStats) * threads::kIoClasses +
                                              sizeof(StageHistogram) * std::size(kIoHistograms));
static_assert(sizeof(threads::IoClassStats) == sizeof(uint64_t) * std::size(kIoClassMetrics));
static_assert(sizeof(TeamStats) == sizeof(std::string) +
                                       sizeof(uint64_t) * std::size(kTeamMetrics) +
                                       sizeof(TeamStats::Strays));
static_assert(sizeof(TeamStats::Strays) == sizeof(uint64_t) * std::size(kStrayMetrics));
static_assert(sizeof(CtxPointStats) ==
              sizeof(std::string) + sizeof(uint64_t) * std::size(kCtxPointMetrics));
static_assert(sizeof(TunerStats) ==
              sizeof(uint64_t) * (1 + std::size(kTunerMetrics)));  // 1: mode and team_max
static_assert(sizeof(ReportStats) == sizeof(uint64_t) * std::size(kReportMetrics) +
                                         sizeof(AnswerStats) + sizeof(std::vector<ReportProgress>));
static_assert(sizeof(AnswerStats) == sizeof(uint64_t) * std::size(kAnswerMetrics));

}  // namespace lockstep::sm
