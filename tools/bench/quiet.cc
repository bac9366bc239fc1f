// quiet.cc - probes, medians of ratios over undisturbed pairs, and what they allow to say.
#include "tools/bench/quiet.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "threads/base/check.h"

namespace lockstep::bench {
namespace {

constexpr double kDoubt = 0.01;  // the chance that an interval misses the true median

// How many of the least and of the largest of n values lie outside the interval of their median.
// The true median exceeds k or fewer of n values with the chance of k or fewer heads in n tosses.
size_t outside(size_t n) {
    double chance = std::pow(0.5, static_cast<double>(n)), sum = 0;
    size_t k = 0;
    for (; k < n / 2; ++k) {
        sum += chance;
        if (2 * sum > kDoubt) break;
        chance *= static_cast<double>(n - k) / static_cast<double>(k + 1);
    }
    return k;
}

}  // namespace

double quantile(std::span<const double> sorted, double share) {
    DCHECK(share >= 0 && share <= 1 && std::ranges::is_sorted(sorted));
    if (sorted.empty()) return 0;
    const double place = share * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

double median(std::vector<double> values) {
    std::ranges::sort(values);
    return quantile(values, 0.5);
}

// A fixed chain of dependent multiplications: its time depends on the core's speed and on nothing
// of ours.
double probe_once() {
    const Nanos begin = clock_now();
    uint64_t x = 88172645463325252ull;
    for (int i = 0; i < 3000; ++i) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        asm volatile("" : "+r"(x));
    }
    return static_cast<double>(clock_now() - begin);
}

double probe_core() { return std::min(probe_once(), probe_once()); }

Nanos cpu_time() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<Nanos>(t.tv_sec) * kSecond + static_cast<Nanos>(t.tv_nsec);
}

double quiet_limit(std::span<const std::vector<TimedSlice>> variants) {
    std::vector<double> probes;
    for (const auto& slices : variants)
        for (const TimedSlice& s : slices) probes.push_back(s.probe);
    std::sort(probes.begin(), probes.end());
    return probes.empty() ? 0 : 1.15 * quantile(probes, 0.1);
}

PairedRatio ratio_of(std::span<const TimedSlice> base, std::span<const TimedSlice> mine,
                     double limit) {
    PairedRatio result;
    result.pairs = std::min(base.size(), mine.size());
    for (size_t i = 0; i < result.pairs; ++i) {
        if (std::max(base[i].probe, mine[i].probe) > limit) continue;
        result.base.push_back(base[i].rate);
        result.ratios.push_back(mine[i].rate / base[i].rate);
    }
    std::sort(result.base.begin(), result.base.end());
    std::sort(result.ratios.begin(), result.ratios.end());
    return result;
}

double PairedRatio::median() const { return quantile(ratios, 0.5); }
double PairedRatio::quartile_low() const { return quantile(ratios, 0.25); }
double PairedRatio::quartile_high() const { return quantile(ratios, 0.75); }
bool PairedRatio::certain() const { return outside(ratios.size()) > 0; }
double PairedRatio::low() const {
    CHECK(certain());
    return ratios[outside(ratios.size()) - 1];
}
double PairedRatio::high() const {
    CHECK(certain());
    return ratios[ratios.size() - outside(ratios.size())];
}

const char* verdict_text(Verdict verdict) {
    switch (verdict) {
        case Verdict::faster: return "faster";
        case Verdict::slower: return "slower";
        case Verdict::no_difference: return "no difference seen";
        case Verdict::too_noisy: break;
    }
    return "too noisy to tell";
}

Verdict verdict_of(const PairedRatio& ratio) {
    if (!ratio.certain()) return Verdict::too_noisy;
    if (ratio.quartile_high() - ratio.quartile_low() > kSpreadMax * ratio.median())
        return Verdict::too_noisy;
    if (ratio.low() > 1 + kEffectMin) return Verdict::faster;
    return ratio.high() < 1 - kEffectMin ? Verdict::slower : Verdict::no_difference;
}

}  // namespace lockstep::bench
