// labels: model tsan
// together_test.cc - reports with random constants give what a plain evaluation gives, as one and
// one by one; cycles; threads.
#include <thread>

#include "tests/seed_of_run.h"
#include "tests/sm/report/reference.h"
#include "threads/base/rng.h"

namespace lockstep::sm::report::together_test {

using namespace in_memory;

class Together : public OperatorsTest {
protected:
    void SetUp() override {
        OperatorsTest::SetUp();
        Table& lines = table("lines", {"line", "part", "amount", "day"});
        lines.batch = 70;
        for (int64_t i = 0; i < 600; ++i)
            lines.rows.push_back({i, value(40), value(1000), value(100)});
        Table& parts = table("parts", {"id", "kind", "price"});
        for (int64_t i = 0; i < 30; ++i) parts.rows.push_back({i, i % 4, value(50)});
        parts.rows.push_back({7, 3, 1});  // a key twice
        parts.rows.push_back({Value(), 2, 2});
    }
    Value value(uint64_t below) {
        if (rng_.chance(0.05)) return std::nullopt;
        return static_cast<int64_t>(rng_.below(below)) - 3;
    }
    Where random_where(const char* column, Compare compare, int64_t below) {
        const auto one = [&] { return rng_.between(-6, below + 3); };
        if (compare != Compare::in) return {column, compare, {one()}};
        Where out{column, compare, {}};
        for (uint64_t n = rng_.below(5); n-- > 0;) out.values.emplace_back(one());
        return out;
    }
    // A plan of one of the shapes with random constants.
    Reference draw(int shape) {
        const Table &lines = *tables_["lines"], &parts = *tables_["parts"];
        const Where from = random_where("day", Compare::at_least, 100),
                    to = random_where("day", Compare::less, 100);
        const std::vector<std::string> all = {"line", "part", "amount", "day"};
        const Reference some = Reference::scan("lines", lines, {"part", "amount"}, {from, to});
        const Reference cheap = Reference::scan("parts", parts, {"id", "kind"},
                                                {random_where("price", Compare::at_most, 50)});
        switch (shape) {
            case 0: return some.group({"part"}, "amount");
            case 1:
                return Reference::scan("lines", lines, all,
                                       {random_where("part", Compare::equal, 40)})
                    .top(1 + rng_.below(20));
            case 2: return some.semi_join(cheap, {"part", "id"}).group({}, "amount");
            case 3:
                return some.join(cheap, {"part", "id"})
                    .group({"kind"}, "amount")
                    .where({random_where("sum", Compare::greater, 5000)});
            case 4: return some.join(cheap, {"part", "id"}, true).group({"kind"}, "amount");
            case 5:
                return Reference::scan("lines", lines, {"line", "amount", "day"},
                                       {random_where("part", Compare::in, 40)})
                    .difference("late", "amount", "day")
                    .where({random_where("late", Compare::at_least, 900)})
                    .top(rng_.below(30));
            default:
                return some.group({"part"}, "amount")
                    .where({random_where("count", Compare::at_least, 12)})
                    .join(cheap, {"part", "id"})
                    .top(1 + rng_.below(10));
        }
    }
    // A report of shape 0 that reads more batches than one.
    Reference held() {
        return Reference::scan("lines", *tables_["lines"], {"part", "amount"},
                               {{"day", Compare::at_least, {-9}}, {"day", Compare::less, {1000}}})
            .group({"part"}, "amount");
    }
    Rng rng_{seed_of_run(1)};
};
constexpr int kShapes = 7;

void expect_equal(const std::vector<Rows>& rows, const std::vector<Reference>& expected,
                  std::vector<Row> (*rows_of)(const Rows&, bool)) {
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i)
        ASSERT_EQ(rows_of(rows[i], false), expected[i].sorted()) << "report " << i;
}

TEST_F(Together, RandomConstantsGiveTheSameAsAPlainEvaluation) {
    size_t reports = 0;
    for (int round = 0; round < 3 * kShapes; ++round) {
        std::vector<Reference> expected;
        std::vector<Plan> plans;
        for (uint64_t n = 1 + rng_.below(round < kShapes ? 90 : 20); n-- > 0;) {
            expected.push_back(draw(round % kShapes));
            plans.push_back(expected.back().plan);
        }
        reports += plans.size();
        const auto as_one = answers(plans, {.sharing = Sharing::cycle, .together_min = 2});
        ASSERT_TRUE(as_one) << as_one.error().text();
        expect_equal(*as_one, expected, rows_of);
        if (round < kShapes) continue;
        for (const Sharing sharing : {Sharing::none, Sharing::pipeline}) {
            const auto apart = answers(plans, {.sharing = sharing});
            ASSERT_TRUE(apart) << apart.error().text();
            expect_equal(*apart, expected, rows_of);
        }
    }
    EXPECT_GE(reports, 300u);
    EXPECT_GT(operators_->stats().together, 200u);
}

TEST_F(Together, ShapesOfOneCallRunApart) {
    std::vector<Reference> expected;
    std::vector<Plan> plans;
    for (int i = 0; i < 60; ++i) {
        expected.push_back(draw(i % kShapes));
        plans.push_back(expected.back().plan);
    }
    const auto rows = answers(plans, {.sharing = Sharing::cycle, .together_min = 3});
    ASSERT_TRUE(rows) << rows.error().text();
    expect_equal(*rows, expected, rows_of);
    EXPECT_EQ(operators_->stats().together, 60u);
}

// Below four of a type, one by one.
TEST_F(Together, FewRunOneByOne) {
    for (const size_t reports : {3, 4}) {
        std::vector<Plan> plans;
        for (size_t i = 0; i < reports; ++i) plans.push_back(draw(0).plan);
        ASSERT_TRUE(answers(plans, {.sharing = Sharing::cycle}));
        EXPECT_EQ(operators_->stats().together, reports == 4 ? 4u : 0u);
    }
}

// The rows of a table are read once for all, and the table of a join is made once.
TEST_F(Together, WorkDoesNotGrowWithReports) {
    std::vector<Plan> plans;
    for (int i = 0; i < 200; ++i) plans.push_back(draw(3).plan);
    ASSERT_TRUE(answers(plans, {.sharing = Sharing::cycle}));
    EXPECT_EQ(tables_["lines"]->scans, 1u);
    EXPECT_EQ(tables_["parts"]->scans, 1u);
    EXPECT_EQ(operators_->stats().operators, 7u);  // scans, build, probe, group, filter, sink
}

TEST_F(Together, ThreadsDoNotGrowWithReports) {
    Table& lines = *tables_["lines"];
    size_t threads = 0;
    for (const size_t reports : {1, 8, 512}) {
        lines.release(1);
        std::vector<Plan> plans;
        const Plan parts = Plan::scan("parts", {"id", "kind"});
        for (size_t i = 0; i < reports; ++i)
            plans.push_back(Plan::scan("lines", {"part", "amount"})
                                .join(parts, {{"part", "id"}})
                                .group({"kind"}, {Aggregate::count("count")}));
        std::thread caller([&] { EXPECT_TRUE(answers(plans, {.sharing = Sharing::none})); });
        while (lines.pulled < reports) std::this_thread::yield();
        const AnswerStats stats = operators_->stats();
        if (threads == 0) threads = stats.threads;
        EXPECT_EQ(stats.threads, threads);
        EXPECT_LE(stats.threads, 2 * kStages);
        lines.release(SIZE_MAX);
        caller.join();
        lines.pulled = 0;
    }
}

// OF-4: reports that come while a cycle runs are in the next one, all of them.
TEST_F(Together, AReportWaitsForOneCycle) {
    Table& lines = *tables_["lines"];
    lines.release(1);
    const AnswerOptions options{.sharing = Sharing::cycle, .together_min = 2};
    std::vector<std::thread> callers;
    std::atomic<size_t> done{0};
    const auto call = [&](const Reference& expected) {
        callers.emplace_back([this, &done, options, expected] {
            const auto rows = answers({expected.plan}, options);
            ASSERT_TRUE(rows) << rows.error().text();
            EXPECT_EQ(rows_of((*rows)[0]), expected.sorted());
            ++done;
        });
    };
    call(held());
    while (lines.pulled == 0) std::this_thread::yield();
    for (int i = 0; i < 20; ++i) call(draw(0));
    while (operators_->stats().waiting < 20) std::this_thread::yield();
    EXPECT_EQ(operators_->stats().cycles, 1u);
    lines.release(SIZE_MAX);
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(done, 21u);
    EXPECT_EQ(operators_->stats().cycles, 2u);
    EXPECT_EQ(operators_->stats().together, 20u);
}

// A wrong constant of one is no reason for another one's error.
TEST_F(Together, AWrongReportOfACycleFailsAlone) {
    Table& lines = *tables_["lines"];
    lines.release(1);
    const AnswerOptions options{.sharing = Sharing::cycle, .together_min = 2};
    const Reference right =
        Reference::scan("lines", lines, {"line", "day"}).where({{"day", Compare::at_least, {50}}});
    const Plan wrong =
        Plan::scan("lines", {"line", "day"}).where({{"day", Compare::at_least, {"50"}}});
    std::atomic<size_t> failed{0};
    std::vector<std::thread> callers;
    const auto call = [&](const Plan& plan) {
        callers.emplace_back([&, plan] {
            const auto rows = answers({plan}, options);
            if (rows) EXPECT_EQ(rows_of((*rows)[0]), right.sorted());
            else EXPECT_EQ(rows.error().code, ErrorCode::bad_argument);
            failed += !rows;
        });
    };
    call(right.plan);
    while (lines.pulled == 0) std::this_thread::yield();
    for (int i = 0; i < 5; ++i) call(i == 2 ? wrong : right.plan);
    while (operators_->stats().waiting < 5) std::this_thread::yield();
    lines.release(SIZE_MAX);
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(failed, 1u);
    EXPECT_EQ(operators_->stats().cycles, 2u);
}

// What a report of another state waits for is not this one's cycle.
TEST_F(Together, StatesHaveCyclesOfTheirOwn) {
    Table& lines = *tables_["lines"];
    lines.release(1);
    const Reference expected = held();
    const AnswerOptions options{.sharing = Sharing::cycle};
    std::thread first([&] { EXPECT_TRUE(answers({expected.plan}, options, 0)); });
    while (lines.pulled == 0) std::this_thread::yield();
    std::thread second([&] { EXPECT_TRUE(answers({expected.plan}, options, 1)); });
    while (lines.pulled < 2) std::this_thread::yield();  // it does not wait
    EXPECT_EQ(operators_->stats().cycles, 2u);
    lines.release(SIZE_MAX);
    first.join();
    second.join();
}

// SharedDB, figure 4: one row for all who want it, and one order.
TEST_F(Together, UsersOfFigureFour) {
    Table& users = table("users", {"name", "city"});
    enum : int64_t { bill, james, john, kate, nick };
    users.rows = {{john, 1}, {kate, 5}, {bill, 3}, {nick, 0}, {james, 2}};
    const auto plan = [](int64_t from, int64_t to) {
        return Plan::scan("users", {"name", "city"},
                          {{"city", Compare::at_least, {from}}, {"city", Compare::at_most, {to}}})
            .order({{"name"}});
    };
    const auto rows =
        answers({plan(0, 2), plan(1, 3)}, {.sharing = Sharing::cycle, .together_min = 2});
    ASSERT_TRUE(rows) << rows.error().text();
    EXPECT_EQ(rows_of((*rows)[0], true), (std::vector<Row>{{james, 2}, {john, 1}, {nick, 0}}));
    EXPECT_EQ(rows_of((*rows)[1], true), (std::vector<Row>{{bill, 3}, {james, 2}, {john, 1}}));
}

}  // namespace lockstep::sm::report::together_test
