// histogram.h - counts of times in buckets of fixed relative width, for percentiles with an error below 1%.
//
// Concepts   Values up to 2^kBits are exact; above, each power of two is cut into 2^kBits buckets, and the middle of a bucket stands for what
//            fell into it: with 6 bits an error of at most 1/128. Recording is a shift, an add and no allocation.
// Why not Boost.Histogram: its axis computes a logarithm for every value and its storage is on the heap; two such histograms for each type
//            and worker would cost more than the rest of the bookkeeping. This is 60 lines.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "threads/base/types.h"

namespace lockstep::tpcc {

template <unsigned kBits>
class Histogram {
public:
    void record(uint64_t value) {
        ++buckets_[index(value)];
        ++count_;
        sum_ += value;
        max_ = std::max(max_, value);
    }
    void merge(const Histogram& other) {
        for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
        count_ += other.count_;
        sum_ += other.sum_;
        max_ = std::max(max_, other.max_);
    }
    uint64_t count() const { return count_; }
    uint64_t max() const { return max_; }
    double mean() const { return count_ ? static_cast<double>(sum_) / static_cast<double>(count_) : 0; }
    // The value that at least `share` (0..1) of all recorded values do not exceed; 0 if there are none.
    uint64_t percentile(double share) const {
        if (count_ == 0) return 0;
        const auto rank = std::clamp<uint64_t>(static_cast<uint64_t>(share * static_cast<double>(count_) + 0.999999), 1, count_);
        uint64_t seen = 0;
        for (size_t i = 0; i < buckets_.size(); ++i) {
            seen += buckets_[i];
            if (seen >= rank) return std::min(middle(i), max_);
        }
        return max_;
    }

private:
    static constexpr unsigned kOctaves = 40 - kBits;         // up to 2^40 ns, 18 minutes; what is longer counts as that
    static constexpr uint64_t kSub = 1ull << kBits;
    static size_t index(uint64_t value) {
        if (value < kSub) return value;
        const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kBits;
        if (shift >= kOctaves) return kSub * (kOctaves + 1) - 1;
        return kSub * (shift + 1) + (value >> shift) - kSub;
    }
    static uint64_t middle(size_t i) {
        if (i < kSub) return i;
        const uint64_t shift = i / kSub - 1;
        return ((kSub + i % kSub) << shift) + ((1ull << shift) >> 1);
    }
    std::array<uint32_t, kSub*(kOctaves + 1)> buckets_{};
    uint64_t count_ = 0, sum_ = 0, max_ = 0;
};

}  // namespace lockstep::tpcc
