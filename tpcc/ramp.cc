// ramp.cc - which rate comes next.
#include "tpcc/ramp.h"

#include <algorithm>
#include <cmath>

#include "threads/base/check.h"

namespace lockstep::tpcc {

namespace {

constexpr double kPercentile = 0.99, kNear = 1.05, kBacklogShare = 0.01;
constexpr double kRateMax = 1e8;  // of --rate
constexpr size_t kFailures = 2;   // that make a rate too high

}  // namespace

const RampStep& Ramp::add(const RunReport& run, double rate) {
    DCHECK(bound > 0 && rate > 0);
    const auto& latency = run.stats.types[static_cast<size_t>(TxnType::new_order)].latency;
    RampStep step{.rate = rate,
                  .tx_per_s = run.tx_per_s(),
                  .p50 = static_cast<Nanos>(latency.percentile(0.5)),
                  .p99 = static_cast<Nanos>(latency.percentile(kPercentile)),
                  .due = run.offered.due,
                  .backlog = run.offered.backlog};
    step.holds = latency.count() > 0 && step.p99 <= bound &&
                 static_cast<double>(step.backlog) <= kBacklogShare * static_cast<double>(step.due);
    return steps.emplace_back(step);
}

size_t Ramp::failures(double rate) const {
    return static_cast<size_t>(std::ranges::count_if(
        steps, [rate](const RampStep& step) { return step.rate == rate && !step.holds; }));
}

// The lowest rate that is; infinite: none.
double Ramp::too_high() const {
    double lowest = INFINITY;
    for (const RampStep& step : steps)
        if (failures(step.rate) >= kFailures) lowest = std::min(lowest, step.rate);
    return lowest;
}

// What held above a rate that is too high says that the machine has changed, and does not count.
double Ramp::knee() const {
    double highest = 0;
    for (const RampStep& step : steps)
        if (step.holds && step.rate < too_high()) highest = std::max(highest, step.rate);
    return highest;
}

std::optional<double> Ramp::next() const {
    if (steps.empty()) return first;
    const RampStep& last = steps.back();
    if (!last.holds && failures(last.rate) < kFailures) return last.rate;
    const double low = knee(), high = too_high();
    if (low == 0 || low >= kRateMax || high <= low * kNear) return std::nullopt;
    return std::isinf(high) ? std::min(2 * low, kRateMax) : std::sqrt(low * high);
}

}  // namespace lockstep::tpcc
