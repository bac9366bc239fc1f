// labels: unit
// compare_test.cc - ratios of two runs and their intervals.
#include "tpcc/compare.h"

#include <gtest/gtest.h>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::tpcc {
namespace {

std::vector<double> noisy(Rng& rng, double mean, double noise, size_t count = 30) {
    std::vector<double> samples;
    for (size_t i = 0; i < count; ++i)
        samples.push_back(mean * (1 + noise * (static_cast<double>(rng.below(2001)) / 1000 - 1)));
    return samples;
}

TEST(Compare, ADifferenceAboveTheNoiseIsShown) {
    Rng rng(seed_of_run(1));
    const RatioInterval r = compare_samples(noisy(rng, 1000, 0.05), noisy(rng, 1200, 0.05));
    EXPECT_TRUE(r.shows_difference());
    EXPECT_GT(r.low, 1.1);
    EXPECT_LT(r.low, 1.2);
    EXPECT_GT(r.high, 1.2);
    EXPECT_NEAR(r.ratio, 1.2, 0.05);
}

// The interval contains the truth in 95% of all pairs, so about 10 of 200 miss it.
TEST(Compare, EqualRunsShowADifferenceAboutOnceInTwenty) {
    Rng rng(seed_of_run(2));
    int shown = 0;
    for (int i = 0; i < 400; ++i)
        shown += compare_samples(noisy(rng, 500, 0.2), noisy(rng, 500, 0.2)).shows_difference();
    EXPECT_GT(shown, 4);
    EXPECT_LT(shown, 45);
}

TEST(Compare, TooLittleIsNotJudged) {
    Rng rng(seed_of_run(3));
    const auto few = noisy(rng, 10, 0.1, 4), many = noisy(rng, 20, 0.1);
    EXPECT_FALSE(compare_samples(few, many).known);
    EXPECT_FALSE(compare_samples(few, many).shows_difference());
    EXPECT_NEAR(compare_samples(few, many).ratio, 2, 0.5);
    EXPECT_FALSE(compare_samples({}, many).known);
    EXPECT_FALSE(compare_samples({1, 2, 0, 4, 5, 6}, many).known);
    EXPECT_EQ(compare_files("/proc/version", "/proc/version"), 2);
}

}  // namespace
}  // namespace lockstep::tpcc
