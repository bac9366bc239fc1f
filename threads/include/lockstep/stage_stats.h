// stage_stats.h - what a stage counts: how many packets, how long the queue, how long the wait, how
// large the batches.
//
// Concepts   StageStats is a snapshot: plain numbers that can be added up over stages. Inside a
//            stage the same numbers are relaxed atomics, so that a snapshot may be taken at any
//            time: StageCounter adds with a locked instruction if several workers write it, and
//            with a load and a store if only one does. Histograms cut each power of two into 8
//            buckets; the middle of a bucket stands for what fell into it (6% off at most).
// Blocking   never.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include <lockstep/log_buckets.h>
#include <lockstep/types.h>

namespace lockstep {

using StageBuckets = LogBuckets<3>;

struct StageHistogram {
    std::array<uint64_t, StageBuckets::kCount> buckets{};
    uint64_t count = 0, sum = 0, max = 0;
    void record(uint64_t value);
    void add(const StageHistogram& other);
    StageHistogram since(const StageHistogram& earlier) const;  // max stays that of all time
    double mean() const {
        return count ? static_cast<double>(sum) / static_cast<double>(count) : 0;
    }
    // The value that at least `share` (0..1) of all recorded values do not exceed; 0 if there are
    // none.
    uint64_t percentile(double share) const;
};

// entered = finished + forwarded + cancelled + queued + in_service, once nothing runs (STG-1).
struct StageStats {
    uint64_t entered = 0;  // by enqueue or forwarded from another stage
    uint64_t finished = 0, forwarded = 0, cancelled = 0;
    uint64_t requeued = 0;                // times a packet in service went back into the queue
    uint64_t queued = 0, in_service = 0;  // now
    uint64_t bypasses = 0;                // times a packet was overtaken by the order
    uint64_t bypassed_max = 0;            // of one packet
    uint64_t suspended = 0;               // producers that had to wait for room
    StageHistogram length;                // packets in the line when one more entered it
    // Nanoseconds from entering the queue to leaving it for service.
    StageHistogram wait;
    StageHistogram batch;  // packets served together
    void add(const StageStats& other);
    // Queued, in_service and maxima stay those of now.
    StageStats since(const StageStats& earlier) const;
    bool conserved() const {
        return entered == finished + forwarded + cancelled + queued + in_service;
    }
};

template <bool kShared>
class StageCounter {
public:
    void add(uint64_t n = 1) {
        if constexpr (kShared) value_.fetch_add(n, std::memory_order_relaxed);
        else value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    void raise_to(uint64_t n) {
        uint64_t seen = value_.load(std::memory_order_relaxed);
        while (seen < n && !value_.compare_exchange_weak(seen, n, std::memory_order_relaxed)) {}
    }
    uint64_t get() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<uint64_t> value_{0};
};

template <bool kShared>
class LiveHistogram {
public:
    void record(uint64_t value) {
        buckets_[StageBuckets::index(value)].add();
        sum_.add(value);
        max_.raise_to(value);
    }
    StageHistogram snapshot() const {
        StageHistogram s;
        for (size_t i = 0; i < s.buckets.size(); ++i) s.count += s.buckets[i] = buckets_[i].get();
        s.sum = sum_.get();
        s.max = max_.get();
        return s;
    }

private:
    std::array<StageCounter<kShared>, StageBuckets::kCount> buckets_{};
    StageCounter<kShared> sum_, max_;
};

}  // namespace lockstep
