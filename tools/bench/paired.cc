// paired.cc - medians of ratios over undisturbed rounds.
#include "tools/bench/paired.h"

#include <fmt/core.h>

#include <algorithm>

namespace lockstep::bench {

void Paired::print(Report& report, size_t variant, const std::string& name, const std::string& unit,
                   bool as_nanos, const std::string& goal) const {
    const double limit = quiet_limit(samples_);
    const PairedRatio ratio = ratio_of(samples_[0], samples_[variant], limit);
    // Of the variant itself: the "base" of the turned-round pair.
    PairedRatio own = ratio_of(samples_[variant], samples_[0], limit);
    if (ratio.empty())
        return report.note(fmt::format("{}: no measurement: all {} rounds were disturbed", name,
                                       samples_[variant].size()));
    if (as_nanos) {
        for (double& rate : own.base) rate = 1e9 / rate;
        std::sort(own.base.begin(), own.base.end());
    }
    report.measurement(name, quantile(own.base, 0.5), unit);
    if (variant == 0) return;
    report.measurement("  times base, median of pairs", ratio.median(), "x", goal);
    report.note(fmt::format("{}: quartiles {:.2f} .. {:.2f}, {} of {} rounds undisturbed",
                            verdict_text(verdict_of(ratio)), ratio.quartile_low(),
                            ratio.quartile_high(), ratio.ratios.size(), samples_[variant].size()));
}

}  // namespace lockstep::bench
