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

constexpr size_t kBatch = 32;        // of the read-aheads that one worker may have
constexpr uint64_t kLookMax = 1024;  // pages of which one turn asks whether they are in use
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

// Of the pages from `looked` on, below `end`; `looked` goes on behind the last one.
size_t WarmUp::pages_in_use(uint64_t& looked, uint64_t end, std::span<PageId> batch) {
    size_t n = 0;
    for (; n < batch.size() && looked < end; ++looked) {
        const PageId page{static_cast<uint32_t>(looked)};
        const Result<bool> used = engine_.space->is_used(page);
        if (used && *used) batch[n++] = page;
        // Their map is damaged: a transaction that needs it will say so.
        if (!used) looked = (looked / kPagesPerMap + 1) * kPagesPerMap - 1;
    }
    return n;
}

void WarmUp::run(State& state) {
    BufferPool& pool = *engine_.pool;
    const Clock& clock = engine_.runtime->clock();
    const Nanos began = clock.now();
    const uint64_t before = pool.stats().reads_ahead, end = engine_.space->pages_total();
    std::array<PageId, kBatch> batch;
    for (uint64_t next = kFirstMapPage.value; next < end && !state.stop.is_set();) {
        if (!pool.has_spare_frames()) break;
        uint64_t looked = next;
        const size_t n = pages_in_use(looked, std::min(end, next + kLookMax), batch);
        const size_t begun = pool.read_ahead({batch.data(), n});
        DCHECK(begun <= n && looked > next);
        // Whether the others are in use is asked again: pages may be given back meanwhile.
        next = begun < n ? uint64_t{batch[begun].value} : looked;
        if (begun == n) threads::yield();
        else state.stop.wait_until(clock.now() + kPause, threads::ParkReason::sleep);
    }
    engine_.report(2, "warm-up: " + std::to_string(pool.stats().reads_ahead - before) +
                          " pages read in " + std::to_string((clock.now() - began) / kMillisecond) +
                          " ms");
}

}  // namespace lockstep::sm
