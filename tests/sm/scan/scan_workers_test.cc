// labels: unit
// scan_workers_test.cc - workers that only serve passes, the frames that a pass takes, and what is
// told about reports while they run.
#include <lockstep/packet.h>

#include "tests/sm/scan/reports_test_util.h"

#include <chrono>
#include <thread>

namespace lockstep::sm::scan_workers_test {

using namespace reports;
class ScanWorkers : public ReportsTest {
protected:
    void open_small() {
        auto store = Store::open(path_, {.pool_bytes = 6 << 20, .sync = false});
        ASSERT_TRUE(store) << store.error().text();
        store_.emplace(std::move(*store));
    }
};

TEST_F(ScanWorkers, ServePassesAndNothingElse) {
    store_.reset();
    open({.scan_workers = 1});  // besides two workers
    load(kRows);
    Report r = report();
    Scan all = scan(r);
    uint64_t rows = 0;
    // More than two workers can begin at once, while the third one falls asleep again and again.
    std::vector<Handle<int>> functions;
    for (int i = 0; i < 2000; ++i)
        functions.push_back(store_->start([]() -> Result<int> {
            const int began = current_worker();
            const Nanos end = lockstep::now() + 100 * kMicrosecond;
            while (lockstep::now() < end) {}
            return began;
        }));
    ASSERT_TRUE(all.each([&](const Block& block) -> Result<bool> {
        EXPECT_EQ(current_worker(), 2);
        // The structures of the store know the worker as any other.
        if (rows == 0) {
            Txn txn = TRY(store_->begin());
            for (uint32_t id = kRows; id < kRows + 300; ++id)
                TRY(lines().put(txn, Key().u32(id), record_of(id).bytes()));
            TRY(txn.commit());
        }
        rows += block.rows();
        for (int i = 0; i < 20; ++i) sleep_for(50 * kMicrosecond);
        return true;
    }));
    EXPECT_EQ(rows, kRows);
    for (Handle<int>& function : functions) EXPECT_LT(function.join().value_or(99), 2);
    EXPECT_EQ(store_->options().workers, 2u);
    EXPECT_TRUE(store_->set_steps({}));  // which visits each worker that begins functions
    Report after = report();
    Scan more = scan(after);
    EXPECT_EQ(*drain(more), expected(kRows + 300));
}

TEST_F(ScanWorkers, AreWorkers) {
    store_.reset();
    for (const uint32_t scan_workers : {64u, UINT32_MAX}) {
        const auto refused = Store::open(path_, {.scan_workers = scan_workers});
        EXPECT_EQ(code(refused), ErrorCode::bad_option);
    }
}

// What transactions use stays in memory while passes read a table that is larger than the pool.
TEST_F(ScanWorkers, APassKeepsTheWorkingSet) {
    store_.reset();
    ASSERT_NO_FATAL_FAILURE(open_small());
    load(8 * kRows);
    constexpr uint32_t kHot = 3000;
    ASSERT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
        const Index hot = TRY(store_->create_index(txn, "hot"));
        for (uint32_t i = 0; i < kHot; ++i) TRY(hot.put(txn, Key().u32(i), std::string(400, 'h')));
        return {};
    }));
    ASSERT_TRUE(store_->checkpoint());
    const auto touch = [&] {
        ASSERT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
            const Index hot = TRY(store_->index("hot"));
            std::string value;
            for (uint32_t i = 0; i < kHot; ++i) TRY(hot.get(txn, Key().u32(i), value));
            return {};
        }));
    };
    touch();
    touch();
    const uint64_t before = store_->stats().page_reads;
    Report r = report();
    Scan all = scan(r, {.columns = {"id"}});
    uint64_t rows = 0;
    ASSERT_TRUE(all.each([&](const Block& block) -> Result<bool> {
        rows += block.rows();
        return true;
    }));
    EXPECT_EQ(rows, 8 * kRows);
    const uint64_t scanned = store_->stats().page_reads;
    EXPECT_GT(scanned - before, store_->stats().pool_frames);  // it did not fit
    touch();
    const uint64_t pages = kHot * 400 / 8192;
    EXPECT_LT(store_->stats().page_reads - scanned, pages / 5);
}

TEST_F(ScanWorkers, WhatReportsDoIsTold) {
    load(4 * kRows);
    const ReportStats none = store_->report_stats();
    EXPECT_EQ(none.reports_open + none.scans_open + none.passes_open + none.state_oldest_nanos, 0u);
    Report first = report(), second = report();
    Scan slow = scan(second), quick = scan(second);
    Block block;
    ASSERT_TRUE(*slow.next(block));
    EXPECT_EQ(drain(quick)->size(), 4 * kRows);
    EXPECT_EQ(quick.behind(), 0u);
    EXPECT_GT(slow.behind(), 10u);
    const ReportStats now = store_->report_stats();
    EXPECT_EQ(now.reports, 2u);
    EXPECT_EQ(now.reports_open, 2u);
    EXPECT_EQ(now.scans_open, 1u);
    EXPECT_EQ(now.passes_open, 1u);
    EXPECT_GE(now.rows, uint64_t{4} * kRows);
    EXPECT_GT(now.bytes, uint64_t{4} * kRows * 13);
    EXPECT_GT(now.busy_nanos, 0u);
    EXPECT_GT(now.state_oldest_nanos, 0u);
    EXPECT_GT(now.kept_bytes, 0u);
    EXPECT_EQ(now.behind_max, slow.behind());
    ASSERT_EQ(now.open.size(), 2u);
    EXPECT_EQ(now.open[0].number, 1u);
    EXPECT_EQ(now.open[0].scans, 0u);
    EXPECT_EQ(now.open[0].sees, first.sees());
    EXPECT_GE(now.open[0].age, now.open[1].age);
    EXPECT_EQ(now.open[1].scans, 2u);
    EXPECT_EQ(now.open[1].ran, 1u);
    EXPECT_GT(now.open[1].progress, 0.5);
    EXPECT_LT(now.open[1].progress, 0.8);
    EXPECT_EQ(now.open[1].behind, slow.behind());
    EXPECT_TRUE(drain(slow));
    EXPECT_EQ(store_->report_stats().open[1].progress, 1.0);
    slow = Scan();
    quick = Scan();
    first = Report();
    second = Report();
    for (int tries = 0; store_->report_stats().passes_open != 0 && tries < 10'000; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const ReportStats after = store_->report_stats();
    EXPECT_EQ(after.reports_open + after.scans_open + after.passes_open + after.kept_bytes, 0u);
    EXPECT_TRUE(after.open.empty());
    EXPECT_EQ(after.scans, 2u);
}

}  // namespace lockstep::sm::scan_workers_test
