// histogram.h - counts of times, for percentiles with an error below 1%.
//
// Concepts   The buckets are those of threads/include/lockstep/log_buckets.h. Recording is a shift,
//            an add and no allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <lockstep/log_buckets.h>

namespace lockstep::tpcc {

template <unsigned kBits>
class Histogram {
public:
    void record(uint64_t value, uint64_t times = 1) {
        buckets_[Buckets::index(value)] += static_cast<uint32_t>(times);
        count_ += times;
        sum_ += value * times;
        if (times != 0) max_ = std::max(max_, value);
    }
    void merge(const Histogram& other) {
        for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
        count_ += other.count_;
        sum_ += other.sum_;
        max_ = std::max(max_, other.max_);
    }
    void clear() {
        buckets_.fill(0);
        count_ = sum_ = max_ = 0;
    }
    uint64_t count() const { return count_; }
    uint64_t max() const { return max_; }
    double mean() const {
        return count_ ? static_cast<double>(sum_) / static_cast<double>(count_) : 0;
    }
    // The value that at least `share` (0..1) of all recorded values do not exceed; 0 if empty.
    uint64_t percentile(double share) const {
        return Buckets::percentile(buckets_, count_, max_, share);
    }

    // fn(greatest, count) for each bucket that is not empty, ascending. `greatest` is the largest
    // value that the bucket counts.
    template <class F>
    void for_each(F fn) const {
        for (size_t i = 0; i < buckets_.size(); ++i)
            if (buckets_[i]) fn(greatest(i), uint64_t{buckets_[i]});
    }

private:
    // The last bucket also counts all that is longer.
    uint64_t greatest(size_t bucket) const {
        if (bucket + 1 == Buckets::kCount) return max_;
        const size_t next = bucket + 1;
        if (next < Buckets::kSub) return next - 1;
        return ((Buckets::kSub + next % Buckets::kSub) << (next / Buckets::kSub - 1)) - 1;
    }
    using Buckets = LogBuckets<kBits>;
    std::array<uint32_t, Buckets::kCount> buckets_{};
    uint64_t count_ = 0, sum_ = 0, max_ = 0;
};

}  // namespace lockstep::tpcc
