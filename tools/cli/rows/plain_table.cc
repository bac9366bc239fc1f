// plain_table.cc - fields of CSV and TSV, and their ends.
#include "tools/cli/rows/plain_table.h"

#include <fmt/core.h>

#include "threads/base/check.h"

namespace lockstep::cli {
namespace {

using State = PlainField::State;

// A quote within a field that does not begin with one is itself, as in other programs.
size_t csv_record_end(Slice text) {
    bool quoted = false, at_begin = true;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted) {
            if (c != '"') continue;
            if (i + 1 < text.size() && text[i + 1] == '"') ++i;
            else quoted = false;
            continue;
        }
        if (c == '\n') return i + 1;
        quoted = c == '"' && at_begin;
        at_begin = c == ',';
    }
    return Slice::npos;
}

// Takes a field that begins with a quote; `at` stands behind that.
std::string take_quoted(char*& at, const char* end, PlainField& field) {
    char* const begin = at;
    for (char* to = at;; *to++ = *at++) {
        if (at == end) return "a quoted field does not end (write \"\" for a quote within it)";
        if (*at == '"' && (++at == end || *at != '"')) {
            field = {State::text, {begin, static_cast<size_t>(to - begin)}};
            break;
        }
    }
    if (at != end && *at != ',')
        return "text behind the end of a quoted field (write \"\" for a quote within it)";
    return {};
}

std::string split_csv(std::span<char> record, std::vector<PlainField>& fields) {
    char* at = record.data();
    const char* const end = at + record.size();
    for (bool more = true; more;) {
        PlainField field;
        if (at != end && *at == '"') {
            if (auto wrong = take_quoted(++at, end, field); !wrong.empty()) return wrong;
        } else {
            const char* const begin = at;
            while (at != end && *at != ',') ++at;
            const Slice text(begin, static_cast<size_t>(at - begin));
            field = {text.empty() ? State::blank : State::text, text};
        }
        fields.push_back(field);
        more = at != end;
        if (more) ++at;
    }
    return {};
}

// Undoes the backslashes of a field in its own memory.
std::string take_escaped(char* begin, char* end, PlainField& field) {
    if (Slice(begin, static_cast<size_t>(end - begin)) == "\\N") return {};
    char* to = begin;
    for (const char* at = begin; at != end; ++at) {
        if (*at != '\\') {
            *to++ = *at;
            continue;
        }
        const char what = ++at == end ? '\0' : *at;
        if (what == 't') *to++ = '\t';
        else if (what == 'n') *to++ = '\n';
        else if (what == 'r') *to++ = '\r';
        else if (what == '\\') *to++ = '\\';
        else
            return "a backslash that is neither \\t, \\n, \\r, \\\\ nor a field \\N (write \\\\ "
                   "for "
                   "a backslash)";
    }
    field = {State::text, {begin, static_cast<size_t>(to - begin)}};
    return {};
}

std::string split_tsv(std::span<char> record, std::vector<PlainField>& fields) {
    char* at = record.data();
    char* const end = at + record.size();
    for (bool more = true; more;) {
        char* const begin = at;
        while (at != end && *at != '\t') ++at;
        PlainField field;
        if (auto wrong = take_escaped(begin, at, field); !wrong.empty()) return wrong;
        fields.push_back(field);
        more = at != end;
        if (more) ++at;
    }
    return {};
}

}  // namespace

std::optional<PlainFormat> plain_format_of(std::string_view name) {
    if (name == "csv") return PlainFormat::csv;
    if (name == "tsv" || name == "tab") return PlainFormat::tsv;
    if (name == "jsonl" || name == "ndjson" || name == "json") return PlainFormat::jsonl;
    return std::nullopt;
}

std::optional<PlainFormat> plain_format_of_file(std::string_view path) {
    const size_t dot = path.rfind('.');
    return dot == std::string_view::npos ? std::nullopt : plain_format_of(path.substr(dot + 1));
}

PlainFormat detect_plain_format(Slice first_line) {
    if (first_line.starts_with('{')) return PlainFormat::jsonl;
    const bool tabs = first_line.contains('\t') && !first_line.contains(',');
    return tabs ? PlainFormat::tsv : PlainFormat::csv;
}

size_t plain_record_end(PlainFormat format, Slice text) {
    if (format == PlainFormat::csv) return csv_record_end(text);
    const size_t end = text.find('\n');
    return end == Slice::npos ? end : end + 1;
}

std::span<char> without_line_end(std::span<char> record) {
    for (const char c : {'\n', '\r'})
        if (!record.empty() && record.back() == c) record = record.first(record.size() - 1);
    return record;
}

std::string split_plain(PlainFormat format, std::span<char> record,
                        std::vector<PlainField>& fields) {
    DCHECK(format != PlainFormat::jsonl);
    fields.clear();
    return format == PlainFormat::csv ? split_csv(record, fields) : split_tsv(record, fields);
}

void append_plain(std::string& out, PlainFormat format, const PlainField& field) {
    const bool csv = format == PlainFormat::csv;
    DCHECK(format != PlainFormat::jsonl);
    if (field.state != State::text) {
        if (!csv) out += "\\N";
        return;
    }
    if (!csv) {
        for (const char c : field.text) {
            if (c == '\t') out += "\\t";
            else if (c == '\n') out += "\\n";
            else if (c == '\r') out += "\\r";
            else if (c == '\\') out += "\\\\";
            else out += c;
        }
        return;
    }
    const bool quoted = field.text.empty() || field.text.find_first_of(",\"\r\n") != Slice::npos;
    if (quoted) out += '"';
    for (const char c : field.text) {
        if (c == '"') out += '"';
        out += c;
    }
    if (quoted) out += '"';
}

void append_json_text(std::string& out, Slice text) {
    out += '"';
    for (const char c : text) {
        const auto u = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') (out += '\\') += c;
        else if (u < 0x20 || u == 0x7f) out += fmt::format("\\u{:04x}", u);
        else out += c;
    }
    out += '"';
}

}  // namespace lockstep::cli
