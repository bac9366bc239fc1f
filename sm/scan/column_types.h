// column_types.h - one table of what each column type is: its name, its bytes, its Arrow type.
#pragma once

#include <iterator>

#include <lockstep/columns.h>
#include "threads/base/check.h"

namespace lockstep::sm::scan {

struct TypeRow {
    ColumnType type;
    const char* name;
    const char* arrow;  // null: made of the length
    uint8_t stored;     // bytes in a record; 0: N, or it varies
    uint8_t made;       // bytes in a block; 0: offsets and bytes
    bool in_key, in_value;
    bool is_signed;
    enum Argument : uint8_t { none, scale, length } argument;
    bool is_text;  // UTF-8

    constexpr bool number() const { return made != 0; }
    bool integer() const { return number() && type != ColumnType::f32 && type != ColumnType::f64; }
};

inline constexpr TypeRow kTypes[] = {
    {ColumnType::u8, "u8", "C", 1, 1, true, true, false, TypeRow::none, false},
    {ColumnType::u16, "u16", "S", 2, 2, true, true, false, TypeRow::none, false},
    {ColumnType::u24, "u24", "I", 3, 4, true, false, false, TypeRow::none, false},
    {ColumnType::u32, "u32", "I", 4, 4, true, true, false, TypeRow::none, false},
    {ColumnType::u64, "u64", "L", 8, 8, true, true, false, TypeRow::none, false},
    {ColumnType::i8, "i8", "c", 1, 1, false, true, true, TypeRow::none, false},
    {ColumnType::i16, "i16", "s", 2, 2, false, true, true, TypeRow::none, false},
    {ColumnType::i32, "i32", "i", 4, 4, true, true, true, TypeRow::none, false},
    {ColumnType::i64, "i64", "l", 8, 8, true, true, true, TypeRow::none, false},
    {ColumnType::f32, "f32", "f", 4, 4, false, true, true, TypeRow::none, false},
    {ColumnType::f64, "f64", "g", 8, 8, false, true, true, TypeRow::none, false},
    {ColumnType::decimal32, "decimal32", "i", 4, 4, true, true, true, TypeRow::scale, false},
    {ColumnType::decimal, "decimal", "l", 8, 8, true, true, true, TypeRow::scale, false},
    {ColumnType::date, "date", "tdD", 4, 4, true, true, true, TypeRow::none, false},
    {ColumnType::time_s, "time_s", "tss:", 8, 8, true, true, true, TypeRow::none, false},
    {ColumnType::time_ms, "time_ms", "tsm:", 8, 8, true, true, true, TypeRow::none, false},
    {ColumnType::time_us, "time_us", "tsu:", 8, 8, true, true, true, TypeRow::none, false},
    {ColumnType::time_ns, "time_ns", "tsn:", 8, 8, true, true, true, TypeRow::none, false},
    {ColumnType::chars, "char", "u", 0, 0, true, true, false, TypeRow::length, true},
    {ColumnType::fixed_bytes, "bytes", "z", 0, 0, true, true, false, TypeRow::length, false},
    {ColumnType::text8, "text8", "u", 0, 0, false, true, false, TypeRow::none, true},
    {ColumnType::text16, "text16", "u", 0, 0, false, true, false, TypeRow::none, true},
    {ColumnType::text0, "text0", "u", 0, 0, true, false, false, TypeRow::none, true},
    {ColumnType::text, "text", "u", 0, 0, true, true, false, TypeRow::none, true},
    {ColumnType::bytes, "bytes", "z", 0, 0, true, true, false, TypeRow::none, false},
};
consteval bool in_order() {
    for (size_t i = 0; i < std::size(kTypes); ++i)
        if (kTypes[i].type != static_cast<ColumnType>(i)) return false;
    return std::size(kTypes) == static_cast<size_t>(ColumnType::bytes) + 1;
}
static_assert(in_order());
// A number has a width, a text none; a signed number keeps its width, so that its sign stays.
consteval bool widths_fit() {
    for (const TypeRow& row : kTypes) {
        if (row.number() != (row.stored != 0) || row.made < row.stored) return false;
        if (row.is_signed && (row.made != row.stored || !row.number())) return false;
        if (row.is_text && row.number()) return false;
    }
    return true;
}
static_assert(widths_fit());

inline const TypeRow& type_row(ColumnType type) {
    DCHECK(static_cast<size_t>(type) < std::size(kTypes));
    return kTypes[static_cast<size_t>(type)];
}

}  // namespace lockstep::sm::scan
