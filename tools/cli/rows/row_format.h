// row_format.h - the rows of a dump, and their three spellings: JSON lines, CSV, hexadecimal.
//
// Concepts   A dump is a sequence of rows, one a line. The first row names the version. A row for
//            each index or heap precedes its records. The last row has the number of records, so a
//            dump that was cut short is noticed. A secondary index has one row, which describes it.
//            Its entries are no part of a dump: they follow from the records.
// Layout     json  {"lockstep_dump":1} {"index":N} {"heap":N} {"index":N,"key":K,"value":V}
//                  {"heap":N,"id":"page.slot","value":V} {"end":COUNT}
//                  {"secondary":N,"of":PRIMARY,"unique":true}. Bytes are a JSON string if
//                  they are UTF-8 without control characters, else {"hex":"00ff"}. Both spellings
//                  are accepted everywhere.
//            csv   RFC 4180. The header line is row,object,key,value. Rows are lockstep_dump,1,,
//                  and index,N,, and heap,N,, and record,N,K,V and end,COUNT,, and
//                  secondary,N,PRIMARY,unique, or nothing for "unique". Control characters,
//                  backslashes and bytes that are not UTF-8 are written \xNN, so a row is one line.
//            hex   lockstep_dump 1, index N, heap N, record I K V, end COUNT, secondary N PRIMARY 1
//                  (0: not unique). N, PRIMARY, K and V are hexadecimal, "-" if empty. I counts the
//                  indexes and heaps above from 0, without secondary indexes.
// Invariants RF-1 parse_row() of what append_row() wrote gives the same bytes back.
//            [test: tests/tools/load_test.py]
#pragma once

#include <optional>
#include <span>
#include <string>

#include <lockstep/types.h>

namespace lockstep::cli {

inline constexpr uint64_t kDumpVersion = 1;

enum class Format : uint8_t { json, csv, hex };
std::optional<Format> format_of(std::string_view name);

enum class RowKind : uint8_t { header, start, index, heap, secondary, record, end };

struct Row {
    static constexpr uint32_t kByName = UINT32_MAX;
    RowKind kind = RowKind::record;
    bool of_index = true;        // a record's object, where the format says it
    bool kind_known = false;     // whether it does
    bool unique = false;         // secondary
    uint32_t ordinal = kByName;  // hex: which of the objects above; else `object` names it
    Slice object = {};           // index, heap, secondary, record: the name
    Slice key = {}, value = {};  // record; a heap's key is its record id, "page.slot"
    // secondary: `key` is the name of its primary
    uint64_t number = 0;  // start: the version; end: the count of records
};

// Appends the row and its line end. A csv dump begins with a row of kind header.
void append_row(std::string& out, Format format, const Row& row);

// Parses one line without its end. The row's bytes are decoded into the line itself, key and value
// without a gap. The result says what is wrong; it is empty if nothing is.
std::string parse_row(Format format, std::span<char> line, Row& row);

// What a dump's first line is written in; nothing if it is not the first line of a dump.
std::optional<Format> detect_format(Slice first_line);

std::string to_hex(Slice bytes);
// False if the text is not pairs of hexadecimal digits. `out` may be the text's own memory.
bool from_hex(Slice text, char* out);
// Bytes for a person: printable ones as they are, others as \xNN.
std::string readable(Slice bytes);
// True for UTF-8 without control characters: it is printed as it is.
bool is_plain_text(Slice bytes);

}  // namespace lockstep::cli
