// labels: unit
// histogram_test.cc - percentiles are within 1% of those of the sorted values;
// timelines fold without losing counts.
#include "tpcc/histogram.h"
#include "tests/seed_of_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "threads/base/rng.h"
#include "tpcc/run_stats.h"

namespace lockstep::tpcc {
namespace {

TEST(Histogram, PercentilesAreWithinOnePercent) {
    Rng rng(seed_of_run(42));
    Histogram<6> histogram;
    std::vector<uint64_t> values;
    for (int i = 0; i < 200'000; ++i) {
        const auto v = static_cast<uint64_t>(std::exp(rng.chance(0.5) ? 5.0 : 9.0) *
                                             (1 + static_cast<double>(rng.below(1'000'000)) / 1e4));
        values.push_back(v);
        histogram.record(v);
    }
    std::sort(values.begin(), values.end());
    for (const double share : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999}) {
        const auto rank =
            static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
        const auto exact = static_cast<double>(values[rank - 1]);
        EXPECT_NEAR(static_cast<double>(histogram.percentile(share)), exact, exact * 0.01) << share;
    }
    EXPECT_EQ(histogram.max(), values.back());
    EXPECT_EQ(histogram.count(), values.size());
    EXPECT_LE(histogram.percentile(1.0), values.back());
}

TEST(Histogram, SmallValuesAreExactAndHugeOnesKept) {
    Histogram<6> histogram;
    EXPECT_EQ(histogram.percentile(0.5), 0u);
    for (uint64_t v = 0; v < 64; ++v) histogram.record(v);
    EXPECT_EQ(histogram.percentile(0.5), 31u);
    histogram.record(UINT64_MAX / 2);
    EXPECT_EQ(histogram.max(), UINT64_MAX / 2);
    EXPECT_EQ(histogram.count(), 65u);
}

TEST(Histogram, MergeIsTheSameAsRecordingAll) {
    Histogram<6> a, b, both;
    for (uint64_t v = 1; v < 100'000; v += 7) {
        (v % 2 ? a : b).record(v);
        both.record(v);
    }
    a.merge(b);
    for (const double share : {0.01, 0.5, 0.99})
        EXPECT_EQ(a.percentile(share), both.percentile(share));
    EXPECT_EQ(a.count(), both.count());
    EXPECT_DOUBLE_EQ(a.mean(), both.mean());
}

TEST(Timeline, FoldsWithoutLosingAnything) {
    Timeline timeline, shorter;
    for (uint64_t t = 0; t < 60; ++t)
        for (int i = 0; i < 10; ++i) timeline.record(t * kSecond, 1000);
    shorter.record(0, 1000);
    EXPECT_GE(timeline.width() * 256, 60 * kSecond);
    shorter.merge(timeline);
    uint64_t count = 0;
    for (const auto& slot : shorter.slots()) count += slot.count();
    EXPECT_EQ(count, 601u);
    EXPECT_EQ(shorter.width(), timeline.width());
}

}  // namespace
}  // namespace lockstep::tpcc
