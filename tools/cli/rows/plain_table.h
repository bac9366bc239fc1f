// plain_table.h - tables of other programs as text: CSV, TSV and JSON lines, a row a record.
//
// Layout     csv is RFC 4180: a field within quotes may have commas, line ends, and "" for a quote.
//            An empty field has no value; "" is an empty text.
//            In tsv, fields end with a tabulator. Written \t, \n, \r and \\ are what they are in C,
//            and a field \N has no value.
//            In jsonl, each line is a JSON object. A member that is null or missing is no value.
//            Lines end with LF or CRLF. Empty lines do not count, except in a table of one column.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/types.h>

namespace lockstep::cli {

enum class PlainFormat : uint8_t { csv, tsv, jsonl };
std::optional<PlainFormat> plain_format_of(std::string_view name);
// By the ending of a file's name.
std::optional<PlainFormat> plain_format_of_file(std::string_view path);
// By the first line of a table.
PlainFormat detect_plain_format(Slice first_line);

struct PlainField {
    // blank: an empty field of csv, which is no value where there may be none, else an empty text.
    enum class State : uint8_t { absent, blank, text };
    State state = State::absent;
    Slice text = {};
};

// Bytes of the first record of the text with its line end; npos: it does not end in the text.
size_t plain_record_end(PlainFormat format, Slice text);
// The record without its line end.
std::span<char> without_line_end(std::span<char> record);
// Splits a record of csv or tsv, without its line end. The fields lie in its memory. The result
// says what is wrong; it is empty if nothing is.
std::string split_plain(PlainFormat format, std::span<char> record,
                        std::vector<PlainField>& fields);

// A member of a JSON object: its value as text.
struct PlainMember {
    std::string name, text;
    bool absent = false;  // null
};
// Splits a record of jsonl. The result is as that of split_plain().
std::string split_json(Slice record, std::vector<PlainMember>& members);

// Appends a field of csv or tsv, without what ends it.
void append_plain(std::string& out, PlainFormat format, const PlainField& field);
// Appends a text as a JSON string. It is UTF-8.
void append_json_text(std::string& out, Slice text);

}  // namespace lockstep::cli
