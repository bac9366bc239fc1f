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

TEST_F(ReportPolicies, UnknownOnesAreRefused) {
    load(10);
    Report r = report();
    EXPECT_EQ(code(r.scan("lines", {.policy = static_cast<ScanPolicy>(200)})),
              ErrorCode::bad_argument);
}

}  // namespace lockstep::sm::reports_policy_test
