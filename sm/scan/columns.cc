// columns.cc - reads and writes the text of columns.
#include <lockstep/columns.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "sm/scan/column_types.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"

namespace lockstep {

using sm::scan::kTypes;
using sm::scan::type_row;
using sm::scan::TypeRow;

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool ends_column(char c) { return c == '\n' || c == ','; }

// Reads words and numbers of the text from front to back, and knows where it is.
class Reader {
public:
    explicit Reader(Slice text) : text_(text) {}

    // To the next thing within the column.
    void skip_blanks() {
        while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
    }
    // To the next column. False: there is none.
    bool next_column() {
        for (;; ++at_) {
            skip_blanks();
            if (at_ == text_.size()) return false;
            if (text_[at_] == '#')
                while (at_ < text_.size() && text_[at_] != '\n') ++at_;
            if (at_ == text_.size()) return false;
            if (!ends_column(text_[at_])) return true;
        }
    }
    bool at_end() {
        DCHECK(token_ <= at_ && at_ <= text_.size());
        skip_blanks();
        return at_ == text_.size() || ends_column(text_[at_]) || text_[at_] == '#';
    }
    // Letters, digits and _; empty if there are none.
    Slice word() {
        skip_blanks();
        const size_t begin = token_ = at_;
        while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
        return text_.substr(begin, at_ - begin);
    }
    // Takes the character if it comes next, without blanks before it.
    bool take(char c) {
        if (at_ == text_.size() || text_[at_] != c) return false;
        token_ = at_++;
        return true;
    }
    // Within [low, high].
    Result<int64_t> number(int64_t low, int64_t high) {
        DCHECK(low <= high);
        skip_blanks();
        token_ = at_;
        int64_t value = 0;
        const char* const end = text_.data() + text_.size();
        const auto [rest, error] = std::from_chars(text_.data() + at_, end, value);
        if (error == std::errc::invalid_argument) return wrong("a number is missing");
        at_ = static_cast<size_t>(rest - text_.data());
        if (error != std::errc() || value < low || value > high)
            return wrong("the number must be " + std::to_string(low) + " to " +
                         std::to_string(high));
        return value;
    }
    // At the last word, number or character.
    [[gnu::cold]] Unexpected wrong(std::string why) const {
        DCHECK(token_ <= text_.size() && !why.empty());
        const Slice before = text_.substr(0, token_);
        const size_t line = static_cast<size_t>(std::ranges::count(before, '\n'));
        const size_t begin = line == 0 ? 0 : before.rfind('\n') + 1;
        Error error{.code = ErrorCode::bad_argument,
                    .what = "text of columns",
                    .a = line + 1,
                    .b = token_ - begin + 1};
        set_error_detail(error, "line " + std::to_string(error.a) + ", column " +
                                    std::to_string(error.b) + ": " + why);
        return Unexpected(error);
    }

private:
    const Slice text_;
    size_t at_ = 0, token_ = 0;
};

std::string quoted(Slice word) { return "\"" + std::string(word.substr(0, 48)) + "\""; }

Result<void> read_name(Reader& in, Column& out) {
    const Slice name = in.word();
    if (name.empty() || is_digit(name[0])) return in.wrong("a column begins with its name");
    if (name.size() > kColumnNameBytesMax)
        return in.wrong("a name has at most " + std::to_string(kColumnNameBytesMax) + " bytes");
    out.name = name;
    return {};
}

Result<void> read_type(Reader& in, Column& out) {
    const Slice word = in.word();
    const bool sized = in.take('[');
    const auto* const row = std::ranges::find_if(kTypes, [&](const TypeRow& r) {
        return word == r.name && (r.argument == TypeRow::length) == sized;
    });
    if (row == std::end(kTypes))
        return in.wrong(word.empty() ? "a type is missing behind the name"
                                     : "no type " + quoted(word) + (sized ? " with [N]" : "") +
                                           "; columns.h lists the types");
    DCHECK((row->argument == TypeRow::length) == sized);
    out.type = row->type;
    if (sized) {
        out.length = static_cast<uint32_t>(TRY(in.number(1, kColumnBytesMax)));
        if (!in.take(']')) return in.wrong("a ] is missing");
    }
    if (row->argument == TypeRow::scale) {
        if (!in.take('(')) return in.wrong("a decimal needs its places, as decimal(2)");
        out.scale = static_cast<uint8_t>(TRY(in.number(0, 18)));
        if (!in.take(')')) return in.wrong("a ) is missing");
    }
    return {};
}

Result<void> read_place(Reader& in, Column& out) {
    const Slice word = in.word();
    const TypeRow& row = type_row(out.type);
    if (word == "key") {
        out.place = ColumnPlace::key;
        if (!row.in_key) return in.wrong("a key has no " + std::string(row.name));
    } else if (word == "value") {
        out.place = ColumnPlace::value;
        if (!row.in_value) return in.wrong("a value has no " + std::string(row.name));
        out.offset = static_cast<uint32_t>(TRY(in.number(0, 16 << 20)));
    } else if (word == "id") {
        out.place = ColumnPlace::id;
        if (out.type != ColumnType::u64) return in.wrong("the type of an id is u64");
    } else {
        return in.wrong("behind the type stands key, value N or id");
    }
    DCHECK(out.offset == 0 || out.place == ColumnPlace::value);
    return {};
}

// The numbers that a column of the type holds, as far as int64_t goes.
std::pair<int64_t, int64_t> range_of(const TypeRow& row) {
    const unsigned bits = 8u * row.stored;
    DCHECK(bits >= 8 && bits <= 64);
    if (bits == 64)
        return {row.is_signed ? std::numeric_limits<int64_t>::min() : 0,
                std::numeric_limits<int64_t>::max()};
    if (row.is_signed) return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
    return {0, (int64_t{1} << bits) - 1};
}

Result<void> read_nulls(Reader& in, Column& out) {
    while (!in.at_end()) {
        const Slice word = in.word();
        if (word == "null" && !out.null_value) {
            if (!type_row(out.type).integer()) return in.wrong("null C is for integers only");
            if (out.place != ColumnPlace::value) return in.wrong("null C is for values only");
            const auto [low, high] = range_of(type_row(out.type));
            out.null_value = TRY(in.number(low, high));
        } else if (word == "short" && !out.short_is_null) {
            if (in.word() != "null") return in.wrong("behind short stands null");
            if (out.place != ColumnPlace::value) return in.wrong("short null is for values only");
            out.short_is_null = true;
        } else {
            return in.wrong("a column ends with null C, short null, or a new line");
        }
    }
    return {};
}

}  // namespace

uint32_t Column::stored_bytes() const { return length != 0 ? length : type_row(type).stored; }
uint32_t Column::block_bytes() const { return type_row(type).made; }
std::string Column::arrow_format() const { return type_row(type).arrow; }

Result<Columns> Columns::parse(Slice text) {
    Columns out;
    Reader in(text);
    if (text.size() > kColumnTextBytesMax)
        return in.wrong("the text has more than " + std::to_string(kColumnTextBytesMax) + " bytes");
    bool key_ended = false;
    while (in.next_column()) {
        Column column;
        TRY(read_name(in, column));
        if (out.find(column.name)) return in.wrong("a second column " + quoted(column.name));
        if (out.columns_.size() == kColumnsMax)
            return in.wrong("more than " + std::to_string(kColumnsMax) + " columns");
        TRY(read_type(in, column));
        TRY(read_place(in, column));
        if (column.place == ColumnPlace::key) {
            if (key_ended) return in.wrong("no part of a key follows bytes");
            key_ended = column.type == ColumnType::bytes;
        }
        TRY(read_nulls(in, column));
        DCHECK(column.place == ColumnPlace::value || !column.nullable());
        out.columns_.push_back(std::move(column));
    }
    if (out.columns_.empty()) return in.wrong("the text has no column");
    return out;
}

std::string Columns::text() const {
    std::string out;
    for (const Column& c : columns_) {
        const TypeRow& row = type_row(c.type);
        DCHECK(!c.name.empty() && (c.length != 0) == (row.argument == TypeRow::length));
        DCHECK(c.scale == 0 || row.argument == TypeRow::scale);
        out += c.name + " " + row.name;
        if (row.argument == TypeRow::length) out += "[" + std::to_string(c.length) + "]";
        if (row.argument == TypeRow::scale) out += "(" + std::to_string(c.scale) + ")";
        out += c.place == ColumnPlace::key  ? " key"
               : c.place == ColumnPlace::id ? " id"
                                            : " value " + std::to_string(c.offset);
        if (c.null_value) out += " null " + std::to_string(*c.null_value);
        if (c.short_is_null) out += " short null";
        out += "\n";
    }
    return out;
}

std::optional<size_t> Columns::find(Slice name) const {
    for (size_t i = 0; i < columns_.size(); ++i)
        if (columns_[i].name == name) return i;
    return std::nullopt;
}

}  // namespace lockstep
