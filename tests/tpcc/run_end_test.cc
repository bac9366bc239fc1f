// labels: unit
// run_end_test.cc - the measured interval ends with the run, not when the controller notices it.
// The store's counters in the results are those of that interval. The page names every broken
// check.
#include <algorithm>

#include <lockstep/sync.h>
#include "tests/tpcc/tpcc_test_util.h"
#include "tpcc/driver.h"
#include "tpcc/html_report.h"

namespace lockstep::tpcc {
namespace run_end_test {

// The controller sleeps for up to half a second.
constexpr Nanos kSoon = 100 * kMillisecond;

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

// One Payment waits for 300 ms. The controller looks after 255 and after 511 ms.
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
        const HeldWarehouse held(db, 300 * kMillisecond);
        const auto report = run_terminals(db, run, nullptr);
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
    run.mix = Mix::payment;
    const auto report = run_terminals(db, run, nullptr);
    ASSERT_TRUE(report) << report.error().text();
    const uint64_t commits = (*report)->after.commits - (*report)->before.commits;
    EXPECT_GT(commits, 0u);
    EXPECT_LT(commits, (*report)->stats.completed.load() / 2);
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

}  // namespace run_end_test
}  // namespace lockstep::tpcc
