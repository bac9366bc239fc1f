// compare.cc - the difference of two results.
#include "tpcc/compare.h"
#include "tools/base/say.h"
#include "tpcc/figures.h"
#include "tpcc/ratio.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>

namespace lockstep::tpcc {

namespace {

using Json = nlohmann::json;

// In all rows together, an interval misses a ratio in at most 5% of the comparisons. The first row,
// which most readers want, has half of that.
constexpr double kErrorOfThroughput = 0.025, kErrorOfOthers = 0.025;

// One file.
struct Run {
    std::string file;
    std::string name;  // "A", or "A2" of several
    Json result;
    std::unique_ptr<Figures> figures;
};

struct Group {
    std::vector<Run> runs;
    Figures sum;
};

std::string names_of(const Group& group) {
    return group.runs.size() == 1 ? group.runs[0].name
                                  : group.runs.front().name + " to " + group.runs.back().name;
}

// Empty, and a message on stderr, if the file has no result.
std::optional<Run> read_run(const std::string& file, std::string name) try {
    std::ifstream in(file);
    Json result = Json::parse(in, nullptr, false);
    if (result.is_discarded() || !result.contains("settings") || !result.contains("series")) {
        say_error("lockstep-tpcc: {} is not a result of a run with --json\n", file);
        return std::nullopt;
    }
    auto figures = figures_of(result);
    return Run{file, std::move(name), std::move(result), std::move(figures)};
} catch (const Json::exception& error) {  // edited, or made by another program
    say_error("lockstep-tpcc: {} is no result of this program: {}\n", file, error.what());
    return std::nullopt;
}

// Null if the group has no such result.
const Run* same_result(const Group& group, const Run& run) {
    const auto same = std::ranges::find(group.runs, run.result, &Run::result);
    return same == group.runs.end() ? nullptr : &*same;
}

// Null, and a message on stderr, if a file has no result.
std::unique_ptr<Group> read_group(const char* name, const std::vector<std::string>& files) {
    auto group = std::make_unique<Group>();
    for (const std::string& file : files) {
        auto run = read_run(
            file, files.size() == 1 ? name : name + std::to_string(group->runs.size() + 1));
        if (!run) return nullptr;
        if (const Run* known = same_result(*group, *run)) {
            say("{} is the same result as {}, and counts once\n", file, known->file);
            continue;
        }
        say("{} {}\n", run->name, file);
        group->sum.add(*run->figures);
        group->runs.push_back(std::move(*run));
    }
    return group;
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

// All that the results say of settings, build and machine, apart from what says nothing: the
// command has the settings again, and each database has a path of its own.
std::vector<std::string> all_differences(const Json& a, const Json& b) {
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
            lines.push_back(std::move(line));
    return lines;
}

// How often each run number occurs.
std::map<std::string, size_t> run_numbers(const Group& group) {
    std::map<std::string, size_t> numbers;
    for (const Run& run : group.runs) ++numbers[value_at(run.result, "settings/run_number")];
    return numbers;
}

std::string numbers_text(const Group& group) {
    std::string text;
    for (const auto& [number, count] : run_numbers(group))
        for (size_t i = 0; i < count; ++i) text += (text.empty() ? "" : ", ") + number;
    return text;
}

// Each run makes its database larger. So both sides need the same share of each run number.
bool equal_run_numbers(const Group& a, const Group& b) {
    auto of_a = run_numbers(a), of_b = run_numbers(b);
    for (auto& [number, count] : of_a) count *= b.runs.size();
    for (auto& [number, count] : of_b) count *= a.runs.size();
    return of_a == of_b;
}

// Why the databases of the runs differ in size, or in how much of them the pool holds.
std::vector<std::string> unequal_databases(const Group& a, const Group& b) {
    auto lines = differences(a.runs[0].result, b.runs[0].result, {"settings/pool_bytes"});
    if (!equal_run_numbers(a, b))
        lines.push_back(
            fmt::format("settings/run_number: {} against {}", numbers_text(a), numbers_text(b)));
    return lines;
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

// Why the runs of a group are not repetitions of one run.
std::vector<std::string> unlike(const Group& group) {
    std::vector<std::string> lines;
    for (const Run& run : std::span(group.runs).subspan(1))
        for (const std::string& line : all_differences(group.runs[0].result, run.result))
            if (!line.starts_with("settings/seed:") && !line.starts_with("settings/run_number:"))
                lines.push_back(fmt::format("{} is no repetition of {}: {}", run.name,
                                            group.runs[0].name, line));
    return lines;
}

// What makes the two sides answers to different questions.
std::vector<std::string> obstacles(const Group& a, const Group& b) {
    auto lines = differences(
        a.runs[0].result, b.runs[0].result,
        {"settings/warehouses", "settings/terminals_per_warehouse", "settings/txn", "settings/rate",
         "settings/arrivals", "settings/think", "settings/isolation", "settings/durability",
         "machine/processor", "machine/processors", "build/kind"});
    const auto add = [&](std::vector<std::string> more) {
        lines.insert(lines.end(), more.begin(), more.end());
    };
    add(unequal_databases(a, b));
    for (const Group* group : {&a, &b}) {
        add(unlike(*group));
        for (const Run& run : group->runs) {
            add(doubts(run.result, run.name));
            if (run.figures->seconds == 0) lines.push_back(run.name + ": nothing was measured");
        }
    }
    return lines;
}

// What differs, and is no obstacle.
std::vector<std::string> other_differences(const Group& a, const Group& b,
                                           const std::vector<std::string>& told) {
    auto lines = all_differences(a.runs[0].result, b.runs[0].result);
    std::erase_if(lines, [&](const std::string& line) {
        return std::ranges::find(told, line) != told.end() ||
               line.starts_with("settings/run_number:");
    });
    return lines;
}

void print_obstacles(const std::vector<std::string>& reasons, bool unequal) {
    say("\nNot comparable:\n");
    for (const std::string& reason : reasons) say("  {}\n", reason);
    if (unequal)
        say("Each run makes its database larger, and without --pool the size of the pool follows "
            "it.\nCompare runs of two databases that were loaded with the same --seed, with the "
            "same --pool and\nthe same run numbers.\n");
}

// What weakens the figures of a run, but is no obstacle.
void print_cautions(const Run& run) {
    if (!run.figures->enough())
        say("  {}: {}\n", run.name,
            too_short_text(run.figures->seconds, run.figures->all.transactions));
    const Json cpu = run.result.value("cpu", Json::object());
    const Json share = cpu.value("wait_share", Json());
    if (share.is_number() && share.get<double>() > kWaitShareMost)
        say("  {}: its threads waited for a processor in {:.0f}% of the time in which they could "
            "run\n",
            run.name, 100 * share.get<double>());
}

// A row's figure of some runs.
using FigureOf = std::function<double(const Figures&)>;

class Table {
public:
    Table(const Group& a, const Group& b) : a_(a), b_(b) {}

    void print() {
        say("{:<24} {:>12} {:>12} {:>9}   {:<18}\n", "of all measured time", names_of(a_),
            names_of(b_), "B / A", judged() ? "interval" : "");
        row("transactions a second", kErrorOfThroughput,
            [](const Figures& f) { return f.per_second(f.all); });
        for (const auto& [name, share] :
             {std::pair{"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"p999_us", 0.999}})
            row(fmt::format("all types, {}", name), kErrorOfOthers / kOtherRows,
                [share](const Figures& f) { return Figures::micros(f.all, share); });
        for (size_t t = 0; t < kTxnTypes; ++t) {
            row(fmt::format("{}, tx_per_s", kTxnNames[t]), kErrorOfOthers / kOtherRows,
                [t](const Figures& f) { return f.per_second(f.types[t]); });
            row(fmt::format("{}, p99_us", kTxnNames[t]), kErrorOfOthers / kOtherRows,
                [t](const Figures& f) { return Figures::micros(f.types[t], 0.99); });
        }
    }
    // There are enough runs for a verdict.
    bool judged() const {
        return std::ranges::all_of(std::array{&a_, &b_}, [](const Group* group) {
            return group->runs.size() >= kRunsLeast &&
                   std::ranges::all_of(group->runs,
                                       [](const Run& run) { return run.figures->enough(); });
        });
    }

private:
    static constexpr size_t kOtherRows = 4 + 2 * kTxnTypes;

    static std::string text(double value) {
        return value >= 100 ? fmt::format("{:.1f}", value) : fmt::format("{:.3f}", value);
    }
    static std::vector<double> of_each(const Group& group, const FigureOf& figure) {
        std::vector<double> figures;
        for (const Run& run : group.runs) figures.push_back(figure(*run.figures));
        return figures;
    }
    std::string words(double ratio, const RatioInterval& interval) const {
        if (ratio == 1) return "equal";
        if (!judged()) return "differs within these runs";
        if (!interval.known) return "a run has none";
        if (!interval.shows_difference()) return "no difference shown";
        return ratio > 1 ? "B is higher" : "B is lower";
    }

    // The ratio is that of the columns as they are printed.
    void row(const std::string& name, double error, const FigureOf& figure) const {
        const std::string a = text(figure(a_.sum)), b = text(figure(b_.sum));
        const double of_a = std::stod(a), of_b = std::stod(b);
        if (of_a == 0 && of_b == 0) return;
        if (of_a == 0 || of_b == 0)
            return say("{:<24} {:>12} {:>12} {:>9}   {:<18} {}\n", name, a, b, "-", "",
                       of_a == 0 ? "A has none" : "B has none");
        const double ratio = of_b / of_a;
        RatioInterval interval;
        if (judged())
            interval = interval_of_ratio(ratio, of_each(a_, figure), of_each(b_, figure), error);
        say("{:<24} {:>12} {:>12} {:>9.3f}   {:<18} {}\n", name, a, b, ratio,
            interval.known ? fmt::format("{:.3f} .. {:.3f}", interval.low, interval.high) : "",
            words(ratio, interval));
    }

    const Group &a_, &b_;
};

void print_comparison(const Group& a, const Group& b, const std::vector<std::string>& reasons) {
    const auto changes = other_differences(a, b, reasons);
    say("\nWhat differs besides the results:\n");
    for (const std::string& change : changes) say("  {}\n", change);
    if (changes.empty()) say("  nothing that the results name\n");
    for (const Group* group : {&a, &b})
        for (const Run& run : group->runs) print_cautions(run);
    say("\n");
    if (!reasons.empty()) say("WARNING: the ratios are of results that are not comparable.\n");
    Table table(a, b);
    table.print();
    if (table.judged())
        say("\nA run is one sample. Of comparisons of equal programs, at most 5% have a false "
            "verdict in any row.\n");
    else
        say("\nNo verdict: two runs of one program differ too. A verdict takes {} or more runs of "
            "each side\n(--repeat {}), each of at least {:.0f} s and {:.0f} transactions.\n",
            kRunsLeast, kRunsLeast, kSecondsLeast, kTransactionsLeast);
}

}  // namespace

int compare_files(const std::vector<std::string>& files_a, const std::vector<std::string>& files_b,
                  bool force) try {
    const auto a = read_group("A", files_a);
    const auto b = a ? read_group("B", files_b) : nullptr;
    if (!a || !b) return 2;
    for (const Run& run : b->runs)
        if (const Run* known = same_result(*a, run))
            say("{} and {} are the same result\n", known->name, run.name);
    const auto reasons = obstacles(*a, *b);
    if (!reasons.empty()) {
        print_obstacles(reasons, !unequal_databases(*a, *b).empty());
        if (!force) return say("--force prints the ratios all the same.\n"), 1;
    }
    print_comparison(*a, *b, reasons);
    return 0;
} catch (const Json::exception& error) {  // settings or checks of another shape
    say_error("lockstep-tpcc: a file is no result of this program: {}\n", error.what());
    return 2;
}

}  // namespace lockstep::tpcc
