// labels: unit tsan
// reports_policy_test.cc - under each policy reports give the same rows, and each policy shows in
// what a scan gets first.
#include "tests/sm/scan/reports_test_util.h"

#include <thread>

namespace lockstep::sm::reports_policy_test {

using namespace reports;

constexpr uint32_t kMany = 2 * kRows;  // about 32 chunks

class ReportPolicies : public ReportsTest {
protected:
    // The key of the first row that the scan gives next; none: it has ended.
    static std::optional<uint32_t> next_key(Scan& scan) {
        Block block;
        const auto more = scan.next(block);
        EXPECT_TRUE(more.has_value()) << more.error().text();
        if (!more.has_value() || !*more) return {};
        return block.numbers<uint32_t>(0)[0];
    }
};
class EachScanPolicy : public ReportPolicies, public testing::WithParamInterface<ScanPolicy> {};

// Scans of other ranges and speeds at once, one in order, one that nobody reads for long.
TEST_P(EachScanPolicy, GivesEachRowOnce) {
    store_.reset();
    open({.scan_bytes = 1 << 20});  // so that blocks are evicted
    load(kMany);
    Report r = report();
    Scan idle = scan(r, {.policy = GetParam()});
    struct Part {
        uint32_t low, high;
        bool ordered;
    };
    constexpr Part kParts[] = {{0, kMany, false},       {0, kMany, true},
                               {1000, 2000, false},     {70'000, kMany, true},
                               {50'000, 90'000, false}, {kMany, kMany, false}};
    std::vector<std::thread> readers;
    for (const Part& part : kParts)
        readers.emplace_back([&, part] {
            Scan own = scan(r, {.columns = {"id"},
                                .where = {{"id", Compare::at_least, {part.low}},
                                          {"id", Compare::less, {part.high}}},
                                .ordered = part.ordered});
            std::vector<bool> seen(kMany);
            uint32_t rows = 0, last = 0;
            Block block;
            for (;;) {
                const auto more = own.next(block);
                ASSERT_TRUE(more.has_value()) << more.error().text();
                if (!*more) break;
                for (const uint32_t id : block.numbers<uint32_t>(0)) {
                    ASSERT_TRUE(id >= part.low && id < part.high && !seen[id]);
                    ASSERT_TRUE(!part.ordered || rows == 0 || id > last);
                    seen[id] = true;
                    last = id;
                    ++rows;
                }
            }
            EXPECT_EQ(rows, part.high - part.low);
        });
    for (std::thread& reader : readers) reader.join();
    const auto late = drain(idle);
    ASSERT_TRUE(late) << late.error().text();
    EXPECT_EQ(late->size(), kMany);
}

INSTANTIATE_TEST_SUITE_P(All, EachScanPolicy,
                         testing::Values(ScanPolicy::automatic, ScanPolicy::normal,
                                         ScanPolicy::attach, ScanPolicy::elevator,
                                         ScanPolicy::relevance, ScanPolicy::full));

// Where a scan begins that comes when another has had some chunks.
TEST_F(ReportPolicies, WhereALaterScanBegins) {
    load(kMany);
    for (const auto& [policy, at_the_begin] : {std::pair(ScanPolicy::normal, true),
                                               {ScanPolicy::attach, false},
                                               {ScanPolicy::full, false},
                                               {ScanPolicy::elevator, false}}) {
        Report r = report();
        Scan first = scan(r, {.policy = policy});
        for (int i = 0; i < 6; ++i) ASSERT_TRUE(next_key(first));
        Scan later = scan(r);
        EXPECT_EQ(next_key(later) == 0u, at_the_begin) << static_cast<int>(policy);
    }
}

// What was read from disk stays for a scan that begins later, as far as there is room; what was in
// memory is made again.
TEST_F(ReportPolicies, WhatWasReadFromDiskIsKeptForLaterScans) {
    load(kMany);
    const auto made_again = [&](uint64_t scan_bytes, bool cold) {
        if (cold) {
            EXPECT_TRUE(store_->close());
            open({.scan_bytes = scan_bytes});
        }
        Report r = report();
        Scan first = scan(r, {.columns = {"id"}});
        for (int i = 0; i < 10; ++i) EXPECT_TRUE(next_key(first));
        Scan later = scan(r, {.columns = {"id"}});
        while (next_key(later)) {}
        while (next_key(first)) {}
        const ReportStats stats = store_->report_stats();
        EXPECT_LE(stats.kept_bytes, scan_bytes);
        return stats.made_again;
    };
    EXPECT_EQ(made_again(8 << 20, true), 0u);
    EXPECT_GE(made_again(8 << 20, false), 10u);
}

// There is room for some of it: what a slow scan needs stays.
TEST_F(ReportPolicies, WhatNobodyNeedsGoesFirst) {
    load(kMany);
    EXPECT_TRUE(store_->close());
    open({.scan_bytes = 1 << 20});  // of some 5 MB
    Report r = report();
    Scan slow = scan(r, {.where = {{"id", Compare::less, {12'000}}}}), quick = scan(r);
    while (next_key(quick)) EXPECT_LE(store_->report_stats().kept_bytes, 1u << 20);
    EXPECT_GT(store_->report_stats().behind_max, 0u);
    while (next_key(slow)) {}
    EXPECT_EQ(store_->report_stats().made_again, 0u);
}

TEST_F(ReportPolicies, UnknownOnesAreRefused) {
    load(10);
    Report r = report();
    EXPECT_EQ(code(r.scan("lines", {.policy = static_cast<ScanPolicy>(200)})),
              ErrorCode::bad_argument);
}

}  // namespace lockstep::sm::reports_policy_test
