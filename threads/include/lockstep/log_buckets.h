// log_buckets.h - buckets of fixed relative width for counts of times and lengths, and percentiles
// from them.
//
// Concepts   Values up to 2^kBits are exact; above, each power of two is cut into 2^kBits buckets,
//            and the middle of a bucket stands for what fell into it: an error of at most 1 /
//            2^(kBits + 1). Finding the bucket is a shift and an add.
// Why not Boost.Histogram: its axis computes a logarithm for every value and its storage is on the
// heap.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace lockstep {

// Bucket arithmetic; the counts themselves are the caller's. Never blocks.
template <unsigned kBits>
struct LogBuckets {
    // Buckets of each power of two.
    static constexpr uint64_t kSub = 1ull << kBits;
    // Up to 2^40 ns, 18 minutes; what is longer counts as that.
    static constexpr unsigned kOctaves = 40 - kBits;
    // Buckets in all.
    static constexpr size_t kCount = kSub * (kOctaves + 1);

    // The bucket that counts `value`.
    static constexpr size_t index(uint64_t value) {
        if (value < kSub) return value;
        const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kBits;
        return shift >= kOctaves ? kCount - 1 : kSub * (shift + 1) + (value >> shift) - kSub;
    }
    // The value that stands for all in a bucket.
    static constexpr uint64_t middle(size_t bucket) {
        if (bucket < kSub) return bucket;
        const uint64_t shift = bucket / kSub - 1;
        return ((kSub + bucket % kSub) << shift) + ((1ull << shift) >> 1);
    }
    // The value that at least `share` (0..1) of the `count` values in the buckets do not exceed; 0
    // if there are none. `max`: the largest of them.
    template <class Counts>
    static uint64_t percentile(const Counts& buckets, uint64_t count, uint64_t max, double share) {
        if (count == 0) return 0;
        const auto rank = std::clamp<uint64_t>(
            static_cast<uint64_t>(share * static_cast<double>(count) + 0.999999), 1, count);
        uint64_t seen = 0;
        for (size_t i = 0; i < buckets.size(); ++i) {
            seen += buckets[i];
            if (seen >= rank) return std::min(middle(i), max);
        }
        return max;
    }
};

}  // namespace lockstep
