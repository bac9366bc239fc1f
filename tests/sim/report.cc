// report.cc - names of the counters.
#include "tests/sim/report.h"

#include <iterator>

namespace lockstep::sim {

const char* count_name(Count count) {
    static constexpr const char* kNames[] = {"transactions",
                                             "committed",
                                             "aborted",
                                             "deadlocks",
                                             "timeouts",
                                             "retried",
                                             "failed",
                                             "reads_checked",
                                             "ranges_checked",
                                             "rows_checked",
                                             "rights_checked",
                                             "weak_reads_checked",
                                             "snapshots_checked",
                                             "snapshots_too_old",
                                             "events",
                                             "crash_events",
                                             "crash_points",
                                             "deeper_recoveries",
                                             "twins",
                                             "run_on",
                                             "objects_made",
                                             "large_values",
                                             "bulk_loads",
                                             "checkpoints",
                                             "liveness_checks",
                                             "ended_in_time",
                                             "interruptions",
                                             "pages_redone_alike",
                                             "pages_redone_unseen",
                                             "log_damage",
                                             "log_tail_damage",
                                             "lost_write_log",
                                             "page_damage",
                                             "page_repaired",
                                             "page_refused",
                                             "lost_write",
                                             "lost_write_healed",
                                             "lost_write_named",
                                             "read_error",
                                             "write_error_data",
                                             "write_error_log",
                                             "sync_error",
                                             "no_space_data",
                                             "no_space_log",
                                             "disk_full",
                                             "unreadable",
                                             "unreadable_refused",
                                             "short_transfer",
                                             "again",
                                             "bit_flip",
                                             "slow",
                                             "clock_jump",
                                             "misuse",
                                             "prepared",
                                             "in_doubt",
                                             "idle_times",
                                             "backups",
                                             "copies_judged",
                                             "shrinks",
                                             "ended_outside",
                                             "names_made",
                                             "names_dropped",
                                             "names_checked",
                                             "shared_loads",
                                             "entry_ranges_checked",
                                             "entries_checked",
                                             "hoards",
                                             "pages_evicted",
                                             "begins_delayed",
                                             "audits",
                                             "cycles",
                                             "late_backups",
                                             "late_copies_judged",
                                             "steps_switched",
                                             "packets_announced",
                                             "torn_read",
                                             "killed",
                                             "power_cut",
                                             "short_log",
                                             "log_cut_off"};
    static_assert(std::size(kNames) == kCounts);
    return kNames[static_cast<size_t>(count)];
}

void Digest::trace(const uint64_t (&words)[6]) const {
    for (const uint64_t word : words)
        std::fprintf(trace_, "%llu ", static_cast<unsigned long long>(word));
    std::fputc('\n', trace_);
}

}  // namespace lockstep::sim
