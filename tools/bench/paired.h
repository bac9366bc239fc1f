// paired.h - compares variants that alternate in one process: A B C A B C.
//
// Concepts   A round measures every variant once, with a probe that detects a disturbed core. A
//            round counts for a variant if its own slice and the base's (the first variant's) were
//            undisturbed (quiet.h). The result is the median of the rounds' ratios. The output also
//            has the quartiles, the number of rounds that counted, and what they allow to say.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/bench.h"
#include "tools/bench/quiet.h"

namespace lockstep::bench {

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
                                                  {StepsMode::ctx, "teams of operations"},
                                                  {StepsMode::on, "STEPS"}};

class Paired {
public:
    explicit Paired(size_t variants) : samples_(variants) {}
    // `rate`: more is better. Call once per round and variant, in order.
    void add(size_t variant, double rate, double probe) {
        samples_[variant].push_back({rate, probe});
    }
    // Prints the variant's own rate (per second in `unit`, or with `as_nanos` nanoseconds each),
    // and its ratio to the base.
    void print(Report& report, size_t variant, const std::string& name, const std::string& unit,
               bool as_nanos, const std::string& goal) const;

private:
    std::vector<std::vector<TimedSlice>> samples_;
};

}  // namespace lockstep::bench
