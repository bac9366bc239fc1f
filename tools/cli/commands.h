// commands.h - the sub-commands of `lockstep`. Each returns the exit status of the process.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace lockstep::cli {

// Prints the error and the action that failed. Returns 1.
int complain(const std::string& doing, const std::string& why);

// Opens (and recovers) the store.
int stat(const std::string& path, bool json);
// Only reads files, so the store does not change.
int dump_log(const std::string& path, uint64_t from, uint64_t count, bool json);
int dump_page(const std::string& path, uint32_t number, bool bytes, bool json);  // the same

// Each adds one sub-command, which sets `status` when it has run.
void add_verify(CLI::App& app, int& status);
void add_dump(CLI::App& app, int& status);
void add_load(CLI::App& app, int& status);
void add_salvage(CLI::App& app, int& status);
void add_compact(CLI::App& app, int& status);

}  // namespace lockstep::cli
