// labels: model perf
// batching_test.cc - batches of scans: what they hold, when they begin, and the estimate behind it.
#include "sm/scan/batching.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::sm::scan::batching_test {

constexpr size_t kSample = 100'000;

GroupEstimate estimate(double selectivity, size_t groups, size_t groups_max, Rng& rng) {
    std::vector<std::optional<uint64_t>> rows(kSample);
    for (auto& row : rows)
        if (rng.chance(selectivity)) row = rng.below(groups);
    return estimate_groups(rows.size(), groups_max, [&](size_t row) { return rows[row]; });
}

TEST(Batching, EstimatesWithWhomAScanMayShare) {
    Rng rng(seed_of_run());
    int right = 0, sized = 0, limited = 0;
    constexpr int kScans = 100;
    for (int i = 0; i < kScans; ++i) {
        const size_t groups_max = 1000;
        // Clear cases: few rows; groups that fit; groups that do not.
        const int kind = i % 3;
        const double selectivity =
            kind == 0 ? 0.0001 : 0.2 + 0.01 * static_cast<double>(rng.below(80));
        const size_t groups = kind == 2 ? 3000 + rng.below(30'000) : 20 + rng.below(900);
        const GroupEstimate found = estimate(selectivity, groups, groups_max, rng);
        const Company expected = kind == 0   ? Company::all
                                 : kind == 1 ? Company::batch
                                             : Company::none;
        right += found.company == expected;
        if (kind != 1 || found.company != expected) continue;
        ++limited;
        // Of equally likely groups, 80% are needed for 80% of the rows.
        const double wanted = 0.8 * static_cast<double>(groups);
        sized += std::abs(static_cast<double>(found.groups) - wanted) <= 0.25 * wanted;
    }
    EXPECT_GE(right, 95);
    EXPECT_GE(sized, limited * 9 / 10) << limited;
}

TEST(Batching, AnEstimateNeedsRows) {
    const auto one_group = [](size_t) { return std::optional<uint64_t>(1); };
    EXPECT_EQ(estimate_groups(100, 1000, one_group).company, Company::none);
    EXPECT_EQ(estimate_groups(1000, 1000, one_group).company, Company::batch);
}

struct Staged {
    ChunkSet needs{1};
    std::vector<Waiting> waiting;
    void add(uint64_t bytes, uint64_t run_time = 100, uint64_t waited = 0) {
        waiting.push_back(
            {.needs = &needs, .cache_bytes = bytes, .run_time = run_time, .waited = waited});
    }
    std::vector<uint32_t> batches() const {
        std::vector<uint32_t> out;
        for (const Waiting& scan : waiting) out.push_back(scan.batch);
        return out;
    }
};

// 7, 6, 4, 3 into batches of 10: first fit decreasing gives 7 + 3 and 6 + 4.
TEST(Batching, LargestFirstIntoTheFirstWithRoom) {
    Staged staged;
    for (const uint64_t bytes : {3, 7, 4, 6}) staged.add(bytes, 100, 9);
    form_batches({.next_batch = 5, .cache_bytes = 10, .wait_max = 8}, true, staged.waiting);
    EXPECT_EQ(staged.batches(), (std::vector<uint32_t>{5, 5, 6, 6}));
}

TEST(Batching, NothingBeginsBeforeItsTime) {
    Staged staged;
    staged.add(3, 100, 8);
    staged.add(4, 100, 2);
    const Admission by{.cache_bytes = 5, .wait_max = 8};
    form_batches(by, false, staged.waiting);
    EXPECT_EQ(staged.batches(), (std::vector<uint32_t>{kNoBatch, kNoBatch}));
    staged.waiting[0].waited = 9;  // only its batch begins
    form_batches(by, false, staged.waiting);
    EXPECT_EQ(staged.batches(), (std::vector<uint32_t>{1, kNoBatch}));
}

// What is packed keeps to the cache and to similar run times, all begin in the end, and one batch
// begins when nothing runs.
TEST(Batching, AnyStagingArea) {
    Rng rng(seed_of_run());
    for (int round = 0; round < 500; ++round) {
        Staged staged;
        const size_t scans = 1 + rng.below(20);
        for (size_t i = 0; i < scans; ++i)
            staged.add(rng.below(120), 1 + rng.below(500), rng.below(10));
        Admission by{.cache_bytes = 100, .wait_max = rng.below(12), .random = rng.next()};
        std::map<uint32_t, std::vector<Waiting>> batches;
        form_batches(by, true, staged.waiting);
        size_t begun = 0;
        bool any_late = false;
        for (const Waiting& scan : staged.waiting) {
            any_late |= scan.waited > by.wait_max;
            EXPECT_TRUE(scan.waited <= by.wait_max || scan.batch != kNoBatch);
            if (scan.batch != kNoBatch) batches[scan.batch].push_back(scan), ++begun;
        }
        EXPECT_GT(begun, 0u);
        EXPECT_TRUE(any_late || batches.size() == 1);
        for (const auto& [batch, members] : batches) {
            uint64_t bytes = 0, shortest = ~uint64_t{0}, longest = 0;
            bool late = false;
            for (const Waiting& scan : members) {
                bytes += scan.cache_bytes;
                shortest = std::min(shortest, scan.run_time);
                longest = std::max(longest, scan.run_time);
                late |= scan.waited > by.wait_max;
            }
            EXPECT_EQ(late, any_late);
            if (members.size() == 1) continue;
            EXPECT_LE(bytes, by.cache_bytes);
            EXPECT_LT(static_cast<double>(longest), by.run_ratio * static_cast<double>(shortest));
        }
    }
}

TEST(Batching, EachIsDrawnAsOftenAsItHasScans) {
    Rng rng(seed_of_run());
    std::vector<ScanView> scans;
    for (const uint32_t batch : {1, 1, 1, 1, 2, 2, 3}) scans.push_back({.batch = batch});
    std::map<uint32_t, int> drawn;
    constexpr int kDraws = 10'000;
    for (int i = 0; i < kDraws; ++i) ++drawn[draw_batch(scans, rng.next())];
    constexpr double kDrawsOfOne = kDraws / 7.0;
    EXPECT_NEAR(drawn[1], 4 * kDrawsOfOne, kDraws * 0.05);
    EXPECT_NEAR(drawn[2], 2 * kDrawsOfOne, kDraws * 0.05);
    EXPECT_NEAR(drawn[3], 1 * kDrawsOfOne, kDraws * 0.05);
}

}  // namespace lockstep::sm::scan::batching_test
