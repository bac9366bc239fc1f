// opening.h - opens a store for a sub-command.
#pragma once

#include <optional>
#include <string>

#include <lockstep/store.h>

namespace CLI {  // NOLINT(readability-identifier-naming): of CLI11
class App;
}

namespace lockstep::cli {

// Exit status of a command that has found faults.
inline constexpr int kUnsound = 2;

struct OpenHow {
    bool create = false;
    uint64_t pool_bytes = 256ull << 20;
    uint32_t workers = 1;
    uint64_t log_segment_bytes = 0;           // of a new store; 0: the default
    std::optional<std::string> archive = {};  // Options::archive
};

// Error, with the path: bad_path. The directory holds no store, or its files are not accessible.
Result<void> require_store(const std::string& path);
// Opens and recovers the store; its messages go to stderr. A backup is refused
// (backup_directory.h). Errors: those of require_store() and Store::open().
Result<Store> open_store(const std::string& path, const OpenHow& how = {});
// The same for a command that only looks. Without an archive it changes no file, and needs no right
// to: it opens a store that was closed read-only, if `reads` or if the files must not be written.
Result<Store> open_to_look(const std::string& path, const OpenHow& how, bool reads);
// The error's text, and of damage what an operator can do about it.
std::string text_of_failed_open(const std::string& path, const Error& error);
// The file or directory lies, or would lie, somewhere below the directory. Standard output (empty
// or "-") does not.
bool lies_in(const std::string& path, const std::string& directory);
// Adds --archive, for OpenHow::archive. Each command that opens a store for writing has it: an open
// without the archive may recycle log that the archive lacks.
void add_archive_option(CLI::App& command, std::optional<std::string>& archive);

// Processor cores that this process may use, at least 1.
uint32_t cores();

}  // namespace lockstep::cli
