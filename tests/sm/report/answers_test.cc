// labels: unit tsan
// answers_test.cc - plans over a store: all kinds of columns, sharing by name, writers beside, a
// store that closes.
#include <lockstep/plan.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "tests/optimistic_readers.h"  // keep
#include "tests/sm/scan/reports_test_util.h"

namespace lockstep::sm::answers_test {

using namespace reports;

constexpr const char* kKindsText =
    "id u32 key\n"
    "small i8 value 0 null -1\n"
    "weight f64 value 1\n"
    "big u64 value 9\n"
    "name text8 value 17";

class Answers : public ReportsTest {
protected:
    // Rows 0 .. rows - 1 of all kinds of columns.
    void load_kinds(uint32_t rows, uint64_t big) {
        const auto done = store_->run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store_->create_index(txn, "kinds"));
            TRY(store_->describe(txn, "kinds", kKindsText));
            for (uint32_t id = 0; id < rows; ++id) {
                std::string value(1, static_cast<char>(static_cast<int>(id % 5) - 2));
                const double weight = id % 2 == 0 ? -1.5 * id : 0.25 * id;
                value.append(reinterpret_cast<const char*>(&weight), 8);
                value.append(reinterpret_cast<const char*>(&big), 8);
                const std::string name = "n" + std::to_string(id % 3);
                value.append(1, static_cast<char>(name.size())).append(name);
                TRY(index.put(txn, Key().u32(id), value));
            }
            return {};
        });
        ASSERT_TRUE(done) << done.error().text();
    }
    static Plan sums_by_part() {
        return Plan::scan("lines", {"part", "amount"})
            .group({"part"}, {Aggregate::sum(col("amount"), "sum"), Aggregate::count("count")})
            .order({{"part"}});
    }
    void expect_sums(const Rows& rows, uint32_t lines) {
        ASSERT_EQ(rows.rows(), 7u);
        for (int64_t part = 0; part < 7; ++part) {
            int64_t sum = 0, count = 0;
            for (uint32_t id = static_cast<uint32_t>(part); id < lines; id += 7, ++count)
                sum += record_of(id).amount;
            EXPECT_EQ(rows.integer(static_cast<size_t>(part), 0), part);
            EXPECT_EQ(rows.integer(static_cast<size_t>(part), 1), sum);
            EXPECT_EQ(rows.integer(static_cast<size_t>(part), 2), count);
        }
    }
};

TEST_F(Answers, AllKindsOfColumns) {
    load_kinds(3000, 1ull << 62);
    Report r = report();
    const Plan plan =
        Plan::scan("kinds", {"id", "small", "weight", "big", "name"},
                   {{"id", Compare::less, {1000}}, {"weight", Compare::less, {100.0}}})
            .compute("double", col("weight") * 2.0 - col("id"))
            .group({"name", "small"},
                   {Aggregate::sum(col("double"), "sum"), Aggregate::avg(col("id"), "mean"),
                    Aggregate::min(col("weight"), "least"), Aggregate::max(col("big"), "most"),
                    Aggregate::count("named", {{"name", Compare::prefix, {"n1"}}})})
            .order({{"name", true}, {"small"}});
    auto rows = r.answer(plan);
    ASSERT_TRUE(rows) << rows.error().text();
    ASSERT_EQ(rows->rows(), 15u);
    EXPECT_EQ(rows->name(3), "mean");
    EXPECT_EQ(rows->kind(0), Rows::Kind::text);
    EXPECT_EQ(rows->kind(2), Rows::Kind::real);
    size_t row = 0;
    for (const int name : {2, 1, 0})
        for (const int small : {-1, -2, 0, 1, 2}) {  // -1 is null, and comes first
            double sum = 0, ids = 0, least = 1e9;
            int64_t count = 0;
            for (int id = 0; id < 1000; ++id) {
                const double weight = id % 2 == 0 ? -1.5 * id : 0.25 * id;
                if (id % 3 != name || id % 5 - 2 != small || weight >= 100) continue;
                sum += weight * 2 - id;
                ids += id;
                least = std::min(least, weight);
                ++count;
            }
            EXPECT_EQ(rows->text(row, 0), "n" + std::to_string(name));
            EXPECT_EQ(rows->is_null(row, 1), small == -1);
            EXPECT_EQ(rows->integer(row, 1), small == -1 ? 0 : small);
            EXPECT_NEAR(rows->real(row, 2), sum, std::abs(sum) * 1e-9);
            EXPECT_NEAR(rows->real(row, 3), ids / static_cast<double>(count), 1e-9);
            EXPECT_EQ(rows->real(row, 4), least);
            EXPECT_EQ(rows->integer(row, 5), int64_t{1} << 62);
            EXPECT_EQ(rows->integer(row, 6), name == 1 ? count : 0);
            ++row;
        }
}

// A lane has signed numbers.
TEST_F(Answers, ANumberOf64BitsIsRefused) {
    load_kinds(10, 1ull << 63);
    Report r = report();
    EXPECT_EQ(code(r.answer(Plan::scan("kinds", {"big"}))), ErrorCode::bad_argument);
    EXPECT_TRUE(r.answer(Plan::scan("kinds", {"id"})));
}

TEST_F(Answers, EachNameOfSharingGivesTheSame) {
    load(kRows);
    Report r = report();
    for (const Sharing sharing : {Sharing::none, Sharing::pipeline, Sharing::cycle}) {
        const std::vector<Plan> plans(20, sums_by_part());
        const auto rows = r.answer(plans, {.sharing = sharing});
        ASSERT_TRUE(rows) << rows.error().text();
        for (const Rows& one : *rows) expect_sums(one, kRows);
    }
    const AnswerStats stats = store_->report_stats().answers;
    EXPECT_EQ(stats.answers, 41u);  // those of the cycle were one
    EXPECT_GT(stats.shared, 0u);
    EXPECT_EQ(stats.together, 20u);
}

// Constants of keys limit what is read, also for many reports.
TEST_F(Answers, ManyReportsOfSomeKeys) {
    load(kRows);
    Report r = report();
    std::vector<Plan> plans;
    for (int64_t i = 0; i < 64; ++i)
        plans.push_back(
            Plan::scan("lines", {"name", "amount"},
                       {{"id", Compare::at_least, {100 * i}},
                        {"id", Compare::less, {100 * i + 50}},
                        {"name", Compare::at_least, {std::string(7, 'n')}}})
                .group({}, {Aggregate::count("count"), Aggregate::sum(col("amount"), "sum")}));
    const auto rows = r.answer(plans, {.sharing = Sharing::cycle});
    ASSERT_TRUE(rows) << rows.error().text();
    for (uint32_t i = 0; i < 64; ++i) {
        int64_t count = 0, sum = 0;
        for (uint32_t id = 100 * i; id < 100 * i + 50; ++id)
            if (id % 40 >= 7) ++count, sum += record_of(id).amount;
        EXPECT_EQ((*rows)[i].integer(0, 0), count);
        EXPECT_EQ((*rows)[i].integer(0, 1), sum);
    }
    EXPECT_EQ(store_->report_stats().scans, 1u);
    EXPECT_LT(store_->report_stats().rows, kRows / 4);
}

// Reports on user threads and others, beside a writer: each sees one state.
TEST_F(Answers, BesideWriters) {
    load(7000);
    std::atomic<bool> stop{false};
    std::thread writer([&] {
        for (int64_t add = 1; !stop; ++add)
            change(0, 2000, [&](uint32_t id) {
                Record record = record_of(id);
                record.amount += id % 2 == 0 ? add : -add;
                return record.bytes();
            });
    });
    int64_t expected = 0;
    for (uint32_t id = 0; id < 7000; ++id) expected += record_of(id).amount;
    const Plan sum =
        Plan::scan("lines", {"amount"}).group({}, {Aggregate::sum(col("amount"), "s")});
    const auto reports = [&]() -> Result<void> {
        for (int i = 0; i < 20; ++i) {
            Report r = TRY(store_->report({.max_age = 10 * kMillisecond}));
            const Rows rows = TRY(r.answer(sum));
            EXPECT_EQ(rows.integer(0, 0), expected);
        }
        return {};
    };
    std::vector<Handle<void>> handles;
    for (int i = 0; i < 4; ++i) handles.push_back(store_->start(reports));
    EXPECT_TRUE(reports());
    for (auto& handle : handles) EXPECT_TRUE(handle.join());
    stop = true;
    writer.join();
    while (store_->report_stats().answers.threads != 0) std::this_thread::yield();
}

TEST_F(Answers, AClosingStoreEndsThem) {
    load(kRows);
    Report r = report();
    std::atomic<int> failed{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; ++i)
        callers.emplace_back([&] {
            for (;;)
                if (const auto rows = r.answer(sums_by_part()); !rows) {
                    EXPECT_EQ(rows.error().code, ErrorCode::store_closed) << rows.error().text();
                    ++failed;
                    return;
                }
        });
    while (store_->report_stats().answers.answers < 3) std::this_thread::yield();
    EXPECT_TRUE(store_->close());
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(failed, 4);
    EXPECT_EQ(code(r.answer(sums_by_part())), ErrorCode::store_closed);
    EXPECT_EQ(code(Report().answer(sums_by_part())), ErrorCode::store_closed);
}

TEST_F(Answers, RowsOutliveTheStore) {
    load_kinds(100, 1);
    Rows rows;
    {
        Report r = report();
        rows = *r.answer(Plan::scan("kinds", {"name"}).top(1, {{"name", true}}));
    }
    store_.reset();
    EXPECT_EQ(rows.text(0, 0), "n2");
    EXPECT_EQ(Rows().rows(), 0u);
}

}  // namespace lockstep::sm::answers_test
