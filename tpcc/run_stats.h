// run_stats.h - statistics that are counted per worker while terminals run, and merged at the end.
//
// Concepts   Each worker has its own counters. User threads of one worker never write them at the
//            same time, so no lock is needed. Other threads read only `completed` while it changes,
//            for the progress line.
//            The timeline is a row of slots of equal width from the start of the run. When it is
//            full, pairs of slots are merged and the width doubles. The length of the run need not
//            be known.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <lockstep/stats.h>
#include "tpcc/histogram.h"
#include "tpcc/input.h"

namespace lockstep::tpcc {

enum class AbortCause : uint8_t { deadlock, lock_timeout, log_full, other };
inline constexpr size_t kAbortCauses = 4;
inline constexpr const char* kAbortNames[kAbortCauses] = {"deadlock", "lock_timeout", "log_full",
                                                          "other"};

struct TypeStats {
    // Nanoseconds, of transactions completed in the measured interval.
    Histogram<6> latency;
    // The parts of the same time that were waits for locks, pages and the log.
    Histogram<4> lock_wait, page_wait, log_wait;
    uint64_t rolled_back = 0;            // completed by the rollback that the input demanded
    uint64_t aborts[kAbortCauses] = {};  // failed attempts, by cause
    void merge(const TypeStats& other);
};

class Timeline {
public:
    using Slot = Histogram<3>;
    void record(Nanos since_start, Nanos latency);
    void merge(Timeline other);
    Nanos width() const { return width_; }
    const std::vector<Slot>& slots() const { return slots_; }

private:
    static constexpr size_t kSlotsMax = 256;
    void fold();
    Nanos width_ = 20 * kMillisecond;
    std::vector<Slot> slots_;
};

struct alignas(2 * kCacheLineBytes) WorkerStats {
    TypeStats types[kTxnTypes];
    Timeline timeline;
    uint64_t deliveries_skipped = 0;  // districts that had nothing to deliver
    // All types, warm-up included; written by this worker only.
    std::atomic<uint64_t> completed{0};
    void merge(const WorkerStats& other);
};

}  // namespace lockstep::tpcc
