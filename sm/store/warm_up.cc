// warm_up.cc - see warm_up.h.
#include "sm/store/warm_up.h"

#include <algorithm>
#include <array>
#include <string>

#include "sm/buffer/buffer_pool.h"
#include "sm/space/space_map.h"
#include "sm/store/engine.h"

namespace lockstep::sm {

namespace {

constexpr size_t kBatch = 32;  // of the read-aheads that one worker may have
constexpr Nanos kPause = 200 * kMicrosecond;

}  // namespace

Result<void> WarmUp::start() {
    if (!engine_.options.warm_up) return {};
    DCHECK(state_ == nullptr);
    auto state = std::make_shared<State>();
    TRY(engine_.runtime->spawn(0, "warm-up", [this, state] {
        run(*state);
        state->ended.set();
    }));
    state_ = std::move(state);
    return {};
}

void WarmUp::stop() {
    if (!state_) return;
    state_->stop.set();
    state_->ended.wait();
    state_.reset();
}

void WarmUp::run(State& state) {
    BufferPool& pool = *engine_.pool;
    const Clock& clock = engine_.runtime->clock();
    const Nanos began = clock.now();
    const uint64_t before = pool.stats().reads_ahead, end = engine_.space->pages_total();
    std::array<PageId, kBatch> batch;
    size_t n = 0;
    for (uint64_t next = 0; (next < end || n != 0) && pool.has_spare_frames();) {
        for (; n < kBatch && next < end; ++next) {
            const PageId page{static_cast<uint32_t>(next)};
            const Result<bool> used = engine_.space->is_used(page);
            if (used && *used) batch[n++] = page;
        }
        const size_t done = pool.read_ahead({batch.data(), n});
        DCHECK(done <= n && n <= kBatch);
        std::copy(batch.begin() + static_cast<ptrdiff_t>(done),
                  batch.begin() + static_cast<ptrdiff_t>(n), batch.begin());
        n -= done;
        if (n == 0) threads::yield();
        else state.stop.wait_until(clock.now() + kPause, threads::ParkReason::sleep);
        if (state.stop.is_set()) break;
    }
    engine_.report(2, "warm-up: " + std::to_string(pool.stats().reads_ahead - before) +
                          " pages read in " + std::to_string((clock.now() - began) / kMillisecond) +
                          " ms");
}

}  // namespace lockstep::sm
