// log_buckets.h - buckets of fixed relative width for histograms of times and lengths; percentiles
// from them.
//
// Concepts   Values below 2^kBits are exact. Above, each power of two has 2^kBits buckets, and a
//            bucket's middle represents its values. The error is at most 1 / 2^(kBits + 1). Finding
//            the bucket is a shift and an add. Boost.Histogram computes a logarithm for every value
//            and keeps its storage on the heap.
#pragma once

#include <cstddef>
#include <cstdint>

#include <lockstep/standard.h>  // keep: it refuses older standards

namespace lockstep {

// Bucket arithmetic; the caller keeps the counts. Never blocks.
template <unsigned kBits>
struct LogBuckets {
    // Buckets per power of two.
    static constexpr uint64_t kSub = 1ull << kBits;
    // Up to 2^40 ns, 18 minutes; longer times count as that.
    static constexpr unsigned kOctaves = 40 - kBits;
    // Buckets in all.
    static constexpr size_t kCount = kSub * (kOctaves + 1);

    // The bucket that counts `value`.
    static constexpr size_t index(uint64_t value) {
        if (value < kSub) return value;
        const unsigned shift = 63 - static_cast<unsigned>(__builtin_clzll(value)) - kBits;
        return shift >= kOctaves ? kCount - 1 : kSub * (shift + 1) + (value >> shift) - kSub;
    }
    // The value that represents a bucket.
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
        auto rank = static_cast<uint64_t>(share * static_cast<double>(count) + 0.999999);
        rank = rank < 1 ? 1 : rank > count ? count : rank;
        uint64_t seen = 0;
        for (size_t i = 0; i < buckets.size(); ++i) {
            seen += buckets[i];
            if (seen >= rank) return middle(i) < max ? middle(i) : max;
        }
        return max;
    }
};

}  // namespace lockstep
