// labels: unit
// rate_test.cc - arrivals come at the wanted rate, Poisson or constant; response times count from
// them, also while a lock stops everything.
#include "tpcc/rate.h"

#include <cmath>

#include "tests/tpcc/tpcc_test_util.h"
#include "tpcc/consistency.h"
#include "tpcc/driver.h"

namespace lockstep::tpcc::rate_test {

TEST(Rate, ConstantArrivalsOfAllWarehousesAreEvenlySpaced) {
    const OfferedRate rate{1000, ArrivalKind::constant};
    std::vector<Nanos> due;
    for (uint32_t w = 0; w < 4; ++w) {
        Arrivals arrivals(rate, w, 4, 7 * kSecond, Rng(w));
        for (int i = 0; i < 100; ++i) due.push_back(arrivals.claim());
        EXPECT_EQ(arrivals.due_between(7 * kSecond, 8 * kSecond), 250u);
    }
    std::ranges::sort(due);
    for (size_t i = 0; i < due.size(); ++i)
        EXPECT_NEAR(static_cast<double>(due[i] - 7 * kSecond), 1e6 * static_cast<double>(i), 2);
}

// The times between arrivals of a Poisson process have equal mean and deviation, and counts of
// equal intervals have equal mean and variance.
TEST(Rate, PoissonArrivalsHaveMeanAndVarianceOfThatProcess) {
    constexpr int kArrivals = 200'000;
    Arrivals arrivals({10'000, ArrivalKind::poisson}, 0, 1, 0, Rng(seed_of_run(3)));
    std::vector<uint64_t> counts(150);  // of intervals of 100 ms
    double sum = 0, squares = 0;
    Nanos last = 0;
    for (int i = 0; i < kArrivals; ++i) {
        const Nanos due = arrivals.claim();
        ASSERT_GE(due, last);
        const auto gap = static_cast<double>(due - last);
        sum += gap;
        squares += gap * gap;
        last = due;
        if (due / (100 * kMillisecond) < counts.size()) ++counts[due / (100 * kMillisecond)];
    }
    const double mean = sum / kArrivals;
    EXPECT_NEAR(mean, 1e5, 1e3);
    EXPECT_NEAR(std::sqrt(squares / kArrivals - mean * mean), mean, mean * 0.03);
    double variance = 0;
    for (const uint64_t n : counts) variance += std::pow(static_cast<double>(n) - 1000, 2);
    variance /= static_cast<double>(counts.size());
    EXPECT_GT(variance, 500);
    EXPECT_LT(variance, 1700);
    EXPECT_EQ(arrivals.due_between(0, last + 1), static_cast<uint64_t>(kArrivals));
}

// The first arrival is due after centuries, beyond what Nanos can hold, and not at once.
TEST(Rate, AnArrivalInTheFarFutureIsNotDue) {
    for (const ArrivalKind kind : {ArrivalKind::poisson, ArrivalKind::constant}) {
        Arrivals arrivals({1e-15, kind}, 1, 2, kSecond, Rng(1));
        EXPECT_GT(arrivals.claim(), kSecond * 1'000'000'000);
        EXPECT_EQ(arrivals.due_between(0, 100 * kSecond), 0u);
    }
}

struct RateRun : testing::TestWithParam<bool> {};  // terminals as threads

TEST_P(RateRun, KeepsTheRateAndTheConditions) {
    TestStore store;
    Database db = load_small(*store);
    RunSettings run;
    run.rate = {500, ArrivalKind::poisson};
    run.warmup = 100 * kMillisecond;
    run.duration = kSecond;
    run.terminals_as_threads = GetParam();
    const auto report = run_terminals(db, run, nullptr);
    ASSERT_TRUE(report) << report.error().text();
    const RunReport& r = **report;
    EXPECT_GT(r.offered.due, 350u);
    EXPECT_LT(r.offered.due, 650u);
    // All that was due was done, but for what is in work at the end.
    EXPECT_LE(r.completed(), r.offered.due + 100);
    EXPECT_GT(r.completed() + r.offered.backlog + 100, r.offered.due);
    EXPECT_GT(r.stats.lateness.count(), 0u);
    const auto checked = check_consistency(db);
    EXPECT_TRUE(checked && checked->ok());
}
INSTANTIATE_TEST_SUITE_P(Terminals, RateRun, testing::Bool());

// A transaction holds the row of the only warehouse for 400 ms. Terminals that waited for their
// last answer would be late once each: 10 slow transactions of hundreds. At a given rate all that
// were due meanwhile are late, a fifth of all, so p90 shows the stall.
TEST(Rate, AStallShowsInTheResponseTimesOfAllThatWereDue) {
    TestStore store;
    Database db = load_small(*store, small_scale(1));
    RunSettings run;
    run.rate = {400, ArrivalKind::constant};
    run.mix = Mix::payment;
    run.warmup = 0;
    run.duration = 2 * kSecond;
    Handle<void> holder = store->start(
        [&]() -> Result<void> {
            return store->run([&](Txn& txn) -> Result<void> {
                WarehouseRecord record;
                std::string value;
                TRY(db.warehouse.get(txn, warehouse_key(1), value, Access::write));
                EXPECT_TRUE(read_record(value, record));
                sleep_for(400 * kMillisecond);
                return {};
            });
        },
        0);
    const auto report = run_terminals(db, run, nullptr);
    ASSERT_TRUE(report) << report.error().text();
    ASSERT_TRUE(holder.join());
    const auto& latency = (*report)->stats.types[static_cast<size_t>(TxnType::payment)].latency;
    EXPECT_GT(latency.count(), 160u);
    EXPECT_GT(latency.percentile(0.9), 50 * kMillisecond);
    EXPECT_GT((*report)->stats.lateness.percentile(0.9), 40 * kMillisecond);
}

TEST(Rate, WhatCannotBeDoneIsBacklog) {
    TestStore store;
    Database db = load_small(*store, small_scale(1));
    RunSettings run;
    run.rate = {3'000'000, ArrivalKind::poisson};
    run.warmup = 0;
    run.duration = 200 * kMillisecond;
    const auto report = run_terminals(db, run, nullptr);
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_NEAR(static_cast<double>((*report)->offered.due), 600'000, 6'000);
    EXPECT_GT((*report)->offered.backlog, 400'000u);
    EXPECT_NEAR(static_cast<double>((*report)->offered.backlog + (*report)->stats.started), 600'000,
                6'000);
}

// Most transactions that start in the measured interval were due in the warm-up. They are late,
// and they are none of those that were due in the measured interval.
TEST(Rate, WhatTheWarmUpLeavesIsCountedApart) {
    TestStore store;
    Database db = load_small(*store, small_scale(1));
    RunSettings run;
    run.rate = {3'000'000, ArrivalKind::constant};
    run.warmup = run.duration = 200 * kMillisecond;
    const auto report = run_terminals(db, run, nullptr);
    ASSERT_TRUE(report) << report.error().text();
    const RunReport& r = **report;
    // An interval's end is read from the clock, and three arrivals are due in a microsecond.
    EXPECT_NEAR(static_cast<double>(r.offered.due), 600'000, 30);
    EXPECT_NEAR(static_cast<double>(r.offered.due_in_warmup), 600'000, 30);
    EXPECT_LE(r.offered.backlog, r.offered.due);
    EXPECT_LE(r.offered.backlog_of_warmup, r.offered.due_in_warmup);
    EXPECT_EQ(
        r.offered.due - r.offered.backlog + r.offered.due_in_warmup - r.offered.backlog_of_warmup,
        r.stats.started);
    // What was started in the measured interval was due long before.
    ASSERT_GT(r.stats.lateness.count(), 0u);
    EXPECT_GT(r.stats.lateness.percentile(0.5), 50 * kMillisecond);
    EXPECT_LE(r.stats.lateness.percentile(0.5), r.stats.types[0].latency.max());
}

}  // namespace lockstep::tpcc::rate_test
