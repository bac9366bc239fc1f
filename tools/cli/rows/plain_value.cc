// plain_value.cc - spelling and reading numbers.
#include "tools/cli/rows/plain_value.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "sm/scan/column_types.h"
#include "tools/cli/rows/plain_time.h"

namespace lockstep::cli {
namespace {

using sm::scan::type_row;

bool is_decimal(const Column& c) {
    return c.type == ColumnType::decimal || c.type == ColumnType::decimal32;
}

template <class T>
bool read_all(Slice text, T& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

template <class T, class Bits>
std::string read_float(Slice text, uint64_t& bits) {
    T number = 0;
    if (!read_all(text, number)) return "a number, as 1.5 or 2e-3, that the type can hold";
    bits = std::bit_cast<Bits>(number);
    return {};
}

// The digits behind the point that the column has not must be zeros.
bool read_decimal(Slice text, unsigned scale, int64_t& number) {
    const bool negative = text.starts_with('-');
    if (negative) text.remove_prefix(1);
    const size_t point = std::min(text.find('.'), text.size());
    const Slice whole = text.substr(0, point);
    Slice places = text.substr(std::min(point + 1, text.size()));
    while (places.size() > scale && places.back() == '0') places.remove_suffix(1);
    if (whole.size() + places.size() == 0 || places.size() > scale) return false;
    std::string digits = std::string(whole) + std::string(places);
    digits.append(scale - places.size(), '0');
    if (digits.find_first_not_of("0123456789") != std::string::npos) return false;
    if (negative) digits.insert(0, 1, '-');
    return read_all(Slice(digits), number);
}

std::string range_text(int64_t low, uint64_t high) {
    return fmt::format("a whole number from {} to {}", low, high);
}

std::string read_integer(const Column& column, Slice text, uint64_t& bits) {
    const auto& row = type_row(column.type);
    const unsigned width = 8u * row.stored;
    if (!row.is_signed) {
        const uint64_t high = ~uint64_t{0} >> (64 - width);
        return read_all(text, bits) && bits <= high ? std::string() : range_text(0, high);
    }
    const int64_t high = std::numeric_limits<int64_t>::max() >> (64 - width), low = -high - 1;
    int64_t number = 0;
    bool sound = true;
    std::string wants = range_text(low, static_cast<uint64_t>(high));
    if (is_decimal(column)) {
        sound = read_decimal(text, column.scale, number);
        wants = fmt::format("a decimal number with at most {} places that the type can hold",
                            column.scale);
    } else if (is_time(column)) {
        sound = read_time(column, text, number);
        wants = time_spelling(column);
    } else {
        sound = read_all(text, number);
    }
    bits = static_cast<uint64_t>(number);
    return sound && number >= low && number <= high ? std::string() : wants;
}

}  // namespace

std::string type_text(const Column& column) {
    const auto& row = type_row(column.type);
    if (column.length != 0) return fmt::format("{}[{}]", row.name, column.length);
    if (is_decimal(column)) return fmt::format("{}({})", row.name, column.scale);
    return row.name;
}

void append_number(std::string& out, const Column& column, uint64_t bits) {
    const auto number = static_cast<int64_t>(bits);
    if (column.type == ColumnType::f32 || column.type == ColumnType::f64) {
        const std::string text =
            column.type == ColumnType::f64
                ? fmt::format("{}", std::bit_cast<double>(bits))
                : fmt::format("{}", std::bit_cast<float>(static_cast<uint32_t>(bits)));
        out += text == "-0" ? "-0.0" : text;  // a reader of JSON makes a whole number of -0
    } else if (is_time(column)) {
        append_time(out, column, number);
    } else if (is_decimal(column) && column.scale > 0) {
        std::string digits = fmt::format("{:0{}}", number < 0 ? 0 - bits : bits, column.scale + 1);
        digits.insert(digits.size() - column.scale, 1, '.');
        if (number < 0) out += '-';
        out += digits;
    } else if (type_row(column.type).is_signed) {
        out += fmt::to_string(number);
    } else {
        out += fmt::to_string(bits);
    }
}

std::string number_of_text(const Column& column, Slice text, uint64_t& bits) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    if (text.starts_with('+')) text.remove_prefix(1);
    if (column.type == ColumnType::f32) return read_float<float, uint32_t>(text, bits);
    if (column.type == ColumnType::f64) return read_float<double, uint64_t>(text, bits);
    return read_integer(column, text, bits);
}

bool is_json_number(const Column& column, uint64_t bits) {
    if (column.type == ColumnType::f32)
        return std::isfinite(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    if (column.type == ColumnType::f64) return std::isfinite(std::bit_cast<double>(bits));
    return type_row(column.type).number() && !is_time(column);
}

}  // namespace lockstep::cli
