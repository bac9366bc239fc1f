// time_of_day.h - dates in rows are nanoseconds since 1970; the store's clock has another origin.
#pragma once

#include <chrono>

#include <lockstep/clock.h>
#include "tpcc/schema.h"

namespace lockstep::tpcc {

// What is added to the store's clock for dates in rows.
inline Time clock_offset() {
    const auto day = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    return day.count() - static_cast<Time>(MonotonicClock().now());
}

}  // namespace lockstep::tpcc
