// plain_time.h - dates and times of columns as text (plain_value.h says how they are written).
#pragma once

#include <string>

#include <lockstep/columns.h>

namespace lockstep::cli {

// A date or a time.
bool is_time(const Column& column);
// Appends days, or units of the column, since 1970.
void append_time(std::string& out, const Column& column, int64_t number);
// False: the text is none, or the column cannot hold it exactly.
bool read_time(const Column& column, Slice text, int64_t& number);
// How one is written, for an error.
std::string time_spelling(const Column& column);

}  // namespace lockstep::cli
