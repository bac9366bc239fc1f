// command_line.cc - the command line (CLI11): options in groups, examples, contradictions.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <charconv>
#include <fstream>

#include "tools/base/build_info.h"
#include "tools/base/option_checks.h"
#include "tools/base/parse_failure.h"
#include "tools/base/size_option.h"
#include "tpcc/option_names.h"
#include "tpcc/settings.h"

namespace lockstep::tpcc {

namespace {

const Names<Mix> kMixes = {{"mix", Mix::full},
                           {"mix4", Mix::without_delivery},
                           {"neworder", Mix::new_order},
                           {"payment", Mix::payment}};
const Names<Isolation> kIsolations = {{"serializable", Isolation::serializable},
                                      {"repeatable-read", Isolation::repeatable_read},
                                      {"read-committed", Isolation::read_committed}};
const Names<bool> kReads = {{"locks", false}, {"snapshot", true}};
const Names<Durability> kDurabilities = {{"lazy", Durability::lazy},
                                         {"durable", Durability::durable}};
const Names<IoMethod> kIoMethods = {
    {"automatic", IoMethod::automatic}, {"uring", IoMethod::io_uring}, {"pool", IoMethod::pool}};

// "auto:FILE" takes the names from a file. On failure: empty, and a message in `fault`.
std::optional<uint32_t> read_ctx_points(const std::string& text, std::string& fault) {
    std::string names = text;
    if (text.starts_with("auto:")) {
        std::ifstream file(text.substr(5));
        names.clear();
        std::getline(file, names, '\0');  // the whole file
        if (!file.is_open() || file.bad()) {
            fault = "cannot read " + text.substr(5);
            return std::nullopt;
        }
    }
    const auto points = ctx_points_from(names);
    if (points) return *points;
    fault = fmt::format("word {} of '{}' names no CTX point", points.error().a, text);
    return std::nullopt;
}

const Names<ArrivalKind> kArrivalKinds = {{"poisson", ArrivalKind::poisson},
                                          {"constant", ArrivalKind::constant}};
// Transactions a second, of the first run of --ramp.
constexpr double kRampBegin = 1000;
// Seconds of warm-up without think times, and for each unit of --think: keying and thinking of a
// New-Order take 30 s in the mean (clause 5.2.5.7), so each terminal has had two turns.
constexpr double kWarmup = 3, kWarmupForThink = 60;

constexpr const char* kExamples = R"(Examples:
  lockstep-tpcc                                  4 warehouses, temporary directory, 30 s, audit
  lockstep-tpcc --path DIR -w 20 --workers 2 --durability durable --html RUN.html --json RUN.json
  lockstep-tpcc --path DIR --rate 5000 --csv DIR2     open loop: 5000 transactions are due a second
  lockstep-tpcc --path DIR --ramp 10 --duration 5     the highest rate with a p99 of 10 ms
  lockstep-tpcc --path DIR --think 1 --duration 7200  terminals at the pace of the specification
  lockstep-tpcc --path DIR --weights 50,50,0,0,0      only New-Order and Payment
  lockstep-tpcc --path DIR --check-only               conditions only, for instance after a crash
  lockstep-tpcc --path DIR --repeat 3 --json A.json   three runs: A-1.json, A-2.json, A-3.json
  lockstep-tpcc compare A.json B.json                 the difference of two results
  lockstep-tpcc compare A-*.json --against B-*.json   of several runs each, with a verdict

Exit status: 0 all conditions hold; 1 a condition is broken or an acknowledged transaction is lost;
2 an error, which is named; 130 interrupted, after results and audit; above 100 wrong options.)";

struct RawArguments {
    std::string pool, log, metrics, arrivals = "poisson", weights;
    uint32_t warehouses = 4;
    uint64_t seed = 0;
    double duration = 30, warmup = 0, audit_every = 0, interval = 1;
    bool check_only = false;
};

// "45,43,4,4,4", in the order of TxnType; empty if the text is no such list.
std::optional<MixWeights> parse_weights(const std::string& text) {
    MixWeights weights{};
    uint64_t sum = 0;
    const char* at = text.data();
    const char* const end = at + text.size();
    for (size_t t = 0; t < kTxnTypes; ++t) {
        const auto [rest, error] = std::from_chars(at, end, weights[t]);
        if (error != std::errc{} || weights[t] > 1'000'000) return std::nullopt;
        if (t + 1 < kTxnTypes ? rest == end || *rest != ',' : rest != end) return std::nullopt;
        at = rest + 1;
        sum += weights[t];
    }
    return sum > 0 ? std::optional(weights) : std::nullopt;
}

void add_database_options(CLI::App& app, Settings& s, RawArguments& raw) {
    app.option_defaults()->group("Database");
    app.add_option("--path", s.path,
                   "Directory of the database; loaded if it holds none, else reopened (default: a "
                   "temporary directory)")
        ->check(kNotEmpty);
    app.add_option("-w,--warehouses", raw.warehouses,
                   "Number of warehouses (default: 4, or those of the existing database)")
        ->check(CLI::Range(1u, kWarehousesMax));
    app.add_option("--workers", s.workers, "Kernel threads that run transactions")
        ->check(CLI::Range(1u, 64u))
        ->capture_default_str();
    app.add_option("--pool", raw.pool,
                   "Buffer pool size, such as 512M (default: sized to the data)")
        ->check(kSize);
    app.add_option("--log-size", raw.log,
                   "Maximum log size, such as 2G (default: sized to the data)")
        ->check(kSize);
    app.add_option("--io", s.io_name, "I/O method")
        ->transform(one_of(kIoMethods))
        ->capture_default_str();
    app.add_option("--seed", raw.seed,
                   "Seed of the load and of this run (default: 1 for the load; each run of a "
                   "database gets a new one, which is kept in it and printed)")
        ->check(kNotNegative);
}

void add_team_options(CLI::App& app, Settings& s) {
    app.option_defaults()->group("Teams (STEPS)");
    app.add_option("--steps", s.steps_name,
                   "Run threads in teams (STEPS), or with one part of STEPS alone")
        ->transform(one_of(kStepsModes))
        ->capture_default_str();
    app.add_option(
           "--ctx-points", s.ctx_points_name,
           "CTX points where teams switch: none, manual, icache, auto:FILE, or names with commas")
        ->capture_default_str();
    app.add_option("--team-max", s.steps.team_max,
                   "Maximum threads in a team, and active transactions per worker")
        ->check(CLI::Range(1u, 1024u))
        ->capture_default_str();
    app.add_option("--team-window", s.steps.window_records,
                   "With --steps on: records per trial of the team-size tuner, which tries smaller "
                   "teams and none; 0: always --team-max")
        ->capture_default_str();
    app.add_option("--team-policy", s.team_policy_name, "Which list of threads forms the next team")
        ->transform(one_of(kTeamPolicies))
        ->capture_default_str();
    app.add_option("--team-gate", s.team_gate_name, "How many threads of a list form a team")
        ->transform(one_of(kTeamGates))
        ->capture_default_str();
}

void add_length_options(CLI::App& app, Settings& s, RawArguments& raw) {
    auto* count = app.add_option("--transactions", s.run.transactions,
                                 "Run this many transactions instead of --duration")
                      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 50));
    app.add_option("--duration,--seconds", raw.duration,
                   "Length of the measured interval in seconds")
        ->check(number_in(0.001, 1e7))
        ->capture_default_str()
        ->excludes(count);
    app.add_option("--repeat", s.repeat,
                   "Runs, one after another; each has its warm-up and its check, and the files of "
                   "its results have its number in their names, such as OUT-2.json")
        ->check(CLI::Range(1u, 1000u))
        ->capture_default_str();
    app.add_option("--warmup", raw.warmup,
                   "Seconds before the measured interval (default: 3; with --think F: 60 * F, two "
                   "turns of a terminal, and at least 3; with --transactions: 0)")
        ->check(number_in(0, 1e6));
}

void add_load_options(CLI::App& app, Settings& s, RawArguments& raw) {
    app.option_defaults()->group("Offered load");
    app.add_option("--terminals", s.run.terminals, "Terminals per warehouse")
        ->check(CLI::Range(1u, 1'000'000u))
        ->capture_default_str();
    app.add_flag("--terminals-as-threads", s.run.terminals_as_threads,
                 "Each terminal is a user thread, as in the thesis, and not a packet");
    app.add_option("--think", s.run.think,
                   "Factor on the specified keying and think times; 0 = none, 1 = as specified")
        ->check(number_in(0, 100))
        ->capture_default_str();
    app.add_option("--rate", s.run.rate.per_second,
                   "Transactions that are due each second, whether or not earlier ones have ended "
                   "(open loop). Response times count from the moment at which a transaction was "
                   "due. 0 = each terminal repeats at once")
        ->check(number_in(0, 1e8))
        ->capture_default_str();
    app.add_option("--ramp", s.ramp_ms,
                   "Find the highest --rate at which 99 of 100 New-Orders answer within so many "
                   "milliseconds: runs of --duration, first at --rate (default: 1000), each at "
                   "twice the rate until one is too slow, then between")
        ->check(number_in(0.001, 1e6));
    app.add_option("--arrivals", raw.arrivals, "With --rate: random or equal times between them")
        ->transform(one_of(kArrivalKinds))
        ->capture_default_str();
    app.add_option("--txn", s.mix_name,
                   "Transaction types to run; mix4 is the mix without Delivery")
        ->transform(one_of(kMixes))
        ->capture_default_str();
    app.add_option("--weights", raw.weights,
                   "Weights of New-Order, Payment, Order-Status, Delivery and Stock-Level, such as "
                   "45,43,4,4,4, instead of --txn")
        ->type_name("W,W,W,W,W")
        ->check(CLI::Validator(
            [](std::string& text) {
                return parse_weights(text) ? ""
                                           : "are not five weights such as 45,43,4,4,4: " + text;
            },
            ""));
    add_length_options(app, s, raw);
}

void add_transaction_options(CLI::App& app, Settings& s) {
    app.option_defaults()->group("Transactions");
    app.add_option("--durability", s.durability_name,
                   "When a commit returns: at once (lazy) or when it is on disk")
        ->transform(one_of(kDurabilities))
        ->capture_default_str();
    app.add_option("--isolation", s.isolation_name, "Isolation level of all transactions")
        ->transform(one_of(kIsolations))
        ->capture_default_str();
    app.add_option("--reads", s.reads_name,
                   "How Order-Status and Stock-Level read: with locks, at --isolation, or in a "
                   "snapshot")
        ->transform(one_of(kReads))
        ->capture_default_str();
    app.add_option("--lock-policy", s.lock_policy_name, "Order of waiters for a contended lock")
        ->transform(one_of(kLockPolicies))
        ->capture_default_str();
    app.add_option("--lock-bypass", s.lock_bypass_max,
                   "Maximum number of times a waiter is overtaken under that policy")
        ->check(CLI::Range(0u, 65535u))
        ->capture_default_str();
    app.add_option("--calls", s.calls_name,
                   "How transactions ask for several records of a table: in one call (many), or "
                   "one record a call (single), as in the thesis")
        ->transform(one_of(kCalls))
        ->capture_default_str();
    app.add_option("--ack-fd", s.run.executor.ack_fd,
                   "Write a line to this descriptor after each durable commit")
        ->check(CLI::Range(0, 1 << 20));
}

void add_check_options(CLI::App& app, Settings& s, RawArguments& raw) {
    app.option_defaults()->group("Checks and dump");
    app.add_option("--audit-every", raw.audit_every,
                   "Check the consistency conditions every so many seconds on a snapshot while the "
                   "terminals run; 0 = only at the end")
        ->check(number_in(0, 1e6))
        ->capture_default_str();
    app.add_flag("--check-only", raw.check_only,
                 "Check the consistency conditions of an existing database and exit");
    app.add_option("--check-acks", s.ack_check_file,
                   "With --check-only: check that every transaction in this file, written by "
                   "--ack-fd, is in the database")
        ->check(kNotEmpty);
    app.add_option("--dump", s.dump_directory,
                   "Write every table as CSV into this directory and exit")
        ->check(kNotEmpty);
}

void add_output_options(CLI::App& app, Settings& s, RawArguments& raw) {
    app.option_defaults()->group("Results");
    app.add_option("--interval", raw.interval,
                   "Seconds of each point of the time series; without a terminal, a line is "
                   "printed at each point")
        ->check(number_in(0.01, 1e6))
        ->capture_default_str();
    app.add_option("--json", s.json_file,
                   "Write settings, results, series and histograms to this file")
        ->check(kNotEmpty);
    app.add_option("--html", s.html_file,
                   "Write one page with figures to this file; it opens without network")
        ->check(kNotEmpty);
    app.add_option("--csv", s.csv_directory,
                   "Write series.csv, histograms.csv and TYPE.hgrm (HdrHistogram's text form) into "
                   "this directory")
        ->check(kNotEmpty);
    app.add_option("--picture", s.picture_file,
                   "Draw throughput and latency over time (.svg or .png)")
        ->check(CLI::Validator(
            [](std::string& f) {
                return f.ends_with(".svg") || f.ends_with(".png")
                           ? ""
                           : "must end in .svg or .png: " + f;
            },
            "FILE"));
    app.add_option("--delivery-log", s.delivery_file,
                   "Write the result of each deferred delivery to this file when it comes")
        ->check(kNotEmpty);
    app.add_option(
           "--metrics", raw.metrics,
           "Serve Prometheus metrics at http://127.0.0.1:PORT/metrics; ADDRESS:PORT listens "
           "elsewhere, port 0 takes a free one and prints it")
        ->type_name("PORT")
        ->check(CLI::Validator(
            [](std::string& text) {
                return parse_metrics_address(text)
                           ? ""
                           : "is not a port or an IPv4 ADDRESS:PORT: " + text;
            },
            ""));
    app.add_flag(
        "--control", s.control,
        "Let the commands of `lockstep` that ask an open store reach this one: top, stat, locks, "
        "transactions, end, checkpoint, prepared, commit, rollback, metrics and backup "
        "(Options::control)");
    app.add_option("--archive", s.archive,
                   "Directory that receives the log before it is recycled (Options::archive)")
        ->check(kNotEmpty);
}

// Conflicts between options; empty if there are none.
std::string contradiction(const Settings& s, const RawArguments& raw) {
    if (raw.check_only && !s.dump_directory.empty())
        return "--check-only and --dump exclude each other";
    if ((raw.check_only || !s.dump_directory.empty()) && s.path.empty())
        return "--check-only and --dump need --path";
    if (!s.ack_check_file.empty() && !raw.check_only) return "--check-acks needs --check-only";
    if (s.run.executor.ack_fd >= 0 && s.durability_name != "durable")
        return "--ack-fd needs --durability durable";
    if (s.run.rate.per_second > 0 && s.run.think > 0)
        return "--rate and --think exclude each other: with a rate, arrivals set the pace";
    return "";
}

// The later file of two that are one would replace the earlier one. Devices take both.
std::string same_file_twice(const Settings& s) {
    const std::pair<const char*, const std::string*> files[] = {
        {"--json", &s.json_file},
        {"--html", &s.html_file},
        {"--picture", &s.picture_file},
        {"--delivery-log", &s.delivery_file}};
    for (const auto& [option, file] : files)
        for (const auto& [other, same] : files)
            if (option != other && !file->empty() && !file->starts_with("/dev/") &&
                std::filesystem::path(*file).lexically_normal() ==
                    std::filesystem::path(*same).lexically_normal())
                return fmt::format("{} and {} name one file: {}", option, other, *file);
    return "";
}

// The same, for options that are given without one that they need. `app` has been parsed.
std::string missing_need(const CLI::App& app, const Settings& s, const RawArguments& raw) {
    if (app.count("--weights") > 0 && app.count("--txn") > 0)
        return "--weights and --txn exclude each other";
    if (s.ramp_ms > 0)
        for (const char* option : {"--transactions", "--think", "--repeat"})
            if (app.count(option) > 0)
                return fmt::format("--ramp and {} exclude each other", option);
    if (app.count("--arrivals") > 0 && s.run.rate.per_second == 0 && s.ramp_ms == 0)
        return "--arrivals needs --rate";
    const bool no_run = raw.check_only || !s.dump_directory.empty();
    for (const char* option :
         {"--html", "--csv", "--picture", "--delivery-log", "--audit-every", "--repeat", "--ramp"})
        if (no_run && app.count(option) > 0)
            return fmt::format("{} needs a run, which --check-only and --dump do not make", option);
    if (!s.dump_directory.empty() && app.count("--json") > 0) return "--dump has no --json";
    return same_file_twice(s);
}

// Empty on success.
std::string convert_steps(Settings& s) {
    s.steps.mode = kStepsModes.at(s.steps_name);
    s.steps.policy = kTeamPolicies.at(s.team_policy_name);
    s.steps.gate = kTeamGates.at(s.team_gate_name);
    std::string fault;
    if (const auto points = read_ctx_points(s.ctx_points_name, fault)) s.steps.points = *points;
    return fault.empty() ? "" : "--ctx-points: " + fault;
}

Nanos nanos(double seconds) { return static_cast<Nanos>(seconds * static_cast<double>(kSecond)); }

double default_warmup(const Settings& s) {
    if (s.run.transactions) return 0;
    return std::max(kWarmup, kWarmupForThink * s.run.think);
}

void convert(Settings& s, const RawArguments& raw, const CLI::App& app) {
    if (app.count("--warehouses") > 0) s.warehouses = raw.warehouses;
    if (app.count("--seed") > 0) s.seed = raw.seed;
    if (!raw.pool.empty()) s.pool_bytes = parse_size(raw.pool).value_or(0);
    if (!raw.log.empty()) s.log_bytes = parse_size(raw.log).value_or(0);
    if (raw.check_only) s.action = Action::check_only;
    if (!s.dump_directory.empty()) s.action = Action::dump;
    if (!raw.metrics.empty()) s.metrics = parse_metrics_address(raw.metrics);
    s.io = kIoMethods.at(s.io_name);
    s.lock_policy = kLockPolicies.at(s.lock_policy_name);
    s.run.mix = kMixes.at(s.mix_name);
    if (!raw.weights.empty()) {
        s.run.weights = parse_weights(raw.weights);
        s.mix_name = raw.weights;
    }
    s.arrivals_name = raw.arrivals;
    s.run.rate.kind = kArrivalKinds.at(raw.arrivals);
    s.run.calls = kCalls.at(s.calls_name);
    s.run.duration = nanos(raw.duration);
    if (s.ramp_ms > 0 && s.run.rate.per_second == 0) s.run.rate.per_second = kRampBegin;
    s.run.warmup = nanos(app.count("--warmup") > 0 ? raw.warmup : default_warmup(s));
    s.run.interval = nanos(raw.interval);
    s.run.executor.durability = kDurabilities.at(s.durability_name);
    s.run.executor.isolation = kIsolations.at(s.isolation_name);
    s.run.executor.snapshot_reads = kReads.at(s.reads_name);
    s.audit_every = nanos(raw.audit_every);
}

void add_compare(CLI::App& app, Settings& s) {
    auto* compare = app.add_subcommand(
        "compare",
        "Print the difference of two results that --json wrote, or of several of each side");
    compare
        ->add_option("FILES", s.compare_base,
                     "Two result files, the base and the one that is compared with it; with "
                     "--against, all files of the base")
        ->required()
        ->check(CLI::ExistingFile);
    compare
        ->add_option("--against", s.compare_against,
                     "Result files that are compared with the base; three or more runs of each "
                     "side give a verdict")
        ->check(CLI::ExistingFile);
    compare->add_flag("--force", s.compare_force,
                      "Print the ratios of results that are not comparable, too");
    compare->final_callback([&s] {
        s.action = Action::compare;
        if (!s.compare_against.empty()) return;
        if (s.compare_base.size() != 2)
            throw CLI::ValidationError(
                "there must be two files, or --against: compare A1 A2 A3 --against B1 B2 B3");
        s.compare_against = {s.compare_base[1]};
        s.compare_base.pop_back();
    });
}

std::string join_arguments(int argc, const char* const* argv) {
    return fmt::format("lockstep-tpcc{}{}", argc > 1 ? " " : "",
                       fmt::join(argv + (argc > 1 ? 1 : argc), argv + argc, " "));
}

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv) {
    ParsedCommandLine parsed;
    Settings& settings = parsed.settings;
    RawArguments raw;
    CLI::App app(
        "TPC-C (revision 5.11) on the Lockstep storage manager: loads or reopens a database, runs "
        "the terminals,\n"
        "and checks the twelve consistency conditions and the stock. The exit status is 0 only if "
        "all of them hold.");
    app.name("lockstep-tpcc");
    app.failure_message(parse_failure);
    show_one_name(app);
    app.get_formatter()->label("SUBCOMMAND", "COMMAND");
    app.footer(kExamples);
    app.set_version_flag("--version", version_text("lockstep-tpcc"));
    add_database_options(app, settings, raw);
    add_load_options(app, settings, raw);
    add_transaction_options(app, settings);
    add_team_options(app, settings);
    add_output_options(app, settings, raw);
    add_check_options(app, settings, raw);
    add_compare(app, settings);
    try {
        app.parse(argc, argv);
        std::string fault = contradiction(settings, raw);
        if (fault.empty()) fault = missing_need(app, settings, raw);
        if (fault.empty()) fault = convert_steps(settings);
        if (!fault.empty()) throw CLI::ValidationError(fault);
    } catch (const CLI::ParseError& error) {
        parsed.exit_status = app.exit(error);
        return parsed;
    }
    convert(settings, raw, app);
    settings.command_line = join_arguments(argc, argv);
    return parsed;
}

}  // namespace lockstep::tpcc
