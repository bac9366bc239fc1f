// labels: unit
// transactions_test.cc - what each transaction reads and changes, on a small database.
#include "tpcc/transactions.h"

#include "tests/tpcc/tpcc_test_util.h"
#include "tpcc/consistency.h"

namespace lockstep::tpcc::transactions_test {

struct Transactions : testing::Test {
    TestStore store;
    Database db = load_small(*store);

    template <class F>
    void run(F body) {
        const auto done = store->run([&](Txn& txn) -> Result<void> { return body(txn); });
        ASSERT_TRUE(done) << done.error().text();
    }
    void TearDown() override {
        const auto report = check_consistency(db);
        ASSERT_TRUE(report) << report.error().text();
        EXPECT_TRUE(report->ok());
    }
    NewOrderInput order_of(uint32_t c) {
        NewOrderInput in{};
        in.w = 1, in.d = 2, in.c = c, in.ol_cnt = 5, in.all_local = 0;
        for (uint8_t n = 0; n < 5; ++n)
            in.lines[n] = {10u + n, n == 4 ? 2u : 1u, static_cast<uint8_t>(n + 1), 7};
        return in;
    }
};

TEST_F(Transactions, NewOrderWritesOrderLinesAndStock) {
    const auto stock_before = row<StockRecord>(db, db.stock, stock_key(2, 14));
    NewOrderOutput out;
    run([&](Txn& txn) -> Result<void> {
        EXPECT_TRUE(TRY(new_order(db, txn, order_of(9), 77, out)));
        return {};
    });
    EXPECT_EQ(out.o_id, 61u);
    EXPECT_EQ(row<DistrictRecord>(db, db.district, district_key(1, 2)).next_o_id, 62u);
    const auto order = row<OrderRecord>(db, db.orders, order_key(1, 2, 61));
    EXPECT_EQ(order.c_id, 9u);
    EXPECT_EQ(order.ol_cnt, 5);
    EXPECT_EQ(order.carrier_id, 0);
    EXPECT_EQ(order.entry_d, 77);
    EXPECT_EQ(
        rows_of(db, db.orders_customer).count(std::string(Slice(customer_order_key(1, 2, 9, 61)))),
        1u);

    Cents sum = 0;
    for (uint32_t n = 1; n <= 5; ++n) {
        const auto line = row<OrderLineRecord>(db, db.order_line, line_key(1, 2, 61, n));
        const auto item = row<ItemRecord>(db, db.item, item_key(9 + n));
        EXPECT_EQ(line.amount, item.price * 7);
        EXPECT_EQ(line.delivery_d, 0);
        const auto stock = row<StockRecord>(db, db.stock, stock_key(n == 5 ? 2 : 1, 9 + n));
        EXPECT_EQ(Slice(line.dist_info, 24), Slice(stock.dist[1], 24));
        sum += line.amount;
    }
    const auto stock = row<StockRecord>(db, db.stock, stock_key(2, 14));
    const int32_t left = stock_before.quantity - 7;
    EXPECT_EQ(stock.quantity, left < 10 ? left + 91 : left);
    EXPECT_EQ(stock.ytd, 7);
    EXPECT_EQ(stock.order_cnt, 1u);
    EXPECT_EQ(stock.remote_cnt, 1u);
    EXPECT_EQ(out.total,
              sum * (10000 - out.discount) / 10000 * (10000 + out.w_tax + out.d_tax) / 10000);
}

TEST_F(Transactions, NewOrderOfAnUnusedItemAsksForRollbackAndLeavesNothing) {
    const Rows orders = rows_of(db, db.orders), stock = rows_of(db, db.stock),
               districts = rows_of(db, db.district);
    NewOrderInput in = order_of(3);
    in.rolls_back = true;
    in.lines[4].i_id = db.scale.items + 1;
    NewOrderOutput out;
    const auto done = store->run([&](Txn& txn) -> Result<void> {
        EXPECT_FALSE(TRY(new_order(db, txn, in, 1, out)));
        return fail(ErrorCode::rolled_back);
    });
    EXPECT_EQ(done.error().code, ErrorCode::rolled_back);
    EXPECT_EQ(rows_of(db, db.orders), orders);
    EXPECT_EQ(rows_of(db, db.stock), stock);
    EXPECT_EQ(rows_of(db, db.district), districts);
}

TEST_F(Transactions, PaymentMovesMoneyAndKeepsHistory) {
    const auto before = row<CustomerRecord>(db, db.customer, customer_key(2, 3, 5));
    const auto warehouse = row<WarehouseRecord>(db, db.warehouse, warehouse_key(1));
    const size_t history = history_of(db).size();
    PaymentInput in{};
    in.w = 1, in.d = 2, in.amount = 12345;
    in.customer.w = 2, in.customer.d = 3, in.customer.c = 5;
    PaymentOutput out;
    run([&](Txn& txn) { return payment(db, txn, in, 99, out); });
    const auto after = row<CustomerRecord>(db, db.customer, customer_key(2, 3, 5));
    EXPECT_EQ(after.balance, before.balance - 12345);
    EXPECT_EQ(after.ytd_payment, before.ytd_payment + 12345);
    EXPECT_EQ(after.payment_cnt, 2u);
    EXPECT_EQ(row<WarehouseRecord>(db, db.warehouse, warehouse_key(1)).ytd, warehouse.ytd + 12345);
    EXPECT_EQ(history_of(db).size(), history + 1);
}

TEST_F(Transactions, BadCreditCustomersGetANoteInFrontOfTheirData) {
    uint32_t bad = 0;
    for (uint32_t c = 1; c <= db.scale.customers && !bad; ++c)
        if (is_bad_credit(row<CustomerRecord>(db, db.customer, customer_key(1, 1, c)))) bad = c;
    ASSERT_NE(bad, 0u) << "no customer with bad credit in this district";
    const auto before = row<CustomerRecord>(db, db.customer, customer_key(1, 1, bad));
    PaymentInput in{};
    in.w = 1, in.d = 1, in.amount = 505;
    in.customer.w = 1, in.customer.d = 1, in.customer.c = bad;
    PaymentOutput out;
    for (int i = 0; i < 20; ++i) run([&](Txn& txn) { return payment(db, txn, in, 99, out); });
    const auto after = row<CustomerRecord>(db, db.customer, customer_key(1, 1, bad));
    const Slice data{after.data, after.data_size};
    const std::string note = std::to_string(bad) + " 1 1 1 1 5.05|";
    EXPECT_TRUE(data.starts_with(note + note)) << data;
    EXPECT_EQ(data.size(), std::min<size_t>(500, before.data_size + 20 * note.size()));
    EXPECT_EQ(data.substr(20 * note.size()),
              Slice(before.data, before.data_size).substr(0, data.size() - 20 * note.size()));
}

TEST_F(Transactions, CustomerByNameIsTheMiddleOneByFirstName) {
    const auto wanted = row<CustomerRecord>(db, db.customer, customer_key(1, 1, 1));
    std::vector<std::pair<std::string, uint32_t>> same;
    for (uint32_t c = 1; c <= db.scale.customers; ++c) {
        const auto customer = row<CustomerRecord>(db, db.customer, customer_key(1, 1, c));
        if (customer.last.view() == wanted.last.view()) same.emplace_back(customer.first.view(), c);
    }
    std::sort(same.begin(), same.end());
    CustomerChoice choice{true, 1, 1, 0, wanted.last};
    run([&](Txn& txn) -> Result<void> {
        EXPECT_EQ(TRY(find_customer(db, txn, choice)), same[(same.size() + 1) / 2 - 1].second);
        return {};
    });
}

TEST_F(Transactions, OrderStatusShowsTheNewestOrder) {
    NewOrderOutput ordered;
    run([&](Txn& txn) -> Result<void> {
        TRY(new_order(db, txn, order_of(9), 77, ordered));
        return {};
    });
    OrderStatusInput in{};
    in.customer.w = 1, in.customer.d = 2, in.customer.c = 9;
    OrderStatusOutput out;
    run([&](Txn& txn) { return order_status(db, txn, in, out); });
    EXPECT_EQ(out.o_id, ordered.o_id);
    EXPECT_EQ(out.order.ol_cnt, 5);
    EXPECT_EQ(out.lines[4].i_id, 14u);
    EXPECT_EQ(out.lines[4].supply_w_id, 2u);
}

TEST_F(Transactions, DeliveryTakesTheOldestOfEachDistrictUntilNoneIsLeft) {
    DeliveryOutput out;
    for (uint32_t round = 0; round < db.scale.undelivered; ++round) {
        run([&](Txn& txn) { return delivery(db, txn, {1, 4}, 500, out); });
        EXPECT_EQ(out.skipped, 0u);
        for (uint32_t d = 0; d < db.scale.districts; ++d)
            EXPECT_EQ(out.o_id[d], db.scale.delivered() + 1 + round);
    }
    const auto order = row<OrderRecord>(db, db.orders, order_key(1, 2, 41));
    EXPECT_EQ(order.carrier_id, 4);
    Cents sum = 0;
    for (uint32_t n = 1; n <= order.ol_cnt; ++n) {
        const auto line = row<OrderLineRecord>(db, db.order_line, line_key(1, 2, 41, n));
        EXPECT_EQ(line.delivery_d, 500);
        sum += line.amount;
    }
    const auto customer = row<CustomerRecord>(db, db.customer, customer_key(1, 2, order.c_id));
    EXPECT_EQ(customer.balance, -1000 + sum);
    EXPECT_EQ(customer.delivery_cnt, 1u);
    run([&](Txn& txn) { return delivery(db, txn, {1, 4}, 500, out); });
    EXPECT_EQ(out.skipped, db.scale.districts);
}

TEST_F(Transactions, StockLevelCountsDistinctLowItems) {
    const auto lines = rows_of(db, db.order_line);
    for (const int32_t threshold : {10, 15, 20, 101}) {
        std::map<uint32_t, bool> low;
        for (const auto& [key, value] : lines) {
            KeyReader reader(key);
            const uint32_t w = reader.u16(), d = reader.u8(), o = reader.u32();
            if (w != 2 || d != 1 || o + 20 < db.scale.customers + 1) continue;
            OrderLineRecord line;
            ASSERT_TRUE(read_record(value, line));
            const uint32_t i = line.i_id;
            low[i] = row<StockRecord>(db, db.stock, stock_key(2, i)).quantity < threshold;
        }
        uint32_t expected = 0;
        for (const auto& entry : low) expected += entry.second;
        StockLevelOutput out;
        run([&](Txn& txn) { return stock_level(db, txn, {2, 1, threshold}, out); });
        EXPECT_EQ(out.low_stock, expected) << threshold;
    }
}

}  // namespace lockstep::tpcc::transactions_test
