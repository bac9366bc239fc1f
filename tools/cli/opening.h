// opening.h - opens a store for a sub-command.
#pragma once

#include <string>

#include <lockstep/store.h>

namespace lockstep::cli {

struct OpenHow {
    bool create = false;
    uint64_t pool_bytes = 256ull << 20;
    uint32_t workers = 1;
    uint64_t log_segment_bytes = 0;  // of a new store; 0: the default
    std::string archive = {};        // Options::archive
};

// Error, with the path: bad_path. The directory holds no store, or its files are not accessible.
Result<void> require_store(const std::string& path);
// Opens and recovers the store; its messages go to stderr. A backup is refused
// (backup_directory.h). Errors: those of require_store() and Store::open().
Result<Store> open_store(const std::string& path, const OpenHow& how = {});

// Processor cores that this process may use, at least 1.
uint32_t cores();

}  // namespace lockstep::cli
