// compare.h - the difference of two results, with intervals, or why they cannot be compared.
//
// Concepts   Each measured second (or other interval) of a run is a sample. Neighbouring samples
//            depend on each other, so they are averaged in at most ten batches. The ratio of the
//            means of both runs gets a 95% interval by Welch's t, on logarithms. An interval that
//            contains 1 means: no difference was shown.
//            The interval covers the noise within the two runs. It does not cover what differs from
//            one start of a program to the next, such as the placement of memory.
//            Each run makes its database larger. So results with different run numbers, or with
//            different pools, are not comparable.
// Source     B. L. Welch, "The generalization of Student's problem", 1947; batch means as in A. M.
//            Law, "Simulation Modeling and Analysis".
#pragma once

#include <string>
#include <vector>

namespace lockstep::tpcc {

// B divided by A.
struct RatioInterval {
    double ratio = 1, low = 0, high = 0;
    bool known = false;  // there were enough samples
    bool shows_difference() const { return known && (low > 1 || high < 1); }
};
// The samples of A and B in the order of time, none below 0. A ratio is unknown where a batch is 0.
RatioInterval compare_samples(const std::vector<double>& a, const std::vector<double>& b);

// Prints the comparison. Returns 0; 1 if the results are not comparable, which is explained; 2 if a
// file cannot be read as a result. With `force` it prints the ratios of results that are not
// comparable below a warning, and returns 0.
int compare_files(const std::string& a, const std::string& b, bool force);

}  // namespace lockstep::tpcc
