// series.h - what a run did in each short interval: throughput, latency, waits, aborts,
// checkpoints.
//
// Concepts   Each worker records its finished transactions in a window. The controller of the run
//            takes all windows at the end of an interval, merges them and keeps the percentiles as
//            one point. A transaction belongs to the window that is open when it is recorded.
//            Transactions of the measured interval are counted apart from those before and after
//            it. So the points of the measured interval have its transactions, neither more nor
//            less, however late the controller closes them.
// Blocking   A window has a spin lock, which is held for one recording or one copy.
#pragma once

#include <memory>
#include <vector>

#include <lockstep/store.h>
#include "threads/base/spin_lock.h"
#include "tpcc/histogram.h"
#include "tpcc/input.h"

namespace lockstep::tpcc {

enum class AbortCause : uint8_t { deadlock, lock_timeout, log_full, no_space, other };
inline constexpr size_t kAbortCauses = 5;
inline constexpr const char* kAbortNames[kAbortCauses] = {"deadlock", "lock_timeout", "log_full",
                                                          "no_space", "other"};

// Sums of the waits of some transactions, in nanoseconds.
struct WaitSums {
    uint64_t lock = 0, page = 0, log = 0;
};

// What one worker, or all of them, did since the window was opened. Too large for the stack of a
// user thread.
struct WindowCounts {
    Histogram<6> latency[kTxnTypes];  // nanoseconds
    WaitSums waits;
    uint64_t aborts[kAbortCauses] = {};
    void merge(const WindowCounts& other);
    void clear();
    bool empty() const;  // no transaction has ended
};

class Window {
public:
    // `measured`: it ended in the measured interval.
    void record(TxnType type, Nanos took, const WaitSums& waits, bool measured);
    void record_abort(AbortCause cause, bool measured);
    // Adds the counts that are `measured`, or the others, to `to` and empties them.
    void take(WindowCounts& to, bool measured);

private:
    SpinLock lock_;           // protects the counts
    WindowCounts counts_[2];  // [measured]
};

// Latencies of one type in one interval, in nanoseconds.
struct PointLatency {
    uint64_t count = 0, p50 = 0, p90 = 0, p99 = 0, p999 = 0, max = 0;
    template <unsigned kBits>
    static PointLatency of(const Histogram<kBits>& histogram) {
        return {histogram.count(),          histogram.percentile(0.50),  histogram.percentile(0.90),
                histogram.percentile(0.99), histogram.percentile(0.999), histogram.max()};
    }
};

struct SeriesPoint {
    Nanos begin = 0, end = 0;  // since the terminals started
    bool measured = false;     // lies in the measured interval
    PointLatency types[kTxnTypes];
    PointLatency all;
    WaitSums waits;
    uint64_t aborts[kAbortCauses] = {};
    uint64_t checkpoints = 0;  // completed in the interval
    uint64_t log_bytes = 0, pages_read = 0, pages_written = 0;
    double per_second(uint64_t count) const;
    uint64_t aborts_sum() const;
};

// The points of a run. Used by the controller of the run only.
class Series {
public:
    // Starts at `began`, a time of the store's clock.
    void start(const Store& store, Nanos began);
    // Ends the interval that began at the last call, or at start(), and keeps its point.
    const SeriesPoint& close(const Store& store, Nanos now, const WindowCounts& counts,
                             bool measured);
    const std::vector<SeriesPoint>& points() const { return points_; }

private:
    Nanos began_ = 0;
    StoreStats last_;
    Histogram<6> all_;  // while a point is made: too large for the stack
    std::vector<SeriesPoint> points_;
};

}  // namespace lockstep::tpcc
