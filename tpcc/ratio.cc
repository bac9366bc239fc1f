// ratio.cc - Welch's interval.
#include "tpcc/ratio.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace lockstep::tpcc {

namespace {

struct Spread {
    double variance_of_mean = 0, freedom = 0;
};

Spread spread_of_logarithms(std::vector<double> values) {
    for (double& value : values) value = std::log(value);
    const auto n = static_cast<double>(values.size());
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
    double squares = 0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    return {squares / (n - 1) / n, n - 1};
}

}  // namespace

// T = sqrt(freedom) * tan(angle), and the density of the angle is as cos(angle)^(freedom - 1).
double student(double error, double freedom) {
    constexpr int kSteps = 2000;
    constexpr double kStep = std::numbers::pi / 2 / kSteps;
    const auto density = [&](int step) {
        return std::pow(std::cos((step + 0.5) * kStep), freedom - 1);
    };
    double whole = 0;
    for (int step = 0; step < kSteps; ++step) whole += density(step);
    double beyond = 0;
    int step = kSteps;
    while (step > 1 && beyond < error * whole) beyond += density(--step);
    const double too_much = (beyond - error * whole) / density(step);  // of the last step
    return std::sqrt(freedom) * std::tan((step + too_much) * kStep);
}

RatioInterval interval_of_ratio(double ratio, const std::vector<double>& a,
                                const std::vector<double>& b, double error) {
    if (std::min(a.size(), b.size()) < kRunsLeast || !(ratio > 0)) return {};
    if (std::ranges::min(a) <= 0 || std::ranges::min(b) <= 0) return {};
    const Spread x = spread_of_logarithms(a), y = spread_of_logarithms(b);
    const double variance = x.variance_of_mean + y.variance_of_mean;
    if (variance == 0) return {ratio, ratio, true};
    const double freedom = variance * variance /
                           (x.variance_of_mean * x.variance_of_mean / x.freedom +
                            y.variance_of_mean * y.variance_of_mean / y.freedom);
    const double factor = std::exp(student(error, freedom) * std::sqrt(variance));
    return {ratio / factor, ratio * factor, true};
}

}  // namespace lockstep::tpcc
