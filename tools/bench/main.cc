// main.cc - `lockstep-bench`: one program for all benchmarks.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "tools/base/build_info.h"
#include "tools/base/option_checks.h"
#include "tools/base/parse_failure.h"
#include "tools/base/say.h"
#include "tools/base/size_option.h"
#include "tools/base/standard_files.h"
#include "tools/base/text_file.h"
#include "tools/bench/bench.h"
#include "tools/bench/scratch.h"
#include "tpcc/option_names.h"

namespace lockstep::bench {

const std::vector<Benchmark>& all_benchmarks() {
    static const std::vector<Benchmark> kAll = {
        {"switch", "a regular switch between user threads, and park + wake", bench_switch},
        {"locks", "an uncontended lock and its unlock", bench_locks},
        {"log", "inserting a 100-byte record into the log", bench_log},
        {"fetch",
         "random index fetch in a transaction: 2.5 GB tree and a tree in L3 (--bytes: one size "
         "only)",
         bench_fetch},
        {"operations", "begin, fetch, update, insert, delete, scan step and commit, each alone",
         bench_operations},
        {"steps", "index fetch and update with STEPS on and off, and the share of each part",
         bench_steps},
        {"reads", "durable readers beside durable writers, against the same readers marked lazy",
         bench_reads},
        {"snapshots",
         "TPC-C beside a reader of all tables: snapshot against read_committed; scans at rest",
         bench_snapshots},
        {"reports",
         "reports over TPC-C: shared passes, cold and staggered scans, the mix beside them, as "
         "ratios",
         bench_reports},
        {"commits",
         "durable commits: rate and syncs per commit, and TPC-C with 64 terminals against lazy "
         "commits",
         bench_commits},
        {"checkpoint",
         "write-back sorted and joined against unsorted; New-Order's p99.9 latency with and "
         "without a "
         "checkpoint",
         bench_checkpoint},
        {"backup",
         "a backup against cp, TPC-C beside backups, restore with the archive against a restart",
         bench_backup},
        {"tpcc-steps",
         "TPC-C Payment, four-transaction mix and full mix with STEPS on and off, and the teams",
         bench_tpcc_steps},
        {"lock-stage", "one hot row, short and long transactions: short-first against fifo",
         bench_lock_stage},
        {"lock-payment", "TPC-C Payment on 1 and 2 warehouses: lock waits and throughput by policy",
         bench_lock_payment},
        {"production-line",
         "how long requests wait when a queue forms batches by different rules, in virtual time",
         bench_production_line},
        {"answers",
         "plans of reports: 1,024 of one type as one against one, and one by one, as ratios; and "
         "light ones beside heavy ones",
         bench_answers},
        {"qpipe", "a mix of queries by what they share, as ratios of throughput", bench_qpipe},
        {"scan-policies",
         "16 streams of scans on one table: reads and latency by policy, in virtual time",
         bench_scan_policies},
        {"instructions",
         "exact instructions per transaction and operation, and lines of code (valgrind)",
         bench_instructions},
        {"count", "(the child of `instructions`)", bench_count},
        {"pool", "random fetches with the pool at 10% of the data, beside the device's own rate",
         bench_pool},
        {"c-api", "what the C interface adds to a get: callbacks, sessions, batches", bench_c_api},
        {"secondary-build", "a secondary index over existing records: one core against all",
         bench_secondary_build},
        {"restart", "restart after a kill with 1 GB of log (--bytes)", bench_restart},
    };
    return kAll;
}

}  // namespace lockstep::bench

namespace {

using namespace lockstep;

void add_options(CLI::App& app, bench::Settings& settings, std::string& points,
                 std::string& bytes) {
    app.add_option("--path", settings.directory,
                   "Scratch directory (default: a temporary one, removed at the end)");
    app.add_option("--bytes", bytes, "Size of data, such as 64M (default: the benchmark's own)")
        ->check(kSize);
    app.add_option("--warehouses", settings.warehouses,
                   "TPC-C warehouses (default: the benchmark's own)")
        ->check(CLI::Range(0u, tpcc::kWarehousesMax));
    app.add_option("--what", settings.what, "For `count`: what to count");
    app.add_option("--ctx-points", points,
                   "CTX points of the variants with STEPS: none, manual, icache, auto:FILE, or "
                   "names with commas")
        ->capture_default_str();
    app.add_option("--team-max", settings.steps.team_max,
                   "Most threads in a team, and most active transactions on a worker")
        ->check(CLI::Range(1u, 1024u))
        ->capture_default_str();
    app.add_option("--team-window", settings.steps.window_records,
                   "Records in a window of the team-size tuner; 0: no tuner, always --team-max")
        ->capture_default_str();
    app.add_option("--team-policy", settings.steps.policy,
                   "Which waiting list forms the next team (default: last-leaver)")
        ->transform(chosen_from(kTeamPolicies));
    app.add_option("--mix", settings.mix, "TPC-C: only payment, mix4 or mix (default: all three)")
        ->check(CLI::IsMember({"payment", "mix4", "mix"}));
    app.add_option("--calls", settings.calls,
                   "TPC-C: several records a call (many, the default) or one (single)")
        ->transform(chosen_from(tpcc::kCalls));
    app.add_flag("--packets", settings.packets,
                 "TPC-C: terminals are packets, not user threads as in the thesis (tpcc-steps, "
                 "instructions)");
    app.add_option("--commits", settings.commits,
                   "TPC-C: commits that a slice measures (tpcc-steps: 50000 for payment, else "
                   "20000)")
        ->check(CLI::Range(uint64_t{100}, uint64_t{1} << 40));
    app.add_option("--workers", settings.workers, "Kernel threads (tpcc-steps)")
        ->check(CLI::Range(1u, 64u))
        ->capture_default_str();
    app.add_option("--threads", settings.threads, "User threads (default: the benchmark's own)")
        ->check(CLI::Range(0u, 1u << 20));
    app.add_option("--seconds,--duration", settings.seconds, "Seconds that each result is measured")
        ->check(number_in(0.001, 1e6))
        ->capture_default_str();
}

// The CTX points that `points` names go to the settings. False, with the reason printed, if it
// names none.
bool read_points(std::string points, bench::Settings& settings) {
    if (points.starts_with("auto:")) {
        std::ifstream in(points.substr(5));
        if (!in)
            return fmt::print(stderr, "lockstep-bench: --ctx-points: {} cannot be read\n",
                              points.substr(5)),
                   false;
        points.assign(std::istreambuf_iterator<char>(in), {});
    }
    const auto points_set = ctx_points_from(points);
    if (!points_set) {
        fmt::print(stderr, "lockstep-bench: --ctx-points: {}\n", points_set.error().text());
        return false;
    }
    settings.steps.points = *points_set;
    return true;
}

int run(int argc, char** argv) {
    CLI::App app{"Benchmarks of Lockstep. Measurements are medians over quiet slices."};
    app.name("lockstep-bench");
    app.failure_message(parse_failure);
    show_one_name(app);
    app.set_version_flag("--version", version_text("lockstep-bench"));
    std::string name, json_path;
    bool list = false;
    bench::Settings settings;
    app.add_option("name", name, "Benchmark to run");
    app.add_flag("--list", list, "Names and what they measure");
    app.add_option("--json", json_path, "Write the measurements to this file");
    std::string points = "manual", bytes;
    add_options(app, settings, points, bytes);
    CLI11_PARSE(app, argc, argv);
    if (!bytes.empty()) settings.bytes = parse_size(bytes).value_or(0);
    settings.self = std::filesystem::read_symlink("/proc/self/exe").string();

    if (!read_points(points, settings)) return 2;
    const auto& all = bench::all_benchmarks();
    if (list || name.empty()) {
        for (const auto& b : all) fmt::print("{:<16} {}\n", b.name, b.what);
        return list ? 0 : 2;
    }
    const auto chosen =
        std::find_if(all.begin(), all.end(), [&](auto& b) { return name == b.name; });
    if (chosen == all.end()) {
        fmt::print(stderr, "lockstep-bench: no benchmark '{}'; --list shows them\n", name);
        return 2;
    }
    if (const auto writable = require_writable(json_path, "--json"); !writable) {
        fmt::print(stderr, "lockstep-bench: {}\n", writable.error().text());
        return 2;
    }
    const bench::Scratch scratch(settings.directory, std::filesystem::temp_directory_path(),
                                 "lockstep-bench");
    if (scratch.error()) {
        fmt::print(stderr, "lockstep-bench: --path: {}: {}\n", scratch.path(),
                   scratch.error().message());
        return 2;
    }
    settings.directory = scratch.path();
    bench::Report report;
    const auto done = chosen->run(settings, report);
    if (!done) {
        fmt::print(stderr, "lockstep-bench: {}: {}\n", name, done.error().text());
        return 1;
    }
    if (!json_path.empty()) {
        auto json = report.json();
        json["benchmark"] = name;
        const auto written = write_text_file(json_path, json.dump(2) + "\n", "--json");
        if (!written) {
            fmt::print(stderr, "lockstep-bench: {}: {}\n", json_path, written.error().text());
            return 1;
        }
    }
    return report.all_hold() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    lockstep::hold_standard_files();
    return run_flushed("lockstep-bench", 1, [&] { return run(argc, argv); });
}
