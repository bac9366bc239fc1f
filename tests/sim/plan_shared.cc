// plan_shared.cc - shared names, hoards of log, reads by secondary keys, audits.
#include "tests/sim/plan_shared.h"

#include <algorithm>
#include <iterator>

namespace lockstep::sim {

// Some loads are large, so that a drop leaves much space at the end of the file.
Op SharedPlanner::shared(OpKind kind) {
    Op op{.kind = kind, .object = static_cast<uint8_t>(below(kSharedNames)), .key = below(30)};
    op.span = rng_.chance(0.2) ? below(300) : below(30);
    op.size = rng_.chance(config_.large_odds) ? 2000 + below(30000) : below(config_.value_max);
    if (op.size > 2000) op.span %= 20;
    return op;
}

TxnPlan SharedPlanner::transaction() {
    static constexpr OpKind kKinds[] = {
        OpKind::shared_create, OpKind::shared_create, OpKind::shared_create, OpKind::shared_drop,
        OpKind::shared_drop,   OpKind::shared_load,   OpKind::shared_load,   OpKind::shared_fill,
        OpKind::shared_fill,   OpKind::shared_erase,  OpKind::shared_read,   OpKind::shared_read,
        OpKind::savepoint,     OpKind::rollback,      OpKind::yield,         OpKind::sleep};
    TxnPlan t;
    t.shared_names = true;
    t.durability = rng_.chance(config_.lazy_odds) ? Durability::lazy : Durability::durable;
    if (rng_.chance(0.2)) {
        t.read_only = true;
        if (rng_.chance(0.5)) t.isolation = Isolation::snapshot;
        for (uint32_t n = 1 + below(4); n > 0; --n) t.ops.push_back(shared(OpKind::shared_read));
        return t;
    }
    for (uint32_t n = 1 + below(6); n > 0; --n)
        t.ops.push_back(shared(kKinds[rng_.below(std::size(kKinds))]));
    t.ending = rng_.chance(0.7) ? Ending::commit : rng_.chance(0.7) ? Ending::abort : Ending::drop;
    return t;
}

// A change takes the space of its record and of its rollback.
TxnPlan SharedPlanner::hoard() {
    TxnPlan t;
    t.hoard = true;
    const uint64_t small_log = std::min<uint64_t>(config_.log_bytes, 8 << 20);
    uint64_t bytes = small_log / 64 + rng_.below(small_log / 12);
    const uint32_t from = below(config_.keys);
    for (uint32_t n = 0; bytes > 0; ++n) {
        Op op{.kind = rng_.chance(0.9) ? OpKind::put : OpKind::erase, .key = from + n % 40};
        op.size = static_cast<uint32_t>(std::min<uint64_t>(bytes, 500 + below(20000)));
        bytes -= op.size;
        t.ops.push_back(op);
    }
    if (rng_.chance(config_.lazy_odds)) t.durability = Durability::lazy;
    t.ending = rng_.chance(0.6) ? Ending::commit : Ending::abort;
    return t;
}

void SharedPlanner::around(TxnPlan& plan) {
    const Variety& variety = config_.variety;
    plan.cycle = rng_.chance(variety.cycle_odds);
    plan.audit = rng_.chance(variety.audit_odds);
    const bool by_entries = rng_.chance(0.3);
    Op op{.kind = rng_.chance(0.5) ? OpKind::by_get : OpKind::by_scan,
          .object = static_cast<uint8_t>(below(config_.indexes)),
          .key = below(1000)};
    op.span = below(6);
    const size_t at = below(plan.ops.size() + 1);
    // Only version 2 draws any of these.
    if (by_entries && config_.secondary && variety.second && !plan.private_objects)
        plan.ops.insert(plan.ops.begin() + static_cast<ptrdiff_t>(at), op);
}

}  // namespace lockstep::sim
