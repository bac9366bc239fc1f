// tables.cc - the results of a tournament as text and as JSON.
#include <fmt/format.h>

#include <algorithm>

#include "tools/peers/tournament.h"

namespace lockstep::peers {

namespace {

// Above it, other processes had a part of the CPUs that can change an order.
constexpr double kForeignMax = 0.1;

bool same_plan(const Plan& a, const Plan& b) {
    return a.workload == b.workload && a.sync == b.sync && a.workers == b.workers;
}

double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const size_t n = values.size();
    return n == 0 ? 0 : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

template <class F>
double median_by(const std::vector<const Measured*>& slices, F value) {
    std::vector<double> values;
    values.reserve(slices.size());
    for (const Measured* slice : slices) values.push_back(value(*slice));
    return median_of(std::move(values));
}

Summary summary_of(const std::vector<const Measured*>& slices) {
    Summary out;
    out.median = median_by(slices, [](const Measured& m) { return m.per_second(); });
    out.least = out.most = slices.front()->per_second();
    for (const Measured* slice : slices) {
        out.least = std::min(out.least, slice->per_second());
        out.most = std::max(out.most, slice->per_second());
        out.foreign_share = std::max(out.foreign_share, slice->foreign_share);
    }
    out.p50_us = median_by(slices, [](const Measured& m) { return m.p50_us; });
    out.p99_us = median_by(slices, [](const Measured& m) { return m.p99_us; });
    out.repeats_per_1000 = median_by(slices, [](const Measured& m) {
        const auto transactions = static_cast<double>(std::max<uint64_t>(1, m.transactions));
        return 1000 * static_cast<double>(m.repeats) / transactions;
    });
    return out;
}

std::vector<Plan> plans_in(const std::vector<Entry>& entries) {
    std::vector<Plan> plans;
    for (const Entry& entry : entries)
        if (std::ranges::none_of(plans, [&](const Plan& p) { return same_plan(p, entry.plan); }))
            plans.push_back(entry.plan);
    return plans;
}

nlohmann::ordered_json json_of(const Entry& entry) {
    const Measured& m = entry.measured;
    return {{"workload", entry.plan.workload->name},
            {"sync", entry.plan.sync},
            {"workers", entry.plan.workers},
            {"contestant", entry.contestant},
            {"round", entry.round},
            {"transactions", m.transactions},
            {"seconds", static_cast<double>(m.nanos) / 1e9},
            {"per_second", m.per_second()},
            {"repeats", m.repeats},
            {"p50_us", m.p50_us},
            {"p99_us", m.p99_us},
            {"cpus_used", m.cpu_share},
            {"foreign_share", m.foreign_share},
            {"faults", m.faults}};
}

nlohmann::ordered_json json_of(const Plan& plan, const std::vector<Entry>& entries) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Summary& s : summaries(entries, plan))
        rows.push_back({{"contestant", s.contestant},
                        {"title", s.title},
                        {"median", s.median},
                        {"least", s.least},
                        {"most", s.most},
                        {"p50_us", s.p50_us},
                        {"p99_us", s.p99_us},
                        {"repeats_per_1000", s.repeats_per_1000},
                        {"foreign_share", s.foreign_share}});
    return {{"title", plan_text(plan)},
            {"workload", plan.workload->name},
            {"sync", plan.sync},
            {"workers", plan.workers},
            {"rows", rows}};
}

}  // namespace

std::vector<Summary> summaries(const std::vector<Entry>& entries, const Plan& plan) {
    std::vector<Summary> out;
    for (const Entry& first : entries) {
        const auto seen = [&](const Summary& s) { return s.contestant == first.contestant; };
        if (!same_plan(first.plan, plan) || std::ranges::any_of(out, seen)) continue;
        std::vector<const Measured*> slices;
        for (const Entry& entry : entries)
            if (same_plan(entry.plan, plan) && entry.contestant == first.contestant)
                slices.push_back(&entry.measured);
        Summary summary = summary_of(slices);
        summary.contestant = first.contestant;
        summary.title = first.title;
        out.push_back(summary);
    }
    return out;
}

bool Tournament::print() const {
    for (const Plan& plan : plans_in(entries_)) print_plan(plan);
    print_noise();
    return print_faults();
}

void Tournament::print_plan(const Plan& plan) const {
    const std::vector<Summary> rows = summaries(entries_, plan);
    double base = 0;
    for (const Summary& row : rows)
        if (row.contestant == kLockstep.name) base = row.median;
    fmt::print("\n{}: transactions a second\n", plan_text(plan));
    fmt::print("  {:<42} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9}\n", "engine", "median", "least",
               "most", "ratio", "p50 us", "p99 us", "repeated");
    for (const Summary& row : rows)
        fmt::print("  {:<42} {:>9.0f} {:>9.0f} {:>9.0f} {:>7} {:>9.1f} {:>9.1f} {:>8.1f}%\n",
                   row.title, row.median, row.least, row.most,
                   base > 0 ? fmt::format("{:.2f}", row.median / base) : "-", row.p50_us,
                   row.p99_us, row.repeats_per_1000 / 10);
}

void Tournament::print_noise() const {
    double most = 0;
    for (const Entry& entry : entries_) most = std::max(most, entry.measured.foreign_share);
    fmt::print("\nOther processes took up to {:.0f}% of the CPUs in a slice.{}\n", 100 * most,
               most > kForeignMax
                   ? " That is too noisy: differences below a factor of 1.5 tell nothing."
                   : "");
}

bool Tournament::print_faults() const {
    bool sound = true;
    for (const Entry& entry : entries_)
        for (const std::string& fault : entry.measured.faults) {
            fmt::print("INCONSISTENT: {}, {}, round {}: {}\n", plan_text(entry.plan), entry.title,
                       entry.round, fault);
            sound = false;
        }
    if (sound) fmt::print("Each slice ended with a check of its tables, and all were sound.\n");
    return sound;
}

nlohmann::ordered_json Tournament::json() const {
    nlohmann::ordered_json out;
    out["conditions"] = {{"warehouses", conditions_.sizes.warehouses},
                         {"customers", conditions_.sizes.customers},
                         {"items", conditions_.sizes.items},
                         {"ycsb_records", conditions_.sizes.ycsb_records},
                         {"subscribers", conditions_.sizes.subscribers},
                         {"seed", conditions_.sizes.seed},
                         {"cache_bytes", conditions_.cache_bytes},
                         {"warmup_seconds", static_cast<double>(conditions_.warmup) / 1e9},
                         {"seconds", static_cast<double>(conditions_.duration) / 1e9},
                         {"rounds", selection_.rounds}};
    out["contestants"] = nlohmann::ordered_json::array();
    for (const auto& contestant : contestants_) {
        const Product& product = contestant->product();
        out["contestants"].push_back({{"name", contestant->name()},
                                      {"title", contestant->title()},
                                      {"version", product.version()},
                                      {"package", product.package},
                                      {"settings", product.settings},
                                      {"isolation", product.isolation},
                                      {"lost_without_sync", product.lost}});
    }
    out["tables"] = nlohmann::ordered_json::array();
    for (const Plan& plan : plans_in(entries_)) out["tables"].push_back(json_of(plan, entries_));
    out["slices"] = nlohmann::ordered_json::array();
    for (const Entry& entry : entries_) out["slices"].push_back(json_of(entry));
    return out;
}

}  // namespace lockstep::peers
