// row_format_csv.cc - rows as CSV (RFC 4180), with \xNN for bytes that are no text.
#include <fmt/core.h>

#include <array>

#include "tools/cli/rows/row_format_impl.h"

namespace lockstep::cli {
namespace {

constexpr Slice kHeader = "row,object,key,value";

void append_csv_field(std::string& out, Slice bytes) {
    const bool quoted = bytes.find_first_of(",\"") != Slice::npos;
    if (quoted) out += '"';
    while (!bytes.empty()) {
        const auto u = static_cast<unsigned char>(bytes.front());
        size_t n = utf8_sequence(bytes);
        if (n == 0 || u < 0x20 || u == 0x7f || u == '\\') {
            n = 1;
            out += "\\x";
            append_hex_bytes(out, bytes.substr(0, 1));
        } else {
            if (u == '"') out += '"';
            out += bytes.substr(0, n);
        }
        bytes.remove_prefix(n);
    }
    if (quoted) out += '"';
}

// Takes one field off the line and undoes quotes and \xNN in its own memory.
std::string take_field(char*& at, const char* end, Slice& field) {
    char* const begin = at;
    char* to = at;
    const bool quoted = at < end && *at == '"';
    if (quoted) ++at;
    for (;; ++at) {
        if (at == end) {
            if (quoted) return "a quoted field does not end on its line (write \\x0a in it)";
            break;
        }
        if (quoted && *at == '"') {
            if (++at == end || *at == ',') break;
            if (*at != '"') return "text behind the end of a quoted field";
            *to++ = '"';
        } else if (!quoted && *at == ',') {
            break;
        } else if (!quoted && *at == '"') {
            return "a quote inside a field that does not begin with one";
        } else if (*at == '\\') {
            if (end - at < 4 || at[1] != 'x' || !from_hex({at + 2, 2}, to))
                return "a backslash that is not \\xNN (write \\x5c for a backslash)";
            ++to;
            at += 3;
        } else {
            *to++ = *at;
        }
    }
    field = {begin, static_cast<size_t>(to - begin)};
    return {};
}

}  // namespace

void append_csv(std::string& out, const Row& row) {
    switch (row.kind) {
        case RowKind::header: out += kHeader; break;
        case RowKind::start: out += fmt::format("lockstep_dump,{},,", row.number); break;
        case RowKind::end: out += fmt::format("end,{},,", row.number); break;
        case RowKind::index:
        case RowKind::heap:
            out += row.kind == RowKind::index ? "index," : "heap,";
            append_csv_field(out, row.object);
            out += ",,";
            break;
        case RowKind::secondary:
            out += "secondary,";
            append_csv_field(out, row.object);
            out += ',';
            append_csv_field(out, row.key);
            out += row.unique ? ",unique" : ",";
            break;
        case RowKind::record:
            out += "record,";
            append_csv_field(out, row.object);
            out += ',';
            append_csv_field(out, row.key);
            out += ',';
            append_csv_field(out, row.value);
    }
    out += "\r\n";
}

std::string parse_csv(std::span<char> line, Row& row) {
    const Slice text(line.data(), line.size());
    if (text == kHeader) {
        row.kind = RowKind::header;
        return {};
    }
    std::array<Slice, 4> fields;
    char* at = line.data();
    const char* const end = at + line.size();
    for (size_t i = 0; i < fields.size(); ++i) {
        if (auto wrong = take_field(at, end, fields[i]); !wrong.empty()) return wrong;
        if ((at == end) != (i + 1 == fields.size())) return "a row has exactly four fields";
        if (at != end) ++at;
    }
    const Slice kind = fields[0];
    const bool alone = fields[2].empty() && fields[3].empty();
    if (kind == "record") {
        pack(line, row, fields[1], fields[2], fields[3]);
    } else if ((kind == "index" || kind == "heap") && alone) {
        row.kind = kind == "index" ? RowKind::index : RowKind::heap;
        pack(line, row, fields[1], {}, {});
    } else if (kind == "secondary") {
        row.kind = RowKind::secondary;
        row.unique = fields[3] == "unique";
        if (!row.unique && !fields[3].empty())
            return "the last field of a secondary index is neither 'unique' nor empty";
        pack(line, row, fields[1], fields[2], {});
    } else if ((kind == "lockstep_dump" || kind == "end") && alone) {
        row.kind = kind == "end" ? RowKind::end : RowKind::start;
        if (!parse_number(fields[1], row.number)) return "the second field is not a number";
    } else {
        return fmt::format("no such row: '{}'", readable(kind.substr(0, 20)));
    }
    return {};
}

}  // namespace lockstep::cli
