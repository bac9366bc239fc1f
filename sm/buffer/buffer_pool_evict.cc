// buffer_pool_evict.cc - free frames and the clock that finds them.
#include <algorithm>

#include "sm/buffer/buffer_pool_impl.h"
#include "threads/base/limits.h"

namespace lockstep::sm {

namespace latch = threads::latch;

namespace {
// Frames a fault frees when it has to do so itself.
static_assert(kLooksPerSlice % kHandStep == 0);
// Between two tries of a fault while pages cannot be written; a free frame ends the pause.
constexpr Nanos kPauseMin = 10 * kMillisecond, kPauseMax = 100 * kMillisecond;
}  // namespace

// Under free_lock.
inline void BufferPool::Impl::assert_state() const {
    DCHECK(untouched <= frame_count && free_used < frame_count);
    DCHECK(frames_seen.load(std::memory_order_relaxed) == untouched);
    DCHECK(free_frames.load(std::memory_order_relaxed) == free_used + frame_count - untouched);
    DCHECK(free_used == 0 ||
           (free_stack[free_used - 1] != 0 && free_stack[free_used - 1] < untouched));
}

uint32_t BufferPool::Impl::pop_free() {
    SpinGuard guard(free_lock);
    assert_state();
    uint32_t frame = 0;
    if (free_used > 0) {
        frame = free_stack[--free_used];
    } else if (untouched < frame_count) {
        frame = untouched++;
        info(frame).page.store(kPageNone.value, std::memory_order_relaxed);
        frames_seen.store(untouched, std::memory_order_release);
    } else {
        return 0;
    }
    DCHECK(info(frame).page.load(std::memory_order_relaxed) == kPageNone.value);
    free_frames.store(free_frames.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    return frame;
}

void BufferPool::Impl::push_free(uint32_t frame) {
    threads::Waiter* waiter;
    threads::Thread* thread = nullptr;
    {
        SpinGuard guard(free_lock);
        assert_state();
        DCHECK(frame != 0 && frame < untouched);
        DCHECK(info(frame).page.load(std::memory_order_relaxed) == kPageNone.value);
        DCHECK(info(frame).flags.load(std::memory_order_relaxed) == 0);
        free_stack[free_used++] = frame;
        free_frames.store(free_frames.load(std::memory_order_relaxed) + 1,
                          std::memory_order_relaxed);
        if ((waiter = free_waiters.pop()) != nullptr) thread = waiter->thread;
    }
    shortage.over();
    if (thread != nullptr) threads::wake(thread);
}

void BufferPool::Impl::wait_for_free(Nanos until) {
    threads::Waiter waiter;
    waiter.thread = threads::current();
    CHECK(waiter.thread != nullptr);  // pages are read by user threads
    {
        SpinGuard guard(free_lock);
        if (free_used > 0) return;
        free_waiters.add(waiter);
    }
    threads::wait_in(free_lock, free_waiters, waiter, until, threads::ParkReason::io);
}

Result<uint32_t> BufferPool::Impl::take_frame() {
    for (Nanos pause = kPauseMin;;) {
        if (backoff.failing() && starves()) [[unlikely]] {
            TRY(wait_for_write(pause));
            continue;
        }
        if (const uint32_t frame = pop_free()) [[likely]] {
            if (cleaner_is_needed()) kick_cleaner();
            return frame;
        }
        // What is evicted while no page can be written is soon read again.
        const Result<uint32_t> made = make_room(backoff.failing() ? 1 : limits::fault_goal());
        if (made && *made > 0) continue;
        TRY(wait_for_room(made, pause));
    }
}

// Pages in frames that are not dirty can be evicted, so threads that read in turn could go on for
// ever without any of them having all its pages.
bool BufferPool::Impl::starves() const {
    const uint64_t dirty = pool.dirty_.load(std::memory_order_relaxed);
    DCHECK(dirty < frame_count && kept_for_rollbacks < frame_count);
    return frame_count - dirty <= kept_for_rollbacks &&
           !(options.rolls_back && options.rolls_back());
}

// Cleaners may have frames enough, so the fault tries a write by itself. There may be free frames,
// so it does not wait for one.
Result<void> BufferPool::Impl::wait_for_write(Nanos& pause) {
    if (log.failed()) return log.refused();
    const Nanos now = threads::now(), since = backoff.since();
    if (since == kNever || (backoff.allows(now) && try_to_write())) return {};
    if (now >= since + kWritePatience) return write_refused();
    threads::sleep_until(now + pause);
    pause = longer_pause(pause, kPauseMax);
    return {};
}

// Writes the next dirty pages that are not latched, one batch.
Result<void> BufferPool::Impl::try_to_write() {
    WriteCandidate dirty[kWriteBatchMax];
    uint32_t collected = 0;
    const uint64_t seen = frames_seen.load(std::memory_order_acquire);
    for (uint64_t looked = 0; looked < seen && collected < batch_pages && seen > 1; ++looked) {
        if (looked % kLooksPerSlice == 0) threads::yield();
        const auto f =
            static_cast<uint32_t>(1 + hand.fetch_add(1, std::memory_order_relaxed) % (seen - 1));
        const uint32_t page = info(f).page.load(std::memory_order_acquire);
        if (page != kPageNone.value &&
            info(f).flags.load(std::memory_order_acquire) == FrameInfo::kDirty)
            dirty[collected++] = {page, f};
    }
    DCHECK(collected <= batch_pages && batch_pages <= kWriteBatchMax);
    return collected > 0 ? write_candidates({dirty, collected}, nullptr) : Result<void>{};
}

// Frames are short only for moments unless all are latched or cannot be written: then the error
// says which. A slow device is no error: what it has will end. The caller holds its page's latch,
// so its wait is a wait of others as well (WB-2).
Result<void> BufferPool::Impl::wait_for_room(const Result<uint32_t>& made, Nanos& pause) {
    DCHECK(!made || *made == 0);
    if (log.failed()) return log.refused();
    const Nanos now = threads::now(), short_since = shortage.note(now), failing = backoff.since();
    const bool in_vain = failing == kNever
                             ? now >= short_since + kRoomPatience
                             : now >= std::max(failing + kWritePatience,
                                               short_since + kRoomPatience - kWritePatience);
    if (in_vain && !(made && awaits_device()))
        return made ? fail(ErrorCode::pool_full, "pool_bytes", options.bytes)
                    : std::unexpected(made.error());
    wait_for_free(now + pause);
    if (!made) pause = longer_pause(pause, kPauseMax);
    return {};
}

// A frame without a page that is not on the free stack is being filled.
bool BufferPool::Impl::awaits_device() const {
    const uint32_t frames = frames_seen.load(std::memory_order_acquire);
    DCHECK(frames >= 1 && frames <= frame_count);
    for (uint32_t f = 1; f < frames; ++f) {
        if (f % kLooksPerSlice == 0) threads::yield();
        if (info(f).page.load(std::memory_order_acquire) == kPageNone.value ||
            (info(f).flags.load(std::memory_order_relaxed) & FrameInfo::kWriting))
            return true;
    }
    return false;
}

// BI-1. `seen` is a value of the word with no holder.
bool BufferPool::Impl::try_evict(threads::LatchWord& w, uint64_t seen, uint32_t frame) {
    if (!latch::try_upgrade(w, seen)) return false;
    FrameInfo& f = info(frame);
    DCHECK(f.page.load(std::memory_order_relaxed) != kPageNone.value);
    DCHECK(frame_of(seen) == frame && !warm(seen));
    if (f.flags.load(std::memory_order_acquire) != 0) {
        latch::unlatch_exclusive(w);
        return false;
    }
    f.page.store(kPageNone.value, std::memory_order_release);
    latch::unlatch_to_absent(w);
    push_free(frame);
    evictions.fetch_add(1, std::memory_order_relaxed);
    return true;
}

// One step of the hand: true if the frame was freed. A cold dirty page that is not being written
// becomes a candidate.
bool BufferPool::Impl::look_at(uint32_t frame, std::optional<WriteCandidate>& dirty) {
    DCHECK(frame != 0 && frame < frames_seen.load(std::memory_order_relaxed));
    const FrameInfo& f = info(frame);
    const uint32_t page = f.page.load(std::memory_order_acquire);
    if (page == kPageNone.value) return false;
    threads::LatchWord& w = word(page);
    uint64_t seen = w.load(std::memory_order_acquire);
    if (!latch::readable(seen) || frame_of(seen) != frame) return false;
    if (warm(seen)) {
        w.compare_exchange_strong(seen, seen & ~(kWarmBit << latch::kPayloadShift),
                                  std::memory_order_acq_rel, std::memory_order_relaxed);
        return false;
    }
    if (latch::state(seen) != 0) return false;
    const uint32_t flags = f.flags.load(std::memory_order_acquire);
    if (flags == 0) return try_evict(w, seen, frame);
    if (flags == FrameInfo::kDirty) dirty = WriteCandidate{page, frame};
    return false;
}

bool BufferPool::Impl::evict_if_cold(uint32_t frame) {
    std::optional<WriteCandidate> dirty;
    const uint32_t page = info(frame).page.load(std::memory_order_acquire);
    return page != kPageNone.value && !warm(word(page).load(std::memory_order_relaxed)) &&
           look_at(frame, dirty);
}

void BufferPool::cool(std::span<const PageId> ids) {
    for (const PageId id : ids) {
        if (id.value >= pages_open()) continue;
        threads::LatchWord& w = words_[id.value];
        uint64_t seen = w.load(std::memory_order_acquire);
        if (!latch::readable(seen) || frame_of(seen) == 0) continue;
        w.compare_exchange_strong(seen, seen & ~(kWarmBit << latch::kPayloadShift),
                                  std::memory_order_acq_rel, std::memory_order_relaxed);
        SpinGuard guard(impl_->cooled_lock);
        impl_->cooled[impl_->cooled_end++ % kCooledMax] = id.value;
        DCHECK(impl_->cooled_begin < impl_->cooled_end);
        if (impl_->cooled_end - impl_->cooled_begin > kCooledMax) ++impl_->cooled_begin;
    }
}

// Of the pages of cool(), the oldest first: those that are still cold and clean.
uint32_t BufferPool::Impl::evict_cooled(uint32_t goal) {
    uint32_t freed = 0;
    while (freed < goal) {
        uint32_t page;
        {
            SpinGuard guard(cooled_lock);
            DCHECK(cooled_end - cooled_begin <= kCooledMax);
            if (cooled_begin == cooled_end) break;
            page = cooled[cooled_begin++ % kCooledMax];
        }
        threads::LatchWord& w = word(page);
        const uint64_t seen = w.load(std::memory_order_acquire);
        const uint32_t frame = frame_of(seen);
        if (frame == 0 || warm(seen) || !latch::readable(seen) || latch::state(seen) != 0) continue;
        freed +=
            info(frame).flags.load(std::memory_order_acquire) == 0 && try_evict(w, seen, frame);
    }
    return freed;
}

// Turns the hand until `goal` frames are free or it has been round often enough to mark, write and
// evict everything.
Result<uint32_t> BufferPool::Impl::make_room(uint32_t goal) {
    DCHECK(goal > 0 && batch_pages <= kWriteBatchMax);
    WriteCandidate dirty[kWriteBatchMax];
    uint32_t freed = evict_cooled(goal), collected = 0;
    uint64_t looked = 0;
    Result<void> kept_back;  // why dirty pages were left alone
    const auto clean = [&]() -> Result<void> {
        DCHECK(collected > 0);
        if (kept_back) kept_back = may_write();
        if (!kept_back) {
            collected = 0;
            return {};
        }
        const Result<void> written = write_candidates({dirty, collected}, nullptr);
        for (uint32_t i = 0; i < collected; ++i) freed += evict_if_cold(dirty[i].frame);
        collected = 0;
        return written;
    };
    for (const uint64_t seen = frames_seen.load(std::memory_order_acquire);
         freed < goal && looked < 3 * seen && seen > 1;) {
        const uint64_t from = hand.fetch_add(kHandStep, std::memory_order_relaxed);
        for (uint64_t i = from; i < from + kHandStep; ++i, ++looked) {
            std::optional<WriteCandidate> candidate;
            freed += look_at(static_cast<uint32_t>(1 + i % (seen - 1)), candidate);
            if (candidate) dirty[collected++] = *candidate;
            if (collected == batch_pages) {
                if (Result<void> done = clean(); !done && freed == 0)
                    return std::unexpected(done.error());
            }
        }
        if (looked % kLooksPerSlice == 0) threads::yield();
    }
    if (collected > 0 && (freed < goal || collected > batch_pages / 2))
        if (Result<void> done = clean(); !done && freed == 0) return std::unexpected(done.error());
    if (!kept_back && freed == 0) return std::unexpected(kept_back.error());
    return freed;
}

}  // namespace lockstep::sm
