// commands.h - the sub-commands of `lockstep`, each in a file that says what it prints. All return
// the process's exit status.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::cli {

// Prints the error with what was being done; 1.
int complain(const std::string& doing, const std::string& why);

// Opens (and recovers) the store.
int stat(const std::string& path, bool json);
// Opens the store; 1 if a fault is found.
int verify(const std::string& path, uint64_t pool_bytes);
// Opens the store.
int dump_table(const std::string& path, const std::string& table, uint64_t limit);
// Reads files only: never changes anything.
int dump_log(const std::string& path, uint64_t from, uint64_t count);
int dump_page(const std::string& path, uint32_t page, bool bytes);  // the same

}  // namespace lockstep::cli
