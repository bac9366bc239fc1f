// loader.h - fills an empty store with the initial population of clause 4.3.3.
#pragma once

#include <atomic>

#include "tpcc/rows.h"

namespace lockstep::tpcc {

struct LoadProgress {
    std::atomic<uint64_t> rows{0};        // loaded so far
    std::atomic<uint64_t> rows_total{0};  // expected, to a few percent
};

struct LoadSettings {
    Scale scale;
    uint64_t seed = 1;
    Time load_time = 0;
};

uint64_t expected_rows(const Scale& scale);

// Creates and fills all tables, each on a user thread of its own, spread over the workers; then
// takes a checkpoint. Blocks the calling kernel thread. A failed load leaves no configuration
// record. Errors: already_exists if the store holds tables; errors of the store.
Result<Database> load(Store& store, const LoadSettings& settings, LoadProgress& progress);

}  // namespace lockstep::tpcc
