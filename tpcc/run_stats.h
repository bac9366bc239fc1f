// run_stats.h - statistics that are counted per worker while terminals run, and merged at the end.
//
// Concepts   Each worker has its own counters. User threads of one worker never write them at the
//            same time, so no lock is needed. Other threads read only `completed` and `window`
//            while they change.
//            The counters cover the measured interval only. What happened in the warm-up is in the
//            windows, for the series.
#pragma once

#include <atomic>

#include <lockstep/stats.h>
#include "tpcc/series.h"

namespace lockstep::tpcc {

struct TypeStats {
    // Nanoseconds, of transactions completed in the measured interval.
    Histogram<6> latency;
    // The parts of the same time that were waits for locks, pages and the log.
    Histogram<4> lock_wait, page_wait, log_wait;
    uint64_t without_waits = 0;          // not in the three above before merge()
    uint64_t rolled_back = 0;            // completed by the rollback that the input demanded
    uint64_t aborts[kAbortCauses] = {};  // failed attempts, by cause
    // A transaction took so long.
    void record(Nanos took, const ThreadWaits& waits) {
        latency.record(took);
        if ((waits.lock | waits.page | waits.log) == 0) [[likely]] {
            ++without_waits;
            return;
        }
        lock_wait.record(waits.lock);
        page_wait.record(waits.page);
        log_wait.record(waits.log);
    }
    void merge(const TypeStats& other);
};

// What terminals chose for the transactions that count, where the specification bounds it (clause
// 5.5.1.5).
struct InputCounts {
    uint64_t order_lines = 0, order_lines_remote = 0;
    uint64_t payments_remote = 0, payments_by_name = 0;
    uint64_t order_status_by_name = 0;
    void merge(const InputCounts& other);
};

struct alignas(2 * kCacheLineBytes) WorkerStats {
    TypeStats types[kTxnTypes];
    InputCounts inputs;
    // Of Deliveries: from the start to the moment at which the queue had the request. The terminal
    // waits so long; the deferred part follows.
    Histogram<6> delivery_interactive;
    // Districts that had nothing to deliver, and the Deliveries that met such a district.
    uint64_t districts_skipped = 0, deliveries_with_skips = 0;
    // With an offered rate: from the intended to the real start, of those that were started in the
    // measured interval.
    Histogram<6> lateness;
    // How many were started, and those of them that were due before the measured interval.
    uint64_t started = 0, started_of_warmup = 0;
    // All types, warm-up included; written by this worker only.
    std::atomic<uint64_t> completed{0};
    bool keeps_window = false;
    Window window;  // if keeps_window is set
    // Fixed before the first terminal starts.
    Nanos measure_begin = 0;
    // The controller moves it to the end of a run that ends early. Deliveries that were queued end
    // behind it.
    std::atomic<Nanos> measure_end{kNever};

    bool measures(Nanos at) const {
        return at >= measure_begin && at < measure_end.load(std::memory_order_relaxed);
    }
    void count_abort(TxnType type, AbortCause cause, Nanos at);
    void merge(const WorkerStats& other);
};

}  // namespace lockstep::tpcc
