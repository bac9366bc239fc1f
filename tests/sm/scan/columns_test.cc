// labels: unit
// columns_test.cc - the text of columns: what it says, where it is wrong, and how a store keeps it.
#include <gtest/gtest.h>

#include <lockstep/columns.h>
#include <lockstep/store.h>
#include "tests/own_directory.h"
#include "tests/steps_of_run.h"
#include "threads/base/try.h"

#include <filesystem>

namespace lockstep::sm::columns_test {

TEST(Columns, EveryPartOfAColumn) {
    const auto columns = Columns::parse(
        "# lines of an order\n"
        "ol_w_id  u16 key\n\n"
        "ol_note\ttext key, ol_delivery_d time_ns value 0 null 0   # of nobody\n"
        "ol_amount decimal(2) value 8 short null null -1\r\n"
        "ol_dist_info char[24] value 25");
    ASSERT_TRUE(columns) << columns.error().text();
    ASSERT_EQ(columns->all().size(), 5u);
    const Column& w = columns->all()[0];
    EXPECT_EQ(w.name, "ol_w_id");
    EXPECT_EQ(w.type, ColumnType::u16);
    EXPECT_EQ(w.place, ColumnPlace::key);
    EXPECT_FALSE(w.nullable());
    const Column& amount = columns->all()[3];
    EXPECT_EQ(amount.offset, 8u);
    EXPECT_EQ(amount.scale, 2);
    EXPECT_EQ(amount.null_value, -1);
    EXPECT_TRUE(amount.short_is_null);
    EXPECT_EQ(amount.arrow_format(), "l");
    EXPECT_EQ(columns->all()[2].arrow_format(), "tsn:");
    EXPECT_EQ(columns->all()[4].stored_bytes(), 24u);
    EXPECT_EQ(columns->find("ol_note"), 1u);
    EXPECT_EQ(columns->find("ol_"), std::nullopt);
    EXPECT_EQ(columns->text(),
              "ol_w_id u16 key\nol_note text key\nol_delivery_d time_ns value 0 null 0\n"
              "ol_amount decimal(2) value 8 null -1 short null\nol_dist_info char[24] value 25\n");
    EXPECT_EQ(*Columns::parse(columns->text()), *columns);
}

struct Wrong {
    const char* text;
    uint64_t line, column;
    const char* why;
};
constexpr Wrong kWrong[] = {
    {"", 1, 1, "no column"},
    {"7a u8 key", 1, 1, "begins with its name"},
    {"a", 1, 2, "type is missing"},
    {"a u9 key", 1, 3, "no type \"u9\""},
    {"a char key", 1, 3, "no type \"char\""},
    {"a u8[3] key", 1, 5, "no type"},
    {"a char[0] value 0", 1, 8, "1 to 65535"},
    {"a char[3 value 0", 1, 8, "] is missing"},
    {"a decimal value 0", 1, 3, "needs its places"},
    {"a decimal(19) value 0", 1, 11, "0 to 18"},
    {"a u8", 1, 5, "key, value N or id"},
    {"a u8 values 0", 1, 6, "key, value N or id"},
    {"a u8 value", 1, 11, "number is missing"},
    {"a u8 value 99999999999999999999", 1, 12, "0 to 16777216"},
    {"a text8 key", 1, 9, "a key has no text8"},
    {"a u24 value 0", 1, 7, "a value has no u24"},
    {"a u32 id", 1, 7, "id is u64"},
    {"a u8 key\nb u8 key\n a u8 key", 3, 2, "second column \"a\""},
    {"a bytes key, b u8 key", 1, 19, "follows bytes"},
    {"a u8 value 0 null 256", 1, 19, "0 to 255"},
    {"a i8 value 0 null -129", 1, 19, "-128 to 127"},
    {"a f64 value 0 null 1", 1, 15, "for integers only"},
    {"a u8 key null 0", 1, 10, "for values only"},
    {"a u8 value 0 short", 1, 19, "behind short"},
    {"a u8 value 0 nil", 1, 14, "ends with"},
    {"a u8 value 0 ; b u8 value 1", 1, 14, "ends with"},
};

TEST(Columns, ErrorsNameTheirPlace) {
    for (const Wrong& wrong : kWrong) {
        SCOPED_TRACE(wrong.text);
        const auto columns = Columns::parse(wrong.text);
        ASSERT_FALSE(columns);
        const Error& error = columns.error();
        EXPECT_EQ(error.code, ErrorCode::bad_argument);
        EXPECT_EQ(error.a, wrong.line);
        EXPECT_EQ(error.b, wrong.column) << error.text();
        EXPECT_NE(error.text().find(wrong.why), std::string::npos) << error.text();
    }
}

TEST(Columns, LimitsHold) {
    std::string many;
    for (size_t i = 0; i < kColumnsMax; ++i) many += "c" + std::to_string(i) + " u8 value 0\n";
    EXPECT_TRUE(Columns::parse(many));
    EXPECT_FALSE(Columns::parse(many + "one u8 value 0"));
    EXPECT_TRUE(Columns::parse(std::string(kColumnNameBytesMax, 'n') + " u8 key"));
    EXPECT_FALSE(Columns::parse(std::string(kColumnNameBytesMax + 1, 'n') + " u8 key"));
    EXPECT_FALSE(Columns::parse("a u8 key" + std::string(kColumnTextBytesMax, ' ')));
}

class Described : public ::testing::Test {
protected:
    void SetUp() override {
        auto store =
            Store::open(path_, {.pool_bytes = 16 << 20, .sync = false, .steps = steps_of_run()});
        ASSERT_TRUE(store) << store.error().text();
        store_.emplace(std::move(*store));
        ASSERT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
            TRY(store_->create_index(txn, "lines"));
            TRY(store_->create_heap(txn, "notes"));
            return {};
        }));
    }
    void TearDown() override {
        store_.reset();
        std::filesystem::remove_all(path_);
    }
    ErrorCode code(const auto& result) { return result ? ErrorCode::none : result.error().code; }
    const std::string path_ = make_own_directory("columns");
    std::optional<Store> store_;
};

TEST_F(Described, IsKeptUntilTheObjectGoes) {
    EXPECT_EQ(code(store_->columns("lines")), ErrorCode::no_such_record);
    ASSERT_TRUE(store_->describe("lines", "id u32 key, n u8 value 0"));
    ASSERT_TRUE(store_->describe("notes", "id u64 id, n text8 value 0"));
    ASSERT_TRUE(store_->close());
    store_.reset();
    store_.emplace(std::move(*Store::open(path_)));
    auto columns = store_->columns("lines");
    ASSERT_TRUE(columns) << columns.error().text();
    EXPECT_EQ(columns->text(), "id u32 key\nn u8 value 0\n");
    ASSERT_TRUE(store_->describe("lines", "id u32 key"));
    EXPECT_EQ(store_->columns("lines")->text(), "id u32 key\n");
    ASSERT_TRUE(store_->describe("lines", ""));
    EXPECT_EQ(code(store_->columns("lines")), ErrorCode::no_such_record);
    // A new object of the same name has no columns.
    ASSERT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
        TRY(store_->drop(txn, "notes"));
        TRY(store_->create_heap(txn, "notes"));
        return {};
    }));
    EXPECT_EQ(code(store_->columns("notes")), ErrorCode::no_such_record);
}

TEST_F(Described, BelongsToItsTransaction) {
    const auto undone = store_->run([&](Txn& txn) -> Result<void> {
        TRY(store_->describe(txn, "lines", "id u32 key"));
        EXPECT_EQ(TRY(store_->columns(txn, "lines")).all().size(), 1u);
        return fail(ErrorCode::rolled_back, "on purpose");
    });
    EXPECT_EQ(code(undone), ErrorCode::rolled_back);
    EXPECT_EQ(code(store_->columns("lines")), ErrorCode::no_such_record);
}

TEST_F(Described, WhatDoesNotFitIsRefused) {
    EXPECT_EQ(code(store_->describe("nothing", "id u32 key")), ErrorCode::no_such_object);
    EXPECT_EQ(code(store_->columns("nothing")), ErrorCode::no_such_object);
    EXPECT_EQ(code(store_->describe("lines", "id u64 id")), ErrorCode::bad_argument);
    EXPECT_EQ(code(store_->describe("notes", "id u64 key")), ErrorCode::bad_argument);
    EXPECT_EQ(code(store_->describe("lines", "id u65 key")), ErrorCode::bad_argument);
    EXPECT_EQ(code(store_->columns("lines")), ErrorCode::no_such_record);
}

}  // namespace lockstep::sm::columns_test
