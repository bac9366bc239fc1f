// row_format.cc - bytes as text and back; what the three spellings of a row share.
#include "tools/cli/rows/row_format.h"

#include <fmt/core.h>

#include <cstring>

#include "tools/cli/rows/row_format_impl.h"

namespace lockstep::cli {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

}  // namespace

std::optional<Format> format_of(std::string_view name) {
    if (name == "json") return Format::json;
    if (name == "csv") return Format::csv;
    if (name == "hex") return Format::hex;
    return std::nullopt;
}

void append_row(std::string& out, Format format, const Row& row) {
    switch (format) {
        case Format::json: return append_json(out, row);
        case Format::csv: return append_csv(out, row);
        case Format::hex: return append_hex(out, row);
    }
}

std::string parse_row(Format format, std::span<char> line, Row& row) {
    row = {};
    switch (format) {
        case Format::json: return parse_json(line, row);
        case Format::csv: return parse_csv(line, row);
        case Format::hex: return parse_hex(line, row);
    }
    return "unknown format";
}

std::optional<Format> detect_format(Slice first_line) {
    if (first_line.starts_with('{')) return Format::json;
    if (first_line.starts_with("row,")) return Format::csv;
    if (first_line.starts_with("lockstep_dump ")) return Format::hex;
    return std::nullopt;
}

void append_hex_bytes(std::string& out, Slice bytes) {
    const size_t at = out.size();
    out.resize(at + 2 * bytes.size());
    char* to = out.data() + at;
    for (const char c : bytes) {
        const auto u = static_cast<unsigned char>(c);
        *to++ = kDigits[u >> 4];
        *to++ = kDigits[u & 15];
    }
}

std::string to_hex(Slice bytes) {
    std::string out;
    append_hex_bytes(out, bytes);
    return out;
}

bool from_hex(Slice text, char* out) {
    if (text.size() % 2 != 0) return false;
    for (size_t i = 0; i < text.size(); i += 2) {
        const int high = digit(text[i]), low = digit(text[i + 1]);
        if (high < 0 || low < 0) return false;
        *out++ = static_cast<char>(high << 4 | low);
    }
    return true;
}

std::string readable(Slice bytes) {
    std::string out;
    for (const char c : bytes) {
        const auto u = static_cast<unsigned char>(c);
        if (u >= 0x20 && u < 0x7f && c != '\\') out += c;
        else out += fmt::format("\\x{:02x}", u);
    }
    return out;
}

// By the table of RFC 3629, without the control characters from U+0080 to U+009F.
size_t utf8_sequence(Slice s) {
    const auto at = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
    const unsigned char first = at(0);
    if (first < 0x80) return 1;
    const size_t n = first >= 0xc2 && first <= 0xdf   ? 2
                     : first >= 0xe0 && first <= 0xef ? 3
                     : first >= 0xf0 && first <= 0xf4 ? 4
                                                      : 0;
    if (n == 0 || s.size() < n) return 0;
    const unsigned char least = first == 0xc2 || first == 0xe0 ? 0xa0
                                : first == 0xf0                ? 0x90
                                                               : 0x80,
                        most = first == 0xed   ? 0x9f
                               : first == 0xf4 ? 0x8f
                                               : 0xbf;
    if (at(1) < least || at(1) > most) return 0;
    for (size_t i = 2; i < n; ++i)
        if (at(i) < 0x80 || at(i) > 0xbf) return 0;
    return n;
}

bool is_plain_text(Slice bytes) {
    while (!bytes.empty()) {
        const auto first = static_cast<unsigned char>(bytes.front());
        const size_t n = utf8_sequence(bytes);
        if (n == 0 || first < 0x20 || first == 0x7f) return false;
        bytes.remove_prefix(n);
    }
    return true;
}

bool parse_number(Slice text, uint64_t& number) {
    if (text.empty() || text.size() > 19) return false;
    number = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return false;
        number = number * 10 + static_cast<uint64_t>(c - '0');
    }
    return true;
}

// Moves name, key and value to the front of the line, one behind the other.
void pack(std::span<char> line, Row& row, Slice object, Slice key, Slice value) {
    char* to = line.data();
    for (auto [from, field] :
         {std::pair(object, &row.object), {key, &row.key}, {value, &row.value}}) {
        if (!from.empty()) std::memmove(to, from.data(), from.size());
        *field = {to, from.size()};
        to += from.size();
    }
}

}  // namespace lockstep::cli
