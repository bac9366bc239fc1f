// paired.cc - medians of ratios over undisturbed rounds.
#include "tools/bench/paired.h"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>

namespace lockstep::bench {
namespace {

double at(const std::vector<double>& sorted, double q) {
    return sorted[std::min(sorted.size() - 1,
                           static_cast<size_t>(q * static_cast<double>(sorted.size())))];
}

}  // namespace

Nanos cpu_time() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<Nanos>(t.tv_sec) * kSecond + static_cast<Nanos>(t.tv_nsec);
}

void Paired::print(Report& report, size_t variant, const std::string& name, const std::string& unit,
                   bool as_nanos, const std::string& goal) const {
    std::vector<double> probes, values, ratios;
    for (const auto& samples : samples_)
        for (const Sample& s : samples) probes.push_back(s.probe);
    std::sort(probes.begin(), probes.end());
    const double quiet = 1.15 * at(probes, 0.1);
    for (size_t round = 0; round < samples_[variant].size(); ++round) {
        const Sample &base = samples_[0][round], &mine = samples_[variant][round];
        if (std::max(base.probe, mine.probe) > quiet) continue;
        values.push_back(as_nanos ? 1e9 / mine.rate : mine.rate);
        ratios.push_back(mine.rate / base.rate);
    }
    if (ratios.empty())
        return report.note(fmt::format("{}: no measurement: all {} rounds were disturbed", name,
                                       samples_[variant].size()));
    std::sort(values.begin(), values.end());
    std::sort(ratios.begin(), ratios.end());
    report.measurement(name, at(values, 0.5), unit);
    if (variant == 0) return;
    report.measurement("  times base, median of pairs", at(ratios, 0.5), "x", goal);
    report.note(fmt::format("quartiles {:.2f} .. {:.2f}, {} of {} rounds undisturbed",
                            at(ratios, 0.25), at(ratios, 0.75), ratios.size(),
                            samples_[variant].size()));
}

}  // namespace lockstep::bench
