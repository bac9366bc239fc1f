// plan.cc - drawing what threads do.
#include "tests/sim/plan.h"

#include <fmt/format.h>

#include <iterator>

#include "tests/sim/plan_shared.h"
#include "tests/sim/plan_variety.h"

namespace lockstep::sim {

namespace {

class Planner {
public:
    Planner(const Config& config, Rng rng) : config_(config), rng_(rng) {}

    TxnPlan transaction() {
        TxnPlan t;
        if (rng_.chance(config_.weak_odds))
            t.isolation = rng_.chance(0.5) ? Isolation::repeatable_read : Isolation::read_committed;
        if (rng_.chance(config_.lazy_odds)) t.durability = Durability::lazy;
        t.wait = rng_.chance(0.2);
        t.checkpoint = rng_.chance(config_.checkpoint_odds);
        t.read_only = rng_.chance(0.1);
        const double end = rng_.below(100) / 100.0;
        t.ending = end < 0.8 ? Ending::commit : end < 0.95 ? Ending::abort : Ending::drop;
        for (uint64_t n = 1 + rng_.below(config_.operations_max); n > 0; --n)
            t.ops.push_back(t.read_only ? reading() : operation());
        return t;
    }

    // On objects that only this thread uses: made, filled, dropped, in one or several transactions.
    TxnPlan schema_change() {
        TxnPlan t;
        t.private_objects = true;
        t.durability = rng_.chance(0.5) ? Durability::durable : Durability::lazy;
        t.ending = rng_.chance(0.75) ? Ending::commit : Ending::abort;
        for (uint64_t n = 1 + rng_.below(4); n > 0; --n) {
            static constexpr OpKind kKinds[] = {OpKind::create,    OpKind::create,    OpKind::drop,
                                                OpKind::bulk_load, OpKind::bulk_load, OpKind::fill,
                                                OpKind::savepoint, OpKind::rollback};
            Op op{.kind = kKinds[rng_.below(std::size(kKinds))],
                  .object = static_cast<uint8_t>(rng_.below(4))};
            op.span = static_cast<uint32_t>(rng_.chance(0.2) ? rng_.below(300) : rng_.below(40));
            op.size = size();
            if (op.size > 2000) op.span %= 8;
            t.ops.push_back(op);
        }
        return t;
    }

    // Lazy changes that only a commit note tells of, and a durable reader of them at once
    // (txn/README.md): the reader must wait until they are durable.
    void append_noted(std::vector<TxnPlan>& plan) {
        const Op at = on_index(OpKind::put);
        if (config_.escalate_at <= kEscalateSoon && rng_.chance(0.5)) escalation(at, plan);
        else removed_ghosts(at, plan);
    }

    // Reads only, some of them twice: the answers must stay the same.
    TxnPlan snapshot() {
        TxnPlan t;
        t.isolation = Isolation::snapshot;
        t.durability = rng_.chance(0.5) ? Durability::durable : Durability::lazy;
        t.ending = rng_.chance(0.8) ? Ending::commit : Ending::abort;
        t.read_only = true;
        for (uint64_t n = 2 + rng_.below(config_.operations_max); n > 0; --n)
            t.ops.push_back(!t.ops.empty() && rng_.chance(0.2) ? t.ops.front() : reading());
        return t;
    }

private:
    static constexpr uint32_t kEscalateSoon = 20, kErased = 3;

    static TxnPlan of_range(const Op& at, OpKind kind, uint32_t from, uint32_t to) {
        TxnPlan t{.ops = {}, .durability = Durability::lazy};
        for (uint32_t n = from; n < to; ++n)
            t.ops.push_back({.kind = kind,
                             .object = at.object,
                             .key = at.key + n,
                             .span = 0,
                             .size = 7 + 3 * n});
        return t;
    }
    static TxnPlan reader(std::vector<Op> ops) {
        return {.ops = std::move(ops), .read_only = true};
    }
    // The lock of the index protects the last keys that are put; they have no locks of their own.
    void escalation(const Op& at, std::vector<TxnPlan>& plan) {
        const uint32_t puts = config_.escalate_at + 3;
        plan.push_back(of_range(at, OpKind::put, 0, puts));
        plan.push_back(reader(of_range(at, OpKind::get, puts - 2, puts).ops));
    }
    // A scan finds no name to lock where ghosts have been removed.
    void removed_ghosts(const Op& at, std::vector<TxnPlan>& plan) {
        plan.push_back(of_range(at, OpKind::put, 0, kErased));
        plan.push_back(of_range(at, OpKind::erase, 0, kErased));
        plan.push_back(reader(
            {{.kind = OpKind::scan_up, .object = at.object, .key = at.key, .span = kErased}}));
        plan.back().clean_ghosts = true;
    }
    uint32_t key() {
        const uint64_t range =
            rng_.chance(config_.skew) ? std::max<uint64_t>(1, config_.keys / 20) : config_.keys;
        return static_cast<uint32_t>(rng_.below(range));
    }
    uint32_t size() {
        if (rng_.chance(config_.large_odds)) return static_cast<uint32_t>(2000 + rng_.below(30000));
        return static_cast<uint32_t>(rng_.below(config_.value_max));
    }
    Op on_index(OpKind kind) {
        Op op{.kind = kind,
              .object = static_cast<uint8_t>(rng_.below(config_.indexes)),
              .key = key()};
        op.span = rng_.chance(0.2)
                      ? 0
                      : static_cast<uint32_t>(1 + rng_.below(std::max<uint64_t>(
                                                      1, std::min<uint64_t>(config_.keys, 40))));
        op.size = size();
        return op;
    }
    Op on_heap(OpKind kind) {
        if (config_.heaps == 0)
            return on_index(kind == OpKind::heap_get || kind == OpKind::heap_scan ? OpKind::get
                                                                                  : OpKind::put);
        return {
            .kind = kind,
            .object = static_cast<uint8_t>(rng_.below(config_.heaps)),
            .key = static_cast<uint32_t>(rng_.next()),
            .span = 0,
            .size = static_cast<uint32_t>(rng_.below(rng_.chance(0.1) ? 7000 : config_.value_max))};
    }
    Op reading() {
        switch (rng_.below(8)) {
            case 0: return on_index(OpKind::scan_up);
            case 1: return on_index(OpKind::scan_down);
            case 2: return on_index(OpKind::scan_turn);
            case 3: return on_heap(rng_.chance(0.2) ? OpKind::heap_scan : OpKind::heap_get);
            case 4: return {.kind = rng_.chance(0.5) ? OpKind::yield : OpKind::sleep};
            default: return on_index(OpKind::get);
        }
    }
    Op operation() {
        const uint64_t dice = rng_.below(100);
        if (dice < 30) return reading();
        if (dice < 34) return on_index(OpKind::get_update);
        if (dice < 44) return on_index(OpKind::insert);
        if (dice < 49) return on_index(OpKind::update);
        if (dice < 59) return on_index(OpKind::put);
        if (dice < 62) return on_index(OpKind::patch);
        if (dice < 74) return on_index(OpKind::erase);
        if (dice < 80) return on_heap(OpKind::heap_insert);
        if (dice < 85) return on_heap(OpKind::heap_update);
        if (dice < 89) return on_heap(OpKind::heap_erase);
        if (dice < 93) return {.kind = OpKind::savepoint};
        if (dice < 97) return {.kind = OpKind::rollback, .key = static_cast<uint32_t>(rng_.next())};
        return {.kind = OpKind::misuse, .key = static_cast<uint32_t>(rng_.below(4))};
    }

    const Config& config_;
    Rng rng_;
};

constexpr double kNotedOdds = 0.06;
constexpr uint64_t kNotedStream = 1000;
constexpr double kSnapshotOdds = 0.15;
constexpr uint64_t kSnapshotStream = 2000;
constexpr uint64_t kVarietyStream = 3000;
constexpr uint64_t kSecondStream = 4000;

const char* kOpNames[] = {
    "get",          "get_update", "insert",        "update",      "put",         "patch",
    "erase",        "scan_up",    "scan_down",     "scan_turn",   "heap_insert", "heap_get",
    "heap_update",  "heap_erase", "heap_scan",     "savepoint",   "rollback",    "yield",
    "sleep",        "misuse",     "create",        "drop",        "bulk_load",   "fill",
    "by_get",       "by_scan",    "shared_create", "shared_drop", "shared_load", "shared_fill",
    "shared_erase", "shared_read"};
static_assert(std::size(kOpNames) == static_cast<size_t>(OpKind::kCount));

std::string text_of(const TxnPlan& t) {
    static constexpr const char* kIsolation[] = {"serializable", "repeatable_read",
                                                 "read_committed", "snapshot"};
    static constexpr const char* kEnding[] = {"commit", "abort", "drop", "prepare"};
    std::string line =
        fmt::format("{} {}{}{}{}:", kIsolation[static_cast<size_t>(t.isolation)],
                    t.durability == Durability::lazy ? "lazy" : "durable",
                    t.read_only ? " read-only" : "", t.checkpoint ? " after a checkpoint" : "",
                    t.clean_ghosts ? " after the removal of ghosts" : "");
    if (t.idle > 0) line += fmt::format(" after {} ms", t.idle / kMillisecond);
    if (t.backups > 0) line += fmt::format(" after {} backups", t.backups);
    if (t.shrink) line += " after giving back space";
    if (t.ends_another) line += " after the end of another";
    if (t.cycle) line += " after backup, space given back, backup";
    if (t.audit) line += " after an audit";
    for (const Op& op : t.ops)
        line += fmt::format(" {}({},{},{},{})", kOpNames[static_cast<size_t>(op.kind)], op.object,
                            op.key, op.span, op.size);
    return line + " " + kEnding[static_cast<size_t>(t.ending)];
}

}  // namespace

Plan draw_plan(const Config& config, Rng rng) {
    Plan plan;
    plan.threads.resize(config.threads);
    // A stream of its own, so that the other transactions are what they would be without.
    Rng noted = Rng(rng).fork(kNotedStream);
    for (uint32_t n = 0; n < config.threads; ++n) {
        Planner planner(config, rng.fork(n));
        Rng odds = noted.fork(n);
        Planner noted_planner(config, noted.fork(n));
        Rng snapshot_odds = Rng(rng).fork(kSnapshotStream + n);
        Planner snapshot_planner(config, snapshot_odds.fork(0));
        Rng variety_odds = Rng(rng).fork(kVarietyStream + n);
        VarietyPlanner variety_planner(config, variety_odds.fork(0));
        Rng second_odds = Rng(rng).fork(kSecondStream + n);
        SharedPlanner shared_planner(config, second_odds.fork(0));
        const uint32_t count =
            config.transactions / config.threads + (n < config.transactions % config.threads);
        for (uint32_t i = 0; i < count; ++i) {
            const bool schema = config.schema_changes && n == 0;
            if (!schema && variety_odds.chance(config.variety.share))
                plan.threads[n].push_back(variety_planner.transaction());
            else
                plan.threads[n].push_back(schema ? planner.schema_change() : planner.transaction());
            if (odds.chance(kNotedOdds)) noted_planner.append_noted(plan.threads[n]);
            if (snapshot_odds.chance(kSnapshotOdds))
                plan.threads[n].push_back(snapshot_planner.snapshot());
            if (second_odds.chance(config.variety.shared_odds))
                plan.threads[n].push_back(shared_planner.transaction());
            if (second_odds.chance(config.variety.hoard_odds))
                plan.threads[n].push_back(shared_planner.hoard());
        }
        for (TxnPlan& t : plan.threads[n]) {
            variety_planner.around(t);
            shared_planner.around(t);
        }
    }
    return plan;
}

size_t Plan::transactions() const {
    size_t n = 0;
    for (const auto& thread : threads) n += thread.size();
    return n;
}

size_t Plan::operations() const {
    size_t n = 0;
    for (const auto& thread : threads)
        for (const TxnPlan& t : thread) n += t.ops.size();
    return n;
}

std::string Plan::text() const {
    std::string out;
    for (size_t n = 0; n < threads.size(); ++n)
        for (const TxnPlan& t : threads[n]) out += fmt::format("  thread {}: {}\n", n, text_of(t));
    return out;
}

}  // namespace lockstep::sim
