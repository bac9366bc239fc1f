// run_stats.h - what is counted while terminals run, per worker, and put together at the end.
//
// Concepts   Each worker has its own counters: user threads of one worker never write them at the
//            same time, so nothing is locked. Only `completed` is read by others while it changes,
//            for the progress line. The timeline is a row of slots of equal width from the start of
//            the run; when it is full, pairs of slots are merged and the width doubles, so that it
//            needs no knowledge of how long the run will be.
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
    // Of those completed in the measured interval, nanoseconds.
    Histogram<6> latency;
    // Of the same, the part that was waited for locks, for pages and for the log.
    Histogram<4> lock_wait, page_wait, log_wait;
    uint64_t rolled_back = 0;            // of them rolled back as the input demanded
    uint64_t aborts[kAbortCauses] = {};  // attempts that were repeated, by cause
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
