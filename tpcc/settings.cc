// settings.cc - the command line (CLI11), and store options that fit the data.
#include "tpcc/settings.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <charconv>
#include <fstream>
#include <iterator>

#include "tpcc/option_names.h"

namespace lockstep::tpcc {

namespace {

constexpr uint64_t kMegabyte = 1ull << 20, kGigabyte = 1ull << 30;
// After the load, with space for a short run.
constexpr uint64_t kWarehouseBytes = 130 * kMegabyte;
// At about 40,000 transactions a second.
constexpr uint64_t kGrowthBytesPerSecond = 20 * kMegabyte;

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
        names.assign(std::istreambuf_iterator<char>(file), {});
        if (!file) {
            fault = "cannot read " + text.substr(5);
            return std::nullopt;
        }
    }
    const auto points = ctx_points_from(names);
    if (points) return *points;
    fault = fmt::format("word {} of '{}' names no CTX point", points.error().a, text);
    return std::nullopt;
}

const CLI::Validator kSize(
    [](std::string& text) {
        return parse_size(text) ? "" : "is not a size such as 512M or 2G: " + text;
    },
    "SIZE");

uint64_t default_pool_bytes(const Settings& s, uint64_t data_bytes) {
    const double seconds = s.run.transactions ? static_cast<double>(s.run.transactions) / 40000
                                              : static_cast<double>(s.run.duration + s.run.warmup) /
                                                    static_cast<double>(kSecond);
    const auto grown = static_cast<uint64_t>(std::min(seconds, 120.0) * s.workers *
                                             static_cast<double>(kGrowthBytesPerSecond));
    const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return std::max(64 * kMegabyte,
                    std::min(memory * 6 / 10, data_bytes + grown + 256 * kMegabyte));
}

uint64_t rounded_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

struct RawArguments {
    std::string pool, log, metrics;
    uint32_t warehouses = 4;
    double duration = 30, warmup = 3, audit_every = 0;
    bool check_only = false;
};

void add_database_options(CLI::App& app, Settings& s, RawArguments& raw) {
    app.add_option("--path", s.path,
                   "Directory of the database; loaded if it holds none, else reopened (default: a "
                   "temporary directory)");
    app.add_option("-w,--warehouses", raw.warehouses,
                   "Number of warehouses (default: 4, or those of the existing database)")
        ->check(CLI::Range(1u, kWarehousesMax));
    app.add_option("--workers", s.workers, "Kernel threads that run transactions")
        ->check(CLI::Range(1u, 64u))
        ->capture_default_str();
    app.add_option("--pool", raw.pool,
                   "Buffer pool size, such as 512M or 2G (default: sized to the data)")
        ->check(kSize);
    app.add_option("--log-size", raw.log,
                   "Maximum log size, such as 2G (default: sized to the data)")
        ->check(kSize);
    app.add_option("--io", s.io_name, "I/O method")
        ->check(one_of(kIoMethods))
        ->capture_default_str();
    app.add_option("--seed", s.run.seed, "Seed of all random numbers")->capture_default_str();
}

void add_team_options(CLI::App& app, Settings& s) {
    app.add_option("--steps", s.steps_name,
                   "Run threads in teams (STEPS), or with one part of STEPS alone")
        ->check(one_of(kStepsModes))
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
        ->check(one_of(kTeamPolicies))
        ->capture_default_str();
    app.add_option("--team-gate", s.team_gate_name, "How many threads of a list form a team")
        ->check(one_of(kTeamGates))
        ->capture_default_str();
}

void add_run_options(CLI::App& app, Settings& s, RawArguments& raw) {
    app.add_option("--terminals", s.run.terminals, "Terminals per warehouse")
        ->check(CLI::Range(1u, 1'000'000u))
        ->capture_default_str();
    app.add_flag("--terminals-as-threads", s.run.terminals_as_threads,
                 "Each terminal is a user thread, as in the thesis, and not a packet");
    app.add_option("--txn", s.mix_name,
                   "Transaction types to run; mix4 is the mix without Delivery")
        ->check(one_of(kMixes))
        ->capture_default_str();
    auto* count = app.add_option("--transactions", s.run.transactions,
                                 "Run this many transactions instead of --duration")
                      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 50));
    app.add_option("--duration", raw.duration, "Length of the measured interval in seconds")
        ->check(CLI::Range(0.001, 1e7))
        ->capture_default_str()
        ->excludes(count);
    app.add_option("--warmup", raw.warmup,
                   "Seconds before the measured interval (with --transactions: 0 unless given)")
        ->check(CLI::Range(0.0, 1e6))
        ->capture_default_str();
    app.add_option("--think", s.run.think,
                   "Factor on the specified keying and think times; 0 = none, 1 = as specified")
        ->check(CLI::Range(0.0, 100.0))
        ->capture_default_str();
    app.add_option("--durability", s.durability_name,
                   "When a commit returns: at once (lazy) or when it is on disk")
        ->check(one_of(kDurabilities))
        ->capture_default_str();
    app.add_option("--isolation", s.isolation_name, "Isolation level of all transactions")
        ->check(one_of(kIsolations))
        ->capture_default_str();
    app.add_option("--reads", s.reads_name,
                   "How Order-Status and Stock-Level read: with locks, at --isolation, or in a "
                   "snapshot")
        ->check(one_of(kReads))
        ->capture_default_str();
    app.add_option("--audit-every", raw.audit_every,
                   "Check the consistency conditions every so many seconds on a snapshot while the "
                   "terminals run; 0 = only at the end")
        ->check(CLI::Range(0.0, 1e6))
        ->capture_default_str();
    app.add_option("--lock-policy", s.lock_policy_name, "Order of waiters for a contended lock")
        ->check(one_of(kLockPolicies))
        ->capture_default_str();
    app.add_option("--lock-bypass", s.lock_bypass_max,
                   "Maximum number of times a waiter is overtaken under that policy")
        ->check(CLI::Range(0u, 65535u))
        ->capture_default_str();
    app.add_option("--calls", s.calls_name,
                   "How transactions ask for several records of a table: in one call (many), or "
                   "one record a call (single), as in the thesis")
        ->check(one_of(kCalls))
        ->capture_default_str();
    add_team_options(app, s);
    app.add_option("--ack-fd", s.run.executor.ack_fd,
                   "Write a line to this descriptor after each durable commit")
        ->check(CLI::Range(0, 1 << 20));
}

void add_output_options(CLI::App& app, Settings& s, RawArguments& raw) {
    app.add_option("--json", s.json_file, "Write settings and results to this file");
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
                   "Write the results of the deferred deliveries to this file");
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
        "Let `lockstep top`, `stat`, `locks`, `transactions`, `end` and `checkpoint` see the "
        "open store (Options::control)");
    app.add_option("--dump", s.dump_directory,
                   "Write every table as CSV into this directory and exit");
    app.add_flag("--check-only", raw.check_only,
                 "Check the consistency conditions of an existing database and exit");
    app.add_option("--check-acks", s.ack_check_file,
                   "With --check-only: check that every transaction in this file, written by "
                   "--ack-fd, is in the database");
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
    return "";
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

void convert(Settings& s, const RawArguments& raw, bool warehouses_given, bool warmup_given) {
    if (warehouses_given) s.warehouses = raw.warehouses;
    if (!raw.pool.empty()) s.pool_bytes = *parse_size(raw.pool);
    if (!raw.log.empty()) s.log_bytes = *parse_size(raw.log);
    if (raw.check_only) s.action = Action::check_only;
    if (!s.dump_directory.empty()) s.action = Action::dump;
    if (!raw.metrics.empty()) s.metrics = parse_metrics_address(raw.metrics);
    s.run.mix = kMixes.at(s.mix_name);
    s.run.calls = kCalls.at(s.calls_name);
    s.run.duration = static_cast<Nanos>(raw.duration * static_cast<double>(kSecond));
    s.run.warmup = s.run.transactions && !warmup_given
                       ? 0
                       : static_cast<Nanos>(raw.warmup * static_cast<double>(kSecond));
    s.run.executor.durability = kDurabilities.at(s.durability_name);
    s.run.executor.isolation = kIsolations.at(s.isolation_name);
    s.run.executor.snapshot_reads = kReads.at(s.reads_name);
    s.audit_every = static_cast<Nanos>(raw.audit_every * static_cast<double>(kSecond));
    s.run.keep_delivery_results = !s.delivery_file.empty();
}

}  // namespace

ParsedCommandLine parse_command_line(int argc, const char* const* argv) {
    ParsedCommandLine parsed;
    RawArguments raw;
    CLI::App app(
        "TPC-C (revision 5.11) on the Lockstep storage manager: loads or reopens a database, runs "
        "the terminals,\n"
        "and checks the twelve consistency conditions. The exit status is 0 only if all of them "
        "hold.");
    app.name("lockstep-tpcc");
    add_database_options(app, parsed.settings, raw);
    add_run_options(app, parsed.settings, raw);
    add_output_options(app, parsed.settings, raw);
    try {
        app.parse(argc, argv);
        std::string fault = contradiction(parsed.settings, raw);
        if (fault.empty()) fault = convert_steps(parsed.settings);
        if (!fault.empty()) throw CLI::ValidationError(fault);
    } catch (const CLI::ParseError& error) {
        parsed.exit_status = app.exit(error);
        return parsed;
    }
    convert(parsed.settings, raw, app.count("--warehouses") > 0, app.count("--warmup") > 0);
    return parsed;
}

Options Settings::store_options(uint32_t warehouses_now, uint64_t existing_bytes) const {
    Options options;
    options.create = action == Action::run;
    options.workers = workers;
    const uint64_t data_bytes = std::max(warehouses_now * kWarehouseBytes, existing_bytes);
    options.pool_bytes = pool_bytes ? pool_bytes : default_pool_bytes(*this, data_bytes);
    // The load writes whole pages to the log within one transaction per table.
    const uint64_t log_wanted = log_bytes ? log_bytes : std::max(2 * kGigabyte, 2 * data_bytes);
    options.log_bytes = rounded_up(log_wanted, options.log_segment_bytes);
    while (options.log_bytes / options.log_segment_bytes < 8 &&
           options.log_segment_bytes > kMegabyte)
        options.log_segment_bytes /= 2;
    options.log_ring_bytes =
        std::min(options.log_ring_bytes, std::bit_floor(options.log_bytes / 4));
    // A check reads for long while the terminals change records.
    if (audit_every != 0) options.version_bytes = kGigabyte;
    options.transactions_max = std::max<uint32_t>(options.transactions_max, 1024);
    options.io = kIoMethods.at(io_name);
    // Threads of terminals, and those that serve deliveries.
    if (run.terminals_as_threads)
        options.executors = std::min(warehouses_now * (run.terminals + 1) + 16, 1u << 20);
    options.lock_stage = {.policy = kLockPolicies.at(lock_policy_name),
                          .bypass_max = lock_bypass_max};
    options.steps = steps;
    options.control = control;
    return options;
}

std::optional<uint64_t> parse_size(const std::string& text) {
    uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || end - rest > 1) return std::nullopt;
    unsigned shift = 0;
    if (rest != end) {
        switch (*rest) {
            case 'k':
            case 'K': shift = 10; break;
            case 'm':
            case 'M': shift = 20; break;
            case 'g':
            case 'G': shift = 30; break;
            case 't':
            case 'T': shift = 40; break;
            default: return std::nullopt;
        }
    }
    if (value == 0 || value > (UINT64_MAX >> shift)) return std::nullopt;
    return value << shift;
}

std::optional<MetricsAddress> parse_metrics_address(const std::string& text) {
    MetricsAddress address;
    const size_t colon = text.rfind(':');
    if (colon != std::string::npos) address.host = text.substr(0, colon);
    const std::string port = text.substr(colon == std::string::npos ? 0 : colon + 1);
    const char* end = port.data() + port.size();
    const auto [rest, error] = std::from_chars(port.data(), end, address.port);
    in_addr parsed{};
    if (port.empty() || error != std::errc{} || rest != end ||
        inet_pton(AF_INET, address.host.c_str(), &parsed) != 1)
        return std::nullopt;
    return address;
}

std::string format_size(uint64_t bytes) {
    if (bytes >= 10 * kGigabyte)
        return fmt::format("{:.1f} GB",
                           static_cast<double>(bytes) / static_cast<double>(kGigabyte));
    return fmt::format("{:.0f} MB", static_cast<double>(bytes) / static_cast<double>(kMegabyte));
}

}  // namespace lockstep::tpcc
