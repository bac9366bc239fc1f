// scan_policies.cc - the experiment of "Cooperative Scans" under each policy, in virtual time.
#include <fmt/core.h>

#include "tools/bench/bench.h"
#include "tools/bench/scan_machine.h"

namespace lockstep::bench {
namespace {

constexpr uint64_t kSeeds = 6;
// A unit of the model's time, if a chunk is 256 KB and the disk reads 1.7 GB/s.
constexpr double kUnitNanos = 150'000;

struct Mean {
    double stream = 0, latency = 0, loads = 0, pages = 0, busy = 0, total = 0, share = 0;
    std::map<std::string, std::pair<double, uint64_t>> kinds;
};

struct Case {
    const char* name;
    ScanModel model;
    double fast, slow;
    std::vector<uint32_t> column_sets;
};

// Without the slowest hundredth: another process had the core.
double sum_of(std::vector<Nanos> times) {
    std::ranges::sort(times);
    double sum = 0;
    for (size_t i = 0; i < times.size() - times.size() / 100; ++i)
        sum += static_cast<double>(times[i]);
    return sum;
}

Mean mean_of(const sm::scan::Policy& policy, const Case& one) {
    Mean mean;
    double choosing = 0, computed = 0;
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        ScanMachine machine(policy, one.model,
                            paper_streams(one.model, one.fast, one.slow, one.column_sets, seed));
        ScanResult run = machine.run();
        mean.stream += run.stream / kSeeds;
        mean.latency += run.latency / kSeeds;
        mean.loads += static_cast<double>(run.loads) / kSeeds;
        mean.pages += static_cast<double>(run.pages) / kSeeds;
        mean.busy += run.busy / kSeeds;
        mean.total += run.total / kSeeds;
        choosing += sum_of(std::move(run.choosing));
        computed += run.computed * kUnitNanos;
        for (const auto& [kind, sum] : run.kinds) {
            mean.kinds[kind].first += sum.first;
            mean.kinds[kind].second += sum.second;
        }
    }
    mean.share = choosing / (choosing + computed);
    return mean;
}

using Means = std::map<std::string_view, Mean>;

Means print_case(const Case& one, Report& report) {
    report.note(one.name);
    report.note(fmt::format("{:<10} {:>7} {:>8} {:>7} {:>7} {:>7} {:>6} {:>8}", "policy", "stream",
                            "latency", "total", "reads", "pages", "CPU", "choices"));
    Means means;
    for (const sm::scan::Policy& policy : sm::scan::kPolicies) {
        const Mean& m = means[policy.name] = mean_of(policy, one);
        report.note(
            fmt::format("{:<10} {:>7.0f} {:>8.2f} {:>7.0f} {:>7.0f} {:>7.0f} {:>5.0f}% "
                        "{:>7.2f}%",
                        policy.name, m.stream, m.latency, m.total, m.loads, m.pages, 100 * m.busy,
                        100 * m.share));
    }
    return means;
}

void print_kinds(const Means& means, Report& report) {
    report.note("time of a query by its kind (F fast, S slow; share of the chunks)");
    constexpr std::array kShown = {"normal", "attach", "elevator", "relevance"};
    for (const auto& [kind, sum] : means.at("normal").kinds) {
        std::string line = fmt::format("{:<7}", kind);
        for (const char* const policy : kShown) {
            const auto& [time, queries] = means.at(policy).kinds.at(kind);
            line += fmt::format(" {:>9} {:>7.1f}", policy, time / static_cast<double>(queries));
        }
        report.note(line);
    }
}

// The figures in the order of `policies` ascend, as in the paper's tables.
void claim_order(const Means& means, double Mean::*figure, const std::string& what,
                 std::initializer_list<std::string_view> policies, Report& report) {
    std::string text = what;
    bool holds = true;
    double last = 0;
    for (const std::string_view policy : policies) {
        const double value = means.at(policy).*figure;
        holds &= value > last;
        text += fmt::format("{} {} {:.2f}", last > 0 ? " <" : ":", policy, value);
        last = value;
    }
    report.claim(text, holds);
}

void claim_orders(const Case& one, const Means& means, Report& report) {
    for (const auto& [policy, m] : means) {
        const std::string name = fmt::format("{}, {}: ", one.name, policy);
        report.measurement(name + "latency", m.latency, "times alone");
        report.measurement(name + "reads", m.pages, "pages");
    }
    claim_order(means, &Mean::latency, "latency", {"relevance", "attach", "normal", "elevator"},
                report);
    claim_order(means, &Mean::stream, "stream time", {"relevance", "elevator", "normal"}, report);
    claim_order(means, &Mean::pages, "reads", {"elevator", "attach", "normal"}, report);
    claim_order(means, &Mean::pages, "reads", {"relevance", "attach", "normal"}, report);
}

}  // namespace

Result<void> bench_scan_policies(const Settings&, Report& report) {
    const MonotonicClock clock;
    ScanModel rows;
    rows.clock = &clock;
    rows.admission = {.scans_max = 8, .cache_bytes = 1 << 20, .wait_max = 64};
    // Five columns of ORDER_LINE's widths; a chunk is as large as one of rows.
    ScanModel columns = rows;
    columns.column_pages = {1, 4, 8, 1, 4};
    columns.page_time = 1.0 / 18;
    columns.pool_pages = 18 * 64;
    const std::vector<Case> cases = {
        {"rows, reading binds", rows, 0.2, 0.7, {1}},
        {"rows, computing binds", rows, 2, 7, {1}},
        {"columns, reading binds",
         columns,
         0.2,
         0.7,
         {0b10001, 0b01100, 0b11100, 0b00011, 0b11111}},
    };
    for (const Case& one : cases) {
        const Means means = print_case(one, report);
        if (&one == &cases.front()) {
            print_kinds(means, report);
            const double share = means.at("relevance").share;
            report.claim(
                fmt::format("choices of relevance: {:.2f}% of CPU time, at most 1%", 100 * share),
                share <= 0.01);
        }
        // Where computing binds, latency does not follow the reads.
        if (std::string_view(one.name).ends_with("reading binds")) claim_orders(one, means, report);
    }
    return {};
}

}  // namespace lockstep::bench
