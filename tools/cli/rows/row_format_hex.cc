// row_format_hex.cc - rows as words and hexadecimal digits.
#include <fmt/core.h>

#include "tools/cli/rows/row_format_impl.h"

namespace lockstep::cli {
namespace {

void append_hex_field(std::string& out, Slice bytes) {
    out += ' ';
    if (bytes.empty()) out += '-';
    append_hex_bytes(out, bytes);
}

// The next word; words are separated by one space.
Slice take_word(Slice& rest) {
    const size_t n = std::min(rest.find(' '), rest.size());
    const Slice word = rest.substr(0, n);
    rest.remove_prefix(std::min(n + 1, rest.size()));
    return word;
}

// Decodes the word into `to`, which lies at or before it.
bool decode(Slice word, char*& to, Slice& bytes) {
    if (word.empty()) return false;
    if (word == "-") word = {};
    if (!from_hex(word, to)) return false;
    bytes = {to, word.size() / 2};
    to += bytes.size();
    return true;
}

}  // namespace

void append_hex(std::string& out, const Row& row) {
    switch (row.kind) {
        case RowKind::header: return;
        case RowKind::start: out += fmt::format("lockstep_dump {}", row.number); break;
        case RowKind::end: out += fmt::format("end {}", row.number); break;
        case RowKind::index:
        case RowKind::heap:
            out += row.kind == RowKind::index ? "index" : "heap";
            append_hex_field(out, row.object);
            break;
        case RowKind::secondary:
            out += "secondary";
            append_hex_field(out, row.object);
            append_hex_field(out, row.key);
            out += row.unique ? " 1" : " 0";
            break;
        case RowKind::record:
            out += fmt::format("record {}", row.ordinal);
            append_hex_field(out, row.key);
            append_hex_field(out, row.value);
    }
    out += '\n';
}

std::string parse_hex(std::span<char> line, Row& row) {
    Slice rest(line.data(), line.size());
    char* to = line.data();
    const Slice kind = take_word(rest);
    if (kind == "record") {
        uint64_t ordinal = 0;
        if (!parse_number(take_word(rest), ordinal) || ordinal >= Row::kByName)
            return "record: the object's number is missing";
        row.ordinal = static_cast<uint32_t>(ordinal);
        const Slice key = take_word(rest), value = take_word(rest);
        if (!rest.empty() || !decode(key, to, row.key) || !decode(value, to, row.value))
            return "record: expected two words of hexadecimal digits ('-' if empty)";
    } else if (kind == "index" || kind == "heap") {
        row.kind = kind == "index" ? RowKind::index : RowKind::heap;
        const Slice name = take_word(rest);
        if (!rest.empty() || !decode(name, to, row.object))
            return "expected a name in hexadecimal digits";
    } else if (kind == "secondary") {
        row.kind = RowKind::secondary;
        const Slice name = take_word(rest), of = take_word(rest);
        row.unique = rest == "1";
        if ((!row.unique && rest != "0") || !decode(name, to, row.object) ||
            !decode(of, to, row.key))
            return "secondary: expected two names in hexadecimal digits, and 0 or 1";
    } else if (kind == "lockstep_dump" || kind == "end") {
        row.kind = kind == "end" ? RowKind::end : RowKind::start;
        if (!parse_number(rest, row.number)) return "expected a number";
    } else {
        return fmt::format("no such row: '{}'", readable(kind.substr(0, 20)));
    }
    return {};
}

}  // namespace lockstep::cli
