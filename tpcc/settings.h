// settings.h - the settings of a run, as read from the command line and checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tpcc/driver.h"

namespace lockstep::tpcc {

// Where to serve metrics.
struct MetricsAddress {
    std::string host = "127.0.0.1";  // IPv4, in numbers
    uint16_t port = 0;               // 0: the system chooses
};

enum class Action : uint8_t { run, check_only, dump, compare };

struct Settings {
    Action action = Action::run;
    std::string path;                    // empty: a temporary directory, removed at the end
    std::optional<uint32_t> warehouses;  // default: 4, or those of the existing database
    uint32_t workers = 1;
    std::string mix_name = "mix", durability_name = "lazy", isolation_name = "serializable",
                io_name = "automatic", steps_name = "off", ctx_points_name = "manual",
                team_policy_name = "last-leaver", team_gate_name = "t-gated",
                lock_policy_name = "fifo", calls_name = "many", reads_name = "locks",
                arrivals_name = "poisson";
    IoMethod io = IoMethod::automatic;
    LockPolicy lock_policy = LockPolicy::fifo;
    uint32_t lock_bypass_max = LockStageOptions{}.bypass_max;
    StepsOptions steps;
    uint64_t pool_bytes = 0, log_bytes = 0;  // 0: sized to the data
    // None: 1 for the load, and a new one for each run.
    std::optional<uint64_t> seed;
    std::string dump_directory, json_file, html_file, csv_directory, picture_file, ack_check_file,
        delivery_file;
    std::vector<std::string> compare_base, compare_against;  // files of results
    bool compare_force = false;
    std::string command_line;               // as given
    std::optional<MetricsAddress> metrics;  // none: metrics are not served
    bool control = false;                   // Options::control
    std::string archive;                    // Options::archive
    Nanos audit_every = 0;                  // 0: only at the end
    uint32_t repeat = 1;                    // runs, one after another
    double ramp_ms = 0;                     // bound of New-Order's p99; 0: no ramp
    RunSettings run;                        // its seed: of the run, once that is known

    // Store options for `warehouses_now` warehouses, or for `existing_bytes` of an existing
    // database if that is more.
    Options store_options(uint32_t warehouses_now, uint64_t existing_bytes = 0) const;
    // Of one of several runs, 1-based: its files have the number in their names.
    Settings of_repetition(uint32_t number) const;
    uint32_t warehouse_count() const { return warehouses.value_or(4); }
};

// The result of reading the command line. If there is an exit status, stop with it: help was shown,
// or an error was printed.
struct ParsedCommandLine {
    Settings settings;
    std::optional<int> exit_status;
};
ParsedCommandLine parse_command_line(int argc, const char* const* argv);

std::string format_size(uint64_t bytes);
// The address from "9464" or "0.0.0.0:9464"; empty if the text is neither.
std::optional<MetricsAddress> parse_metrics_address(const std::string& text);

}  // namespace lockstep::tpcc
