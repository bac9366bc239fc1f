// store_steps.cc - the public side of STEPS: switching it at run time, and its statistics with the
// objects' names.
#include <map>
#include <mutex>

#include <lockstep/store.h>
#include "sm/catalog/catalog.h"
#include "sm/engine/engine.h"
#include "sm/host/engine_stats.h"

namespace lockstep {

using threads::ParkReason;

namespace {

TeamStats stats_of(const threads::TeamStats& s, std::string operation) {
    const auto count = [&](ParkReason reason) { return s.strays[static_cast<size_t>(reason)]; };
    uint64_t all = 0;
    for (const uint64_t strays : s.strays) all += strays;
    TeamStats f{.operation = std::move(operation),
                .teams = s.teams,
                .entered = s.entered,
                .left = s.left,
                .ready = s.ready,
                .strays = {}};
    // The worker counts on while this reads.
    if (f.left > f.entered) f.left = f.entered;
    f.strays.lock = count(ParkReason::lock);
    f.strays.page = count(ParkReason::page_read) + count(ParkReason::io);
    f.strays.latch = count(ParkReason::latch);
    f.strays.log = count(ParkReason::log);
    DCHECK(all >= f.strays.sum());
    f.strays.other = all - f.strays.sum();
    return f;
}

}  // namespace

StepsStats Store::steps_stats() const {
    const sm::Call call(engine_.get());
    return call ? sm::steps_stats_of(*engine_) : StepsStats{};
}

StepsStats sm::steps_stats_of(Engine& engine) {
    StepsStats stats;
    if (engine.forked()) return stats;
    std::map<uint32_t, std::string> names;
    for (const auto& entry : engine.catalog->list())
        names.emplace(entry.id.value % threads::kTeamObjects, entry.name);
    for (const auto& s : engine.runtime->team_stats()) {
        std::string operation = threads::op_kind_name(s.op);
        if (s.merged) operation += " (merged)";
        else if (s.op >= threads::OpKind::fetch)
            operation += " (" +
                         (names.contains(s.object) ? names[s.object] : std::to_string(s.object)) +
                         ")";
        stats.teams.push_back(stats_of(s, std::move(operation)));
    }
    const threads::CtxStats ctx = engine.runtime->ctx_stats();
    for (unsigned i = 0; i < threads::kCtxPoints; ++i)
        if (ctx.taken[i] + ctx.off[i] + ctx.alone[i] + ctx.latched[i] > 0)
            stats.points.push_back({threads::kCtxPointInfo[i].name, ctx.taken[i], ctx.off[i],
                                    ctx.alone[i], ctx.latched[i]});
    for (const threads::TunerStats& g : engine.runtime->tuner_stats())
        if (g.setting.team_max != 0)
            stats.tuner.push_back(
                {g.setting.mode, g.setting.team_max, g.windows, g.trials, g.changes});
    return stats;
}

StepsStats StepsStats::operator-(const StepsStats& earlier) const {
    StepsStats rest = *this;
    // A count that is smaller than before began anew: set_steps(), or a new index with the name.
    const auto subtract = [](uint64_t& count, uint64_t before) {
        if (count >= before) count -= before;
    };
    for (TeamStats& a : rest.teams)
        for (const TeamStats& b : earlier.teams) {
            if (a.operation != b.operation) continue;
            subtract(a.teams, b.teams), subtract(a.entered, b.entered);
            subtract(a.left, b.left), subtract(a.ready, b.ready);
            subtract(a.strays.lock, b.strays.lock), subtract(a.strays.page, b.strays.page);
            subtract(a.strays.latch, b.strays.latch), subtract(a.strays.log, b.strays.log);
            subtract(a.strays.other, b.strays.other);
        }
    for (CtxPointStats& a : rest.points)
        for (const CtxPointStats& b : earlier.points) {
            if (a.name != b.name) continue;
            subtract(a.taken, b.taken), subtract(a.off, b.off);
            subtract(a.alone, b.alone), subtract(a.latched, b.latched);
        }
    return rest;
}

StepsOptions Store::steps_options() const {
    const sm::Call call(engine_.get());
    if (!call || engine_->forked()) return {};
    DCHECK(engine_->runtime != nullptr);
    const SpinGuard guard(engine_->steps_lock);
    return engine_->steps_now;
}

Result<void> Store::set_steps(const StepsOptions& options) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->forked()) return engine_->refuse_child();
    if (engine_->on_own_thread())
        return fail(ErrorCode::wrong_thread, "set_steps() on a user thread of the store");
    TRY(check_steps_options(options));
    // Two calls would otherwise reach the workers in different orders.
    const std::lock_guard guard(engine_->set_steps_mutex);
    DCHECK(engine_->runtime->workers() > 0);
    {
        const SpinGuard lock(engine_->steps_lock);
        engine_->steps_now = options;
    }
    engine_->steps_mode.store(options.mode, std::memory_order_relaxed);  // for other threads
    for (uint32_t w = 0; w < engine_->runtime->workers(); ++w) {
        auto set = start(
            [options]() -> Result<void> {
                threads::set_steps(options);
                return {};
            },
            static_cast<int>(w));
        TRY(set.join());
    }
    return {};
}

}  // namespace lockstep
