// jobs.h - many seeds in several processes, and what came of them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tests/sim/config.h"
#include "tests/sim/report.h"

namespace lockstep::sim {

struct Failure {
    uint64_t seed = 0;
    std::string text;
    std::string replay;  // the line that repeats it
    std::string shrunk;  // what remains of the plan; empty: not tried
};

struct Outcome {
    uint64_t seeds = 0;  // that ended without a failure
    uint64_t digest = 0;
    double seconds = 0;
    std::array<uint64_t, kCounts> counts{};
    std::vector<Failure> failures;

    double crash_points_a_second() const {
        return static_cast<double>(counts[static_cast<size_t>(Count::crash_points)]) /
               (seconds > 0.001 ? seconds : 0.001);
    }
};

// Runs the seeds of `arguments` in child processes. Prints each failure as it happens.
Outcome run_share(const Arguments& arguments);
// The same, and prints the counts. Returns the exit status.
int run_seeds(const Arguments& arguments);
// One line for each count; `all`: also those that are 0.
void print_counts(const std::array<uint64_t, kCounts>& counts, bool all);

}  // namespace lockstep::sim
