// least_run.h - how much a run must have measured, so that a throughput says something.
#pragma once

#include <fmt/format.h>

#include <string>

namespace lockstep::tpcc {

inline constexpr double kSecondsLeast = 1, kTransactionsLeast = 1000;

// A run that waited longer for a processor, of the time in which it could run, was disturbed.
inline constexpr double kWaitShareMost = 0.05;

inline bool enough_for_throughput(double seconds, double transactions) {
    return seconds >= kSecondsLeast && transactions >= kTransactionsLeast;
}
// What stands in the place of a throughput.
inline std::string too_short_text(double seconds, double transactions) {
    return fmt::format(
        "{:.0f} transactions in {:.2f} s: too little for a throughput, which takes at least {:.0f} "
        "s and {:.0f} transactions",
        transactions, seconds, kSecondsLeast, kTransactionsLeast);
}

}  // namespace lockstep::tpcc
