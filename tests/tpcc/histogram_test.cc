// labels: unit
// histogram_test.cc - percentiles are within 1% of those of the sorted values; the text form of
// HdrHistogram; windows.
#include "tpcc/histogram.h"
#include "tests/seed_of_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <vector>

#include "threads/base/rng.h"
#include "tpcc/hdr_text.h"
#include "tpcc/run_stats.h"

namespace lockstep::tpcc::histogram_test {

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

TEST(Histogram, BucketsCoverTheirValues) {
    Histogram<6> histogram;
    for (const uint64_t v : {0ul, 63ul, 64ul, 127ul, 128ul, 129ul, 1'000'000ul})
        histogram.record(v);
    uint64_t count = 0, last = 0;
    std::vector<uint64_t> greatest;
    histogram.for_each([&](uint64_t at_most, uint64_t n) {
        EXPECT_GE(at_most, last);
        last = at_most;
        count += n;
        greatest.push_back(at_most);
    });
    EXPECT_EQ(count, histogram.count());
    // 128 and 129 share a bucket; 1,000,000 is in one of 8192 values.
    EXPECT_EQ(greatest.size(), 6u);
    EXPECT_EQ((std::vector(greatest.begin(), greatest.end() - 1)),
              (std::vector<uint64_t>{0, 63, 64, 127, 129}));
    EXPECT_GE(greatest.back(), 1'000'000u);
    EXPECT_LT(greatest.back(), 1'000'000u + 8192);
}

// Values 1, 2, 3, 4 us: the steps are five for each halving of what is left, so 0, 10, 20 ... 50,
// then 55, 60 ... The lines are those that HdrHistogram's algorithm gives for these values, whose
// buckets are exact or end at the shown value.
TEST(Histogram, TextFormOfHdrHistogram) {
    Histogram<6> histogram;
    for (const uint64_t v : {20ul, 30ul, 40ul, 60ul}) histogram.record(v);
    EXPECT_EQ(hdr_text(histogram),
              "       Value     Percentile TotalCount 1/(1-Percentile)\n"
              "\n"
              "       0.020 0.000000000000          1           1.00\n"
              "       0.020 0.100000000000          1           1.11\n"
              "       0.020 0.200000000000          1           1.25\n"
              "       0.030 0.300000000000          2           1.43\n"
              "       0.030 0.400000000000          2           1.67\n"
              "       0.030 0.500000000000          2           2.00\n"
              "       0.040 0.550000000000          3           2.22\n"
              "       0.040 0.600000000000          3           2.50\n"
              "       0.040 0.650000000000          3           2.86\n"
              "       0.040 0.700000000000          3           3.33\n"
              "       0.040 0.750000000000          3           4.00\n"
              "       0.060 0.775000000000          4           4.44\n"
              "       0.060 1.000000000000          4\n"
              "#[Mean    =        0.037, StdDeviation   =        0.015]\n"
              "#[Max     =        0.060, Total count    =            4]\n"
              "#[Buckets =           35, SubBuckets     =           64]\n");
    EXPECT_NE(hdr_text(Histogram<6>()).find("Total count    =            0"), std::string::npos);
}

TEST(Window, IsEmptyAfterItWasTaken) {
    Window window;
    const auto taken = std::make_unique<WindowCounts>();
    window.record(TxnType::payment, 1000, {1, 2, 3}, true);
    window.record_abort(AbortCause::deadlock, true);
    window.take(*taken, false);
    EXPECT_TRUE(taken->empty());
    window.take(*taken, true);
    window.take(*taken, true);
    EXPECT_EQ(taken->latency[1].count(), 1u);
    EXPECT_EQ(taken->waits.log, 3u);
    EXPECT_EQ(taken->aborts[0], 1u);
}

}  // namespace lockstep::tpcc::histogram_test
