// stage_counters.h - the counters inside a stage: relaxed atomics that become a StageStats.
//
// Concepts   A snapshot may be taken at any time. With kShared several workers write a counter,
//            with a locked instruction. Otherwise one worker writes it, with a load and a store.
#pragma once

#include <lockstep/stage_stats.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace lockstep {

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
        size_t used = buckets_.size();
        while (used > 0 && buckets_[used - 1].get() == 0) --used;
        s.buckets.resize(used);
        for (size_t i = 0; i < used; ++i) s.count += s.buckets[i] = buckets_[i].get();
        s.sum = sum_.get();
        s.max = max_.get();
        return s;
    }

private:
    std::array<StageCounter<kShared>, StageBuckets::kCount> buckets_{};
    StageCounter<kShared> sum_, max_;
};

}  // namespace lockstep
