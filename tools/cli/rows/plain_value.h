// plain_value.h - numbers, decimals, dates and times of columns as people and programs write them.
//
// Layout     Whole numbers and decimals in decimal digits; f32 and f64 as short as they can be,
//            also nan, inf. A date is YYYY-MM-DD, a time YYYY-MM-DDTHH:MM:SS, with a fraction and
//            Z or an offset, as +02:00; without one it is UTC. A number is a time in the column's
//            unit since 1970. @N is the stored number of a date or a time; those outside of the
//            years 1 to 9999 are written so. Bytes are hexadecimal digits.
// Invariants PV-1 number_of_text() of what append_number() wrote gives the same bits back, except
//                 for a NaN. [test: tests/tools/plain_test.py]
#pragma once

#include <string>

#include <lockstep/columns.h>

namespace lockstep::cli {

// The type as the text of columns has it: decimal(2).
std::string type_text(const Column& column);

// Appends a number of the column: its bits as the record stores them, a signed one extended.
void append_number(std::string& out, const Column& column, uint64_t bits);
// The bits of a text. The result says what is wrong; it is empty if nothing is.
std::string number_of_text(const Column& column, Slice text, uint64_t& bits);
// In JSON it is a number, not a string.
bool is_json_number(const Column& column, uint64_t bits);

}  // namespace lockstep::cli
