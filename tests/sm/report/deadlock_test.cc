// labels: unit tsan
// deadlock_test.cc - deadlocks between operators are found, and resolved by the cheapest set.
#include "sm/report/deadlock.h"

#include <thread>

#include "tests/seed_of_run.h"
#include "tests/sm/report/operators_test_util.h"
#include "threads/base/rng.h"

namespace lockstep::sm::report::deadlock_test {

using namespace in_memory;

// All chains of waits lead through waiter 0.
std::vector<Waiter> random_graph(Rng& rng) {
    std::vector<Waiter> out(2 + rng.below(9));
    for (uint32_t from = 0; from < out.size(); ++from) {
        for (uint32_t to = 0; to < out.size(); ++to)
            if ((to > from || to == 0) && to != from && rng.chance(0.4))
                out[from].waits_for.push_back(to);
        out[from].cost = rng.chance(0.3) ? kCannotKeep : 1 + rng.below(20);
    }
    return out;
}
std::vector<Waiter> without(std::vector<Waiter> graph, uint32_t set) {
    for (uint32_t w = 0; w < graph.size(); ++w)
        if ((set >> w & 1) != 0) graph[w].waits_for.clear();
    return graph;
}

TEST(Deadlock, TheCheapestSetOfAll) {
    Rng rng(seed_of_run(1));
    size_t cycles = 0, sets_of_several = 0;
    for (int round = 0; round < 2000; ++round) {
        const std::vector<Waiter> graph = random_graph(rng);
        uint64_t best = kCannotKeep;
        for (uint32_t set = 0; set < 1u << graph.size(); ++set) {
            uint64_t cost = 0;
            bool possible = true;
            for (uint32_t w = 0; w < graph.size(); ++w)
                if ((set >> w & 1) != 0) {
                    possible &= graph[w].cost != kCannotKeep;
                    cost += graph[w].cost;
                }
            if (possible && cost < best && !waits_for_itself(without(graph, set), 0)) best = cost;
        }
        // A plan always has something to keep.
        if (!waits_for_itself(graph, 0) || best == kCannotKeep) continue;
        ++cycles;
        uint64_t cost = 0;
        uint32_t set = 0;
        const auto chosen = cheapest_to_keep(graph, 0);
        for (const uint32_t w : chosen) {
            ASSERT_NE(graph[w].cost, kCannotKeep);
            cost += graph[w].cost;
            set |= 1u << w;
        }
        EXPECT_EQ(cost, best);
        EXPECT_FALSE(waits_for_itself(without(graph, set), 0));
        sets_of_several += chosen.size() > 1;
    }
    EXPECT_GT(cycles, 300u);
    EXPECT_GT(sets_of_several, 30u);
}

// Two merge joins over the same ordered scans of A and B; one of them filters A (figure 4-18). Its
// filter finds nothing for long, so it needs much of A, while the other join needs B.
class TwoMergeJoins : public OperatorsTest {
protected:
    void SetUp() override {
        for (const auto& [name, key] :
             {std::pair<const char*, const char*>{"a", "a_key"}, {"b", "b_key"}}) {
            Table& one = table(name, {key, std::string(name) + "_value"});
            for (int64_t i = 0; i < kRows; ++i) one.rows.push_back({i, i % 10});
        }
    }
    std::vector<Plan> plans() const {
        const Plan a = Plan::scan("a", {"a_key", "a_value"}, {}, true),
                   b = Plan::scan("b", {"b_key", "b_value"}, {}, true);
        const Plan late = a.where({{"a_key", Compare::at_least, {kRows - 50}}});
        return {a.merge_join(b, {"a_key", "b_key"}).group({}, {Aggregate::count("count")}),
                late.merge_join(b, {"a_key", "b_key"}).group({}, {Aggregate::count("count")})};
    }
    // No row moves before all plans have their operators, of which they use `operators`.
    Result<std::vector<Rows>> answers_at_once(const std::vector<Plan>& plans, uint64_t operators) {
        for (const auto& [name, one] : tables_) one->release(0);
        Result<std::vector<Rows>> rows;
        std::thread caller([&] { rows = answers(plans); });
        for (AnswerStats now; now.operators + now.shared < operators; now = operators_->stats())
            std::this_thread::yield();
        for (const auto& [name, one] : tables_) one->release(SIZE_MAX);
        caller.join();
        return rows;
    }
    static constexpr int64_t kRows = 5000;
};

TEST_F(TwoMergeJoins, AreADeadlockThatIsResolved) {
    open(true);
    const auto rows = answers_at_once(plans(), 11);
    ASSERT_TRUE(rows) << rows.error().text();
    EXPECT_EQ((*rows)[0].integer(0, 0), kRows);
    EXPECT_EQ((*rows)[1].integer(0, 0), 50);
    const AnswerStats stats = operators_->stats();
    EXPECT_EQ(stats.shared, 2u);  // a and b
    EXPECT_GE(stats.deadlocks, 1u);
    EXPECT_EQ(tables_["a"]->scans, 1u);
    EXPECT_EQ(tables_["b"]->scans, 1u);
}

TEST_F(TwoMergeJoins, HangWithoutTheSearch) {
    open(false);
    std::atomic<bool> done{false};
    std::thread caller([&] {
        EXPECT_EQ(answers_at_once(plans(), 11).error().code, ErrorCode::store_closed);
        done = true;
    });
    // Nothing moves any more long before the end.
    size_t before = 0, pulled = 1;
    for (; before != pulled; pulled = tables_["a"]->pulled + tables_["b"]->pulled) {
        before = pulled;
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    EXPECT_FALSE(done.load());
    EXPECT_LT(pulled, 2 * kRows / 100 / 2);
    operators_->stop();
    caller.join();
}

// Scans that run at one rate need no memory.
TEST_F(TwoMergeJoins, WithoutTheFilterKeepNothing) {
    open(true);
    const Plan a = Plan::scan("a", {"a_key", "a_value"}, {}, true),
               b = Plan::scan("b", {"b_key", "b_value"}, {}, true);
    const Plan joined = a.merge_join(b, {"a_key", "b_key"});
    const auto rows = answers_at_once({joined.group({}, {Aggregate::count("count")}),
                                       joined.group({}, {Aggregate::sum(col("b_value"), "sum")})},
                                      8);
    ASSERT_TRUE(rows) << rows.error().text();
    EXPECT_EQ(operators_->stats().kept, 0u);
}

// A plan that joins a scan with itself takes both sides from one scan.
TEST_F(TwoMergeJoins, AJoinWithItself) {
    open(true);
    const Plan a = Plan::scan("a", {"a_key", "a_value"});
    const auto rows = answers({a.semi_join(a, {{"a_value", "a_key"}})});
    ASSERT_TRUE(rows) << rows.error().text();
    EXPECT_EQ((*rows)[0].rows(), static_cast<size_t>(kRows));
    EXPECT_EQ(tables_["a"]->scans, 1u);
    EXPECT_GE(operators_->stats().kept, 1u);
}

}  // namespace lockstep::sm::report::deadlock_test
