// labels: unit
// block_builder_test.cc - records become columns: each type, keys with texts, nulls, records that
// do not fit, many batches.
#include "sm/scan/block_builder.h"

#include <gtest/gtest.h>

#include <lockstep/key.h>
#include <numeric>

namespace lockstep::sm::scan::block_builder_test {

Block build(const Columns& columns, std::span<const RecordBytes> records) {
    std::vector<uint16_t> wanted(columns.all().size());
    std::iota(wanted.begin(), wanted.end(), uint16_t{0});
    BlockBuilder builder(columns, wanted);
    const auto added = builder.add({.records = records});
    EXPECT_TRUE(added) << added.error().text();
    return Selected::block(
        builder.finish(),
        std::make_shared<Selected>(Selected{{columns.all().begin(), columns.all().end()}, wanted}));
}
Columns parsed(Slice text) {
    auto columns = Columns::parse(text);
    EXPECT_TRUE(columns) << columns.error().text();
    return columns ? *columns : Columns();
}
Error refused(Slice text, const RecordBytes& record) {
    const Columns columns = parsed(text);
    const uint16_t first[] = {0};
    BlockBuilder builder(columns, first);
    const auto added = builder.add({.records = {&record, 1}});
    EXPECT_FALSE(added);
    return added ? Error{} : added.error();
}
template <class T>
void append(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

TEST(BlockBuilder, NumbersOfValues) {
    const Columns columns = parsed(
        "a u8 value 0, b i16 value 1, c u32 value 3, d i64 value 7, e f64 value 15, f f32 value 23,"
        "g decimal32(1) value 27, h i8 value 0");
    std::string value;
    append<uint8_t>(value, 200);
    append<int16_t>(value, -300);
    append<uint32_t>(value, 4'000'000'000);
    append<int64_t>(value, -5'000'000'000);
    append(value, 2.5);
    append(value, -0.25f);
    append<int32_t>(value, -77);
    const RecordBytes records[] = {{"", value}, {"", value}};
    const Block block = build(columns, records);
    ASSERT_EQ(block.rows(), 2u);
    EXPECT_EQ(block.numbers<uint8_t>(0)[1], 200);
    EXPECT_EQ(block.numbers<int16_t>(1)[1], -300);
    EXPECT_EQ(block.numbers<uint32_t>(2)[1], 4'000'000'000);
    EXPECT_EQ(block.numbers<int64_t>(3)[1], -5'000'000'000);
    EXPECT_EQ(block.numbers<double>(4)[1], 2.5);
    EXPECT_EQ(block.numbers<float>(5)[1], -0.25f);
    EXPECT_EQ(block.numbers<int32_t>(6)[1], -77);
    EXPECT_EQ(block.numbers<int8_t>(7)[1], -56);
    for (size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(block.buffers(i).validity, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(block.buffers(i).data) % 64, 0u);
    }
}

TEST(BlockBuilder, PartsOfKeys) {
    const Columns columns = parsed(
        "a u16 key, b text key, c i32 key, d text key, e i64 key, f u8 key, g u64 key, r bytes "
        "key");
    const Slice zeros("x\0y\0", 4);
    const Key key = Key().u16(513).text("ab").i32(-5).text(zeros).i64(-6).u8(7).u64(uint64_t{8});
    const Key other = Key().u16(1).text("").i32(5).text("").i64(6).u8(0).u64(uint64_t{9});
    const std::string with_rest = std::string(Slice(key)) + "rest";
    const RecordBytes records[] = {{with_rest, ""}, {other, ""}};
    const Block block = build(columns, records);
    EXPECT_EQ(block.numbers<uint16_t>(0)[0], 513);
    EXPECT_EQ(block.text(1, 0), "ab");
    EXPECT_EQ(block.numbers<int32_t>(2)[0], -5);
    EXPECT_EQ(block.text(3, 0), zeros);
    EXPECT_EQ(block.numbers<int64_t>(4)[0], -6);
    EXPECT_EQ(block.numbers<uint8_t>(5)[0], 7);
    EXPECT_EQ(block.numbers<uint64_t>(6)[0], 8u);
    EXPECT_EQ(block.text(7, 0), "rest");
    EXPECT_EQ(block.text(1, 1), "");
    EXPECT_EQ(block.numbers<int32_t>(2)[1], 5);
    EXPECT_EQ(block.numbers<uint64_t>(6)[1], 9u);
    EXPECT_EQ(block.text(7, 1), "");
}

// Keys of a leaf come without their common bytes, which may end within any part, and where all
// records are long enough nobody looks for their ends.
TEST(BlockBuilder, KeysWithoutTheirCommonBytes) {
    const Columns columns =
        parsed("a u16 key, b u24 key, c i32 key, d u64 key, e i64 key, f u8 key, g text key");
    std::vector<std::string> keys;
    for (const uint8_t last : {0, 1, 200, 255})
        keys.emplace_back(Slice(Key()
                                    .u16(uint16_t{0x8102})
                                    .u8(uint8_t{3})
                                    .u8(uint8_t{4})
                                    .u8(uint8_t{5})
                                    .i32(int32_t{-0x06070809})
                                    .u64(uint64_t{0x8a0b0c0d0e0f1011})
                                    .i64(int64_t{-0x1213141516171819})
                                    .u8(last)
                                    .text(std::string(last % 3, 't'))));
    const size_t fixed = 2 + 3 + 4 + 8 + 8;
    for (const bool texts : {false, true})
        for (const bool least_known : {false, true})
            for (size_t cut = 0; cut <= fixed; ++cut) {
                std::vector<uint16_t> wanted = {0, 1, 2, 3, 4, 5};
                if (texts) wanted.push_back(6);
                BlockBuilder builder(columns, wanted);
                std::vector<RecordBytes> records;
                for (const std::string& key : keys) records.push_back({Slice(key).substr(cut), ""});
                ASSERT_TRUE(builder.add({.records = records,
                                         .shared = Slice(keys[0]).substr(0, cut),
                                         .key_least = least_known ? fixed + 1 - cut : 0}));
                const auto block = builder.finish();
                ASSERT_EQ(block->rows, keys.size());
                for (size_t i = 0; i < keys.size(); ++i) {
                    ASSERT_EQ(block->data[0].data.as<uint16_t>()[i], 0x8102) << cut;
                    ASSERT_EQ(block->data[1].data.as<uint32_t>()[i], 0x030405u) << cut;
                    ASSERT_EQ(block->data[2].data.as<int32_t>()[i], -0x06070809) << cut;
                    ASSERT_EQ(block->data[3].data.as<uint64_t>()[i], 0x8a0b0c0d0e0f1011u) << cut;
                    ASSERT_EQ(block->data[4].data.as<int64_t>()[i], -0x1213141516171819) << cut;
                    const uint8_t last = block->data[5].data.as<uint8_t>()[i];
                    ASSERT_EQ(last, static_cast<uint8_t>(keys[i][fixed])) << cut;
                    if (!texts) continue;
                    ASSERT_EQ(block->data[6].text(i), std::string(last % 3, 't'));
                }
            }
}

// Where a key ends in its common bytes, or in its own.
TEST(BlockBuilder, KeysThatAreTooShort) {
    const Columns columns = parsed("a u32 key, b u16 key");
    const Slice key("\0\0\1\2\0\7", 6);
    for (size_t bytes = 0; bytes <= key.size(); ++bytes)
        for (size_t cut = 0; cut <= bytes; ++cut)
            for (uint16_t column = 0; column < 2; ++column) {
                const uint16_t wanted[] = {column};
                BlockBuilder builder(columns, wanted);
                const RecordBytes record{key.substr(cut, bytes - cut), ""};
                const auto added = builder.add({.records = {&record, 1},
                                                .shared = key.substr(0, cut),
                                                .key_least = bytes - cut});
                ASSERT_EQ(added.has_value(), bytes >= (column == 0 ? 4u : 6u))
                    << bytes << " " << cut << " " << column;
            }
}

// The last byte of a number is that of the value, or one behind it. Known or not known to be
// there, it is the same.
TEST(BlockBuilder, ValuesThatEndWithANumber) {
    const Columns columns = parsed("a u32 value 3 null 7 short null, b u8 value 0");
    const uint16_t wanted[] = {0, 1};
    std::string whole(3, '\1'), null(3, '\1');
    append<uint32_t>(whole, 9);
    append<uint32_t>(null, 7);
    for (const size_t least : {size_t{0}, size_t{1}, size_t{6}, size_t{7}}) {
        BlockBuilder builder(columns, wanted);
        std::vector<RecordBytes> records = {{"", whole}, {"", null}};
        if (least < 7) records.push_back({"", Slice(whole).substr(0, 6)});
        ASSERT_TRUE(builder.add({.records = records, .value_least = least}));
        const auto block = builder.finish();
        EXPECT_EQ(block->data[0].data.as<uint32_t>()[0], 9u);
        for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(block->data[0].is_null(i), i > 0);
        EXPECT_EQ(block->data[0].nulls, records.size() - 1);
        EXPECT_EQ(block->data[1].data.as<uint8_t>()[records.size() - 1], 1);
    }
}

// Nulls are set 64 at a time, from any row on.
TEST(BlockBuilder, NullsOfManyRows) {
    const Columns columns = parsed("a u16 value 0 null 5");
    const uint16_t wanted[] = {0};
    BlockBuilder builder(columns, wanted);
    const std::string null("\5\0", 2), some("\0\5", 2);
    const auto is_null = [](size_t row) { return row % 7 == 0 || row / 130 % 2 == 1; };
    size_t rows = 0, nulls = 0;
    for (const size_t batch : {63u, 64u, 65u, 1u, 128u, 200u, 64u, 7607u}) {
        std::vector<RecordBytes> records;
        for (size_t i = 0; i < batch; ++i) records.push_back({"", is_null(rows + i) ? null : some});
        ASSERT_TRUE(builder.add({.records = records, .value_least = 2}));
        rows += batch;
    }
    const auto block = builder.finish();
    ASSERT_EQ(block->rows, kBlockRowsMax);
    for (size_t row = 0; row < rows; ++row) {
        ASSERT_EQ(block->data[0].is_null(row), is_null(row)) << row;
        nulls += is_null(row);
    }
    EXPECT_EQ(block->data[0].nulls, nulls);
}

TEST(BlockBuilder, TextsOfValues) {
    const Columns columns = parsed(
        "a text8 value 0, b char[4] value 4, c bytes[2] value 8, d text16 value 10, "
        "e text value 12, i u64 id");
    const Slice value("\3abcde\0\0\xff\xfe\2\0\xc3\xa4", 14);
    const RecordBytes records[] = {{"", value, 42}};
    const Block block = build(columns, records);
    EXPECT_EQ(block.text(0, 0), "abc");
    EXPECT_EQ(block.text(1, 0), "de");
    EXPECT_EQ(block.text(2, 0), "\xff\xfe");
    EXPECT_EQ(block.text(3, 0), "\xc3\xa4");
    EXPECT_EQ(block.text(4, 0), "\xc3\xa4");
    EXPECT_EQ(block.numbers<uint64_t>(5)[0], 42u);
    EXPECT_EQ(block.buffers(0).offsets[1], 3);
}

TEST(BlockBuilder, Nulls) {
    const Columns columns =
        parsed("a i16 value 0 null -1, b u8 value 2 short null, c text8 value 3 short null");
    const std::string full("\1\0\7\1z", 5), sentinel("\xff\xff\7\0", 4), cut("\2\0", 2);
    std::vector<RecordBytes> records;
    for (size_t i = 0; i < 100; ++i)
        records.push_back({"", i % 3 == 0 ? full : i % 3 == 1 ? sentinel : cut});
    const Block block = build(columns, records);
    for (size_t i = 0; i < 100; ++i) {
        EXPECT_EQ(block.is_null(0, i), i % 3 == 1) << i;
        EXPECT_EQ(block.is_null(1, i), i % 3 == 2) << i;
        EXPECT_EQ(block.is_null(2, i), i % 3 == 2) << i;
        EXPECT_EQ(block.text(2, i), i % 3 == 0 ? "z" : "");
    }
    EXPECT_EQ(block.buffers(0).nulls, 33u);
    EXPECT_EQ(block.buffers(0).validity[0], 0b01101101);
}

TEST(BlockBuilder, RecordsThatDoNotFitAreRefused) {
    EXPECT_EQ(refused("a u32 value 4", {"", "1234567"}).code, ErrorCode::bad_argument);
    const Error error = refused("amount u32 value 4", {"", "1234567"});
    EXPECT_NE(error.text().find("\"amount\""), std::string::npos) << error.text();
    refused("a u32 key", {"123", ""});
    refused("a text key", {"abc", ""});
    refused("a text key", {Slice("abc\0", 4), ""});
    refused("a text key", {Slice("abc\0\xff", 5), ""});
    refused("a text0 key", {"abc", ""});
    refused("a text8 value 0", {"", "\4abc"});
    refused("a text16 value 2", {"", "abc"});
    refused("a text value 4", {"", "abc"});
    refused("a char[4] value 0", {"", "abc"});
    refused("a char[2] value 0", {"", "\xc3z"});
    refused("a text value 0", {"", "1234567\xed\xa0\x80"});
}

TEST(BlockBuilder, Utf8) {
    for (const char* good : {"", "plain text", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                             "12345678\xf4\x8f\xbf\xbf", "\xef\xbf\xbf"})
        EXPECT_TRUE(is_utf8(good)) << good;
    for (const char* bad : {"\x80", "\xc0\xaf", "\xc3", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xe2\x82",
                            "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf0\x8f\xbf\xbf",
                            "1234567\xff", "\xe2\x28\xa1"})
        EXPECT_FALSE(is_utf8(bad)) << bad;
}

// Batches of several sizes: buffers grow, and a finished block leaves nothing behind.
TEST(BlockBuilder, ManyBatches) {
    const Columns columns = parsed("k u32 key, v text8 value 0, n u32 value 0 null 0 short null");
    const uint16_t wanted[] = {0, 1, 2};
    BlockBuilder builder(columns, wanted);
    for (int round = 0; round < 2; ++round) {
        uint32_t n = 0;
        for (size_t batch = 1; !builder.full_for(batch); batch = batch % 97 + 1) {
            std::vector<std::string> bytes;
            for (size_t i = 0; i < batch; ++i, ++n) {
                bytes.emplace_back(Slice(Key().u32(n)));
                bytes.emplace_back(1, static_cast<char>(n % 5)).append(n % 5, 'v');
            }
            std::vector<RecordBytes> records;
            for (size_t i = 0; i < batch; ++i) records.push_back({bytes[2 * i], bytes[2 * i + 1]});
            ASSERT_TRUE(builder.add({.records = records}));
        }
        EXPECT_GT(n, 8000u);
        const auto block = builder.finish();
        ASSERT_TRUE(block);
        ASSERT_EQ(block->rows, n);
        for (uint32_t i = 0; i < n; ++i) {
            ASSERT_EQ(block->data[0].data.as<uint32_t>()[i], i);
            ASSERT_EQ(block->data[1].text(i), std::string(i % 5, 'v'));
            ASSERT_EQ(block->data[2].is_null(i), i % 5 < 3) << i;
        }
        EXPECT_EQ(builder.finish(), nullptr);
    }
}

}  // namespace lockstep::sm::scan::block_builder_test
