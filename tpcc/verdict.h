// verdict.h - a run against the rules of the specification, one line for each rule.
//
// Concepts   A line says "within" or "outside the specification" and names the clause. A rule whose
//            object did not occur, such as the response time of a type that was not run, is
//            outside: the specification demands it.
//            Some bounds are on what terminals chose at random. A short run may miss them by
//            chance: then the rule is not judged. It is outside if a share that is as far from the
//            expected one has a probability below 0.1%. With one warehouse, nothing is remote, so
//            these rules do not apply.
//            No result of this program is a TPC-C result: it is not audited and has no price. So
//            the figure is called NOPM, New-Orders per minute.
// Source     TPC-C revision 5.11, clauses 2.7.2, 2.7.4.2, 3.4.1, 3.5, 4.2, 5.2.3, 5.2.5.3, 5.2.5.7,
//            5.5.1.2, 5.5.1.5 and 5.5.2.2.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tpcc/driver.h"

namespace lockstep::tpcc {

// What the rules are applied to.
struct VerdictFacts {
    uint64_t counts[kTxnTypes] = {};      // completed in the measured interval
    Nanos percentile_90[kTxnTypes] = {};  // of the response times
    uint64_t deliveries_queued = 0;
    Nanos delivery_interactive_90 = 0;  // until the queue had the request
    InputCounts inputs;
    uint64_t new_orders_rolled_back = 0;
    uint64_t deliveries_with_skips = 0;
    uint32_t warehouses = 0, terminals = 0;  // terminals of each warehouse
    double think = 0;
    Nanos measured = 0;
    // The times of the ends of checkpoints, since the begin of the measured interval.
    std::vector<Nanos> checkpoints;
    bool durable = false, serializable = false, complete = false;
};

enum class Standing : uint8_t { within, outside, too_few, not_applicable };

struct Rule {
    std::string name;    // "Payment of all transactions"
    std::string found;   // "43.1%"
    std::string wanted;  // "at least 43%"
    const char* clause;
    Standing standing;
    // "within", "outside the specification", or why it is not judged.
    const char* text() const;
};

struct Verdict {
    double new_orders_per_minute = 0, per_warehouse = 0;
    std::string too_short;  // why there is no throughput; empty: the run was long enough
    std::vector<Rule> rules;
    size_t outside() const;
};

Verdict judge(const VerdictFacts& facts);
// The block for people: a line a rule, and what NOPM is.
std::vector<std::string> verdict_lines(const Verdict& verdict);
// What NOPM has to do with tpmC, in one sentence.
const char* nopm_text();
nlohmann::ordered_json verdict_json(const Verdict& verdict);

}  // namespace lockstep::tpcc
