// live_text.h - numbers, times and lists of a live store as people read them.
#pragma once

#include <cstdint>
#include <string>

#include "tools/cli/live/live_client.h"

namespace lockstep::cli {

// "850 ns", "1.20 ms", "3.5 s", "12 min", "5.0 h".
std::string time_text(uint64_t nanos);
// "512 B", "1.5 MB".
std::string bytes_text(double bytes);
// Three significant digits: "0.25", "41.2", "1530", "41.2k", "1.53M".
std::string rate_text(double rate);
// At most `columns` characters of the text; what is cut shows as "~" at the end.
std::string cut(const std::string& text, size_t columns);

// A table of transactions, a line each, with a heading; lines of at most `columns` characters.
std::string transactions_text(const Json& transactions, size_t columns);
// The same of hot locks.
std::string hot_locks_text(const Json& hot, size_t columns, size_t lines_max);
// Name and value, a line each, of an object; nested names are joined by a dot.
std::string fields_text(const Json& object, const std::string& prefix = "");

}  // namespace lockstep::cli
