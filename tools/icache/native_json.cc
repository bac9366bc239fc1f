// native_json.cc - medians of pairs as JSON.
#include "tools/icache/native_json.h"

#include <algorithm>
#include <array>

namespace lockstep::icache {

namespace {

using Json = nlohmann::ordered_json;

Json event_json(size_t event, std::span<const CounterSlice> off, std::span<const CounterSlice> on) {
    std::vector<double> bases, ratios;
    double share = 1;
    const char* missing = "no slice was measured";
    for (size_t i = 0; i < std::min(off.size(), on.size()); ++i) {
        const Counted base = counted(off[i].before[event], off[i].after[event]),
                      mine = counted(on[i].before[event], on[i].after[event]);
        if (!base.value || !mine.value) {
            missing = base.value ? mine.missing : base.missing;
            continue;
        }
        share = std::min({share, base.share, mine.share});
        bases.push_back(*base.value / off[i].units);
        if (*base.value > 0)
            ratios.push_back(*mine.value / on[i].units / (*base.value / off[i].units));
    }
    if (bases.empty()) return {{"missing", missing}};
    const double before = bench::median(bases);
    Json json = {{"off", before}, {"counted_share", share}, {"pairs", bases.size()}};
    if (ratios.empty()) json["missing"] = "the event never occurred without teams";
    else json["on"] = before * bench::median(ratios);
    return json;
}

}  // namespace

Json time_json(const std::vector<bench::TimedSlice>& off,
               const std::vector<bench::TimedSlice>& on) {
    const std::array variants = {off, on};
    const bench::PairedRatio ratio = bench::ratio_of(off, on, bench::quiet_limit(variants));
    Json json = {{"pairs", ratio.pairs},
                 {"quiet_pairs", ratio.ratios.size()},
                 {"verdict", bench::verdict_text(bench::verdict_of(ratio))},
                 {"spread_max", bench::kSpreadMax}};
    if (ratio.empty()) return json;
    const double before = 1 / bench::quantile(ratio.base, 0.5);
    json["ns_off"] = before;
    json["ns_on"] = before / ratio.median();
    json["speedup"] = ratio.median();
    json["quartile_low"] = ratio.quartile_low();
    json["quartile_high"] = ratio.quartile_high();
    if (ratio.certain()) {
        json["low"] = ratio.low();
        json["high"] = ratio.high();
    }
    return json;
}

Json counters_json(std::span<const CounterSlice> off, std::span<const CounterSlice> on) {
    Json json;
    for (size_t e = 0; e < kEvents; ++e) json[kEventNames[e]] = event_json(e, off, on);
    return json;
}

}  // namespace lockstep::icache
