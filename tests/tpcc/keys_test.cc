// labels: unit
// keys_test.cc - keys order as their parts, and can be read back; records keep their length.
#include "tpcc/keys.h"

#include <gtest/gtest.h>

#include "tpcc/schema.h"

namespace lockstep::tpcc::keys_test {

std::string str(const RowKey& key) { return std::string(Slice(key)); }
Text<16> text(Slice bytes) {
    Text<16> made;
    made.assign(bytes);
    return made;
}

TEST(Keys, OrderIsThatOfTheParts) {
    EXPECT_LT(str(order_key(1, 2, 255)), str(order_key(1, 2, 256)));
    EXPECT_LT(str(order_key(1, 2, 0xffffffff)), str(order_key(1, 3, 0)));
    EXPECT_LT(str(order_key(255, 10, 9)), str(order_key(256, 1, 1)));
    EXPECT_LT(str(stock_key(255, 100'000)), str(stock_key(256, 1)));
    EXPECT_LT(str(stock_key(1, 65'535)), str(stock_key(1, 65'536)));
    EXPECT_LT(str(item_key(255)), str(item_key(256)));
    EXPECT_LT(str(line_key(1, 1, 7, 15)), str(order_key(1, 1, 8)));
    EXPECT_LT(str(name_key(1, 1, text("BAR"), text("Z"), 9)),
              str(name_key(1, 1, text("BARX"), text("A"), 1)));
    EXPECT_LT(str(name_key(1, 1, text("BAR"), text("A"), 9)),
              str(name_key(1, 1, text("BAR"), text("AB"), 1)));
}

TEST(Keys, NameRangeHoldsExactlyThatName) {
    const std::string low = str(name_low(1, 2, text("BAR"))),
                      high = str(name_high(1, 2, text("BAR")));
    const auto inside = [&](const std::string& key) { return low <= key && key < high; };
    EXPECT_TRUE(inside(str(name_key(1, 2, text("BAR"), text("zzz"), 65535))));
    EXPECT_TRUE(inside(str(name_key(1, 2, text("BAR"), text("0"), 1))));
    EXPECT_FALSE(inside(str(name_key(1, 2, text("BARA"), text("a"), 1))));
    EXPECT_FALSE(inside(str(name_key(1, 3, text("BAR"), text("a"), 1))));
}

TEST(Keys, ReaderGivesThePartsBack) {
    const RowKey key = name_key(7, 9, text("OUGHT"), text("Firstname"), 2999);
    KeyReader reader{Slice(key)};
    EXPECT_EQ(reader.u16(), 7u);
    EXPECT_EQ(reader.u8(), 9u);
    EXPECT_EQ(reader.text(), "OUGHT");
    EXPECT_EQ(reader.text(), "Firstname");
    EXPECT_EQ(reader.u16(), 2999u);
    EXPECT_TRUE(reader.ok());
    EXPECT_EQ(last_u16(Slice(key)), 2999u);
    const RowKey newest = customer_order_key(1, 2, 3, 0x01020304);
    EXPECT_EQ(last_u32(Slice(newest)), 0x01020304u);

    KeyReader cut{Slice(key).substr(0, 1)};
    EXPECT_EQ(cut.u16(), 0u);
    EXPECT_FALSE(cut.ok());
}

TEST(Records, VariableTailsKeepTheirLength) {
    ItemRecord item{};
    item.data.assign("0123456789");
    EXPECT_EQ(bytes_of(item).size(), 37u + 1 + 10);
    ItemRecord back{};
    ASSERT_TRUE(read_record(bytes_of(item), back));
    EXPECT_EQ(back.data.view(), "0123456789");
    EXPECT_FALSE(read_record(Slice("short"), back));
    EXPECT_FALSE(read_record(std::string(sizeof(ItemRecord) + 1, 'x'), back));

    CustomerRecord customer{};
    customer.data_size = 65535;  // damaged: never read past the record
    EXPECT_EQ(bytes_of(customer).size(), sizeof(CustomerRecord));
    Text<10> name;
    name.assign("longer than ten characters");
    EXPECT_EQ(name.view(), "longer tha");
}

}  // namespace lockstep::tpcc::keys_test
