// ratio.h - does B differ from A? An interval for the ratio, from the figures of several runs.
//
// Concepts   A run is one sample. The seconds of one run depend on each other, and on what is the
//            same in the whole run, such as the placement of memory. So they say nothing about the
//            next run, and a verdict needs at least three runs of each.
//            The interval is Welch's t on logarithms, around the ratio of the sums.
// Source     B. L. Welch, "The generalization of Student's problem", 1947.
#pragma once

#include <cstddef>
#include <vector>

namespace lockstep::tpcc {

inline constexpr size_t kRunsLeast = 3;

// B divided by A.
struct RatioInterval {
    double low = 0, high = 0;
    bool known = false;  // there were enough runs, each with a figure above 0
    bool shows_difference() const { return known && (low > 1 || high < 1); }
};
// `a` and `b`: a figure of each run. `error`: the probability that the interval misses the ratio.
RatioInterval interval_of_ratio(double ratio, const std::vector<double>& a,
                                const std::vector<double>& b, double error);
// Student's t with `freedom` degrees is beyond this, on either side, with the probability `error`.
double student(double error, double freedom);

}  // namespace lockstep::tpcc
