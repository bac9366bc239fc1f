// consistency.h - reads a whole database and checks the consistency conditions and the
// stock on it.
#pragma once

#include "tpcc/foreign_rows.h"
#include "tpcc/stock_audit.h"

namespace lockstep::tpcc {

struct ConsistencyReport {
    std::vector<Condition> conditions;  // 1..12 in order
    std::vector<StockCheck> stock;      // in the order of StockColumn
    // Secondary indexes that disagree with their tables; the specification has none of them.
    std::vector<std::string> index_faults;
    uint64_t rows = 0;
    Nanos nanos = 0;
    bool ok() const;
};

// One pass over each table, within one read-only transaction. At isolation snapshot other
// transactions may run meanwhile; else the whole tables are locked for them. `foreign`: of a shard
// the rows of the other shards, of which those that do not concern it are ignored. Blocks a foreign
// kernel thread; a user thread lets others run now and then. Errors: those of reading, and
// snapshot_too_old if others change more than Options::version_bytes meanwhile.
Result<ConsistencyReport> check_consistency(Database& db,
                                            Isolation isolation = Isolation::serializable,
                                            const ForeignRows& foreign = {});

}  // namespace lockstep::tpcc
