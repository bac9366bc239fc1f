// plan_variety.cc - ranges that are erased and filled again, hot rows, sizes that jump, nested
// savepoints; two-phase commits, idle times and upkeep.
#include "tests/sim/plan_variety.h"

#include <algorithm>

namespace lockstep::sim {

// All threads use the same few first keys, so that their ranges overlap.
uint32_t VarietyPlanner::first() { return below(4) * static_cast<uint32_t>(config_.keys) / 4; }

// Lengths at which a value takes another form: overflow pages begin at about 2 KB.
uint32_t VarietyPlanner::size() {
    static constexpr uint32_t kBorders[] = {1900, 2000, 2030, 2100, 8150, 8192, 8200, 16400};
    if (rng_.chance(variety_.short_odds)) return below(3);
    if (rng_.chance(variety_.border_odds)) return kBorders[rng_.below(8)] + below(40);
    return below(config_.value_max);
}

Op VarietyPlanner::at(OpKind kind, uint32_t key) {
    return {
        .kind = kind, .object = 0, .key = key, .span = 1 + below(variety_.range), .size = size()};
}

// Up, down, or each second key first.
std::vector<Op> VarietyPlanner::range(OpKind kind) {
    std::vector<Op> ops;
    const uint32_t from = first(), keys = 1 + below(variety_.range), order = below(3);
    for (uint32_t n = 0; n < keys; ++n) {
        const uint32_t i = order == 0 ? n : order == 1 ? keys - 1 - n : n * 2 % (keys | 1);
        ops.push_back(at(kind, from + i));
    }
    return ops;
}

std::vector<Op> VarietyPlanner::hot_row() {
    static constexpr OpKind kKinds[] = {OpKind::get_update, OpKind::update, OpKind::put,
                                        OpKind::patch,      OpKind::erase,  OpKind::insert,
                                        OpKind::get,        OpKind::yield,  OpKind::sleep};
    std::vector<Op> ops;
    for (uint32_t n = 1 + below(4); n > 0; --n) ops.push_back(at(kKinds[rng_.below(9)], first()));
    return ops;
}

// One record grows and shrinks several times.
std::vector<Op> VarietyPlanner::sizes() {
    static constexpr uint32_t kSizes[] = {0, 1, 100, 1000, 1900, 2100, 4000, 8100, 8300, 30000};
    std::vector<Op> ops;
    const uint32_t key = first() + below(3);
    ops.push_back(at(OpKind::put, key));
    for (uint32_t n = 2 + below(5); n > 0; --n) {
        Op op = at(rng_.chance(0.8) ? OpKind::update : OpKind::patch, key);
        op.size = kSizes[rng_.below(10)];
        ops.push_back(op);
    }
    return ops;
}

std::vector<Op> VarietyPlanner::scans() {
    static constexpr OpKind kKinds[] = {OpKind::scan_up, OpKind::scan_down, OpKind::scan_turn,
                                        OpKind::get, OpKind::yield};
    std::vector<Op> ops;
    for (uint32_t n = 1 + below(4); n > 0; --n) ops.push_back(at(kKinds[rng_.below(5)], first()));
    return ops;
}

std::vector<Op> VarietyPlanner::nested_savepoints() {
    std::vector<Op> ops;
    for (uint32_t n = 2 + below(5); n > 0; --n) {
        ops.push_back({.kind = OpKind::savepoint});
        const std::vector<Op> changes = range(rng_.chance(0.5) ? OpKind::erase : OpKind::put);
        ops.insert(ops.end(), changes.begin(), changes.end());
        if (rng_.chance(0.5)) ops.push_back({.kind = OpKind::rollback, .key = below(100)});
    }
    return ops;
}

TxnPlan VarietyPlanner::transaction() {
    TxnPlan t;
    const uint32_t kind = below(10);
    if (kind < 3) t.ops = range(OpKind::erase);
    else if (kind < 5) t.ops = range(rng_.chance(0.5) ? OpKind::put : OpKind::insert);
    else if (kind < 6) t.ops = sizes();
    else if (kind < 7) t.ops = hot_row();
    else if (kind < 9) t.ops = scans();
    else t.ops = nested_savepoints();
    // Some look at what they have done, and some change it once more.
    if (rng_.chance(0.2)) t.ops.push_back(at(OpKind::scan_turn, first()));
    if (kind < 5 && rng_.chance(0.3)) {
        const std::vector<Op> more = range(rng_.chance(0.5) ? OpKind::erase : OpKind::put);
        t.ops.insert(t.ops.end(), more.begin(), more.end());
    }
    if (rng_.chance(config_.weak_odds))
        t.isolation = rng_.chance(0.5) ? Isolation::repeatable_read : Isolation::read_committed;
    if (rng_.chance(config_.lazy_odds)) t.durability = Durability::lazy;
    t.ending = rng_.chance(0.75) ? Ending::commit : rng_.chance(0.7) ? Ending::abort : Ending::drop;
    t.clean_ghosts = rng_.chance(0.1);
    return t;
}

void VarietyPlanner::around(TxnPlan& plan) {
    static constexpr Nanos kDoubts[] = {0, 100 * kMicrosecond, kMillisecond, 20 * kMillisecond,
                                        100 * kMillisecond};
    static constexpr Nanos kIdle[] = {5 * kMillisecond, 300 * kMillisecond, 5 * kSecond};
    const bool prepare = rng_.chance(variety_.prepare_odds), decision = rng_.chance(0.6);
    // One that is never decided keeps all log from its begin on. A small log would be full then.
    const bool never = rng_.chance(0.02) && config_.log_bytes >= (64 << 20);
    const Nanos doubt = never ? kNever : kDoubts[rng_.below(5)];
    const Nanos idle = kIdle[rng_.below(3)];
    if (prepare && !plan.private_objects && !plan.shared_names &&
        plan.isolation != Isolation::snapshot) {
        plan.ending = Ending::prepare;
        plan.in_doubt = doubt;
        plan.decision = decision;
    }
    if (rng_.chance(variety_.idle_odds)) plan.idle = idle;
    if (rng_.chance(variety_.backup_odds)) plan.backups = 1 + below(2);
    plan.ends_another = rng_.chance(variety_.end_odds);
    plan.shrink = rng_.chance(variety_.shrink_odds);
}

}  // namespace lockstep::sim
