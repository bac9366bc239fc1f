// harness.cc - slices, probes, measurements.
#include <fmt/core.h>

#include <algorithm>

#include "tools/bench/paired.h"

namespace lockstep::bench {
Sliced measure(double seconds, const std::function<void(uint64_t units)>& work,
               const std::function<void()>& before_slice) {
    uint64_t units = 1;
    for (Nanos took = 0; took < 5 * kMillisecond && units < (1ull << 40);) {
        took = kNever;
        // The fastest: one disturbance must not make the slices tiny.
        for (int tries = 0; tries < 3; ++tries) {
            if (before_slice) before_slice();
            const Nanos begin = clock_now();
            work(units);
            took = std::min(took, clock_now() - begin);
        }
        if (took < 5 * kMillisecond) units *= took < kMillisecond ? 4 : 2;
    }
    struct Slice {
        double probe, ns;
    };
    std::vector<Slice> slices;
    const Nanos end = clock_now() + static_cast<Nanos>(seconds * 1e9);
    for (double before = probe_once(); clock_now() < end || slices.size() < 5;) {
        if (before_slice) {
            before_slice();
            before = probe_once();
        }
        const Nanos begin = clock_now();
        work(units);
        const double ns = static_cast<double>(clock_now() - begin) / static_cast<double>(units);
        const double after = probe_once();
        slices.push_back({std::max(before, after), ns});
        before = after;
    }
    const double fastest = std::min_element(slices.begin(), slices.end(), [](auto& a, auto& b) {
                               return a.probe < b.probe;
                           })->probe;
    std::vector<double> quiet;
    for (const auto& s : slices)
        if (s.probe <= fastest * 1.15) quiet.push_back(s.ns);
    std::sort(quiet.begin(), quiet.end());
    return {.ns_median = quantile(quiet, 0.5),
            .ns_low = quantile(quiet, 0.25),
            .ns_high = quantile(quiet, 0.75),
            .quiet_share = static_cast<double>(quiet.size()) / static_cast<double>(slices.size()),
            .slices = slices.size()};
}

void Report::measurement(const std::string& name, double value, const std::string& unit,
                         const std::string& goal) {
    fmt::print("{:<46} {:>14.2f} {}{}\n", name, value, unit,
               goal.empty() ? "" : "   (goal " + goal + ")");
    std::fflush(stdout);
    json_["measurements"].push_back(
        {{"name", name}, {"value", value}, {"unit", unit}, {"goal", goal}});
}

void Report::note(const std::string& text) {
    fmt::print("  {}\n", text);
    json_["notes"].push_back(text);
}

void Report::claim(const std::string& text, bool holds) {
    fmt::print("{:<8} {}\n", holds ? "holds" : "FAILS", text);
    json_["claims"].push_back({{"claim", text}, {"holds", holds}});
    all_hold_ &= holds;
}

void add_measurement(Report& report, const std::string& name, const Sliced& s,
                     const std::string& goal) {
    report.measurement(name, s.ns_median, "ns", goal);
    report.note(fmt::format("quartiles {:.1f} .. {:.1f} ns, {} slices, {:.0f}% of them quiet",
                            s.ns_low, s.ns_high, s.slices, 100 * s.quiet_share));
}

Result<void> on_user_thread(Store& store, std::move_only_function<Result<void>()> fn) {
    return store.start([&]() -> Result<void> { return fn(); }, 0).join();
}

uint64_t rows_for(uint64_t bytes) { return std::max<uint64_t>(1000, bytes / (kRowBytes + 26)); }

Result<Index> load_rows(Store& store, uint64_t rows) {
    return store.run([&](Txn& txn) -> Result<Index> {
        Index index = TRY(store.create_index(txn, "bench"));
        uint64_t next = 0;
        Key key;
        std::string value(kRowBytes, 'v');
        TRY(store.bulk_load(txn, index, [&](Slice& k, Slice& v) {
            if (next == rows) return false;
            key = Key().u64(next++);
            k = key;
            v = value;
            return true;
        }));
        return index;
    });
}

}  // namespace lockstep::bench
