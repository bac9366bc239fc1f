// labels: unit
// input_test.cc - inputs and the deck follow clauses 2.4.1 to 2.8.1 and 5.2.4.
#include "tpcc/input.h"

#include <gtest/gtest.h>

#include <map>

#include "tpcc/deck.h"

namespace lockstep::tpcc::input_test {

constexpr int kDraws = 100'000;

struct Inputs : testing::Test {
    Rng rng{11};
    InputRules rules{Scale{.warehouses = 5}, RandomConstants::choose(1)};
};

TEST_F(Inputs, NewOrderShares) {
    int rollbacks = 0, remote = 0;
    int64_t lines = 0;
    for (int i = 0; i < kDraws; ++i) {
        const NewOrderInput in = make_new_order(rng, rules, 3);
        ASSERT_GE(in.ol_cnt, 5);
        ASSERT_LE(in.ol_cnt, 15);
        lines += in.ol_cnt;
        rollbacks += in.rolls_back;
        bool all_local = true;
        uint32_t numbers = 0;
        for (int n = 0; n < in.ol_cnt; ++n) {
            const NewOrderLine& line = in.lines[n];
            numbers |= 1u << line.number;
            all_local &= line.supply_w == 3;
            remote += line.supply_w != 3;
            ASSERT_GE(line.supply_w, 1u);
            ASSERT_LE(line.supply_w, 5u);
            ASSERT_GE(line.quantity, 1);
            ASSERT_LE(line.quantity, 10);
            const bool unused = in.rolls_back && n == in.ol_cnt - 1;
            ASSERT_EQ(line.i_id > rules.scale.items, unused);
        }
        ASSERT_EQ(numbers, (2u << in.ol_cnt) - 2);  // every number once
        ASSERT_EQ(in.all_local, all_local);
    }
    EXPECT_NEAR(static_cast<double>(lines) / kDraws, 10, 0.1);
    EXPECT_NEAR(static_cast<double>(rollbacks) / kDraws, 0.01, 0.002);
    EXPECT_NEAR(static_cast<double>(remote) / static_cast<double>(lines), 0.01, 0.001);
}

TEST_F(Inputs, LinesRunInOneOrderEverywhere) {
    for (int i = 0; i < 10'000; ++i) {
        const NewOrderInput in = make_new_order(rng, rules, 1);
        for (int n = 1; n < in.ol_cnt - in.rolls_back; ++n)
            ASSERT_LE(std::pair(in.lines[n - 1].supply_w, in.lines[n - 1].i_id),
                      std::pair(in.lines[n].supply_w, in.lines[n].i_id));
    }
}

TEST_F(Inputs, PaymentShares) {
    int remote = 0, by_name = 0;
    for (int i = 0; i < kDraws; ++i) {
        const PaymentInput in = make_payment(rng, rules, 2);
        remote += in.customer.w != 2;
        by_name += in.customer.by_name;
        ASSERT_TRUE(in.customer.w != 2 || in.customer.d == in.d);
        ASSERT_GE(in.amount, 100);
        ASSERT_LE(in.amount, 500'000);
        if (!in.customer.by_name) {
            ASSERT_GE(in.customer.c, 1u);
            ASSERT_LE(in.customer.c, 3000u);
        }
    }
    EXPECT_NEAR(static_cast<double>(remote) / kDraws, 0.15, 0.005);
    EXPECT_NEAR(static_cast<double>(by_name) / kDraws, 0.60, 0.006);
}

// 15% of the Payments draw a district all the same, one in ten of them the terminal's (clause
// 2.5.1.2).
TEST_F(Inputs, OneWarehouseHasNoRemoteOne) {
    rules.scale.warehouses = 1;
    int other_district = 0;
    for (int i = 0; i < kDraws; ++i) {
        const PaymentInput in = make_payment(rng, rules, 1);
        ASSERT_EQ(in.customer.w, 1u);
        other_district += in.customer.d != in.d;
        ASSERT_TRUE(make_new_order(rng, rules, 1).all_local);
    }
    EXPECT_NEAR(static_cast<double>(other_district) / kDraws, 0.15 * 0.9, 0.005);
}

TEST_F(Inputs, SameSeedSameInput) {
    Rng a(5), b(5);
    for (int i = 0; i < 100; ++i) {
        const NewOrderInput x = make_new_order(a, rules, 1), y = make_new_order(b, rules, 1);
        ASSERT_EQ(x.c, y.c);
        ASSERT_EQ(x.lines[0].i_id, y.lines[0].i_id);
    }
}

TEST(Deck, DealsTheSpecifiedShares) {
    for (const auto& [mix, cards] :
         std::map<Mix, std::array<int, kTxnTypes>>{{Mix::full, {10, 10, 1, 1, 1}},
                                                   {Mix::without_delivery, {10, 10, 1, 0, 1}},
                                                   {Mix::new_order, {1, 0, 0, 0, 0}},
                                                   {Mix::payment, {0, 1, 0, 0, 0}}}) {
        Deck deck(mix, Rng(1));
        int size = 0;
        for (const int n : cards) size += n;
        for (int round = 0; round < 10; ++round) {
            std::array<int, kTxnTypes> dealt{};
            for (int i = 0; i < size; ++i) ++dealt[static_cast<size_t>(deck.deal())];
            // Every deck holds each card exactly so often.
            EXPECT_EQ(dealt, cards);
        }
    }
}

TEST(Deck, IsShuffled) {
    Deck deck(Mix::full, Rng(2));
    std::vector<TxnType> first(23), second(23);
    for (auto& card : first) card = deck.deal();
    for (auto& card : second) card = deck.deal();
    EXPECT_NE(first, second);
}

}  // namespace lockstep::tpcc::input_test
