// paired.h - compares variants of one thing that take turns: A B C A B C, in one process, with a
// probe that tells a disturbed core.
//
// Concepts   A round measures every variant once. A round counts for a variant if neither its own
//            slice nor that of the first variant (the base) was disturbed: their probes are within
//            15% of the fastest tenth (the fastest may have met a clock that was raised for a
//            moment). The figure is the median of the rounds' ratios; the spread is printed as
//            quartiles, and how many rounds counted.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/bench.h"

namespace lockstep::bench {

// Nanoseconds for a fixed piece of arithmetic.
double probe_core();
// CPU time that this process has used: what a rate is measured by, so that others who want the same
// cores disturb it less.
Nanos cpu_time();

struct StepsVariant {
    StepsMode mode;
    const char* name;
};
// base first, STEPS last.
inline constexpr StepsVariant kStepsVariants[] = {{StepsMode::off, "base"},
                                                  {StepsMode::fastctx, "base + fast switch"},
                                                  {StepsMode::prefetch, "prefetch only"},
                                                  {StepsMode::grouping, "grouping only"},
                                                  {StepsMode::ctx_only, "CTX without prefetch"},
                                                  {StepsMode::on, "STEPS"}};

class Paired {
public:
    explicit Paired(size_t variants) : samples_(variants) {}
    // `rate`: more is better. Once per round and variant, in order.
    void add(size_t variant, double rate, double probe) {
        samples_[variant].push_back({rate, probe});
    }
    // One figure for the variant's own rate (`per_second` in units of `unit`, or nanoseconds for
    // each), one for its ratio to the base.
    void print(Report& report, size_t variant, const std::string& name, const std::string& unit,
               bool as_nanos, const std::string& goal) const;

private:
    struct Sample {
        double rate, probe;
    };
    std::vector<std::vector<Sample>> samples_;
};

}  // namespace lockstep::bench
