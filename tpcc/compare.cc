// compare.cc - the difference of two results.
#include "tpcc/compare.h"
#include "threads/base/mutants.h"
#include "tpcc/say.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

namespace lockstep::tpcc {

namespace {

using Json = nlohmann::json;

constexpr size_t kBatches = 10, kSamplesLeast = 5;

// Means of neighbouring samples.
std::vector<double> batches(const std::vector<double>& samples) {
    const size_t count = std::min(kBatches, samples.size());
    std::vector<double> means;
    for (size_t i = 0; i < count; ++i) {
        const auto from = samples.begin() + static_cast<ptrdiff_t>(i * samples.size() / count),
                   to = samples.begin() + static_cast<ptrdiff_t>((i + 1) * samples.size() / count);
        means.push_back(std::accumulate(from, to, 0.0) / static_cast<double>(to - from));
    }
    return means;
}

struct Moments {
    double mean = 0, variance_of_mean = 0;
    double freedom = 0;
};

Moments moments_of_logarithms(std::vector<double> values) {
    for (double& value : values) value = std::log(value);
    const auto n = static_cast<double>(values.size());
    Moments m;
    m.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
    for (const double value : values) m.variance_of_mean += (value - m.mean) * (value - m.mean);
    m.variance_of_mean /= (n - 1) * n;
    m.freedom = n - 1;
    return m;
}

// The 97.5% quantile of Student's t for `freedom` degrees, rounded down.
double student(double freedom) {
    static constexpr double kTable[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447,
                                        2.365,  2.306, 2.262, 2.228, 2.201, 2.179,
                                        2.160,  2.145, 2.131, 2.120, 2.110, 2.101};
    const auto at = static_cast<size_t>(std::max(1.0, freedom)) - 1;
    return kTable[std::min(at, std::size(kTable) - 1)];
}

std::optional<Json> read_result(const std::string& file) {
    std::ifstream in(file);
    Json result = Json::parse(in, nullptr, false);
    if (result.is_discarded() || !result.contains("settings") || !result.contains("series")) {
        say_error("lockstep-tpcc: {} is not a result of a run with --json\n", file);
        return std::nullopt;
    }
    return result;
}

// One value at a path such as "settings/workers", as text.
std::string value_at(const Json& result, const std::string& path) {
    const Json::json_pointer pointer("/" + path);
    return result.contains(pointer) ? result.at(pointer).dump() : "none";
}

// Each line is a reason.
std::vector<std::string> differences(const Json& a, const Json& b,
                                     std::initializer_list<const char*> paths) {
    std::vector<std::string> lines;
    for (const char* path : paths)
        if (value_at(a, path) != value_at(b, path))
            lines.push_back(
                fmt::format("{}: {} against {}", path, value_at(a, path), value_at(b, path)));
    return lines;
}

// All else that the results say of settings, build and machine, apart from what says nothing:
// the command has the settings again, and each database has a path of its own.
std::vector<std::string> other_differences(const Json& a, const Json& b,
                                           const std::vector<std::string>& told) {
    std::set<std::string> paths;
    for (const Json* result : {&a, &b})
        for (const char* part : {"settings", "build", "machine"}) {
            const Json members = result->value(part, Json::object());
            for (const auto& [name, value] : members.items())
                paths.insert(fmt::format("{}/{}", part, name));
        }
    paths.erase("settings/command_line");
    paths.erase("settings/path");
    std::vector<std::string> lines;
    for (const std::string& path : paths)
        for (std::string& line : differences(a, b, {path.c_str()}))
            if (std::ranges::find(told, line) == told.end()) lines.push_back(std::move(line));
    return lines;
}

// Why the databases of two runs differ in size, or in how much of them the pool holds. Each run
// makes its database larger.
std::vector<std::string> unequal_databases(const Json& a, const Json& b) {
    return differences(a, b, {"settings/pool_bytes", "settings/run_number"});
}

// What one check of a database has found wrong. `which` names the result.
void add_faults(const Json& checked, const std::string& which, std::vector<std::string>& lines) {
    for (const Json& condition : checked.value("conditions", Json::array()))
        if (!condition.value("ok", false))
            lines.push_back(
                fmt::format("{}: condition {} is broken", which, condition.value("id", 0)));
    for (const Json& column : checked.value("stock", Json::array()))
        if (!column.value("ok", false))
            lines.push_back(
                fmt::format("{}: the stock is broken: {}", which, column.value("text", "")));
    for (const Json& fault : checked.value("index_faults", Json::array()))
        lines.push_back(fmt::format("{}: {}", which, fault.get<std::string>()));
}

// Why a result may be that of a database, or of a run, with a fault.
std::vector<std::string> doubts(const Json& result, const std::string& which) {
    std::vector<std::string> lines;
    if (value_at(result, "ended") != "\"complete\"")
        lines.push_back(
            fmt::format("{}: the run ended early: {}", which, value_at(result, "ended")));
    if (result.value("conditions", Json::array()).empty())
        lines.push_back(fmt::format("{}: the conditions were not checked", which));
    add_faults(result, which, lines);
    for (const Json& online : result.value("online_checks", Json::array()))
        add_faults(online, which + ", during the run", lines);
    return lines;
}

// What makes two results answers to different questions.
std::vector<std::string> obstacles(const Json& a, const Json& b) {
    auto lines = differences(
        a, b,
        {"settings/warehouses", "settings/terminals_per_warehouse", "settings/txn", "settings/rate",
         "settings/arrivals", "settings/think", "settings/isolation", "settings/durability",
         "settings/interval_s", "machine/processor", "machine/processors", "build/kind"});
    for (std::string& line : unequal_databases(a, b)) lines.push_back(std::move(line));
    for (std::string& line : doubts(a, "A")) lines.push_back(std::move(line));
    for (std::string& line : doubts(b, "B")) lines.push_back(std::move(line));
    return lines;
}

// A value of each measured interval; `type` is "all" or a name of a type. In an interval without a
// transaction the rate is 0, as in a stall, and there is no response time.
std::vector<double> samples_of(const Json& result, const std::string& type, const char* value) {
    std::vector<double> samples;
    const double whole = result.at("settings").value("interval_s", 0.0);
    for (const Json& point : result.at("series")) {
        if (!point.value("measured", false) || point.value("length_s", 0.0) < whole / 2) continue;
        const Json& numbers = type == "all" ? point.at("all") : point.at("types").at(type);
        const bool is_rate = std::string_view(value) == "tx_per_s" && !MUTANT(tpcc_stall_left_out);
        if (is_rate || numbers.value("count", 0u) > 0) samples.push_back(numbers.value(value, 0.0));
    }
    return samples;
}

double mean(const std::vector<double>& samples) {
    return samples.empty() ? 0
                           : std::accumulate(samples.begin(), samples.end(), 0.0) /
                                 static_cast<double>(samples.size());
}

void print_obstacles(const std::vector<std::string>& reasons, bool unequal) {
    say("\nNot comparable:\n");
    for (const std::string& reason : reasons) say("  {}\n", reason);
    if (unequal)
        say("Each run makes its database larger, and without --pool the size of the pool follows "
            "it.\nCompare runs of two databases that were loaded with the same --seed, with the "
            "same --pool and\nthe same run number.\n");
}

void print_line(const std::string& name, const std::vector<double>& a,
                const std::vector<double>& b) {
    if (mean(a) == 0 && mean(b) == 0) return;
    const RatioInterval r = compare_samples(a, b);
    const bool enough = std::min(a.size(), b.size()) >= kSamplesLeast;
    const std::string interval = r.known  ? fmt::format("{:.3f} .. {:.3f}", r.low, r.high)
                                 : enough ? "some have none"
                                          : "too few intervals";
    const std::string ratio = mean(a) > 0 && mean(b) > 0 ? fmt::format("{:.3f}", r.ratio) : "-";
    const char* verdict = !r.known                ? ""
                          : !r.shows_difference() ? "no difference shown"
                          : r.ratio > 1           ? "B is higher"
                                                  : "B is lower";
    say("{:<24} {:>12.1f} {:>12.1f} {:>9}   {:<18} {}\n", name, mean(a), mean(b), ratio, interval,
        verdict);
}

void print_table(const Json& a, const Json& b) {
    say("{:<24} {:>12} {:>12} {:>9}   {:<18}\n", "mean of the intervals", "A", "B", "B / A",
        "95% interval");
    print_line("transactions a second", samples_of(a, "all", "tx_per_s"),
               samples_of(b, "all", "tx_per_s"));
    for (const char* value : {"p50_us", "p90_us", "p99_us", "p999_us"})
        print_line(fmt::format("all types, {}", value), samples_of(a, "all", value),
                   samples_of(b, "all", value));
    for (const char* type : {"NewOrder", "Payment", "OrderStatus", "Delivery", "StockLevel"})
        for (const char* value : {"tx_per_s", "p99_us"})
            print_line(fmt::format("{}, {}", type, value), samples_of(a, type, value),
                       samples_of(b, type, value));
}

}  // namespace

RatioInterval compare_samples(const std::vector<double>& a, const std::vector<double>& b) {
    RatioInterval r;
    if (mean(a) <= 0 || mean(b) <= 0) return r;
    r.ratio = mean(b) / mean(a);
    if (a.size() < kSamplesLeast || b.size() < kSamplesLeast) return r;
    const std::vector<double> batches_a = batches(a), batches_b = batches(b);
    if (std::ranges::min(batches_a) <= 0 || std::ranges::min(batches_b) <= 0) return r;
    const Moments x = moments_of_logarithms(batches_a), y = moments_of_logarithms(batches_b);
    const double variance = x.variance_of_mean + y.variance_of_mean;
    const double freedom = variance == 0
                               ? x.freedom + y.freedom
                               : variance * variance /
                                     (x.variance_of_mean * x.variance_of_mean / x.freedom +
                                      y.variance_of_mean * y.variance_of_mean / y.freedom);
    const double half = student(freedom) * std::sqrt(variance);
    r.ratio = std::exp(y.mean - x.mean);
    r.low = std::exp(y.mean - x.mean - half);
    r.high = std::exp(y.mean - x.mean + half);
    r.known = true;
    return r;
}

int compare_files(const std::string& file_a, const std::string& file_b, bool force) try {
    const auto a = read_result(file_a), b = read_result(file_b);
    if (!a || !b) return 2;
    say("A {}\nB {}\n", file_a, file_b);
    const auto reasons = obstacles(*a, *b);
    if (!reasons.empty()) {
        print_obstacles(reasons, !unequal_databases(*a, *b).empty());
        if (!force) return say("--force prints the ratios all the same.\n"), 1;
    }
    const auto changes = other_differences(*a, *b, reasons);
    say("\nWhat differs besides the results:\n");
    for (const std::string& change : changes) say("  {}\n", change);
    if (changes.empty()) say("  nothing that the results name\n");
    say("\n");
    if (!reasons.empty()) say("WARNING: the ratios are of results that are not comparable.\n");
    print_table(*a, *b);
    say("\nThe intervals cover the noise within these two runs, not what differs from one "
        "start of the program\nto the next. Repeat both runs in turn before you rely on a "
        "small difference.\n");
    return 0;
} catch (const Json::exception& error) {  // a file that was edited or made by another program
    say_error("lockstep-tpcc: {} or {} is no result of this program: {}\n", file_a, file_b,
              error.what());
    return 2;
}

}  // namespace lockstep::tpcc
