// plan_shared.h - drawing what version 2 of the irregular work adds: names that all threads make
// and drop, large transactions, reads through secondary indexes, upkeep in a row.
#pragma once

#include "tests/sim/plan.h"

namespace lockstep::sim {

inline constexpr uint32_t kSharedNames = 3;

class SharedPlanner {
public:
    SharedPlanner(const Config& config, Rng rng) : config_(config), rng_(rng) {}
    // On the shared names. Serializable, or a snapshot that only reads.
    TxnPlan transaction();
    // Changes about an eighth of a small log, a third at most.
    TxnPlan hoard();
    // What happens before a transaction, and reads that are added to it.
    void around(TxnPlan& plan);

private:
    Op shared(OpKind kind);
    uint32_t below(uint64_t n) { return static_cast<uint32_t>(rng_.below(n)); }

    const Config& config_;
    Rng rng_;
};

}  // namespace lockstep::sim
