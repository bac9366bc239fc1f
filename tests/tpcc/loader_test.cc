// labels: unit
// loader_test.cc - the initial population: cardinalities, value rules, equal for equal
// seeds, complete or refused.
#include "tpcc/loader.h"

#include <set>

#include "tests/tpcc/tpcc_test_util.h"
#include "tpcc/consistency.h"

namespace lockstep::tpcc::loader_test {

void expect_equal_databases(Database& a, Database& b) {
    for (const TableName& table : kTables) {
        if (!table.index) continue;
        EXPECT_EQ(rows_of(a, a.*table.index), rows_of(b, b.*table.index)) << table.name;
    }
    const auto x = history_of(a), y = history_of(b);
    ASSERT_EQ(x.size(), y.size());
    EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(),
                           [](const auto& p, const auto& q) { return p.first == q.first; }));
}

TEST(Loader, CardinalitiesAndConditions) {
    TestStore store;
    Database db = load_small(*store);
    EXPECT_EQ(rows_of(db, db.warehouse).size(), 2u);
    EXPECT_EQ(rows_of(db, db.district).size(), 6u);
    EXPECT_EQ(rows_of(db, db.customer).size(), 360u);
    EXPECT_EQ(rows_of(db, db.customer_name).size(), 360u);
    EXPECT_EQ(rows_of(db, db.orders).size(), 360u);
    EXPECT_EQ(rows_of(db, db.orders_customer).size(), 360u);
    EXPECT_EQ(rows_of(db, db.new_order).size(), 120u);
    EXPECT_EQ(rows_of(db, db.item).size(), 300u);
    EXPECT_EQ(rows_of(db, db.stock).size(), 600u);
    EXPECT_EQ(history_of(db).size(), 360u);
    const auto lines = rows_of(db, db.order_line).size();
    EXPECT_GE(lines, 360u * 5);
    EXPECT_LE(lines, 360u * 15);
    const auto report = check_consistency(db);
    ASSERT_TRUE(report) << report.error().text();
    for (const Condition& c : report->conditions)
        EXPECT_TRUE(c.ok()) << c.id << ": " << (c.faults.empty() ? "" : c.faults[0]);
    EXPECT_TRUE(report->index_faults.empty());
}

TEST(Loader, EqualSeedsGiveEqualDatabasesWhateverTheWorkers) {
    TestStore one(1), two(2), other(1);
    Database a = load_small(*one), b = load_small(*two), c = load_small(*other, small_scale(), 8);
    expect_equal_databases(a, b);
    EXPECT_NE(rows_of(a, a.customer), rows_of(c, c.customer));
}

TEST(Loader, ReopenedDatabaseIsTheSame) {
    TestStore store;
    const Database before = load_small(*store);
    store.reopen();
    auto after = open_database(*store);
    ASSERT_TRUE(after) << after.error().text();
    EXPECT_EQ(after->scale.warehouses, before.scale.warehouses);
    EXPECT_EQ(after->scale.items, before.scale.items);
    EXPECT_EQ(after->seed, before.seed);
    EXPECT_EQ(after->constants.c_last_load, before.constants.c_last_load);
    EXPECT_EQ(after->constants.ol_i_id, before.constants.ol_i_id);
    EXPECT_TRUE(check_consistency(*after)->ok());
}

TEST(Loader, IncompleteLoadIsRefused) {
    TestStore store;
    EXPECT_FALSE(has_tables(*store));
    Database db;
    db.store = &*store;
    ASSERT_TRUE(create_tables(db));
    EXPECT_TRUE(has_tables(*store));
    const auto opened = open_database(*store);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::no_such_record);
}

// At full scale, without a store: clause 4.3.3.1.
TEST(Rows, ValueRules) {
    const RowSource rows{seed_of_run(42), Scale{}, RandomConstants::choose(1), 5};
    int original_items = 0, original_stock = 0, bad_credit = 0;
    for (uint32_t i = 1; i <= 20'000; ++i) {
        ItemRecord item;
        rows.item(i, item);
        ASSERT_GE(item.price, 100);
        ASSERT_LE(item.price, 10'000);
        ASSERT_GE(item.name.size, 14);
        ASSERT_LE(item.name.size, 24);
        original_items += is_original(item.data);
        StockRecord stock;
        rows.stock(1, i, stock);
        ASSERT_GE(stock.quantity, 10);
        ASSERT_LE(stock.quantity, 100);
        original_stock += is_original(stock.data);
    }
    EXPECT_NEAR(original_items, 2000, 200);
    EXPECT_NEAR(original_stock, 2000, 200);
    std::set<std::string> names;
    for (uint32_t c = 1; c <= 3000; ++c) {
        CustomerRecord customer;
        rows.customer(1, 1, c, customer);
        ASSERT_GE(customer.data_size, 300);
        ASSERT_LE(customer.data_size, 500);
        ASSERT_EQ(customer.balance, -1000);
        bad_credit += is_bad_credit(customer);
        Text<16> last, first;
        rows.customer_names(1, 1, c, last, first);
        ASSERT_EQ(last.view(), customer.last.view());
        if (c <= 1000) names.emplace(last.view());
    }
    EXPECT_NEAR(bad_credit, 300, 80);
    EXPECT_EQ(names.size(), 1000u);
}

TEST(Rows, OrdersAreAPermutationOfTheCustomers) {
    const RowSource rows{seed_of_run(42), Scale{}, RandomConstants::choose(1), 5};
    const auto customers = rows.order_customers(2, 3);
    EXPECT_EQ(std::set<uint32_t>(customers.begin(), customers.end()).size(), 3000u);
    EXPECT_NE(customers, rows.order_customers(2, 4));
    OrderRecord delivered, open;
    rows.order(1, 1, 2100, 1, delivered);
    rows.order(1, 1, 2101, 1, open);
    EXPECT_NE(delivered.carrier_id, 0);
    EXPECT_EQ(open.carrier_id, 0);
    OrderLineRecord line;
    rows.order_line(1, 1, 2100, 1, line);
    EXPECT_EQ(line.amount, 0);
    EXPECT_NE(line.delivery_d, 0);
    rows.order_line(1, 1, 2101, 1, line);
    EXPECT_GT(line.amount, 0);
    EXPECT_EQ(line.delivery_d, 0);
}

}  // namespace lockstep::tpcc::loader_test
