// write_backoff.h - how the pool behaves when no frame can be freed or no page can be written.
//
// Concepts   Both objects belong to the pool, not to a thread: what one thread has waited for in
//            vain, the next one need not wait for again.
// Invariants WB-1 While writes fail, at most one batch of write-backs is tried in each pause. The
//                 pauses double from kPauseMin up to kPauseMax. [checked: WriteBackoffTest]
//            WB-2 All threads together wait for a frame as long as one thread would: kRoomPatience
//                 counts from the moment when frames ran out or, if no page can be written, from
//                 the first write that failed. [checked: FrameShortageTest, FailedStore]
//            WB-3 While no page can be written, a share of the frames is for rollbacks: they must
//                 not fail, or the store stops. Other faults wait for a write that succeeds, and
//                 read nothing meanwhile. [checked: take_frame()]
// Blocking   No call blocks, except for a spin lock of a few instructions.
#pragma once

#include <algorithm>
#include <atomic>

#include <lockstep/clock.h>
#include <lockstep/result.h>
#include "threads/base/check.h"
#include "threads/base/spin_lock.h"

namespace lockstep::sm {

inline constexpr Nanos kRoomPatience = 5 * kSecond;
// Of faults that are no rollback's, while no page can be written. The rest is for the rollback
// that follows the error.
inline constexpr Nanos kWritePatience = 4 * kSecond;

// The next pause of a loop that gets nowhere.
constexpr Nanos longer_pause(Nanos pause, Nanos max) { return std::min(2 * pause, max); }

// Since when no frame could be freed.
class FrameShortage {
public:
    // A thread found no frame at `now`. Returns since when that is so. A shortage that no thread
    // has noticed for kRoomPatience is over.
    Nanos note(Nanos now) {
        DCHECK(now != 0 && now != kNever);
        const Nanos before = noticed_.exchange(now, std::memory_order_relaxed);
        Nanos since = since_.load(std::memory_order_relaxed);
        if (since != 0 && now - std::min(before, now) <= kRoomPatience) return std::min(since, now);
        since_.store(now, std::memory_order_relaxed);
        return now;
    }
    // A frame became free.
    void over() {
        if (since_.load(std::memory_order_relaxed) != 0) [[unlikely]]
            since_.store(0, std::memory_order_relaxed);
    }

private:
    std::atomic<Nanos> since_{0};    // 0: frames are there
    std::atomic<Nanos> noticed_{0};  // the last time that a thread found none
};

// When the pool may try again to write pages.
class WriteBackoff {
public:
    static constexpr Nanos kPauseMin = 10 * kMillisecond, kPauseMax = kSecond;

    // Whether a batch may be written at `now`. While writes fail, one caller in each pause gets
    // true.
    bool allows(Nanos now) {
        const Nanos pause = pause_.load(std::memory_order_acquire);
        if (pause == 0) [[likely]]
            return true;
        Nanos next = next_.load(std::memory_order_relaxed), seen = pause;
        DCHECK(pause >= kPauseMin && pause <= kPauseMax);
        const Nanos longer = longer_pause(pause, kPauseMax);
        if (now < next ||
            !next_.compare_exchange_strong(next, now + longer, std::memory_order_relaxed))
            return false;
        pause_.compare_exchange_strong(seen, longer, std::memory_order_acq_rel);
        return true;
    }
    // No page of a batch could be written.
    [[gnu::cold]] void failed(Nanos now, const Error& why) {
        DCHECK(why.code != ErrorCode::none);
        const SpinGuard guard(lock_);
        error_ = why;
        if (failing()) return;
        since_.store(now, std::memory_order_relaxed);
        next_.store(now + kPauseMin, std::memory_order_relaxed);
        pause_.store(kPauseMin, std::memory_order_release);
    }
    // A page was written.
    void succeeded() {
        if (failing()) [[unlikely]]
            pause_.store(0, std::memory_order_release);
    }
    // Whether the last batch failed as a whole.
    bool failing() const { return pause_.load(std::memory_order_relaxed) != 0; }
    // Since when no page could be written; kNever if the last batch did not fail.
    Nanos since() const {
        return pause_.load(std::memory_order_acquire) == 0 ? kNever
                                                           : since_.load(std::memory_order_relaxed);
    }
    // Why it failed.
    [[gnu::cold]] Error error() const {
        const SpinGuard guard(lock_);
        DCHECK(error_.code != ErrorCode::none);  // failed() came first
        return error_;
    }

private:
    std::atomic<Nanos> pause_{0};  // 0: writes succeed
    std::atomic<Nanos> next_{0};   // no batch before this
    std::atomic<Nanos> since_{0};  // the first failure in a row
    mutable SpinLock lock_;
    Error error_;  // under lock_
};

}  // namespace lockstep::sm
