// labels: unit tsan
// sharing_test.cc - who may still use a running operator, what is counted as missed, back-pressure,
// errors.
#include <thread>

#include "tests/sm/report/operators_test_util.h"

namespace lockstep::sm::report::sharing_test {

using namespace in_memory;

class Sharings : public OperatorsTest {
protected:
    static constexpr size_t kBatches = 40, kBatchSize = 10;
    void SetUp() override {
        OperatorsTest::SetUp();
        for (const char* name : {"a", "b"}) {
            Table& one = table(name, {std::string(name) + "_key", std::string(name) + "_value"});
            one.batch = kBatchSize;
            for (size_t i = 0; i < kBatches * kBatchSize; ++i)
                one.rows.push_back({static_cast<int64_t>(i), static_cast<int64_t>(i % 7)});
        }
    }
    static Plan scan(const std::string& name) {
        return Plan::scan(name, {name + "_key", name + "_value"});
    }
    static Plan ordered(const std::string& name) {
        return Plan::scan(name, {name + "_key", name + "_value"}, {}, true);
    }
    struct Case {
        const char* name;
        Plan plan;
        const char* held;                // the table that is held back
        size_t free_before, free_after;  // its batches when the second report comes
        size_t shared_before, shared_after;
    };
    // Two reports of the plan with a last operator each of their own. The second one comes when
    // `free` batches of the table have passed. How many operators it took from the first, and what
    // it missed.
    std::pair<uint64_t, uint64_t> second_takes(const Case& one, size_t free) {
        for (auto& [name, table] : tables_) {
            table->release(name == one.held ? free : SIZE_MAX);
            table->pulled = 0;
        }
        const AnswerStats before = operators_->stats();
        std::vector<Row> rows[2];
        const auto report = [&](size_t i) {
            const Plan whole = one.plan.group({}, {Aggregate::count(i == 0 ? "x" : "y")});
            rows[i] = answer(whole);
        };
        std::thread first([&] { report(0); });
        settle(*tables_[one.held], free);
        std::thread second([&] { report(1); });
        while (operators_->stats().operators - before.operators < kFirst_[one.name] + 2)
            std::this_thread::yield();
        settle(*tables_[one.held], free);
        tables_[one.held]->release(SIZE_MAX);
        first.join();
        second.join();
        EXPECT_EQ(rows[0], rows[1]) << one.name;
        const AnswerStats after = operators_->stats();
        return {after.shared - before.shared, after.sharing_misses - before.sharing_misses};
    }
    // Until the scans have taken what is free, and their rows have gone on.
    void settle(const Table& table, size_t free) {
        while (table.pulled < free) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    std::map<std::string, uint64_t> kFirst_ = {{"scan", 3},   {"filter", 4}, {"merge", 5},
                                               {"build", 6},  {"group", 4},  {"sort", 4},
                                               {"ordered", 3}};
};

// A row of the table of windows (operator.h) each: before its window closes, and after.
TEST_F(Sharings, WindowsOfOpportunity) {
    const std::vector<Where> any = {{"a_value", Compare::at_least, {0}}};
    const std::vector<Case> cases = {
        // The pass gives a scan that comes later the rest: another operator, and nothing missed.
        {"scan", scan("a"), "a", 2, 20, 1, 0},
        {"ordered", ordered("a"), "a", 2, 20, 1, 0},
        // Step: until the first rows have left memory. Then the scan below is still shared by the
        // pass only.
        {"filter", scan("a").where(any), "a", 2, 20, 1, 0},
        {"merge", ordered("a").merge_join(ordered("b"), {"a_key", "b_key"}), "a", 2, 20, 1, 0},
        // Full while it takes rows in: also shortly before the end.
        {"build", scan("a").semi_join(scan("b"), {{"a_value", "b_value"}}), "b", 2, 39, 1, 1},
        {"group", scan("a").group({"a_value"}), "a", 2, 39, 1, 1},
        {"sort", scan("a").top(100, {{"a_value"}, {"a_key"}}), "a", 2, 39, 1, 1},
    };
    for (const Case& one : cases) {
        EXPECT_EQ(second_takes(one, one.free_before), std::pair(one.shared_before, uint64_t{0}))
            << one.name << " before";
        const bool step = std::string_view(one.name) == "filter" || one.name[0] == 'm';
        const auto [shared, missed] = second_takes(one, one.free_after);
        EXPECT_EQ(shared, one.shared_after) << one.name << " after";
        EXPECT_EQ(missed, step ? 1u : 0u) << one.name << " after";
    }
}

// Definition 2 of the thesis: the operator has ended, but since the report began.
TEST_F(Sharings, NothingIsSharedWithoutTheName) {
    tables_["a"]->release(2);
    std::thread first([&] { answer(scan("a").group({"a_value"}), {.sharing = Sharing::none}); });
    while (tables_["a"]->pulled < 2) std::this_thread::yield();
    std::thread second([&] { answer(scan("a").group({"a_value"}), {.sharing = Sharing::none}); });
    while (tables_["a"]->pulled < 4) std::this_thread::yield();
    tables_["a"]->release(SIZE_MAX);
    first.join();
    second.join();
    EXPECT_EQ(operators_->stats().shared, 0u);
    EXPECT_EQ(tables_["a"]->scans, 2u);
}

TEST_F(Sharings, StatesShareNothing) {
    tables_["a"]->release(2);
    std::thread first([&] { EXPECT_TRUE(answers({scan("a").group({"a_value"})}, {}, 0)); });
    while (tables_["a"]->pulled < 2) std::this_thread::yield();
    std::thread second([&] { EXPECT_TRUE(answers({scan("a").group({"a_value"})}, {}, 1)); });
    while (tables_["a"]->pulled < 4) std::this_thread::yield();
    tables_["a"]->release(SIZE_MAX);
    first.join();
    second.join();
    EXPECT_EQ(operators_->stats().shared, 0u);
}

// A join whose rows are held back takes no more of its other input than buffers hold, and another
// report goes on meanwhile.
TEST_F(Sharings, AFullBufferFreezesItsProducerOnly) {
    tables_["b"]->release(1);
    std::thread held([&] {
        EXPECT_EQ(answer(scan("a").semi_join(scan("b"), {{"a_key", "b_key"}})).size(), 400u);
    });
    settle(*tables_["a"], kBufferBatches);
    EXPECT_EQ(tables_["a"]->pulled, kBufferBatches);
    EXPECT_EQ(answer(ordered("a").group({}, {Aggregate::count("rows")})),
              (std::vector<Row>{{kBatches * kBatchSize}}));
    EXPECT_EQ(tables_["a"]->pulled, kBufferBatches + kBatches);
    tables_["b"]->release(SIZE_MAX);
    held.join();
    EXPECT_EQ(tables_["a"]->pulled, 2 * kBatches);
    const StageStats stage = operators_->stage_stats(StageKind::probe);
    EXPECT_EQ(stage.entered, stage.finished);
}

// The first rows are enough: what is below ends early.
TEST_F(Sharings, ATopOfNothingEndsWhatIsBelow) {
    EXPECT_TRUE(answer(scan("a").top(0, {{"a_key"}})).empty());
    EXPECT_EQ(answer(scan("a").top(3, {{"a_key", true}})),
              (std::vector<Row>{{397, 397 % 7}, {398, 398 % 7}, {399, 399 % 7}}));
}

// Reports that run at once number texts together. An old answer does not keep those of later ones.
TEST_F(Sharings, TextsLastAsLongAsAnAnswer) {
    std::vector<std::shared_ptr<Texts>> seen;
    Reads noting = reads();
    noting.scan = [&, scan = noting.scan](const ScanOptions& options, const std::string& name,
                                          const std::shared_ptr<Texts>& texts) {
        seen.push_back(texts);
        return scan(options, name, texts);
    };
    const std::vector<Plan> both = {scan("a"), scan("b")};
    const auto first = operators_->answer(both, noting, {});
    const auto second = operators_->answer(both, noting, {});
    ASSERT_TRUE(first && second);
    ASSERT_EQ(seen.size(), 4u);
    EXPECT_EQ(seen[0], seen[1]);
    EXPECT_EQ(seen[2], seen[3]);
    EXPECT_NE(seen[0], seen[2]);
}

TEST_F(Sharings, ErrorsReachAllThatTakeFromAnOperator) {
    const auto code_of = [&](const Plan& plan) {
        const auto rows = answers({plan, plan});
        return rows ? ErrorCode::none : rows.error().code;
    };
    EXPECT_EQ(code_of(Plan::scan("none", {"x"})), ErrorCode::no_such_object);
    EXPECT_EQ(code_of(scan("a").where({{"x", Compare::equal, {1}}})), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(scan("a").where({{"a_key", Compare::prefix, {"1"}}})),
              ErrorCode::bad_argument);
    EXPECT_EQ(code_of(scan("a").join(scan("b"), {})), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(scan("a").group({"x"})), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(scan("a").order({{"x"}})), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(scan("a").compute("a_key", Expr(1))), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(scan("a").compute("big", Expr(INT64_MAX) * col("a_key"))),
              ErrorCode::bad_argument);
    EXPECT_EQ(code_of(scan("a")
                          .compute("big", col("a_key") + Expr(INT64_MAX - 399))
                          .group({}, {Aggregate::sum(col("big"), "sum")})),
              ErrorCode::bad_argument);
    const Plan falls = scan("a").top(99, {{"a_key", true}});
    EXPECT_EQ(code_of(falls.merge_join(ordered("b"), {"a_key", "b_key"})), ErrorCode::bad_argument);
    // And nothing is left of them.
    EXPECT_EQ(answer(scan("a")).size(), kBatches * kBatchSize);
    while (operators_->stats().threads != 0) std::this_thread::yield();
}

}  // namespace lockstep::sm::report::sharing_test
