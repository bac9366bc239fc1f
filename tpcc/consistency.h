// consistency.h - reads a whole database and checks the consistency conditions on it.
#pragma once

#include "tpcc/audit.h"

namespace lockstep::tpcc {

struct ConsistencyReport {
    std::vector<Condition> conditions;  // 1..12 in order
    // Secondary indexes that disagree with their tables; the specification has none of them.
    std::vector<std::string> index_faults;
    uint64_t rows = 0;
    Nanos nanos = 0;
    bool ok() const;
};

// One pass over each table, within one read-only transaction. Blocks the calling kernel thread.
Result<ConsistencyReport> check_consistency(Database& db);

}  // namespace lockstep::tpcc
