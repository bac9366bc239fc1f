// ramp_test.cc - the search for the knee against machines with a known one.
#include "tpcc/ramp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <set>

#include "threads/base/rng.h"

namespace lockstep::tpcc::ramp_test {
namespace {

constexpr Nanos kBound = 5 * kMillisecond;

// What a machine makes of a rate: the latency of each New-Order, and what has not begun.
struct Answer {
    Nanos latency = 0;
    uint64_t backlog = 0;
    uint64_t new_orders = 100;
};

std::unique_ptr<RunReport> report_of(double rate, const Answer& answer) {
    auto report = std::make_unique<RunReport>();
    RunReport& run = *report;
    run.measured = kSecond;
    run.offered = {.due = static_cast<uint64_t>(rate), .backlog = answer.backlog};
    auto& latency = run.stats.types[static_cast<size_t>(TxnType::new_order)].latency;
    for (uint64_t i = 0; i < answer.new_orders; ++i) latency.record(answer.latency);
    return report;
}

Ramp search(double first, const std::function<Answer(double rate)>& machine) {
    Ramp ramp{.bound = kBound, .first = first};
    while (const auto rate = ramp.next()) {
        ramp.add(*report_of(*rate, machine(*rate)), *rate);
        if (ramp.steps.size() > 100) {
            ADD_FAILURE() << "the search does not end";
            break;
        }
    }
    return ramp;
}

TEST(Ramp, FindsEachKneeWithinATwentieth) {
    Rng rng(7);
    for (int i = 0; i < 300; ++i) {
        const double knee = 10 * std::pow(10, static_cast<double>(rng.below(6000)) / 1000);
        const double first = knee / static_cast<double>(1 + rng.below(200));
        const Ramp ramp = search(first, [&](double rate) {
            return Answer{.latency = rate <= knee ? kBound : kBound + kMillisecond};
        });
        EXPECT_LE(ramp.knee(), knee);
        EXPECT_GT(ramp.knee() * 1.05, knee * 0.999);
        EXPECT_LT(ramp.steps.size(), 40u);
    }
}

TEST(Ramp, OneStallDecidesNothing) {
    Rng rng(8);
    for (int i = 0; i < 100; ++i) {
        std::set<double> stalled;
        const Ramp ramp = search(1000, [&](double rate) {
            const bool stall = rng.chance(0.5) && stalled.insert(rate).second;
            return Answer{.latency = stall || rate > 30'000 ? kSecond : kMillisecond};
        });
        EXPECT_LE(ramp.knee(), 30'000);
        EXPECT_GT(ramp.knee() * 1.05, 30'000 * 0.999);
    }
}

TEST(Ramp, TheFirstRateIsTooHigh) {
    const Ramp ramp = search(1000, [](double) { return Answer{.latency = kSecond}; });
    EXPECT_EQ(ramp.knee(), 0);
    EXPECT_EQ(ramp.steps.size(), 2u);
}

TEST(Ramp, EndsAtTheGreatestRate) {
    const Ramp ramp = search(3e7, [](double) { return Answer{.latency = 1}; });
    EXPECT_EQ(ramp.knee(), 1e8);
    EXPECT_EQ(ramp.steps.back().rate, 1e8);
}

TEST(Ramp, WhatHolds) {
    Ramp ramp{.bound = kBound, .first = 1000};
    EXPECT_TRUE(ramp.add(*report_of(1000, {.latency = kBound, .backlog = 10}), 1000).holds);
    EXPECT_FALSE(ramp.add(*report_of(1000, {.latency = 1, .backlog = 11}), 1000).holds);
    EXPECT_FALSE(ramp.add(*report_of(1000, {.latency = kBound + kBound / 50}), 1000).holds);
    EXPECT_FALSE(ramp.add(*report_of(1000, {.latency = 1, .new_orders = 0}), 1000).holds);
    // One of a hundred may be late, two may not.
    for (const uint64_t late : {1, 2}) {
        const auto run = report_of(1000, {.latency = 1, .new_orders = 100 - late});
        auto& latency = run->stats.types[static_cast<size_t>(TxnType::new_order)].latency;
        for (uint64_t i = 0; i < late; ++i) latency.record(kSecond);
        EXPECT_EQ(ramp.add(*run, 1000).holds, late == 1);
    }
}

// Above a rate that is too high nothing counts.
TEST(Ramp, AMachineThatChanges) {
    Ramp ramp{.bound = kBound, .first = 1000};
    const Answer slow{.latency = kSecond}, fast{.latency = 1};
    ramp.add(*report_of(1000, fast), 1000);
    ramp.add(*report_of(2000, fast), 2000);
    EXPECT_EQ(ramp.knee(), 2000);
    ramp.add(*report_of(1500, slow), 1500);
    EXPECT_EQ(ramp.next(), 1500);
    ramp.add(*report_of(1500, slow), 1500);
    EXPECT_EQ(ramp.knee(), 1000);
    EXPECT_LT(ramp.next().value_or(0), 1500);
}

}  // namespace
}  // namespace lockstep::tpcc::ramp_test
