// labels: unit
// icache_native_test.cc - what a native measurement may claim, scaled hardware counters, and
// geometries of any number of sets that is a power of two.
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "tools/icache/cache.h"
#include "tools/icache/native_json.h"

namespace lockstep::icache::icache_native_test {

using bench::TimedSlice;

// Pairs whose second rate is `ratio` times the first, each disturbed by up to `noise`.
std::pair<std::vector<TimedSlice>, std::vector<TimedSlice>> pairs(size_t n, double ratio,
                                                                  double noise, Rng& rng) {
    std::pair<std::vector<TimedSlice>, std::vector<TimedSlice>> both;
    const auto disturbed = [&](double rate) {
        return rate * (1 - noise * static_cast<double>(rng.below(1000)) / 1000);
    };
    for (size_t i = 0; i < n; ++i) {
        both.first.push_back({disturbed(1), 100});
        both.second.push_back({disturbed(ratio), 100});
    }
    return both;
}

std::string verdict(const std::vector<TimedSlice>& off, const std::vector<TimedSlice>& on) {
    return time_json(off, on)["verdict"].get<std::string>();
}

TEST(IcacheNative, ClearEffectsAreClaimedAndSmallOnesAreNot) {
    Rng rng(seed_of_run());
    const auto [off, fast] = pairs(32, 1.2, 0.02, rng);
    EXPECT_EQ(verdict(off, fast), "faster");
    EXPECT_EQ(verdict(fast, off), "slower");
    EXPECT_EQ(verdict(off, off), "no difference seen");
    const auto json = time_json(off, fast);
    EXPECT_LE(json["low"], json["speedup"]);
    EXPECT_LE(json["speedup"], json["high"]);
    // One estimator: the two times cannot contradict the ratio.
    EXPECT_DOUBLE_EQ(json["ns_off"].get<double>() / json["ns_on"].get<double>(),
                     json["speedup"].get<double>());
}

TEST(IcacheNative, WideQuartilesAndFewPairsClaimNothing) {
    Rng rng(seed_of_run());
    const auto [off, on] = pairs(32, 3.0, 0.8, rng);  // three times faster, and still not claimed
    EXPECT_EQ(verdict(off, on), "too noisy to tell");
    const auto [few, more] = pairs(7, 3.0, 0, rng);
    EXPECT_EQ(verdict(few, more), "too noisy to tell");
    EXPECT_FALSE(time_json(few, more).contains("low"));
    const auto [eight, others] = pairs(8, 3.0, 0, rng);
    EXPECT_EQ(verdict(eight, others), "faster");
}

TEST(IcacheNative, DisturbedPairsAreLeftOut) {
    Rng rng(seed_of_run());
    auto [off, on] = pairs(20, 1.0, 0.01, rng);
    for (size_t i = 0; i < 10;
         ++i) {  // half of them ran beside other work, at a tenth of the speed
        on[i] = {0.1, 300};
    }
    const auto json = time_json(off, on);
    EXPECT_EQ(json["quiet_pairs"], 10);
    EXPECT_EQ(json["pairs"], 20);
    EXPECT_EQ(json["verdict"], "no difference seen");
}

// Equal modes under noise of all sizes: a claim would be false. 99% intervals allow one in a
// hundred, and less because a claim needs a difference of 1%.
TEST(IcacheNative, EqualModesAreHardlyEverToldApart) {
    Rng rng(seed_of_run());
    int claims = 0;
    for (int run = 0; run < 2000; ++run) {
        const double noise = static_cast<double>(rng.below(100)) / 100;
        const auto [off, on] = pairs(8 + rng.below(30), 1.0, noise, rng);
        const std::string text = verdict(off, on);
        claims += text == "faster" || text == "slower";
    }
    EXPECT_LE(claims, 40);
}

// As Python's statistics.quantiles(values, n=4, method="inclusive").
TEST(Quantiles, LieBetweenNeighboursAndAreSymmetric) {
    const std::vector<double> four{1, 2, 4, 8}, five{1, 2, 4, 8, 16};
    EXPECT_DOUBLE_EQ(bench::quantile(four, 0.25), 1.75);
    EXPECT_DOUBLE_EQ(bench::quantile(four, 0.5), 3);
    EXPECT_DOUBLE_EQ(bench::quantile(four, 0.75), 5);
    EXPECT_DOUBLE_EQ(bench::quantile(five, 0.25), 2);
    EXPECT_DOUBLE_EQ(bench::median({16, 1, 8, 2, 4}), 4);
    EXPECT_DOUBLE_EQ(bench::median({8, 1, 4, 2}), 3);
    EXPECT_DOUBLE_EQ(bench::quantile(five, 1), 16);
    EXPECT_EQ(bench::quantile({}, 0.5), 0);
    // A ratio and its inverse tell the same.
    std::vector<TimedSlice> off, on;
    for (int i = 0; i < 12; ++i) {
        off.push_back({1, 100});
        on.push_back({i % 2 == 0 ? 2.0 : 0.5, 100});
    }
    EXPECT_DOUBLE_EQ(bench::ratio_of(off, on, 200).median(), 1.25);
    EXPECT_DOUBLE_EQ(bench::ratio_of(on, off, 200).median(), 1.25);
}

TEST(IcacheNative, CountersAreScaledAndErrorsAreNoZeros) {
    const Reading begin{.value = 1000, .enabled = 100, .running = 50, .error = 0};
    const Reading whole{.value = 1600, .enabled = 300, .running = 250, .error = 0};
    EXPECT_DOUBLE_EQ(counted(begin, whole).value.value(), 600);
    const Reading half{.value = 1600, .enabled = 300, .running = 150, .error = 0};
    EXPECT_DOUBLE_EQ(counted(begin, half).value.value(), 1200);
    EXPECT_DOUBLE_EQ(counted(begin, half).share, 0.5);
    const Reading never{.value = 1000, .enabled = 300, .running = 50, .error = 0};
    EXPECT_FALSE(counted(begin, never).value.has_value());
    EXPECT_STRNE(counted(begin, never).missing, nullptr);
    Reading failed = whole;
    failed.error = EIO;
    EXPECT_FALSE(counted(begin, failed).value.has_value());
    // Really zero is a value.
    const Reading none{.value = 1000, .enabled = 300, .running = 250, .error = 0};
    EXPECT_EQ(counted(begin, none).value.value(), 0);
}

TEST(IcacheNative, CountersOfPairs) {
    CounterSlice off{{}, {}, 10}, on{{}, {}, 20};
    for (auto* slice : {&off, &on})
        for (size_t e = 0; e < kEvents; ++e)
            slice->after[e] = {.value = 1000, .enabled = 10, .running = 10, .error = 0};
    off.after[3].error = ENOENT;
    const std::vector<CounterSlice> before(9, off), after(9, on);
    const auto json = counters_json(before, after);
    EXPECT_DOUBLE_EQ(json["cycles"]["off"].get<double>(), 100);
    EXPECT_DOUBLE_EQ(json["cycles"]["on"].get<double>(), 50);
    EXPECT_FALSE(json["L1-dcache-load-misses"].contains("on"));
    EXPECT_TRUE(json["L1-dcache-load-misses"].contains("missing"));
}

TEST(IcacheGeometry, AnyNumberOfSetsThatIsAPowerOfTwo) {
    for (const char* text :
         {"24K,6", "48K,12", "12K,3", "192K,6", "20K,5,64", "16K,full", "3K,full"})
        EXPECT_TRUE(parse_geometry(text)) << text;
    EXPECT_EQ(parse_geometry("48K,12").value().sets(), 64u);
    EXPECT_EQ(parse_geometry("12K,3,32").value().sets(), 128u);
    EXPECT_EQ(parse_geometry("192K,6").value().text(), "196608,6,64");
    for (const char* text : {"48K,8", "24K,4", "65536", "64K,0", "64K,2,48", "64K,2,64,1", "100,1"})
        EXPECT_FALSE(parse_geometry(text)) << text;
}

// Three ways of a set keep three lines: the oldest leaves.
TEST(IcacheGeometry, ThreeWays) {
    Cache cache(parse_geometry("12K,3").value());  // 64 sets
    for (const uint64_t line : {0, 64, 128}) EXPECT_FALSE(cache.access(line));
    EXPECT_TRUE(cache.access(0));
    EXPECT_FALSE(cache.access(192));  // drops 64
    EXPECT_FALSE(cache.access(64));
    EXPECT_TRUE(cache.access(0));
}

}  // namespace lockstep::icache::icache_native_test
