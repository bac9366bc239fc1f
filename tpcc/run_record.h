// run_record.h - the runs of a database are counted in it, and each gets random numbers of its own.
//
// Concepts   With one seed for all runs, a second run would repeat the inputs of the first: the
//            same customers would order the same items. The seed of run n follows from the
//            seed of the load and n. `--seed` sets it instead. The index "tpcc_config" keeps
//            number and seed under the key "run".
#pragma once

#include <optional>

#include "tpcc/database.h"

namespace lockstep::tpcc {

struct [[gnu::packed]] RunRecord {
    uint64_t seed;
    uint32_t number;  // from 1
    Time began;
};
static_assert(sizeof(RunRecord) == 20);

// Counts a run, and stores and returns its record. Blocks. Errors: those of the store; bad_version
// if the stored record cannot be read.
Result<RunRecord> begin_run(Database& db, std::optional<uint64_t> seed, Time now);

}  // namespace lockstep::tpcc
