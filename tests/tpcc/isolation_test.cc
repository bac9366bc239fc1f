// labels: unit
// isolation_test.cc - the nine isolation tests of clause 3.4.2 and the two atomicity tests of
// clause 3.2.2, over the real transactions, each as one fixed schedule.
//
// Source: TPC-C revision 5.11, clauses 3.2.2.1 to 3.2.2.2 and 3.4.2.1 to 3.4.2.9.
#include "tests/tpcc/schedule.h"

namespace lockstep::tpcc::isolation_test {

constexpr uint32_t kW = 1, kD = 2, kC = 7;
constexpr Time kNow = 5'000'000'000;
using Actor = Schedule::Actor;

// A transaction and what it returned.
struct Ordering {
    NewOrderOutput out{};
    Actor* actor = nullptr;
};
struct Asking {
    OrderStatusOutput out{};
    Actor* actor = nullptr;
};

class Clause3 : public testing::TestWithParam<Calls> {
protected:
    Schedule schedule{GetParam()};
    Database& db = schedule.db();
    const NewOrderInput order = order_of(kW, kD, kC, {{3, 1}, {5, 1}, {8, 1}});

    void start(Ordering& ordering) {
        ordering.actor = &schedule.start(
            [&](Txn& txn) { return new_order(db, txn, order, kNow, ordering.out); });
    }
    void start(Asking& asking, Isolation isolation = Isolation::serializable) {
        asking.actor = &schedule.start(
            [&](Txn& txn) -> Result<bool> {
                TRY(order_status(db, txn, {customer_of(kW, kD, kC)}, asking.out));
                return true;
            },
            isolation);
    }
    uint32_t next_order() {
        return schedule.row<DistrictRecord>(db.district, district_key(kW, kD)).next_o_id;
    }
    OrderStatusOutput last_order() {
        OrderStatusOutput out{};
        EXPECT_TRUE(schedule
                        .read([&](Txn& txn) -> Result<bool> {
                            TRY(order_status(db, txn, {customer_of(kW, kD, kC)}, out));
                            return true;
                        })
                        .has_value());
        return out;
    }
    void expect_order(const OrderStatusOutput& seen, const NewOrderOutput& entered) {
        EXPECT_EQ(seen.o_id, entered.o_id);
        EXPECT_EQ(seen.order.entry_d, entered.entry_d);
        ASSERT_EQ(seen.order.ol_cnt, order.ol_cnt);
        for (size_t i = 0; i < order.ol_cnt; ++i) {
            EXPECT_EQ(seen.lines[i].i_id, order.lines[i].i_id);
            EXPECT_EQ(seen.lines[i].quantity, order.lines[i].quantity);
            EXPECT_EQ(seen.lines[i].amount, entered.lines[i].amount);
        }
        EXPECT_EQ(Slice(seen.middle, 2), "OE");
    }

    // The oldest undelivered order of district 1, its customer, and what it costs.
    struct Undelivered {
        uint32_t o_id = 0, c_id = 0;
        Cents sum = 0;
        CustomerRecord customer{};
    };
    Undelivered oldest() {
        Undelivered of;
        EXPECT_TRUE(schedule
                        .read([&](Txn& txn) -> Result<bool> {
                            of = {};
                            Cursor news =
                                db.new_order.scan(txn, district_key(kW, 1), district_key(kW, 2));
                            TRY(news.next());
                            of.o_id = last_u32(news.key());
                            Cursor lines = db.order_line.scan(txn, order_key(kW, 1, of.o_id),
                                                              order_key(kW, 1, of.o_id + 1));
                            OrderLineRecord line;
                            while (TRY(lines.next()))
                                if (read_record(lines.value(), line)) of.sum += line.amount;
                            return true;
                        })
                        .has_value());
        of.c_id = schedule.row<OrderRecord>(db.orders, order_key(kW, 1, of.o_id)).c_id;
        of.customer = customer(of.c_id);
        return of;
    }
    CustomerRecord customer(uint32_t c) {
        return schedule.row<CustomerRecord>(db.customer, customer_key(kW, 1, c));
    }
    Actor& start_delivery(DeliveryOutput& out) {
        return schedule.start([&](Txn& txn) -> Result<bool> {
            TRY(delivery(db, txn, {kW, 4}, kNow, out));
            return true;
        });
    }
    Actor& start_payment(const PaymentInput& in, PaymentOutput& out) {
        return schedule.start([&, in](Txn& txn) -> Result<bool> {
            TRY(payment(db, txn, in, kNow, out));
            return true;
        });
    }
};

// 3.4.2.1: an Order-Status waits for the New-Order of the same customer, and returns its order.
TEST_P(Clause3, Isolation1OrderStatusWaitsForACommittedNewOrder) {
    Ordering t1;
    Asking t2;
    start(t1);
    EXPECT_FALSE(t1.actor->waits());
    start(t2);
    EXPECT_TRUE(t2.actor->waits());
    schedule.commit(*t1.actor);
    EXPECT_FALSE(t2.actor->waits());
    schedule.commit(*t2.actor);
    expect_order(t2.out, t1.out);
}

// The same in a snapshot: it does not wait, and returns the order before.
TEST_P(Clause3, Isolation1InASnapshotReadsTheOrderBefore) {
    const OrderStatusOutput before = last_order();
    Ordering t1;
    Asking t2;
    start(t1);
    start(t2, Isolation::snapshot);
    EXPECT_FALSE(t2.actor->waits());
    schedule.commit(*t1.actor);
    schedule.commit(*t2.actor);
    EXPECT_EQ(t2.out.o_id, before.o_id);
    expect_order(last_order(), t1.out);
}

// 3.4.2.2: the New-Order is rolled back, so the Order-Status returns the order before.
TEST_P(Clause3, Isolation2OrderStatusWaitsForANewOrderThatIsRolledBack) {
    const OrderStatusOutput before = last_order();
    Ordering t1;
    Asking t2;
    start(t1);
    start(t2);
    EXPECT_TRUE(t2.actor->waits());
    schedule.roll_back(*t1.actor);
    EXPECT_FALSE(t2.actor->waits());
    schedule.commit(*t2.actor);
    EXPECT_EQ(t2.out.o_id, before.o_id);
    EXPECT_EQ(t2.out.order.entry_d, before.order.entry_d);
}

// 3.4.2.3: two New-Orders of one district get neighbouring numbers.
TEST_P(Clause3, Isolation3TwoNewOrders) {
    const uint32_t next = next_order();
    Ordering t1, t2;
    start(t1);
    start(t2);
    EXPECT_TRUE(t2.actor->waits());
    schedule.commit(*t1.actor);
    EXPECT_FALSE(t2.actor->waits());
    schedule.commit(*t2.actor);
    EXPECT_EQ(t1.out.o_id, next);
    EXPECT_EQ(t2.out.o_id, next + 1);
    EXPECT_EQ(next_order(), next + 2);
}

// 3.4.2.4: the first one is rolled back, so the second one gets its number.
TEST_P(Clause3, Isolation4TwoNewOrdersOfWhichOneIsRolledBack) {
    const uint32_t next = next_order();
    Ordering t1, t2;
    start(t1);
    start(t2);
    EXPECT_TRUE(t2.actor->waits());
    schedule.roll_back(*t1.actor);
    EXPECT_FALSE(t2.actor->waits());
    schedule.commit(*t2.actor);
    EXPECT_EQ(t2.out.o_id, next);
    EXPECT_EQ(next_order(), next + 1);
    expect_order(last_order(), t2.out);
}

// 3.4.2.5: a Payment of a customer whose order is being delivered: the balance shows both.
TEST_P(Clause3, Isolation5PaymentAndDelivery) {
    const Undelivered order_before = oldest();
    DeliveryOutput delivered{};
    PaymentOutput paid{};
    Actor& t1 = start_delivery(delivered);
    EXPECT_FALSE(t1.waits());
    EXPECT_EQ(delivered.o_id[0], order_before.o_id);
    Actor& t2 = start_payment({kW, 1, customer_of(kW, 1, order_before.c_id), 4321}, paid);
    EXPECT_TRUE(t2.waits());
    schedule.commit(t1);
    EXPECT_FALSE(t2.waits());
    schedule.commit(t2);
    const CustomerRecord after = customer(order_before.c_id);
    EXPECT_EQ(after.balance, order_before.customer.balance + order_before.sum - 4321);
    EXPECT_EQ(after.delivery_cnt, order_before.customer.delivery_cnt + 1);
    EXPECT_EQ(after.payment_cnt, order_before.customer.payment_cnt + 1);
    EXPECT_GT(order_before.sum, 0);
}

// 3.4.2.6: the Delivery is rolled back: the balance shows the Payment alone.
TEST_P(Clause3, Isolation6PaymentAndADeliveryThatIsRolledBack) {
    const Undelivered order_before = oldest();
    DeliveryOutput delivered{};
    PaymentOutput paid{};
    Actor& t1 = start_delivery(delivered);
    Actor& t2 = start_payment({kW, 1, customer_of(kW, 1, order_before.c_id), 4321}, paid);
    EXPECT_TRUE(t2.waits());
    schedule.roll_back(t1);
    EXPECT_FALSE(t2.waits());
    schedule.commit(t2);
    const CustomerRecord after = customer(order_before.c_id);
    EXPECT_EQ(after.balance, order_before.customer.balance - 4321);
    EXPECT_EQ(after.delivery_cnt, order_before.customer.delivery_cnt);
    EXPECT_EQ(oldest().o_id, order_before.o_id);
}

// 3.4.2.7, case A: prices that a New-Order has read stay as they are until it ends. The order has
// item x twice, from two warehouses, and y between them. A fourth transaction holds y, which stops
// the New-Order behind its first read of x.
TEST_P(Clause3, Isolation7RepeatableReadsOfPrices) {
    constexpr uint32_t kX = 20, kY = 30;
    const auto price = [&](uint32_t i) {
        return schedule.row<ItemRecord>(db.item, item_key(i)).price;
    };
    const Cents x_before = price(kX), y_before = price(kY);  // T1
    Actor& gate = schedule.start([&](Txn& txn) -> Result<bool> {
        std::string value;
        return db.item.get(txn, item_key(kY), value, Access::write);
    });
    NewOrderOutput out{};
    const NewOrderInput in = order_of(kW, kD, kC, {{kX, 1}, {kY, 1}, {kX, 2}});
    Actor& t2 = schedule.start([&](Txn& txn) { return new_order(db, txn, in, kNow, out); });
    EXPECT_TRUE(t2.waits());
    Actor& t3 = schedule.start([&](Txn& txn) -> Result<bool> {
        for (const uint32_t i : {kX, kY}) {
            ItemRecord item{};
            TRY(fetch(db.item, txn, item_key(i), item, "item", Access::write,
                      offsetof(ItemRecord, im_id)));
            item.price += item.price / 10;
            TRY(patch_row(db.item, txn, item_key(i), item, 0, sizeof(Cents), "item"));
        }
        return true;
    });
    EXPECT_TRUE(t3.waits());
    schedule.roll_back(gate);
    EXPECT_FALSE(t2.waits());
    EXPECT_TRUE(t3.waits());
    schedule.commit(t2);
    EXPECT_FALSE(t3.waits());
    schedule.commit(t3);
    EXPECT_EQ(out.lines[0].price, x_before);
    EXPECT_EQ(out.lines[1].price, y_before);
    EXPECT_EQ(out.lines[2].price, x_before);
    EXPECT_EQ(price(kX), x_before + x_before / 10);  // T4
    EXPECT_EQ(price(kY), y_before + y_before / 10);
}

// 3.4.2.8, case A: a Delivery has found no order in a district. A New-Order there waits, and the
// Delivery finds none when it looks again.
TEST_P(Clause3, Isolation8NoPhantomForADelivery) {
    EXPECT_TRUE(schedule
                    .read([&](Txn& txn) -> Result<bool> {
                        for (uint32_t o = db.scale.delivered() + 1; o <= db.scale.customers; ++o)
                            TRY(db.new_order.erase(txn, order_key(kW, kD, o)));
                        return true;
                    })
                    .has_value());
    DeliveryOutput delivered{};
    bool found_again = true;
    Actor& t1 = schedule.start([&](Txn& txn, Actor& self) -> Result<bool> {
        TRY(delivery(db, txn, {kW, 4}, kNow, delivered));
        self.pause();
        Cursor again =
            db.new_order.scan(txn, district_key(kW, kD), district_key(kW, kD + 1), Access::write);
        found_again = TRY(again.next());
        return true;
    });
    EXPECT_EQ(delivered.o_id[kD - 1], 0u);
    EXPECT_EQ(delivered.skipped, 1u);
    Ordering t2;
    start(t2);
    EXPECT_TRUE(t2.actor->waits());
    schedule.resume(t1);
    EXPECT_FALSE(found_again);
    schedule.commit(t1);
    EXPECT_FALSE(t2.actor->waits());
    schedule.commit(*t2.actor);
    expect_order(last_order(), t2.out);
}

// 3.4.2.9, case A: an Order-Status has found a customer's last order. A New-Order of the customer
// waits, and the Order-Status finds the same order when it looks again.
TEST_P(Clause3, Isolation9NoPhantomForAnOrderStatus) {
    for (const bool snapshot : {false, true}) {
        OrderStatusOutput first{}, again{};
        Actor& t1 = schedule.start(
            [&](Txn& txn, Actor& self) -> Result<bool> {
                TRY(order_status(db, txn, {customer_of(kW, kD, kC)}, first));
                self.pause();
                TRY(order_status(db, txn, {customer_of(kW, kD, kC)}, again));
                return true;
            },
            snapshot ? Isolation::snapshot : Isolation::serializable);
        EXPECT_NE(first.o_id, 0u);
        Ordering t2;
        start(t2);
        // Case B of the test: in a snapshot it need not wait, and the first one sees no difference.
        EXPECT_EQ(t2.actor->waits(), !snapshot);
        if (snapshot) schedule.commit(*t2.actor);
        schedule.resume(t1);
        EXPECT_EQ(again.o_id, first.o_id);
        EXPECT_EQ(again.order.entry_d, first.order.entry_d);
        schedule.commit(t1);
        if (!snapshot) schedule.commit(*t2.actor);
        expect_order(last_order(), t2.out);
    }
}

// 3.2.2.1 and 3.2.2.2: a Payment changes the customer, the district and the warehouse; with a
// ROLLBACK in the place of its COMMIT it changes none of them.
TEST_P(Clause3, AtomicityOfAPayment) {
    constexpr Cents kAmount = 98765;
    const PaymentInput in{kW, kD, customer_of(2, 3, 11), kAmount};  // of another warehouse
    struct Rows {
        WarehouseRecord warehouse;
        DistrictRecord district;
        CustomerRecord customer;
    };
    const auto rows = [&] {
        return Rows{schedule.row<WarehouseRecord>(db.warehouse, warehouse_key(kW)),
                    schedule.row<DistrictRecord>(db.district, district_key(kW, kD)),
                    schedule.row<CustomerRecord>(db.customer, customer_key(2, 3, 11))};
    };
    for (const bool commits : {true, false}) {
        const Rows before = rows();
        PaymentOutput paid{};
        Actor& t1 = start_payment(in, paid);
        if (commits) schedule.commit(t1);
        else schedule.roll_back(t1);
        const Rows after = rows();
        const Cents amount = commits ? kAmount : 0;
        EXPECT_EQ(after.warehouse.ytd, before.warehouse.ytd + amount);
        EXPECT_EQ(after.district.ytd, before.district.ytd + amount);
        EXPECT_EQ(after.customer.balance, before.customer.balance - amount);
        EXPECT_EQ(after.customer.ytd_payment, before.customer.ytd_payment + amount);
        EXPECT_EQ(after.customer.payment_cnt, before.customer.payment_cnt + commits);
        EXPECT_EQ(std::memcmp(&after, &before, sizeof(Rows)) == 0, !commits);
    }
}

INSTANTIATE_TEST_SUITE_P(Calls, Clause3, testing::Values(Calls::many, Calls::single),
                         [](const auto& info) {
                             return info.param == Calls::many ? "many" : "single";
                         });

}  // namespace lockstep::tpcc::isolation_test
