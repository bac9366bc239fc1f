// foreign_rows.h - the rows of a shard that say something about rows of other shards.
//
// Concepts   A payment lies in the HISTORY of its warehouse, and changes a customer that another
//            shard may have. An order line lies in its order's warehouse, and changes a stock that
//            another shard may have. The audits of that shard need both (audit.h, stock_audit.h).
#pragma once

#include <vector>

#include "tpcc/database.h"

namespace lockstep::tpcc {

struct ForeignRows {
    struct [[gnu::packed]] Line {
        uint32_t w, o;  // of the order
        OrderLineRecord record;
    };
    std::vector<HistoryRecord> payments;
    std::vector<Line> lines;
};

// The rows of this store that concern warehouses which it does not have, in one read-only
// transaction. Blocks a foreign kernel thread. Errors: those of reading; bad_version if a row is
// malformed.
Result<ForeignRows> collect_foreign_rows(Database& db);

}  // namespace lockstep::tpcc
