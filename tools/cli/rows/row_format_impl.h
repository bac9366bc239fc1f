// row_format_impl.h - the three spellings, each in a source of its own. Private to row_format*.cc.
#pragma once

#include "tools/cli/rows/row_format.h"

namespace lockstep::cli {

void append_json(std::string& out, const Row& row);
void append_csv(std::string& out, const Row& row);
void append_hex(std::string& out, const Row& row);
std::string parse_json(std::span<char> line, Row& row);
std::string parse_csv(std::span<char> line, Row& row);
std::string parse_hex(std::span<char> line, Row& row);

void append_hex_bytes(std::string& out, Slice bytes);
// Bytes of the UTF-8 sequence at the front of a text that is not empty; 0: there is none, or it
// is a control character beyond ASCII.
size_t utf8_sequence(Slice text);
// Decimal digits, at most 19.
bool parse_number(Slice text, uint64_t& number);
// Moves the three to the front of the line in this order, without gaps. Each lies in the line at or
// behind its new place, in the same order, or outside the line.
void pack(std::span<char> line, Row& row, Slice object, Slice key, Slice value);

}  // namespace lockstep::cli
