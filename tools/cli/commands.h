// commands.h - the sub-commands of `lockstep`. Each returns the exit status of the process.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::cli {

// Prints the error and the action that failed. Returns 1.
int complain(const std::string& doing, const std::string& why);

// Only reads files. Returns 1 if a fault is found, 3 if the store was not closed and only a part is
// known.
int stat(const std::string& path, bool json);
// Opens the store. Returns 1 if a fault is found.
int verify(const std::string& path, uint64_t pool_bytes);
// Opens the store.
int dump_table(const std::string& path, const std::string& table, uint64_t limit);
// Only reads files, so the store does not change.
int dump_log(const std::string& path, uint64_t from, uint64_t count);
int dump_page(const std::string& path, uint32_t number, bool bytes);  // the same

}  // namespace lockstep::cli
