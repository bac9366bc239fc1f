// labels: unit
// consistency_test.cc - each of the twelve conditions, and each column of STOCK, is seen to fail
// when one field or row is damaged through the public interface.
#include "tpcc/consistency.h"
#include "threads/base/try.h"
#include "tpcc/driver.h"

#include <set>

#include "tests/tpcc/tpcc_test_util.h"

namespace lockstep::tpcc::consistency_test {

struct Consistency : testing::Test {
    TestStore store;
    Database db = load_small(*store);

    template <class F>
    void damage(F body) {
        const auto done = store->run([&](Txn& txn) -> Result<void> { return body(txn); });
        ASSERT_TRUE(done) << done.error().text();
    }
    // Changes a record in place by `change`.
    template <class R, class F>
    void damage_row(const Index& index, const RowKey& key, F change) {
        damage([&](Txn& txn) -> Result<void> {
            std::string value;
            R record;
            EXPECT_TRUE(TRY(index.get(txn, key, value)));
            EXPECT_TRUE(read_record(value, record));
            change(record);
            EXPECT_TRUE(TRY(index.update(txn, key, bytes_of(record))));
            return {};
        });
    }
    std::set<uint32_t> broken() {
        std::set<uint32_t> ids;
        const auto report = check_consistency(db);
        EXPECT_TRUE(report) << report.error().text();
        for (const Condition& c : report->conditions) {
            if (c.ok()) continue;
            ids.insert(c.id);
            EXPECT_FALSE(c.faults.empty());
            for (const std::string& fault : c.faults)
                EXPECT_NE(fault.find_first_of("0123456789"), std::string::npos) << fault;
        }
        for (const StockCheck& c : report->stock)
            if (!c.ok()) ids.insert(kStock + static_cast<uint32_t>(c.column));
        if (!report->index_faults.empty()) ids.insert(100);
        EXPECT_EQ(report->ok(), ids.empty());
        return ids;
    }
    // Ids of the columns of STOCK, beside those of the twelve conditions.
    static constexpr uint32_t kStock = 200;
    static constexpr uint32_t kYtd = kStock, kOrderCnt = kStock + 1, kRemoteCnt = kStock + 2,
                              kQuantity = kStock + 3;
    using Ids = std::set<uint32_t>;
};

TEST_F(Consistency, SoundAfterLoad) { EXPECT_EQ(broken(), Ids{}); }

TEST_F(Consistency, Condition1And9DistrictMoney) {
    damage_row<DistrictRecord>(db.district, district_key(1, 2), [](auto& r) { r.ytd += 1; });
    EXPECT_EQ(broken(), (Ids{1, 9}));
}

TEST_F(Consistency, Condition1And8WarehouseMoney) {
    damage_row<WarehouseRecord>(db.warehouse, warehouse_key(2), [](auto& r) { r.ytd -= 1; });
    EXPECT_EQ(broken(), (Ids{1, 8}));
}

TEST_F(Consistency, Condition2NextOrderNumber) {
    damage_row<DistrictRecord>(db.district, district_key(2, 1), [](auto& r) { r.next_o_id += 1; });
    EXPECT_EQ(broken(), Ids{2});
}

TEST_F(Consistency, Condition3HoleInNewOrder) {
    damage([&](Txn& txn) -> Result<void> {
        EXPECT_TRUE(TRY(db.new_order.erase(txn, order_key(1, 1, 50))));
        return {};
    });
    EXPECT_EQ(broken(), (Ids{3, 5, 11}));  // the order is then neither carried nor waiting
}

TEST_F(Consistency, Condition4And6MissingLine) {
    damage([&](Txn& txn) -> Result<void> {
        EXPECT_TRUE(TRY(db.order_line.erase(txn, line_key(1, 1, 50, 1))));
        return {};
    });
    EXPECT_EQ(broken(), (Ids{4, 6}));
}

TEST_F(Consistency, Condition5CarrierOfAWaitingOrder) {
    damage_row<OrderRecord>(db.orders, order_key(1, 3, 45), [](auto& r) { r.carrier_id = 3; });
    EXPECT_TRUE(broken().contains(5));
}

TEST_F(Consistency, Condition6LineCountsMovedBetweenOrders) {
    // The sums of the district stay equal, so only the condition about single orders sees it.
    damage_row<OrderRecord>(db.orders, order_key(1, 1, 50), [](auto& r) { ++r.ol_cnt; });
    damage_row<OrderRecord>(db.orders, order_key(1, 1, 51), [](auto& r) { --r.ol_cnt; });
    EXPECT_EQ(broken(), Ids{6});
}

TEST_F(Consistency, Condition7DeliveredLineOfAnOpenOrder) {
    damage_row<OrderLineRecord>(db.order_line, line_key(1, 1, 50, 2),
                                [](auto& r) { r.delivery_d = 5; });
    EXPECT_EQ(broken(), Ids{7});
    damage_row<OrderLineRecord>(db.order_line, line_key(1, 1, 50, 2),
                                [](auto& r) { r.delivery_d = 0; });
    damage_row<OrderLineRecord>(db.order_line, line_key(1, 1, 10, 2),
                                [](auto& r) { r.delivery_d = 0; });
    EXPECT_EQ(broken(), Ids{7});
}

TEST_F(Consistency, Condition8And9And10LostHistory) {
    const auto rows = history_of(db);
    damage([&](Txn& txn) -> Result<void> {
        EXPECT_TRUE(TRY(db.history.erase(txn, rows.begin()->second)));
        return {};
    });
    EXPECT_EQ(broken(), (Ids{8, 9, 10}));
}

TEST_F(Consistency, Condition10And12Balance) {
    damage_row<CustomerRecord>(db.customer, customer_key(1, 2, 33),
                               [](auto& r) { r.balance += 1; });
    EXPECT_EQ(broken(), (Ids{10, 12}));
}

TEST_F(Consistency, Condition10AloneAnd12Alone) {
    damage_row<CustomerRecord>(db.customer, customer_key(1, 2, 33),
                               [](auto& r) { r.ytd_payment += 1; });
    EXPECT_EQ(broken(), Ids{12});
    damage_row<CustomerRecord>(db.customer, customer_key(1, 2, 33),
                               [](auto& r) { r.balance -= 1; });
    EXPECT_EQ(broken(), Ids{10});
}

TEST_F(Consistency, Condition11DeliveryNotCounted) {
    damage_row<CustomerRecord>(db.customer, customer_key(2, 2, 1),
                               [](auto& r) { r.delivery_cnt += 1; });
    EXPECT_EQ(broken(), Ids{11});
}

// Runs New-Orders, so that STOCK has changed. The mutant that leaves stock updates out is seen
// here: all twelve conditions hold with it.
TEST_F(Consistency, StockAgreesWithTheLinesAfterNewOrders) {
    RunSettings run;
    run.mix = Mix::new_order;
    run.transactions = 2000;
    run.warmup = 0;
    run.seed = seed_of_run(5);
    ASSERT_TRUE(run_terminals(db, run, nullptr));
    EXPECT_EQ(broken(), Ids{});
    uint64_t remote = 0;
    for (uint32_t i = 1; i <= db.scale.items; ++i)
        remote += row<StockRecord>(db, db.stock, stock_key(1, i)).remote_cnt;
    EXPECT_GT(remote, 0u);  // so that S_REMOTE_CNT was judged too
}

TEST_F(Consistency, EachColumnOfStock) {
    const auto damage_stock = [&](auto change) {
        damage_row<StockRecord>(db.stock, stock_key(2, 17), change);
    };
    damage_stock([](auto& r) { ++r.order_cnt; });
    EXPECT_EQ(broken(), Ids{kOrderCnt});
    damage_stock([](auto& r) { --r.order_cnt, ++r.remote_cnt; });
    EXPECT_EQ(broken(), Ids{kRemoteCnt});
    damage_stock([](auto& r) { --r.remote_cnt, r.quantity += r.quantity == 100 ? -1 : 1; });
    EXPECT_EQ(broken(), Ids{kQuantity});
    damage_stock([](auto& r) { r.quantity += 91; });  // a refill that was not needed
    EXPECT_TRUE(broken().contains(kQuantity));
}

TEST_F(Consistency, StockOfALineThatWasNeverTaken) {
    // An order of its own, complete by all twelve conditions, but the stock was left alone.
    damage_row<DistrictRecord>(db.district, district_key(1, 1), [](auto& r) { ++r.next_o_id; });
    damage([&](Txn& txn) -> Result<void> {
        const OrderRecord order{
            .carrier_id = 0, .ol_cnt = 1, .all_local = 1, .c_id = 3, .entry_d = 5};
        const OrderLineRecord line{.delivery_d = 0,
                                   .amount = 100,
                                   .i_id = 8,
                                   .supply_w_id = 1,
                                   .quantity = 4,
                                   .dist_info = {}};
        TRY(db.orders.insert(txn, order_key(1, 1, 61), bytes_of(order)));
        TRY(db.orders_customer.insert(txn, customer_order_key(1, 1, 3, 61), {}));
        TRY(db.new_order.insert(txn, order_key(1, 1, 61), {}));
        return db.order_line.insert(txn, line_key(1, 1, 61, 1), bytes_of(line));
    });
    EXPECT_EQ(broken(), (Ids{kYtd, kOrderCnt}));
    // The whole update makes it sound.
    damage_row<StockRecord>(db.stock, stock_key(1, 8), [](auto& r) {
        r.quantity -= 4;
        if (r.quantity < 10) r.quantity += 91;
        r.ytd += 4;
        ++r.order_cnt;
    });
    EXPECT_EQ(broken(), Ids{});
}

TEST_F(Consistency, MissingAndMalformedStock) {
    damage([&](Txn& txn) -> Result<void> {
        EXPECT_TRUE(TRY(db.stock.erase(txn, stock_key(1, 5))));
        return {};
    });
    EXPECT_EQ(broken(), Ids{kQuantity});
}

TEST_F(Consistency, RowsWithoutTheirOrder) {
    damage([&](Txn& txn) -> Result<void> {
        OrderLineRecord line{};
        TRY(db.order_line.insert(txn, line_key(1, 1, 999, 1), bytes_of(line)));
        return db.new_order.insert(txn, order_key(2, 3, 999), {});
    });
    const Ids ids = broken();
    EXPECT_TRUE(ids.contains(5));
    EXPECT_TRUE(ids.contains(6));
    EXPECT_TRUE(ids.contains(4));
}

TEST_F(Consistency, MissingWarehouseAndMalformedRow) {
    damage([&](Txn& txn) -> Result<void> {
        EXPECT_TRUE(TRY(db.warehouse.erase(txn, warehouse_key(1))));
        EXPECT_TRUE(TRY(db.customer.update(txn, customer_key(1, 1, 1), "short")));
        return {};
    });
    const Ids ids = broken();
    EXPECT_TRUE(ids.contains(1));
    EXPECT_TRUE(ids.contains(10));
}

TEST_F(Consistency, SecondaryIndexesAreCompared) {
    const std::string first = rows_of(db, db.orders_customer).begin()->first;
    damage([&](Txn& txn) -> Result<void> {
        EXPECT_TRUE(TRY(db.orders_customer.erase(txn, first)));
        return {};
    });
    EXPECT_EQ(broken(), Ids{100});
}

}  // namespace lockstep::tpcc::consistency_test
