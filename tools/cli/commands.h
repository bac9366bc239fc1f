// commands.h - the sub-commands of `lockstep`. Each returns the exit status of the process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/result.h>

namespace CLI {  // NOLINT(readability-identifier-naming): of CLI11
class App;
}

namespace lockstep::cli {

// Prints the error and the action that failed. Returns 1. With `json` it is a line of JSON on
// standard output, as an open store answers errors; for commands that have printed no result yet.
int complain(const std::string& doing, const std::string& why, bool json = false);
// The same with the error's code. `why`: a longer text than the error's own.
int complain(const std::string& doing, const Error& error, bool json, const std::string& why = {});

// The sub-commands for a store that another process has open (live_commands.h).
void add_live_commands(CLI::App& app, int& status);

// Asks the process that has the store open; else only reads its files. Returns 1 if a fault is
// found, 2 if that process does not answer, 3 if the store was not closed and only a part is known.
int stat(const std::string& path, bool json);
// Only reads files, so the store does not change.
int dump_log(const std::string& path, std::optional<uint64_t> from, uint64_t count, bool json);
int dump_page(const std::string& path, uint32_t number, bool bytes, bool json);  // the same

// Each adds one sub-command, which sets `status` when it has run.
void add_verify(CLI::App& app, int& status);
void add_describe(CLI::App& app, int& status);
void add_sql(CLI::App& app, int& status);
void add_shell(CLI::App& app, int& status);
void add_dump(CLI::App& app, int& status);
void add_tail(CLI::App& app, int& status);
// Adds get, put, erase and scan.
void add_one_record(CLI::App& app, int& status);
void add_load(CLI::App& app, int& status);
void add_salvage(CLI::App& app, int& status);
void add_compact(CLI::App& app, int& status);
// Adds backup, verify-backup, restore and update-backup.
void add_backup(CLI::App& app, int& status);
void add_size(CLI::App& app, int& status);
// Adds `archive`, with commands of its own.
void add_archive(CLI::App& app, int& status);

}  // namespace lockstep::cli
