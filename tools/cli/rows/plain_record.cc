// plain_record.cc - bytes of keys and values.
#include "tools/cli/rows/plain_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "sm/heap/heap_file.h"
#include "sm/scan/block_builder.h"
#include "sm/scan/column_types.h"
#include "tools/cli/rows/plain_value.h"
#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {
namespace {

using State = PlainField::State;
using sm::scan::type_row;

constexpr size_t kShownBytes = 60;

// Bytes before a text that has its length.
size_t head_bytes(const Column& column) {
    return column.type == ColumnType::text8 ? 1 : column.type == ColumnType::text16 ? 2 : 0;
}
bool takes_the_rest(const Column& column) {
    return column.stored_bytes() == 0 && head_bytes(column) == 0;
}
// The fewest bytes that it takes in a value.
size_t least_bytes(const Column& column) { return column.stored_bytes() + head_bytes(column); }

bool has_no_value(const Column& column, const PlainField& field) {
    if (field.state == State::absent) return true;
    const bool number = type_row(column.type).number();
    return number ? field.text.empty() : field.state == State::blank && column.nullable();
}

std::string shown(Slice text) {
    const Slice front = text.substr(0, kShownBytes);
    return fmt::format("\"{}{}\"", is_plain_text(front) ? std::string(front) : readable(front),
                       text.size() > kShownBytes ? "..." : "");
}

std::string wrong_value(const Column& column, Slice text, const std::string& wants) {
    return fmt::format("column {}: {} is no {}, which takes {}", column.name, shown(text),
                       type_text(column), wants);
}

// The bytes of a text or of bytes, without length and end mark.
std::string read_text(const Column& column, Slice text, std::string& bytes) {
    bytes = text;
    if (!type_row(column.type).is_text) {
        if (!from_hex(text, bytes.data()))
            return wrong_value(column, text, "pairs of hexadecimal digits");
        bytes.resize(bytes.size() / 2);
    } else if (!sm::scan::is_utf8(text)) {
        return wrong_value(column, text, "UTF-8; `iconv -f LATIN1 -t UTF-8` makes it of Latin-1");
    }
    if (column.type == ColumnType::fixed_bytes && bytes.size() != column.length)
        return wrong_value(column, text, fmt::format("exactly {} bytes", column.length));
    if (column.type == ColumnType::chars && bytes.size() > column.length)
        return wrong_value(column, text, fmt::format("at most {} bytes", column.length));
    if (column.type == ColumnType::chars && bytes.ends_with('\0'))
        return wrong_value(column, text, "texts that do not end with a zero byte");
    if (column.type == ColumnType::text0 && bytes.contains('\0'))
        return wrong_value(column, text, "texts without a zero byte");
    bytes.resize(std::max<size_t>(bytes.size(), column.length));
    return {};
}

void append_little(std::string& out, uint64_t bits, size_t bytes) {
    out.append(reinterpret_cast<const char*>(&bits), bytes);
}

}  // namespace

RecordMaker::RecordMaker(const Columns& columns, bool is_index)
    : is_index_(is_index), columns_(columns) {
    for (size_t i = 0; i < columns_.all().size(); ++i) {
        const Column& column = columns_.all()[i];
        if (column.place == ColumnPlace::key) key_.push_back({&column, i, SIZE_MAX});
        if (column.place == ColumnPlace::value) value_.push_back({&column, i, SIZE_MAX});
    }
    std::ranges::stable_sort(value_, {}, [](const Part& part) { return part.column->offset; });
    if (is_index_ && key_.empty()) refusal_ = "no column describes the key";
    if (!is_index_ && !key_.empty()) refusal_ = "a heap has no key";
    for (size_t i = 0; i + 1 < value_.size(); ++i) {
        const Column &column = *value_[i].column, &next = *value_[i + 1].column;
        value_[i].room = next.offset - column.offset;
        if (least_bytes(column) > value_[i].room || takes_the_rest(column))
            refusal_ = fmt::format("the columns {} and {} share bytes", column.name, next.name);
    }
}

std::string RecordMaker::add_key(const Part& part, const PlainField& field,
                                 std::string& out) const {
    const Column& column = *part.column;
    const auto& row = type_row(column.type);
    if (has_no_value(column, field))
        return fmt::format("column {} has no value, and a part of a key needs one", column.name);
    if (row.number()) {
        uint64_t bits = 0;
        if (auto wants = number_of_text(column, field.text, bits); !wants.empty())
            return wrong_value(column, field.text, wants);
        if (row.is_signed) bits ^= uint64_t{1} << (8 * row.stored - 1);
        const uint64_t big_endian = __builtin_bswap64(bits << (64 - 8 * row.stored));
        append_little(out, big_endian, row.stored);
        return {};
    }
    std::string bytes;
    if (auto wrong = read_text(column, field.text, bytes); !wrong.empty()) return wrong;
    if (column.type != ColumnType::text) {
        out += bytes;
        if (column.type == ColumnType::text0) out += '\0';
        return {};
    }
    for (const char c : bytes) {
        out += c;
        if (c == '\0') out += '\xff';
    }
    out.append(2, '\0');
    return {};
}

// A column without a value adds nothing, or the number that stands for it.
std::string RecordMaker::add_value(const Part& part, const PlainField& field, std::string& out,
                                   size_t begin) const {
    const Column& column = *part.column;
    uint64_t bits = 0;
    std::string bytes;
    const bool absent = has_no_value(column, field);
    if (absent && !column.nullable())
        return fmt::format("column {} has no value, and its description has no null", column.name);
    if (absent && !column.null_value) return {};
    if (absent) {
        append_little(bytes, static_cast<uint64_t>(*column.null_value), column.stored_bytes());
    } else if (type_row(column.type).number()) {
        if (auto wants = number_of_text(column, field.text, bits); !wants.empty())
            return wrong_value(column, field.text, wants);
        append_little(bytes, bits, column.stored_bytes());
        if (column.null_value && static_cast<int64_t>(bits) == *column.null_value)
            return fmt::format("column {}: {} means that there is no value (leave the field empty)",
                               column.name, shown(field.text));
    } else {
        if (auto wrong = read_text(column, field.text, bytes); !wrong.empty()) return wrong;
        const size_t head = head_bytes(column),
                     most = std::min(head == 1   ? 255
                                     : head == 2 ? 65535
                                                 : SIZE_MAX,
                                     part.room == SIZE_MAX ? SIZE_MAX : part.room - head);
        if (bytes.size() > most)
            return wrong_value(column, field.text, fmt::format("at most {} bytes", most));
        const uint64_t size = bytes.size();
        bytes.insert(0, reinterpret_cast<const char*>(&size), head);
    }
    DCHECK(bytes.size() <= part.room);
    out.resize(begin + column.offset);  // zeros between columns
    out += bytes;
    return {};
}

// A value without a column ends before it.
std::string RecordMaker::check_absent(std::span<const PlainField> fields,
                                      size_t value_bytes) const {
    for (const Part& part : value_) {
        const Column& column = *part.column;
        const PlainField& field = fields[part.place];
        if (!has_no_value(column, field) || column.null_value) continue;
        const size_t least = column.offset + least_bytes(column);
        const bool reached = value_bytes >= least;
        if (!reached ||
            (takes_the_rest(column) && field.state == State::blank && value_bytes == column.offset))
            continue;
        return fmt::format(
            "column {} has no value, but the record does not end before it (the columns behind it, "
            "and bytes up to it, would have to be absent too)",
            column.name);
    }
    return {};
}

std::string RecordMaker::make(std::span<const PlainField> fields, std::string& out,
                              size_t& key_bytes) const {
    DCHECK(refusal_.empty() && fields.size() == columns_.all().size());
    const size_t key_begin = out.size();
    for (const Part& part : key_)
        if (auto wrong = add_key(part, fields[part.place], out); !wrong.empty()) return wrong;
    const size_t begin = out.size();
    key_bytes = begin - key_begin;
    if (key_bytes > kKeyBytesMax)
        return fmt::format("a key of {} bytes; at most {}", key_bytes, kKeyBytesMax);
    for (const Part& part : value_)
        if (auto wrong = add_value(part, fields[part.place], out, begin); !wrong.empty())
            return wrong;
    const size_t most = is_index_ ? kValueBytesMax : sm::kHeapRecordBytesMax;
    if (out.size() - begin > most)
        return fmt::format("a value of {} bytes; at most {}", out.size() - begin, most);
    return check_absent(fields, out.size() - begin);
}

}  // namespace lockstep::cli
