// size_command.cc - `lockstep size`: what a store will take, before there is one.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "sm/engine/memory_limit.h"
#include "tools/base/option_checks.h"
#include "tools/cli/commands.h"
#include "tools/cli/json_text.h"
#include "tools/cli/live/live_text.h"
#include "tools/cli/number_options.h"
#include "tools/cli/size/size.h"

namespace lockstep::cli {
namespace {

struct SizeOptions {
    Options store;
    Load load;
    bool json = false;
};

nlohmann::ordered_json json_of(const Sizes& sizes) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const SizeRow& row : sizes.memory)
        rows.push_back({{"name", row.name}, {"bytes", row.bytes}, {"by", row.decided_by}});
    return {{"memory", rows},
            {"memory_bytes", sizes.memory_bytes},
            {"memory_limit", sm::memory_limit()},
            {"log_bytes", sizes.log_bytes},
            {"log_bytes_a_second", sizes.log_bytes_a_second},
            {"checkpoint_seconds", sizes.checkpoint_seconds},
            {"log_bytes_for_a_minute", sizes.log_bytes_for_a_minute},
            {"redo_bytes", sizes.redo_bytes},
            {"restart_seconds", sizes.restart_seconds}};
}

std::string text_of(uint64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

void line(const std::string& name, const std::string& value, const std::string& note = {}) {
    fmt::print("{:<28}{:>12}{}\n", name, value, note.empty() ? note : "  " + note);
}

void print_log(const Sizes& sizes) {
    line("log on the disk, at most", text_of(sizes.log_bytes), "log_bytes");
    if (sizes.log_bytes_a_second > 0) {
        line("log a second", bytes_text(sizes.log_bytes_a_second), "--rate, --log-each");
        line("archive a day", bytes_text(sizes.log_bytes_a_second * 86400));
        line("checkpoint every", fmt::format("{:.3g} s", sizes.checkpoint_seconds),
             "checkpoint_log_bytes");
        line("every minute with log_bytes", text_of(sizes.log_bytes_for_a_minute));
    }
    line("log of a restart, at most", text_of(sizes.redo_bytes));
    line("its time", fmt::format("{:.3g} s", sizes.restart_seconds), "--redo");
}

int size(const SizeOptions& o) {
    if (const auto sound = check_options(o.store); !sound)
        return complain("size", sound.error(), o.json);
    const Sizes sizes = sizes_of(o.store, o.load);
    if (o.json) {
        fmt::print("{}\n", json_text(json_of(sizes)));
        return 0;
    }
    for (const SizeRow& row : sizes.memory) line(row.name, text_of(row.bytes), row.decided_by);
    line("memory, at most", text_of(sizes.memory_bytes));
    const uint64_t limit = sm::memory_limit();
    if (sizes.memory_bytes > limit)
        line("more than there is here", text_of(limit), "lower pool_bytes or --threads");
    fmt::print("\n");
    print_log(sizes);
    return 0;
}

void add_store_options(CLI::App& command, Options& o) {
    const auto any_size = size_in(1, 1ull << 42, "1 - 4T");
    const auto number = number_from_one("number");
    command.add_option("--pool", o.pool_bytes, "Options::pool_bytes")->transform(any_size);
    command.add_option("--stack", o.stack_bytes, "Options::stack_bytes")
        ->transform(size_in(1, 1u << 30, "1 - 1G"));
    command.add_option("--transactions", o.transactions_max, "Options::transactions_max")
        ->check(number);
    command.add_option("--log", o.log_bytes, "Options::log_bytes")->transform(any_size);
    command.add_option("--checkpoint", o.checkpoint_log_bytes, "Options::checkpoint_log_bytes")
        ->transform(any_size);
    command.add_option("--versions", o.version_bytes, "Options::version_bytes")
        ->transform(any_size);
    command.add_option("--reports", o.scan_bytes, "Options::scan_bytes")->transform(any_size);
}

void add_load_options(CLI::App& command, Load& load) {
    const auto number = number_from_one("number");
    command.add_option("--data", load.data_bytes, "Bytes of the volume; default: as the pool")
        ->transform(size_in(1, 2ull << 40, "1 - 2T"));
    command.add_option("--threads", load.threads, "Functions that have begun: connections")
        ->check(number)
        ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20))
        ->capture_default_str();
    command.add_option("--locks", load.locks, "Locks of a transaction")
        ->check(number)
        ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32))
        ->capture_default_str();
    command.add_option("--rate", load.transactions_a_second, "Transactions a second that write")
        ->check(number_in(0, 1e9));
    command.add_option("--log-each", load.log_bytes_each, "Bytes of log of one of them")
        ->transform(size_in(1, 1ull << 40, "1 - 1T"))
        ->capture_default_str();
    command.add_option("--redo", load.redo_bytes_a_second, "Log that a restart applies a second")
        ->transform(size_in(1, 1ull << 40, "1 - 1T"))
        ->default_str("450M");
}

}  // namespace

void add_size(CLI::App& app, int& status) {
    auto* command = app.add_subcommand(
        "size",
        "Memory, log and restart time of a store with such options and such a load. Needs no "
        "store.\n"
        "Exit status: 0 done; 1 an option is out of its range.");
    auto o = std::make_shared<SizeOptions>();
    add_store_options(*command, o->store);
    add_load_options(*command, o->load);
    command->add_flag("--json", o->json, "Print JSON");
    command->callback([o, &status] { status = size(*o); });
}

}  // namespace lockstep::cli
