// quiet.h - tells undisturbed slices of work on a shared machine from disturbed ones, and estimates
// the ratio of two variants that alternate.
//
// Concepts   Each slice carries the time of a probe beside it: a fixed piece of arithmetic. A slice
//            is undisturbed if its probe is within 15% of the fastest tenth. The single fastest
//            probe is no reference, because it may have met a short clock boost.
//            A pair is one slice of each variant, the one right after the other. It counts if both
//            are undisturbed. The estimate is the median of the pairs' ratios.
// Interval   The interval of a median comes from the order of the ratios alone (the sign test), so
//            it assumes nothing about how they are distributed. Fewer than eight pairs have none.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <lockstep/clock.h>

namespace lockstep::bench {

// Nanoseconds since some moment.
inline Nanos clock_now() {
    static const MonotonicClock clock;
    return clock.now();
}

// The value below which that share of the sorted values lies, between two neighbours where it falls
// between them: the "inclusive" method of Python's statistics.quantiles(). 0 if there are none.
double quantile(std::span<const double> sorted, double share);
// The mean of the middle two if their number is even.
double median(std::vector<double> values);

// Nanoseconds for a fixed piece of arithmetic.
double probe_once();
// The faster of two such.
double probe_core();
// CPU time that this process has used. Rates are per CPU time, so that other processes on the same
// cores disturb them less.
Nanos cpu_time();

struct TimedSlice {
    double rate;   // more is better
    double probe;  // the slower of the probes beside it
};
// The largest probe of an undisturbed slice, of slices that were measured together.
double quiet_limit(std::span<const std::vector<TimedSlice>> variants);

struct PairedRatio {
    std::vector<double> base, ratios;  // of the undisturbed pairs, sorted
    size_t pairs = 0;                  // with the disturbed ones

    bool empty() const { return ratios.empty(); }
    double median() const;
    double quartile_low() const;
    double quartile_high() const;
    // An interval that holds the true median with a chance of 99%. Precondition: certain().
    double low() const;
    double high() const;
    // There are enough pairs for that interval.
    bool certain() const;
};
PairedRatio ratio_of(std::span<const TimedSlice> base, std::span<const TimedSlice> mine,
                     double limit);

// What a paired measurement may claim about a speed-up.
enum class Verdict : unsigned char { faster, slower, no_difference, too_noisy };
const char* verdict_text(Verdict verdict);
// Above this distance of the quartiles, as a share of the median, nothing is claimed.
inline constexpr double kSpreadMax = 0.10;
// A difference below this is none: code placement alone makes as much.
inline constexpr double kEffectMin = 0.01;
Verdict verdict_of(const PairedRatio& ratio);

}  // namespace lockstep::bench
