// report.h - the result of a simulated run: counts, the digest of all events, the first failure.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "threads/io/sim_content.h"

namespace lockstep::sim {

// Counts that the parent adds up over seeds. Their names are in report.cc, in this order.
enum class Count : uint8_t {
    transactions,
    committed,
    aborted,
    deadlocks,
    timeouts,
    retried,
    failed,
    reads_checked,
    ranges_checked,
    rows_checked,
    rights_checked,  // rows whose locks were compared with what a transaction did
    weak_reads_checked,
    snapshots_checked,
    snapshots_too_old,
    events,
    crash_events,
    crash_points,
    deeper_recoveries,
    twins,
    run_on,
    objects_made,
    large_values,
    bulk_loads,
    checkpoints,
    liveness_checks,
    ended_in_time,  // transactions that ended after the faults, each within Liveness::kLongest
    interruptions,
    pages_redone_alike,
    pages_redone_unseen,
    // injections and their outcomes
    log_damage,
    log_tail_damage,
    lost_write_log,
    page_damage,
    page_repaired,
    page_refused,
    lost_write,
    lost_write_healed,
    lost_write_named,
    read_error,
    write_error_data,
    write_error_log,
    sync_error,
    no_space_data,
    no_space_log,
    disk_full,
    unreadable,
    unreadable_refused,
    short_transfer,
    again,
    bit_flip,
    slow,
    clock_jump,
    misuse,
    prepared,
    in_doubt,  // found after a crash
    idle_times,
    backups,
    copies_judged,
    shrinks,
    ended_outside,  // transactions
    names_made,     // that all threads use
    names_dropped,
    names_checked,  // answers whether a name exists
    shared_loads,
    entry_ranges_checked,  // of secondary indexes
    entries_checked,
    hoards,          // transactions that changed much of a small log
    pages_evicted,   // from small pools
    begins_delayed,  // by Options::transactions_max
    audits,          // verify() between transactions
    cycles,
    late_backups,  // made behind a recovery
    late_copies_judged,
    steps_switched,
    packets_announced,  // whose records were named before they began
    torn_read,
    killed,
    power_cut,
    short_log,    // crash points at which the log's file was shorter than a segment
    log_cut_off,  // images in which the log's file is shorter than it was at that moment
    kCount
};
inline constexpr size_t kCounts = static_cast<size_t>(Count::kCount);
const char* count_name(Count count);

class Report {
public:
    void add(Count count, uint64_t n = 1) { counts[static_cast<size_t>(count)] += n; }
    uint64_t get(Count count) const { return counts[static_cast<size_t>(count)]; }
    // Keeps the first failure; later ones are consequences.
    void fail(std::string text) {
        if (!failed_) failure = std::move(text);
        failed_ = true;
    }
    bool failed() const { return failed_; }

    std::array<uint64_t, kCounts> counts{};
    std::string failure;
    // Event of the main run whose image or step failed; 0: not at an image.
    uint64_t failure_event = 0;

private:
    bool failed_ = false;
};

// A rolling hash over (kind, time, thread, arguments). Equal seeds give equal digests with every
// compiler.
class Digest {
public:
    void add(uint64_t kind, uint64_t time, uint64_t thread, uint64_t a = 0, uint64_t b = 0,
             uint64_t c = 0) {
        const uint64_t words[] = {kind, time, thread, a, b, c};
        value_ = threads::sim_hash(value_, words, sizeof words);
        if (trace_ != nullptr) trace(words);
    }
    uint64_t value() const { return value_; }
    // Adds a comment line to the trace. Every addition is a line, so diff compares two runs.
    void note(std::string_view text) const {
        if (trace_ != nullptr)
            std::fprintf(trace_, "# %.*s\n", static_cast<int>(text.size()), text.data());
    }
    void trace_to(std::FILE* file) { trace_ = file; }

private:
    void trace(const uint64_t (&words)[6]) const;

    uint64_t value_ = 0;
    std::FILE* trace_ = nullptr;
};

inline uint64_t hash_of(std::string_view bytes) {
    return threads::sim_hash(bytes.size(), bytes.data(), bytes.size());
}

}  // namespace lockstep::sim
