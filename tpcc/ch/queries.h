// queries.h - queries of CH-benCHmark: a plan of operators, and a plain evaluation over cursors
// with the same answer.
//
// Concepts   Each query draws its constants from a seed, so no two are alike. Windows of time are
//            relative to the load, because delivery dates are those of the run.
//            Q1, Q4, Q6, Q12, Q14 and Q19 keep their numbers. `best_sellers` is the heavy query of
//            TPC-W: the items that sold most in the newest 3,333 orders.
// Source     R. Cole et al., "The mixed workload CH-benCHmark", DBTest 2011. G. Giannikis et al.,
//            "SharedDB", VLDB 2012, section 5 (best sellers).
#pragma once

#include <array>
#include <vector>

#include <lockstep/plan.h>
#include "tpcc/database.h"

namespace lockstep::tpcc::ch {

enum class QueryId : uint8_t { q1, q4, q6, q12, q14, q19, best_sellers };
inline constexpr std::array<const char*, 7> kQueryNames = {"Q1",  "Q4",  "Q6",          "Q12",
                                                           "Q14", "Q19", "best-sellers"};

// Constants of a query.
struct Constants {
    Time from = 0, to = 0;       // of dates: from <= date < to
    uint32_t low = 0, high = 0;  // of quantities, or of prices in units: both included
    uint32_t warehouse = 1;
    std::string prefix;  // of I_DATA
};
Constants draw(QueryId query, const Database& db, Rng& rng);

// Rows of an answer, in the order that the query asks for: groups, sums in cents and counts.
using Answer = std::vector<std::vector<int64_t>>;

// The answer of the query's plan. Suspends a user thread, blocks any other. Errors: those of
// Report::answer().
Result<Answer> answer(QueryId query, const Constants& by, Report& report,
                      const AnswerOptions& options);
// The same by cursors within a transaction, row by row. Errors: those of Cursor::next().
Result<Answer> naive_answer(QueryId query, const Constants& by, Database& db, Txn& txn);

}  // namespace lockstep::tpcc::ch
