// main.cc - `lockstep-peers`: the same workloads on Lockstep and on other engines, in one run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <ctime>
#include <filesystem>

#include "threads/base/check.h"
#include "tools/base/build_info.h"
#include "tools/base/option_checks.h"
#include "tools/base/parse_failure.h"
#include "tools/base/say.h"
#include "tools/base/size_option.h"
#include "tools/base/standard_files.h"
#include "tools/base/text_file.h"
#include "tools/bench/scratch.h"
#include "tools/peers/tournament.h"

namespace {

using namespace lockstep;
using namespace lockstep::peers;
namespace fs = std::filesystem;

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr int kExitBroken = 1, kExitError = 2, kExitInterrupted = 130;

constexpr const char* kExamples = R"(
Examples:
  lockstep-peers --quick                                 everything, small, in some minutes
  lockstep-peers --workloads tpcc --workers 1            TPC-C only, one worker
  lockstep-peers --engines lockstep,lmdb --json A.json   two engines; keeps the results
  lockstep-peers --list                                  engines, versions, settings, guarantees

Each slice begins with a copy of the loaded tables and ends with a check of them. The exit status
is 0; 1 if a check found a fault; 2 after an error; 130 after Ctrl-C.)";

struct Words {
    std::vector<std::string> engines, workloads;
    std::string sync = "both", directory, json, cache;
    double seconds = 5;
    bool list = false, quick = false;
};

void add_options(CLI::App& app, Words& words, Selection& selection, Conditions& conditions) {
    app.add_flag("--list", words.list, "Show engines and workloads, and run nothing");
    app.add_option("--engines", words.engines, "Engines with commas (default: all)")
        ->delimiter(',')
        ->group("What runs");
    app.add_option("--workloads", words.workloads, "Workloads with commas (default: all)")
        ->delimiter(',')
        ->group("What runs");
    app.add_option("--sync", words.sync, "TPC-C with a sync at each commit: no, yes or both")
        ->check(CLI::IsMember({"no", "yes", "both"}))
        ->capture_default_str()
        ->group("What runs");
    app.add_option("--workers", selection.workers, "Numbers of workers with commas")
        ->delimiter(',')
        ->check(CLI::Range(1u, 64u))
        ->capture_default_str()
        ->group("What runs");
    app.add_option("--rounds", selection.rounds, "Slices of each engine for a result")
        ->check(CLI::Range(1u, 1000u))
        ->capture_default_str()
        ->group("What runs");
    app.add_option("--seconds,--duration", words.seconds,
                   "Measured time of a slice; a fifth before warms up")
        ->check(number_in(0.1, 3600))
        ->capture_default_str()
        ->group("What runs");
    app.add_option("--warehouses", conditions.sizes.warehouses, "Of TPC-C")
        ->check(CLI::Range(1u, 1000u))
        ->capture_default_str()
        ->group("Sizes");
    app.add_option("--records", conditions.sizes.ycsb_records, "Of YCSB, 1,000 bytes each")
        ->check(CLI::Range(1000u, 1u << 30))
        ->capture_default_str()
        ->group("Sizes");
    app.add_option("--subscribers", conditions.sizes.subscribers, "Of TATP")
        ->check(CLI::Range(1000u, 1u << 30))
        ->capture_default_str()
        ->group("Sizes");
    app.add_option("--cache", words.cache, "Cache of each engine, such as 512M (default: 1G)")
        ->check(kSize)
        ->group("Sizes");
    app.add_option("--seed", conditions.sizes.seed, "Of the tables; round N runs with seed + N")
        ->check(kNotNegative)
        ->capture_default_str()
        ->group("Sizes");
    app.add_flag("--quick", words.quick,
                 "Small tables, one round, slices of 0.3 s: shows that all works, and measures "
                 "nothing. Options that are given stay")
        ->group("What runs");
    app.add_option("--directory", words.directory,
                   "Scratch directory on the disk to be measured "
                   "(default: a temporary one, removed at the end)")
        ->group("Files");
    app.add_option("--json", words.json, "Write all results to this file")->group("Files");
}

// What the command line names stays as it says.
void make_quick(const CLI::App& app, Selection& selection, Conditions& conditions, Words& words) {
    DCHECK(words.quick);
    const auto choose = [&app](const char* option, auto& value, auto small) {
        if (app.count(option) == 0) value = small;
    };
    conditions.sizes.customers = 60;
    conditions.sizes.items = 1000;
    choose("--records", conditions.sizes.ycsb_records, 5000u);
    choose("--subscribers", conditions.sizes.subscribers, 2000u);
    choose("--cache", conditions.cache_bytes, 64ull << 20);
    choose("--rounds", selection.rounds, 1u);
    choose("--seconds", words.seconds, 0.3);
}

bool choose_engines(const Words& words, Selection& selection) {
    for (const Product& product : products()) {
        const bool named = words.engines.empty() ||
                           std::ranges::find(words.engines, product.name) != words.engines.end();
        if (named) selection.engines.push_back(&product);
    }
    for (const Missing& missing : missing_products()) {
        if (words.engines.empty())
            fmt::print(stderr, "lockstep-peers: without {}: {} was not installed at the build\n",
                       missing.name, missing.package);
        else if (std::ranges::find(words.engines, missing.name) != words.engines.end())
            return fmt::print(stderr,
                              "lockstep-peers: this build has no '{}': install {} and build again "
                              "(./tools/run peers does both)\n",
                              missing.name, missing.package),
                   false;
    }
    for (const std::string& name : words.engines)
        if (std::ranges::none_of(products(), [&](const Product& p) { return name == p.name; }))
            return fmt::print(stderr, "lockstep-peers: no engine '{}'; --list shows them\n", name),
                   false;
    selection.own_driver =
        std::ranges::find(selection.engines, &products().front()) != selection.engines.end();
    return true;
}

bool choose_workloads(const Words& words, Selection& selection) {
    for (const WorkloadKind& kind : workload_kinds())
        if (words.workloads.empty() ||
            std::ranges::find(words.workloads, kind.name) != words.workloads.end())
            selection.workloads.push_back(&kind);
    for (const std::string& name : words.workloads)
        if (std::ranges::none_of(workload_kinds(), [&](auto& k) { return name == k.name; }))
            return fmt::print(stderr, "lockstep-peers: no workload '{}'; --list shows them\n",
                              name),
                   false;
    return true;
}

void print_list() {
    for (const Product& p : products())
        fmt::print(
            "{} ({} {})\n  settings: {}\n  isolation: {}\n  without sync a crash loses: {}\n",
            p.name, p.title, p.version(), p.settings, p.isolation, p.lost);
    for (const Missing& missing : missing_products())
        fmt::print("{}\n  not in this build: install {}\n", missing.name, missing.package);
    fmt::print("\n");
    for (const WorkloadKind& kind : workload_kinds())
        fmt::print("{:<8} {}\n", kind.name, kind.title);
}

bool write_json(const Tournament& tournament, const std::string& path, int argc, char** argv) {
    if (path.empty()) return true;
    nlohmann::ordered_json json = tournament.json();
    std::string command;
    for (int i = 0; i < argc; ++i) command += (i == 0 ? "" : " ") + std::string(argv[i]);
    json["command"] = command;
    const std::time_t now = std::time(nullptr);
    char date[32] = {};
    std::tm utc{};
    if (gmtime_r(&now, &utc)) std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &utc);
    json["date"] = date;
    json["build"] = build_json();
    json["machine"] = machine_json();
    const auto written = write_text_file(path, json.dump(1) + "\n", "--json");
    if (!written) fmt::print(stderr, "lockstep-peers: {}: {}\n", path, written.error().text());
    return written.has_value();
}

int run(const Selection& selection, const Conditions& conditions, const Words& words, int argc,
        char** argv) {
    Tournament tournament(selection, conditions);
    const Result<void> done = tournament.run(interrupted);
    if (!done) fmt::print(stderr, "lockstep-peers: {}\n", done.error().text());
    if (interrupted)
        fmt::print(stderr, "lockstep-peers: interrupted; the tables have what was measured\n");
    const bool sound = tournament.print();
    const bool written = write_json(tournament, words.json, argc, argv);
    if (!done || !written) return kExitError;
    if (!sound) return kExitBroken;
    return interrupted ? kExitInterrupted : 0;
}

int run_program(int argc, char** argv) {
    CLI::App app{"The same workloads on Lockstep and on other storage engines, interleaved."};
    app.name("lockstep-peers");
    app.failure_message(parse_failure);
    show_one_name(app);
    app.set_version_flag("--version", version_text("lockstep-peers"));
    app.footer(kExamples);
    Words words;
    Selection selection;
    Conditions conditions;
    add_options(app, words, selection, conditions);
    CLI11_PARSE(app, argc, argv);
    if (words.list) return print_list(), 0;
    if (!words.cache.empty())
        conditions.cache_bytes = parse_size(words.cache).value_or(conditions.cache_bytes);
    if (words.quick) make_quick(app, selection, conditions, words);
    if (!choose_engines(words, selection) || !choose_workloads(words, selection)) return kExitError;
    if (words.sync != "both") selection.sync = {words.sync == "yes"};
    conditions.duration = static_cast<Nanos>(words.seconds * 1e9);
    conditions.warmup = conditions.duration / 5;
    if (const auto writable = require_writable(words.json, "--json"); !writable) {
        fmt::print(stderr, "lockstep-peers: {}\n", writable.error().text());
        return kExitError;
    }

    const bench::Scratch scratch(
        "", words.directory.empty() ? fs::temp_directory_path() : fs::path(words.directory),
        "lockstep-peers");
    if (scratch.error()) {
        fmt::print(stderr, "lockstep-peers: {}: {}; --directory names another place\n",
                   scratch.path(), scratch.error().message());
        return kExitError;
    }
    conditions.directory = scratch.path();
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { interrupted = true; });
    return run(selection, conditions, words, argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
    hold_standard_files();
    return run_flushed("lockstep-peers", kExitError, [&] { return run_program(argc, argv); });
}
