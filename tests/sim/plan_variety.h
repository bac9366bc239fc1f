// plan_variety.h - drawing transactions of unusual kinds, which meet on the same ranges and rows.
#pragma once

#include "tests/sim/plan.h"

namespace lockstep::sim {

class VarietyPlanner {
public:
    VarietyPlanner(const Config& config, Rng rng)
        : config_(config), variety_(config.variety), rng_(rng) {}
    TxnPlan transaction();
    // What happens before a transaction and at its end.
    void around(TxnPlan& plan);

private:
    std::vector<Op> range(OpKind kind);
    std::vector<Op> hot_row();
    std::vector<Op> sizes();
    std::vector<Op> scans();
    std::vector<Op> nested_savepoints();
    Op at(OpKind kind, uint32_t key);
    uint32_t first();
    uint32_t size();
    uint32_t below(uint64_t n) { return static_cast<uint32_t>(rng_.below(n)); }

    const Config& config_;
    const Variety& variety_;
    Rng rng_;
};

}  // namespace lockstep::sim
