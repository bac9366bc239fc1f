// units.h - times and amounts as reports print them.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <string>

#include <lockstep/types.h>

#include "tpcc/schema.h"

namespace lockstep::tpcc {

inline double seconds(Nanos nanos) {
    return static_cast<double>(nanos) / static_cast<double>(kSecond);
}

inline double micros(uint64_t nanos) { return static_cast<double>(nanos) / 1000; }

// Dollars with two digits after the point.
inline std::string money(Cents cents) {
    return fmt::format("{}{}.{:02}", cents < 0 ? "-" : "", std::abs(cents) / 100,
                       std::abs(cents) % 100);
}

}  // namespace lockstep::tpcc
