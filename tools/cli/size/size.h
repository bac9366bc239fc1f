// size.h - what a store with given options takes: memory, disk, log, and the time of a restart.
//
// Concepts   Each figure is a bound from the store's own structures, not a measurement. Memory is
//            what the store may hold when everything that the load names is in use at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/options.h>

namespace lockstep::cli {

// What the store will be asked to do at its worst moment.
struct Load {
    uint64_t data_bytes = 0;           // of the volume; 0: as much as the pool
    uint64_t threads = 1000;           // functions that have begun, each with a stack
    uint64_t locks = 10;               // of one transaction
    double transactions_a_second = 0;  // that write
    uint64_t log_bytes_each = 1000;    // of one of them
    uint64_t redo_bytes_a_second = 450ull << 20;
};

struct SizeRow {
    std::string name;
    uint64_t bytes;
    std::string decided_by;  // the option, or the part of the load
};

struct Sizes {
    std::vector<SizeRow> memory;
    uint64_t memory_bytes = 0;  // of all rows
    uint64_t log_bytes = 0;     // most of the log's files on the disk
    double log_bytes_a_second = 0;
    double checkpoint_seconds = 0;        // between two checkpoints; 0: no transaction writes
    uint64_t log_bytes_for_a_minute = 0;  // Options::log_bytes that makes it a minute; 0: as before
    uint64_t redo_bytes = 0;              // most log that a restart applies
    double restart_seconds = 0;
};

// `options` are sound (check_options()).
Sizes sizes_of(Options options, const Load& load);

}  // namespace lockstep::cli
