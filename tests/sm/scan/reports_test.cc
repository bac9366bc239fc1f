// labels: unit tsan
// reports_test.cc - reports see one committed state and each row once, share what is read, and wait
// for nobody.
#include "tests/optimistic_readers.h"  // keep
#include "tests/sm/scan/reports_test_util.h"

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::sm::reports_test {

using namespace reports;
class Reports : public ReportsTest {};

TEST_F(Reports, EachRowOnce) {
    load(kRows);
    Report r = report();
    Scan all = scan(r);
    EXPECT_EQ(all.columns().size(), 4u);
    const auto rows = drain(all);
    ASSERT_TRUE(rows) << rows.error().text();
    EXPECT_EQ(*rows, expected(kRows));
    EXPECT_EQ(all.progress(), 1.0);
    Block block;
    EXPECT_FALSE(*all.next(block));  // and stays at its end
    EXPECT_GT(store_->report_stats().made, 8u);
}

TEST_F(Reports, ColumnsInTheOrderAskedFor) {
    load(1000);
    Report r = report();
    Scan two = scan(r, {.columns = {"name", "id"}});
    uint32_t rows = 0;
    ASSERT_TRUE(two.each([&](const Block& block) -> Result<bool> {
        EXPECT_EQ(block.columns()[0].name, "name");
        for (size_t i = 0; i < block.rows(); ++i, ++rows)
            EXPECT_EQ(block.text(0, i), record_of(block.numbers<uint32_t>(1)[i]).name);
        return true;
    }));
    EXPECT_EQ(rows, 1000u);
}

TEST_F(Reports, OrderedRowsAscend) {
    load(kRows);
    Report r = report();
    Scan first = scan(r);  // the pass is somewhere when the ordered one comes
    Block block;
    ASSERT_TRUE(*first.next(block));
    Scan ordered = scan(r, {.columns = {"id"}, .ordered = true});
    uint32_t next = 0;
    while (*ordered.next(block))
        for (const uint32_t id : block.numbers<uint32_t>(0)) ASSERT_EQ(id, next++);
    EXPECT_EQ(next, kRows);
}

// What one needs is made once for all.
TEST_F(Reports, ScansShareAPass) {
    load(kRows);
    Report r = report();
    constexpr size_t kScans = 8;
    std::vector<Scan> scans;
    for (size_t i = 0; i < kScans; ++i) scans.push_back(scan(r));
    std::vector<Records> rows(kScans);
    std::vector<std::thread> readers;
    for (size_t i = 0; i < kScans; ++i)
        readers.emplace_back([&, i] {
            auto got = drain(scans[i]);
            ASSERT_TRUE(got) << got.error().text();
            rows[i] = std::move(*got);
        });
    for (std::thread& reader : readers) reader.join();
    for (const Records& got : rows) EXPECT_EQ(got, expected(kRows));
    const ReportStats stats = store_->report_stats();
    EXPECT_EQ(stats.scans, kScans);
    EXPECT_EQ(stats.states, 1u);
    // Eight passes would have made eight times as many.
    EXPECT_GT(stats.shared, 4 * stats.made);
}

// RB-2: who does not read holds nobody up, and gets the rest later.
TEST_F(Reports, ASatedScan) {
    load(kRows);
    Report r = report();
    Scan idle = scan(r);
    Block block;
    ASSERT_TRUE(*idle.next(block));
    Records late;
    add_rows(block, late);
    for (int i = 0; i < 3; ++i) {
        Scan other = scan(r);
        const auto rows = drain(other);
        ASSERT_TRUE(rows) << rows.error().text();
        EXPECT_EQ(*rows, expected(kRows));
        EXPECT_LT(idle.progress(), 0.5);
    }
    while (*idle.next(block)) add_rows(block, late);
    EXPECT_EQ(late, expected(kRows));
}

// Without room for blocks that wait, they are made again.
TEST_F(Reports, WhatIsNotKeptIsMadeAgain) {
    store_.reset();
    open({.scan_bytes = 1 << 20});
    load(4 * kRows);
    Report r = report();
    Scan idle = scan(r), busy = scan(r);
    const auto rows = drain(busy);
    ASSERT_TRUE(rows) << rows.error().text();
    EXPECT_EQ(*rows, expected(4 * kRows));
    const auto late = drain(idle);
    ASSERT_TRUE(late) << late.error().text();
    EXPECT_EQ(*late, expected(4 * kRows));
    EXPECT_GT(store_->report_stats().made_again, 0u);
}

struct Condition {
    const char* name;
    std::vector<Where> where;
    bool (*meets)(uint32_t id, const Record& record);
};

TEST_F(Reports, Conditions) {
    load(kRows);
    const std::vector<Condition> conditions = {
        {"one key",
         {{"id", Compare::equal, {777}}},
         [](uint32_t id, const Record&) { return id == 777; }},
        {"no key", {{"id", Compare::equal, {-1}}}, [](uint32_t, const Record&) { return false; }},
        {"keys",
         {{"id", Compare::in, {5, 59'999u, 5, 70'000}}},
         [](uint32_t id, const Record&) { return id == 5 || id == 59'999; }},
        {"range",
         {{"id", Compare::at_least, {1000}}, {"id", Compare::less, {1500}}},
         [](uint32_t id, const Record&) { return id >= 1000 && id < 1500; }},
        {"end",
         {{"id", Compare::greater, {59'000}}},
         [](uint32_t id, const Record&) { return id > 59'000; }},
        {"number",
         {{"part", Compare::equal, {3}}},
         [](uint32_t, const Record& r) { return r.part == 3; }},
        {"signed",
         {{"amount", Compare::at_most, {-1}}, {"part", Compare::greater, {2}}},
         [](uint32_t, const Record& r) { return r.amount <= -1 && r.part > 2; }},
        {"text",
         {{"name", Compare::prefix, {"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"}}},
         [](uint32_t, const Record& r) { return r.name.size() >= 30; }},
        {"texts",
         {{"name", Compare::in, {"", "nn", "x"}}},
         [](uint32_t, const Record& r) { return r.name.empty() || r.name == "nn"; }},
        {"all", {{"part", Compare::at_least, {-5}}}, [](uint32_t, const Record&) { return true; }},
    };
    Report r = report();
    for (const Condition& condition : conditions) {
        SCOPED_TRACE(condition.name);
        Scan some = scan(r, {.where = condition.where});
        const auto rows = drain(some);
        ASSERT_TRUE(rows) << rows.error().text();
        Records want;
        for (const auto& [id, record] : expected(kRows))
            if (condition.meets(id, record)) want.emplace(id, record);
        EXPECT_EQ(*rows, want);
    }
    // One key takes one chunk.
    const uint64_t made = store_->report_stats().made;
    Scan one = scan(r, {.where = {{"id", Compare::equal, {31'000}}}});
    EXPECT_EQ(drain(one)->size(), 1u);
    EXPECT_EQ(store_->report_stats().made, made + 1);
}

TEST_F(Reports, WrongRequests) {
    load(10);
    ASSERT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
        TRY(store_->create_index(txn, "other"));
        return TRY(store_->create_heap(txn, "heap")), Result<void>();
    }));
    Report r = report();
    EXPECT_EQ(code(r.scan("nothing")), ErrorCode::no_such_object);
    EXPECT_EQ(code(r.scan("other")), ErrorCode::no_such_record);
    EXPECT_EQ(code(r.scan("heap")), ErrorCode::no_such_record);
    const auto refused = [&](const ScanOptions& options) {
        const auto made = r.scan("lines", options);
        EXPECT_EQ(code(made), ErrorCode::bad_argument);
        return made ? "" : made.error().text();
    };
    EXPECT_NE(refused({.columns = {"idd"}}).find("\"idd\""), std::string::npos);
    EXPECT_NE(refused({.where = {{"x", Compare::equal, {1}}}}).find("\"x\""), std::string::npos);
    refused({.where = {{"id", Compare::equal, {"1"}}}});
    refused({.where = {{"id", Compare::equal, {1.5}}}});
    refused({.where = {{"id", Compare::equal, {1, 2}}}});
    refused({.where = {{"id", Compare::prefix, {1}}}});
    refused({.where = {{"name", Compare::equal, {1}}}});
    Report none;
    EXPECT_EQ(code(none.scan("lines")), ErrorCode::store_closed);
}

TEST_F(Reports, SeesOneStateAndSharesItByAge) {
    load(1000);
    Report before = report();
    ASSERT_TRUE(
        store_->run([&](Txn& txn) { return lines().erase(txn, Key().u32(5)); }).has_value());
    Report young = report(kSecond * 1000), after = report();
    EXPECT_EQ(young.sees(), before.sees());
    EXPECT_GT(after.sees(), before.sees());
    EXPECT_EQ(store_->report_stats().states, 2u);
    EXPECT_EQ(store_->report_stats().reports, 3u);
    Records without = expected(1000);
    without.erase(5);
    // Both states in one pass.
    Scan old = scan(before), other = scan(young), fresh = scan(after);
    EXPECT_EQ(*drain(old), expected(1000));
    EXPECT_EQ(*drain(fresh), without);
    EXPECT_EQ(*drain(other), expected(1000));
}

// Random changes, with splits, merges and erased keys, beside reports that are read late.
TEST_F(Reports, EqualWhatWasCommitted) {
    load(20'000);
    Records now = expected(20'000);
    Rng rng(seed_of_run());
    struct Past {
        Report report;
        Records records;
        Scan early;
    };
    std::vector<Past> past;
    for (int round = 0; round < 12; ++round) {
        const auto changed = store_->run([&](Txn& txn) -> Result<void> {
            const Index index = lines();
            const uint32_t from = static_cast<uint32_t>(rng.below(20'000));
            const uint64_t kind = rng.below(3);
            for (uint32_t id = from; id < from + 1500; ++id) {
                if (kind == 0) {
                    TRY(index.erase(txn, Key().u32(id)));
                    now.erase(id);
                    continue;
                }
                const Record record{static_cast<uint8_t>(round), static_cast<int64_t>(rng.next()),
                                    std::string(kind == 1 ? 60 : 3, 'x')};
                TRY(index.put(txn, Key().u32(id), record.bytes()));
                now[id] = record;
            }
            return {};
        });
        ASSERT_TRUE(changed) << changed.error().text();
        Past& one = past.emplace_back(Past{report(), now, {}});
        if (round % 2 == 0) one.early = scan(one.report);
    }
    for (Past& one : past) {
        Scan late = scan(one.report);
        const auto rows = drain(late);
        ASSERT_TRUE(rows) << rows.error().text();
        EXPECT_EQ(*rows, one.records);
    }
    for (size_t i = 0; i < past.size(); i += 2) {
        const auto rows = drain(past[i].early);
        ASSERT_TRUE(rows) << rows.error().text();
        EXPECT_EQ(*rows, past[i].records);
    }
}

// Transfers go on in two threads; each report sees the same sum.
TEST_F(Reports, BesideWriters) {
    load(20'000);
    std::atomic<bool> stop{false};
    std::vector<std::thread> writers;
    for (uint64_t w = 0; w < 2; ++w)
        writers.emplace_back([&, w] {
            Rng rng(w + 1);
            while (!stop) {
                const auto done = store_->run([&](Txn& txn) -> Result<void> {
                    const Index index = lines();
                    for (const int64_t by : {-7, 7}) {
                        const uint32_t id = static_cast<uint32_t>(rng.below(20'000));
                        std::string value;
                        TRY(index.get(txn, Key().u32(id), value, Access::update));
                        int64_t amount;
                        std::memcpy(&amount, value.data() + 1, sizeof amount);
                        amount += by;
                        TRY(index.patch(txn, Key().u32(id), 1,
                                        Slice(reinterpret_cast<const char*>(&amount), 8)));
                    }
                    return {};
                });
                ASSERT_TRUE(done) << done.error().text();
            }
        });
    int64_t want = 0;
    for (const auto& [id, record] : expected(20'000)) want += record.amount;
    for (int round = 0; round < 10; ++round) {
        Report one = report(), two = report();
        Scan scans[] = {scan(one, {.columns = {"amount"}}), scan(two, {.columns = {"amount"}})};
        for (Scan& each : scans) {
            int64_t sum = 0;
            const auto done = each.each([&](const Block& block) -> Result<bool> {
                for (const int64_t amount : block.numbers<int64_t>(0)) sum += amount;
                return true;
            });
            ASSERT_TRUE(done) << done.error().text();
            EXPECT_EQ(sum, want);
        }
    }
    stop = true;
    for (std::thread& writer : writers) writer.join();
}

}  // namespace lockstep::sm::reports_test
