// labels: unit
// verdict_test.cc - each rule of the specification is kept by a run that keeps all, and broken by
// one that misses its bound.
#include "tpcc/verdict.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep::tpcc::verdict_test {

constexpr Nanos kMinute = 60 * kSecond;

// Two hours of ten warehouses at 12 New-Orders a minute each, with a checkpoint every 25 minutes.
VerdictFacts kept() {
    VerdictFacts facts;
    const uint64_t new_orders = 10 * 12 * 120;
    const uint64_t counts[] = {new_orders, 14000, 1310, 1310, 1310};
    std::ranges::copy(counts, facts.counts);
    const Nanos slow[] = {5 * kSecond, 5 * kSecond, 5 * kSecond, 80 * kSecond, 20 * kSecond};
    std::ranges::copy(slow, facts.percentile_90);
    facts.deliveries_queued = 1310;
    facts.delivery_interactive_90 = 5 * kSecond;
    facts.new_orders_rolled_back = new_orders / 100;
    facts.inputs = {.order_lines = 10 * new_orders,
                    .order_lines_remote = new_orders / 10,
                    .payments_remote = 14000 * 15 / 100,
                    .payments_by_name = 14000 * 60 / 100,
                    .order_status_by_name = 1310 * 60 / 100};
    facts.deliveries_with_skips = 13;
    facts.warehouses = 10;
    facts.terminals = 10;
    facts.think = 1;
    facts.measured = 120 * kMinute;
    for (int i = 1; i <= 4; ++i) facts.checkpoints.push_back(static_cast<Nanos>(i) * 25 * kMinute);
    facts.durable = facts.serializable = facts.complete = true;
    return facts;
}

// The clauses that a verdict finds broken.
template <class F>
std::multiset<std::string> broken(F change) {
    VerdictFacts facts = kept();
    change(facts);
    std::multiset<std::string> clauses;
    const Verdict verdict = judge(facts);
    for (const Rule& rule : verdict.rules)
        if (rule.standing == Standing::outside) clauses.insert(rule.clause);
    EXPECT_EQ(verdict.outside(), clauses.size());
    return clauses;
}
using Clauses = std::multiset<std::string>;

// A rate of a short run is chance.
TEST(Verdict, AShortRunHasNoThroughput) {
    for (const bool few : {false, true}) {
        VerdictFacts facts = kept();
        if (few)
            for (uint64_t& count : facts.counts) count /= 1000;
        else facts.measured = kSecond - 1;
        const Verdict verdict = judge(facts);
        EXPECT_FALSE(verdict.too_short.empty());
        for (const std::string& line : verdict_lines(verdict))
            EXPECT_EQ(line.find(" NOPM: "), line.npos) << line;
        for (const Rule& rule : verdict.rules)
            EXPECT_TRUE(rule.name != "NOPM per warehouse" || rule.standing == Standing::too_few);
    }
    EXPECT_TRUE(judge(kept()).too_short.empty());
}

TEST(Verdict, ARunThatKeepsAllRules) {
    EXPECT_EQ(broken([](VerdictFacts&) {}), Clauses{});
    EXPECT_DOUBLE_EQ(judge(kept()).per_warehouse, 12);
    EXPECT_DOUBLE_EQ(judge(kept()).new_orders_per_minute, 120);
}

TEST(Verdict, EachRuleCanBeBroken) {
    EXPECT_EQ(broken([](auto& f) { f.counts[1] -= 300; }), Clauses{"5.2.3"});
    EXPECT_EQ(broken([](auto& f) { f.new_orders_rolled_back /= 2; }), Clauses{"5.5.1.5"});
    EXPECT_EQ(broken([](auto& f) { f.inputs.order_lines -= 14400 * 6 / 10; }), Clauses{"5.5.1.5"});
    EXPECT_EQ(broken([](auto& f) { f.inputs.order_lines_remote *= 2; }), Clauses{"5.5.1.5"});
    EXPECT_EQ(broken([](auto& f) { f.inputs.payments_remote = 14000 * 13 / 100; }),
              Clauses{"5.5.1.5"});
    EXPECT_EQ(broken([](auto& f) { f.inputs.payments_by_name = 14000 * 64 / 100; }),
              Clauses{"5.5.1.5"});
    EXPECT_EQ(broken([](auto& f) { f.inputs.order_status_by_name = 1310 / 2; }),
              Clauses{"5.5.1.5"});
    EXPECT_EQ(broken([](auto& f) { f.percentile_90[0] += kSecond; }), Clauses{"5.2.5.3"});
    EXPECT_EQ(broken([](auto& f) { f.delivery_interactive_90 += kSecond; }), Clauses{"5.2.5.3"});
    EXPECT_EQ(broken([](auto& f) { f.percentile_90[3] += kSecond; }), Clauses{"2.7.2"});
    EXPECT_EQ(broken([](auto& f) { f.percentile_90[4] += kSecond; }), Clauses{"5.2.5.3"});
    EXPECT_EQ(broken([](auto& f) { ++f.deliveries_with_skips; }), Clauses{"2.7.4.2"});
    EXPECT_EQ(broken([](auto& f) { f.warehouses = 9; }), Clauses{"4.2"});   // 13.33 a warehouse
    EXPECT_EQ(broken([](auto& f) { f.warehouses = 14; }), Clauses{"4.2"});  // 8.57
    EXPECT_EQ(broken([](auto& f) { f.terminals = 11; }), Clauses{"4.2"});
    EXPECT_EQ(broken([](auto& f) { f.think = 0.5; }), Clauses{"5.2.5.7"});
    EXPECT_EQ(broken([](auto& f) { f.complete = false; }), Clauses{"5.5.1.2"});
    EXPECT_EQ(broken([](auto& f) { f.checkpoints[3] = 0; }),
              Clauses{"5.5.2.2"});  // then 45 minutes
    EXPECT_EQ(broken([](auto& f) { f.checkpoints.clear(); }), (Clauses{"5.5.2.2", "5.5.2.2"}));
    EXPECT_EQ(broken([](auto& f) { f.durable = false; }), Clauses{"3.5"});
    EXPECT_EQ(broken([](auto& f) { f.serializable = false; }), Clauses{"3.4.1"});
    EXPECT_TRUE(broken([](auto& f) { f.measured -= kMinute; }).contains("5.5.1.2"));
}

// One Delivery that skips is allowed, even if it is more than 1%.
TEST(Verdict, OneSkippedDeliveryOfFew) {
    const auto few = [](uint64_t skips) {
        return broken([&](VerdictFacts& f) {
            f.counts[3] = 20;
            f.deliveries_with_skips = skips;
        });
    };
    EXPECT_FALSE(few(1).contains("2.7.4.2"));
    EXPECT_TRUE(few(2).contains("2.7.4.2"));
}

const Rule& rule_of(const Verdict& verdict, const std::string& name) {
    const auto rule = std::ranges::find(verdict.rules, name, &Rule::name);
    EXPECT_NE(rule, verdict.rules.end()) << name;
    return *rule;
}

// A hundred orders with two rollbacks are what chance gives. Ten thousand with two hundred are not.
TEST(Verdict, FewChoicesAreNotJudged) {
    VerdictFacts facts = kept();
    facts.counts[0] = 100;
    facts.new_orders_rolled_back = 2;
    facts.inputs.order_lines = 940;
    facts.inputs.order_lines_remote = 12;
    Verdict verdict = judge(facts);
    for (const char* name : {"New-Orders rolled back on demand", "order lines of an order, mean",
                             "order lines of other warehouses"})
        EXPECT_EQ(rule_of(verdict, name).standing, Standing::too_few) << name;
    facts.counts[0] *= 100;
    facts.new_orders_rolled_back *= 100;
    facts.inputs.order_lines *= 100;
    facts.inputs.order_lines_remote *= 100;
    verdict = judge(facts);
    for (const char* name : {"New-Orders rolled back on demand", "order lines of an order, mean",
                             "order lines of other warehouses"})
        EXPECT_EQ(rule_of(verdict, name).standing, Standing::outside) << name;
}

TEST(Verdict, OneWarehouseHasNothingRemote) {
    VerdictFacts facts = kept();
    facts.warehouses = 1;
    facts.inputs.order_lines_remote = facts.inputs.payments_remote = 0;
    const Verdict verdict = judge(facts);
    for (const char* name : {"order lines of other warehouses", "Payments of other warehouses"}) {
        EXPECT_EQ(rule_of(verdict, name).standing, Standing::not_applicable) << name;
        EXPECT_STREQ(rule_of(verdict, name).text(), "does not apply");
    }
}

// A run of New-Orders alone says nothing about the others, so it is outside.
TEST(Verdict, TypesThatWereNotRun) {
    const auto clauses = broken([](VerdictFacts& f) {
        for (size_t t = 1; t < kTxnTypes; ++t) f.counts[t] = 0;
    });
    EXPECT_EQ(clauses.count("5.2.3"), 4u);
    EXPECT_EQ(clauses.count("5.2.5.3"), 3u);
    EXPECT_EQ(clauses.count("5.5.1.5"), 3u);  // shares of Payments and Order-Status
    EXPECT_TRUE(clauses.contains("2.7.2"));
}

TEST(Verdict, SaysThatItIsNotAudited) {
    std::string text;
    for (const std::string& line : verdict_lines(judge(kept()))) text += line + "\n";
    EXPECT_NE(text.find("not audited"), std::string::npos);
    EXPECT_NE(text.find("NOPM"), std::string::npos);
    EXPECT_EQ(text.find("outside the"), std::string::npos);
}

}  // namespace lockstep::tpcc::verdict_test
