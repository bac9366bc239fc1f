// store_steps.cc - the public side of STEPS: switching it at run time, and its statistics.
#include <mutex>

#include <lockstep/store.h>
#include "sm/engine/engine.h"

namespace lockstep {

StepsStats Store::steps_stats() const {
    const sm::Call call(engine_.get());
    return call ? engine_->steps_stats() : StepsStats{};
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
    DCHECK(engine_->runtime->workers() >= engine_->options.workers);
    {
        const SpinGuard lock(engine_->steps_lock);
        engine_->steps_now = options;
    }
    engine_->steps_mode.store(options.mode, std::memory_order_relaxed);  // for other threads
    // Scan workers begin no function of start(), and run no transaction of the application.
    for (uint32_t w = 0; w < engine_->options.workers; ++w) {
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
