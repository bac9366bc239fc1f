// production_line.cc - prints what the stages' gates make of the thesis's production line, in
// virtual time.
#include "tools/bench/production_line.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "tools/bench/bench.h"

namespace lockstep::bench {
namespace {

void print_load(double load, uint64_t queries, Report& report) {
    report.note(fmt::format(
        "load {:.2f}: mean response in ms (sharing and fcfs: simulated / formula)", load));
    report.note(fmt::format("{:>8} {:>13} {:>13} {:>8} {:>10} {:>9} {:>8}", "loading", "sharing",
                            "fcfs", "d_gated", "t_gated(2)", "non_gated", "c_gated"));
    for (const double loading : {0.0, 0.02, 0.08, 0.2, 0.4, 0.6}) {
        const LineModel model{.load = load, .loading = loading, .queries = queries};
        ProductionLine fcfs(model, StageGate::fcfs);
        const double plain = fcfs.run();
        const auto of = [&](StageGate gate, uint32_t batch_max = 0, double cutoff_ms = 0) {
            ProductionLine line(model, gate, batch_max, cutoff_ms);
            line.run();
            return controlled(line, fcfs, fcfs_formula(model));
        };
        const double d = of(StageGate::d_gated), t = of(StageGate::t_gated, 2),
                     n = of(StageGate::non_gated), c = of(StageGate::c_gated, 0, 100);
        const double sharing = simulate_sharing(model);
        const std::pair<const char*, double> gates[] = {{"sharing", sharing}, {"fcfs", plain},
                                                        {"d_gated", d},       {"t_gated(2)", t},
                                                        {"non_gated", n},     {"c_gated", c}};
        for (const auto& [gate, ms] : gates)
            report.measurement(
                fmt::format("load {:.2f}, loading {:.0f}%, {}", load, 100 * loading, gate), ms,
                "ms");
        report.note(fmt::format(
            "{:>7.0f}% {:>6.0f}/{:>6.0f} {:>6.0f}/{:>6.0f} {:>8.0f} {:>10.0f} {:>9.0f} {:>8.0f}",
            100 * loading, sharing, sharing_formula(model), plain, fcfs_formula(model), d, t, n,
            c));
    }
}

}  // namespace

Result<void> bench_production_line(const Settings&, Report& report) {
    print_load(0.80, 400'000, report);
    print_load(0.95, 1'500'000, report);
    report.note("locality-aware queue: mean response, solved / simulated");
    double largest = 1;
    for (const LocalityQueue& queue :
         {LocalityQueue{0.5, 1, 0.5}, {0.8, 1, 0.4}, {0.8, 1, 0.8}, {0.9, 1, 0.6}}) {
        const double solved = solve(queue).response, simulated = simulate(queue, 2'000'000, 1);
        report.note(fmt::format("lambda {:.1f} mu {:.0f} c {:.1f}: {:.3f} / {:.3f}", queue.lambda,
                                queue.mu, queue.c, solved, simulated));
        largest = std::max({largest, solved / simulated, simulated / solved});
    }
    report.measurement("locality-aware queue, solved / simulated, largest", largest, "x");
    return {};
}

}  // namespace lockstep::bench
