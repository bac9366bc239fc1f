// labels: unit
// run_end_test.cc - the measured interval ends with the run, not when the controller notices it.
// The store's counters in the results are those of that interval. The page names every broken
// check.
#include <algorithm>

#include <lockstep/sync.h>
#include "tests/tpcc/tpcc_test_util.h"
#include "tools/base/build_info.h"
#include "tpcc/driver.h"
#include "tpcc/html_report.h"

namespace lockstep::tpcc::run_end_test {

// A controller that notices the end of a run so late must not count the time until then. On a busy
// machine, the end of the run itself may take a while.
constexpr Nanos kLate = 3 * kSecond, kSoon = 2 * kSecond;

// Locks the row of the only warehouse for a time that begins with the run.
class HeldWarehouse {
public:
    HeldWarehouse(Database& db, Nanos time) {
        holder_ = db.store->start([&db, this, time]() -> Result<void> {
            return db.store->run([&](Txn& txn) -> Result<void> {
                std::string value;
                TRY(db.warehouse.get(txn, warehouse_key(1), value, Access::write));
                locked_.set();
                sleep_for(time);
                return {};
            });
        });
        EXPECT_TRUE(locked_.wait());
    }
    ~HeldWarehouse() { EXPECT_TRUE(holder_.join()); }

private:
    Event locked_;
    Handle<void> holder_;
};

// One Payment waits for 700 ms. The controller shows progress after 500 ms, and that takes long.
TEST(RunEnd, ARunOfTransactionsEndsWithTheLastOne) {
    for (const bool threads : {false, true}) {
        TestStore store;
        Database db = load_small(*store, small_scale(1));
        RunSettings run;
        run.transactions = run.terminals = 1;
        run.terminals_as_threads = threads;
        run.warmup = 0;
        run.interval = kSecond;
        run.mix = Mix::payment;
        const HeldWarehouse held(db, 700 * kMillisecond);
        Nanos late = kLate;  // once
        const auto report = run_terminals(db, run, [&late](const RunProgress&) {
            sleep_for(std::exchange(late, 0));
            return true;
        });
        ASSERT_TRUE(report) << report.error().text();
        const Nanos longest = (*report)->stats.types[1].latency.max();
        EXPECT_GE((*report)->measured, longest);
        EXPECT_LT((*report)->measured, longest + kSoon);
        const auto& points = (*report)->series.points();
        ASSERT_EQ(points.size(), 1u);
        EXPECT_EQ(points[0].end, (*report)->measured);
    }
}

// A Delivery ends behind its terminal.
TEST(RunEnd, ARunOfTransactionsEndsWithTheLastDelivery) {
    TestStore store;
    Database db = load_small(*store, small_scale(1));
    RunSettings run;
    run.transactions = run.terminals = 1;
    run.warmup = 0;
    run.weights = MixWeights{0, 0, 0, 1, 0};
    const auto report = run_terminals(db, run, nullptr);
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_GE((*report)->measured, (*report)->stats.types[3].latency.max());
    EXPECT_EQ((*report)->completed(), 1u);
}

TEST(RunEnd, AnInterruptedRunEndsThere) {
    TestStore store;
    Database db = load_small(*store, small_scale(1));
    RunSettings run;
    run.duration = 100 * kSecond;
    run.warmup = 0;
    run.interval = 300 * kMillisecond;
    Nanos stopped = 0;
    const auto report = run_terminals(db, run, [&](const RunProgress& progress) {
        if (progress.newest == nullptr) return true;
        if (stopped == 0) stopped = progress.elapsed;
        return false;
    });
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_EQ((*report)->ending, Ending::interrupted);
    EXPECT_GE((*report)->measured, stopped);
    EXPECT_LT((*report)->measured, stopped + kSoon);
    EXPECT_EQ((*report)->series.points().back().end, (*report)->measured);
}

TEST(RunEnd, CountersOfTheStoreCoverTheMeasuredInterval) {
    TestStore store;
    Database db = load_small(*store);
    RunSettings run;
    run.warmup = 800 * kMillisecond;
    run.duration = 200 * kMillisecond;
    run.interval = kSecond;
    run.mix = Mix::payment;
    const auto report = run_terminals(db, run, nullptr);
    ASSERT_TRUE(report) << report.error().text();
    const SeriesPoint& warmup = (*report)->series.points().front();
    EXPECT_EQ(warmup.end, run.warmup);
    EXPECT_GT(warmup.all.count, 0u);
    // Each of the warm-up had committed before the controller took the first counters.
    const uint64_t commits = (*report)->after.commits - (*report)->before.commits;
    EXPECT_LE(commits, (*report)->stats.completed.load() - warmup.all.count);
}

TEST(RunEnd, AStopInTheWarmUpMeasuresNothing) {
    TestStore store;
    Database db = load_small(*store, small_scale(1));
    RunSettings run;
    run.warmup = run.duration = 100 * kSecond;
    const auto report = run_terminals(db, run, [](const RunProgress&) { return false; });
    ASSERT_TRUE(report) << report.error().text();
    EXPECT_EQ((*report)->measured, 0u);
    EXPECT_EQ((*report)->after.commits, (*report)->before.commits);
}

// The CPU of the measured interval: a thread that computes is a worker, and a process cannot use
// more than the time that has passed on each processor.
TEST(RunEnd, TheCpuIsThatOfTheMeasuredInterval) {
    TestStore store;
    Database db = load_small(*store);
    RunSettings run;
    run.warmup = 200 * kMillisecond;
    run.duration = 300 * kMillisecond;
    const auto report = run_terminals(db, run, nullptr);
    ASSERT_TRUE(report) << report.error().text();
    const CpuUse& cpu = (*report)->cpu;
    EXPECT_GT(cpu.ran, 0u);
    // The terminals' last transactions end behind the interval.
    EXPECT_LT(cpu.ran, (*report)->ran * machine_info().processors);
    EXPECT_LE(cpu.wait_share().value_or(0), 1);
}

TEST(CpuUse, ComputingAndWaitingAreTold) {
    const CpuUse before = cpu_use();
    const Nanos end = MonotonicClock().now() + 50 * kMillisecond;
    while (MonotonicClock().now() < end) {}
    const CpuUse used = cpu_use() - before;
    ASSERT_TRUE(used.waited);
    // Each moment of the loop was one of both.
    EXPECT_GT(used.ran + *used.waited, 40 * kMillisecond);
    EXPECT_FALSE((CpuUse{kSecond, {}}).wait_share());
    EXPECT_DOUBLE_EQ((CpuUse{3 * kSecond, kSecond}).wait_share().value(), 0.25);
}

// A short run has a page, but no headline.
TEST(RunEnd, ThePageOfAShortRunHasNoThroughput) {
    Results results;
    results.run = std::make_unique<RunReport>();
    results.run->measured = kSecond;
    results.run->stats.types[0].latency.record(1000, 999);
    EXPECT_NE(html_page(results).find("999 transactions in 1.00 s: too little"), std::string::npos);
    EXPECT_EQ(html_page(results).find("transactions a second</h1>"), std::string::npos);
    results.run->stats.types[0].latency.record(1000);
    EXPECT_NE(html_page(results).find("1000 transactions a second</h1>"), std::string::npos);
    results.run->measured = kSecond - 1;
    EXPECT_EQ(html_page(results).find("transactions a second</h1>"), std::string::npos);
}

// A condition that was broken while the terminals ran, and holds at the end.
TEST(RunEnd, ThePageNamesAFaultOfACheckDuringTheRun) {
    Results results;
    results.run = std::make_unique<RunReport>();
    Condition condition;
    condition.id = 3;
    results.consistency.conditions.push_back(condition);
    results.online_checks.resize(2);
    for (OnlineCheck& each : results.online_checks) each.report.conditions.push_back(condition);
    EXPECT_EQ(html_page(results).find("BROKEN"), std::string::npos);
    EXPECT_NE(html_page(results).find("All held in 2 of 2 checks"), std::string::npos);
    results.online_checks[1].began = 2 * kSecond;
    results.online_checks[1].report.conditions[0].violations = 1;
    const std::string page = html_page(results);
    EXPECT_NE(page.find("All held in 1 of 2 checks"), std::string::npos);
    EXPECT_NE(page.find("<td>at 2.0 s: 3</td><td class=\"out\">BROKEN"), std::string::npos);
}

}  // namespace lockstep::tpcc::run_end_test
