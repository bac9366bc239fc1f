// native_json.h - what a native contest of two modes allows to say, as JSON.
//
// Concepts   There is one estimator, the ratio of pairs. The value of the mode "on" is that of
//            "off" times the ratio, so the two cannot contradict it.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "tools/bench/quiet.h"
#include "tools/icache/hardware.h"

namespace lockstep::icache {

// The counters around one slice, and the units that ran in it.
struct CounterSlice {
    Readings before, after;
    double units;
};

// Rates are units a nanosecond. Members: pairs, quiet_pairs, verdict (verdict_text()), spread_max;
// if any pair is quiet: ns_off, ns_on, speedup, quartile_low, quartile_high; with enough of them
// low and high, the interval of the speed-up.
nlohmann::ordered_json time_json(const std::vector<bench::TimedSlice>& off,
                                 const std::vector<bench::TimedSlice>& on);
// For each event its count per unit, "off" and "on", the share of time that it was counted, and the
// number of pairs; or "missing": why there is no count.
nlohmann::ordered_json counters_json(std::span<const CounterSlice> off,
                                     std::span<const CounterSlice> on);

}  // namespace lockstep::icache
