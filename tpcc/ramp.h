// ramp.h - finds the knee: the highest offered rate at which New-Orders keep a bound of latency.
//
// Concepts   A run *holds* if the 99th percentile of the response times of New-Order is within the
//            bound, and if at its end not more than a hundredth of what was due had not begun. A
//            rate is too high if two runs at it do not hold, so one stall of the machine decides
//            nothing. The rate doubles until it is too high. Then it lies in the middle of the
//            ratio of the lowest rate that is too high and the highest that held, until these are
//            within a twentieth.
#pragma once

#include <optional>
#include <vector>

#include "tpcc/driver.h"

namespace lockstep::tpcc {

struct RampStep {
    double rate = 0;  // offered, transactions a second
    double tx_per_s = 0;
    Nanos p50 = 0, p99 = 0;  // of New-Order
    uint64_t due = 0, backlog = 0;
    bool holds = false;
};

struct Ramp {
    Nanos bound = 0;   // 0: no ramp was asked for
    double first = 0;  // rate
    std::vector<RampStep> steps = {};

    // Adds a run at that rate, and says whether it holds.
    const RampStep& add(const RunReport& run, double rate);
    // Of the next run. None: the knee is found, or even the first rate is too high.
    std::optional<double> next() const;
    // The highest rate that held; 0: none.
    double knee() const;

private:
    size_t failures(double rate) const;
    double too_high() const;
};

}  // namespace lockstep::tpcc
