// columns.h - what the bytes of a record mean: named, typed columns in its key and its value.
//
// Concepts   The engine stores bytes. Reports, and what reads them, need columns. A text says
//            which: one column a line (or behind a comma), as
//                ol_w_id        u16         key
//                ol_delivery_d  time_ns     value 0   null 0
//                ol_amount      decimal(2)  value 8
//                c_last         text8       value 30
//            Spaces and lines that begin with # do not count. Store::describe() keeps it with the
//            store.
// Place      key: the parts of an index's key, in the order of the lines, without gaps.
//            value N: the column begins N bytes behind the value's begin.
//            id: the record id of a heap, page * 65536 + slot; its type is u64.
// Types      Numbers: u8 u16 u32 u64 i8 i16 i32 i64 f32 f64; in a key also u24, and there neither
//            i8, i16, f32 nor f64. Little-endian in values, in keys as Key writes them (key.h).
//            decimal(S), decimal32(S): i64, i32 with S decimal places. date: i32, days since 1970.
//            time_s time_ms time_us time_ns: i64 since 1970.
//            char[N]: N bytes of text; zero bytes at its end do not count. bytes[N]: N bytes.
//            In a value: text8, text16: text behind its length in one or two bytes; text, bytes:
//            all bytes up to the value's end.
//            In a key: text as Key::text() writes it; text0: ends with a zero byte; bytes: all
//            bytes up to the key's end, so no part follows.
//            Texts are UTF-8. A report refuses others; bytes and bytes[N] take anything.
// Nulls      null C: the number C means that there is no value. short null: neither has a value
//            that ends before the column. Without it such a record is an error of the report.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/result.h>
#include <lockstep/types.h>

namespace lockstep {

// What the head of this file says of each.
enum class ColumnType : uint8_t {
    u8,
    u16,
    u24,
    u32,
    u64,
    i8,
    i16,
    i32,
    i64,
    f32,
    f64,
    decimal32,
    decimal,
    date,
    time_s,
    time_ms,
    time_us,
    time_ns,
    chars,        // char[N]
    fixed_bytes,  // bytes[N]
    text8,
    text16,
    text0,
    text,
    bytes
};

// Where a column's bytes lie.
enum class ColumnPlace : uint8_t { key, value, id };

// One column. Plain data.
struct Column {
    std::string name;  // a letter or _, then letters, digits and _; at most 63 bytes
    ColumnType type = ColumnType::u8;
    ColumnPlace place = ColumnPlace::value;
    uint32_t offset = 0;         // of a value's column: bytes
    uint32_t length = 0;         // N of char[N] and bytes[N]; else 0
    uint8_t scale = 0;           // S of a decimal; else 0
    bool short_is_null = false;  // short null
    std::optional<int64_t> null_value = {};
    // Can a row be without it?
    bool nullable() const { return short_is_null || null_value.has_value(); }
    // Bytes that a number of it, or its N bytes, take in a record; 0: the length varies.
    uint32_t stored_bytes() const;
    // Bytes of a row's number in a block (report.h); 0: a text or bytes, whose length varies.
    uint32_t block_bytes() const;
    // Its type as the Arrow C data interface writes it. A decimal is the integer: its scale goes
    // into the metadata of the field.
    std::string arrow_format() const;
    // Field by field.
    bool operator==(const Column&) const = default;
};

// The columns of one index or heap. A value: copy and move it freely.
class Columns {
public:
    // No columns.
    Columns() = default;
    // Reads a text. Error: bad_argument, with line and column of the text in Error::a and b, and
    // what is wrong there in its text. Allocates; never blocks.
    static Result<Columns> parse(Slice text);
    // The text in its one canonical form, which parse() reads back. Allocates.
    std::string text() const;
    // All, in the order of the text. Valid as long as this object, unchanged.
    std::span<const Column> all() const { return columns_; }
    // The place of a name in all(); nothing if there is no such column.
    std::optional<size_t> find(Slice name) const;
    // Column by column.
    bool operator==(const Columns&) const = default;

private:
    std::vector<Column> columns_;
};

// Limits of a text: columns, bytes of a name, largest N, bytes of the whole text.
inline constexpr size_t kColumnsMax = 512, kColumnNameBytesMax = 63, kColumnBytesMax = 65535,
                        kColumnTextBytesMax = 1 << 17;

}  // namespace lockstep
