// labels: unit
// columns_test.cc - every row of every table, decoded by the columns of tpcc/columns.h, equals its
// struct and its key.
#include "tpcc/columns.h"

#include <numeric>

#include "sm/scan/block_builder.h"
#include "tests/tpcc/tpcc_test_util.h"
#include "tpcc/keys.h"

namespace lockstep::tpcc::columns_test {

using sm::scan::BlockBuilder;
using sm::scan::RecordBytes;

// One row of a block, column after column in the order of the text.
class Row {
public:
    Row(const Block& block, size_t row) : block_(block), row_(row) {}
    ~Row() { EXPECT_EQ(at_, block_.columns().size()); }
    template <class T>
    Row& number(T expected, bool null = false) {
        EXPECT_EQ(block_.is_null(at_, row_), null) << name();
        EXPECT_EQ(block_.numbers<T>(at_)[row_], expected) << name();
        ++at_;
        return *this;
    }
    Row& text(Slice expected) {
        EXPECT_EQ(block_.text(at_, row_), expected) << name();
        ++at_;
        return *this;
    }
    Row& address(const Address& a) {
        return text(a.street_1).text(a.street_2).text(a.city).text({a.state, 2}).text({a.zip, 9});
    }

private:
    std::string name() const { return block_.columns()[at_].name; }
    const Block& block_;
    const size_t row_;
    size_t at_ = 0;
};

class TableColumnsTest : public ::testing::Test {
protected:
    void SetUp() override { db_ = load_small(*store_); }
    // Calls with the reader of the key, the value and the decoded row of each record.
    template <class Record, class Check>
    void each(const char* table, const Rows& rows, Check check) {
        const auto columns = store_->columns(table);
        ASSERT_TRUE(columns) << columns.error().text();
        std::vector<uint16_t> wanted(columns->all().size());
        std::iota(wanted.begin(), wanted.end(), uint16_t{0});
        const auto selected = std::make_shared<sm::scan::Selected>(
            sm::scan::Selected{{columns->all().begin(), columns->all().end()}, wanted});
        BlockBuilder builder(*columns, wanted);
        EXPECT_FALSE(rows.empty());
        for (const auto& [key, value] : rows) {
            const RecordBytes bytes{key, value, 0};
            const auto added = builder.add({.records = {&bytes, 1}});
            ASSERT_TRUE(added) << table << ": " << added.error().text();
            const Block block = sm::scan::Selected::block(builder.finish(), selected);
            Record record{};
            std::memcpy(static_cast<void*>(&record), value.data(),
                        std::min(value.size(), sizeof record));
            KeyReader reader(key);
            check(reader, record, Row(block, 0));
            EXPECT_TRUE(reader.ok()) << table;
            if (HasFailure()) return;
        }
    }
    struct Nothing {};

    TestStore store_;
    Database db_;
};

TEST_F(TableColumnsTest, WarehousesAndDistricts) {
    each<WarehouseRecord>("warehouse", rows_of(db_, db_.warehouse),
                          [](KeyReader& key, const WarehouseRecord& r, Row row) {
                              row.number(key.u16()).number(r.ytd).number(r.tax);
                              row.text(r.name).address(r.address);
                          });
    each<DistrictRecord>("district", rows_of(db_, db_.district),
                         [](KeyReader& key, const DistrictRecord& r, Row row) {
                             row.number(key.u16()).number(key.u8()).number(r.ytd);
                             row.number(r.next_o_id).number(r.tax).text(r.name);
                             row.address(r.address);
                         });
}

TEST_F(TableColumnsTest, Customers) {
    each<CustomerRecord>(
        "customer", rows_of(db_, db_.customer),
        [](KeyReader& key, const CustomerRecord& r, Row row) {
            row.number(key.u16()).number(key.u8()).number(key.u16());
            row.number(r.balance).number(r.ytd_payment).number(r.payment_cnt);
            row.number(r.delivery_cnt).number(r.discount).text({r.credit, 2}).text(r.last);
            row.text({r.middle, 2}).text(r.first).number(r.credit_lim).number(r.since);
            row.address(r.address).text({r.phone, 16}).text({r.data, r.data_size});
        });
    each<Nothing>("customer_name", rows_of(db_, db_.customer_name),
                  [](KeyReader& key, Nothing, Row row) {
                      row.number(key.u16()).number(key.u8()).text(key.text()).text(key.text());
                      row.number(key.u16());
                  });
}

TEST_F(TableColumnsTest, Orders) {
    uint64_t undelivered = 0;
    each<OrderRecord>("orders", rows_of(db_, db_.orders),
                      [&](KeyReader& key, const OrderRecord& r, Row row) {
                          row.number(key.u16()).number(key.u8()).number(key.u32());
                          row.number(r.carrier_id, r.carrier_id == 0).number(r.ol_cnt);
                          row.number(r.all_local).number(r.c_id).number(r.entry_d);
                          undelivered += r.carrier_id == 0;
                      });
    EXPECT_EQ(undelivered, 120u);
    each<Nothing>("orders_customer", rows_of(db_, db_.orders_customer),
                  [](KeyReader& key, Nothing, Row row) {
                      row.number(key.u16()).number(key.u8()).number(key.u16()).number(key.u32());
                  });
    each<Nothing>("new_order", rows_of(db_, db_.new_order), [](KeyReader& key, Nothing, Row row) {
        row.number(key.u16()).number(key.u8()).number(key.u32());
    });
    each<OrderLineRecord>("order_line", rows_of(db_, db_.order_line),
                          [](KeyReader& key, const OrderLineRecord& r, Row row) {
                              row.number(key.u16()).number(key.u8()).number(key.u32());
                              row.number(key.u8()).number(r.delivery_d, r.delivery_d == 0);
                              row.number(r.amount).number(r.i_id).number(r.supply_w_id);
                              row.number(r.quantity).text({r.dist_info, 24});
                          });
}

TEST_F(TableColumnsTest, ItemsAndStock) {
    each<ItemRecord>("item", rows_of(db_, db_.item),
                     [](KeyReader& key, const ItemRecord& r, Row row) {
                         row.number(key.u24()).number(r.price).number(r.im_id);
                         row.text(r.name).text(r.data);
                     });
    each<StockRecord>("stock", rows_of(db_, db_.stock),
                      [](KeyReader& key, const StockRecord& r, Row row) {
                          row.number(key.u16()).number(key.u24()).number(r.quantity);
                          row.number(r.order_cnt).number(r.remote_cnt).number(r.ytd);
                          for (const auto& dist : r.dist) row.text({dist, 24});
                          row.text(r.data);
                      });
}

// Rows of a heap, whose id takes the place of a key.
TEST_F(TableColumnsTest, History) {
    const auto columns = store_->columns("history");
    ASSERT_TRUE(columns) << columns.error().text();
    std::vector<uint16_t> wanted(columns->all().size());
    std::iota(wanted.begin(), wanted.end(), uint16_t{0});
    const auto selected = std::make_shared<sm::scan::Selected>(
        sm::scan::Selected{{columns->all().begin(), columns->all().end()}, wanted});
    for (const auto& [value, id] : history_of(db_)) {
        BlockBuilder builder(*columns, wanted);
        const RecordBytes bytes{{}, value, uint64_t{id.page.value} << 16 | id.slot.value};
        ASSERT_TRUE(builder.add({.records = {&bytes, 1}}));
        const Block block = sm::scan::Selected::block(builder.finish(), selected);
        HistoryRecord r;
        ASSERT_TRUE(read_record(value, r));
        Row(block, 0)
            .number(bytes.id)
            .number(r.c_id)
            .number(r.c_w_id)
            .number(r.w_id)
            .number(r.c_d_id)
            .number(r.d_id)
            .number(r.date)
            .number(r.amount)
            .text(r.data);
    }
}

// Every table but the configuration is described.
TEST_F(TableColumnsTest, EveryTable) {
    for (const TableName& table : kTables)
        EXPECT_EQ(store_->columns(table.name).has_value(), table.index != &Database::config)
            << table.name;
}

}  // namespace lockstep::tpcc::columns_test
