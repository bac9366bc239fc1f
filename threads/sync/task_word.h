// task_word.h - the life of a function on a user thread as one atomic word: what follows its end,
// and whether it was cancelled.
//
// States     queued -> begun (begin) -> done (finish). Beside that, the word has the address of
//            what follows (follow) and the flag `cancelled` (cancel). Both can be set until it is
//            done. They stay, but for a cancellation that fails (take_back_cancel). A task that
//            could not be started goes from queued to done.
// Invariants TA-1 What follows is called exactly once, or follow() has returned false. All changes
//                 of the word are read-modify-writes, which have one order. follow() adds the
//                 address only to a word that is not done. If it comes before finish(), finish()
//                 gets the address from the operation that sets `done`. If it comes behind,
//                 follow() sees `done`. So neither misses the other. [checked: finish(), follow()]
//            TA-2 The result is written before `done` is set (release), and read after `done` was
//                 seen (acquire). The same holds for what is written before begin() and pin().
//            TA-3 A pinned word does not become done. Its pinner may therefore use what lives as
//                 long as the task. [checked: unpin()]
// Blocking   finish() waits for the pinner, who must not wait for the task. Nothing else waits.
#pragma once

#include <atomic>
#include <cstdint>

#include "threads/base/check.h"
#include "threads/base/sim_point.h"
#include "threads/thread/thread.h"

namespace lockstep::threads {

class TaskWord {
public:
    static constexpr uintptr_t kAlign = 16;  // of what follows: the address leaves room for flags

    // On the task's thread. False: it was cancelled before.
    bool begin() {
        SIM_POINT();
        const uintptr_t before = word_.fetch_or(kBegun, std::memory_order_acq_rel);
        DCHECK((before & (kBegun | kDone | kPinned)) == 0);
        return (before & kCancelled) == 0;
    }
    // What follows, or null. The caller calls it, with no lock held.
    void* finish() {
        uintptr_t seen = word_.load(std::memory_order_relaxed);
        for (;;) {
            SIM_POINT();
            DCHECK((seen & kDone) == 0);  // a task ends once
            if ((seen & kPinned) != 0) [[unlikely]] {
                sleep_until(now() + kPinPause);
                seen = word_.load(std::memory_order_relaxed);
            } else if (word_.compare_exchange_weak(seen, seen | kDone, std::memory_order_acq_rel,
                                                   std::memory_order_relaxed)) {
                return address_in(seen);
            }
        }
    }
    bool done() const { return (word_.load(std::memory_order_acquire) & kDone) != 0; }
    bool cancelled() const { return (word_.load(std::memory_order_relaxed) & kCancelled) != 0; }

    // Once for each task. False: the task is done, and the caller goes on itself. After true the
    // object may be gone, because the task's thread may have called what follows.
    bool follow(void* next) {
        const auto address = reinterpret_cast<uintptr_t>(next);
        DCHECK(address != 0 && address % kAlign == 0);
        uintptr_t seen = word_.load(std::memory_order_acquire);
        do {
            SIM_POINT();
            if ((seen & kDone) != 0) return false;
            CHECK(address_in(seen) == nullptr);
        } while (!word_.compare_exchange_weak(seen, seen | address, std::memory_order_acq_rel,
                                              std::memory_order_acquire));
        return true;
    }

    enum class Cancel {
        nothing,  // done, or cancelled before
        queued,   // begin() will say so
        pinned    // it runs; the caller, or a thread that it starts, must unpin()
    };
    Cancel cancel() {
        uintptr_t seen = word_.load(std::memory_order_acquire);
        uintptr_t pinned = 0;
        do {
            SIM_POINT();
            if ((seen & (kDone | kCancelled)) != 0) return Cancel::nothing;
            pinned = (seen & kBegun) != 0 ? kPinned : 0;
        } while (!word_.compare_exchange_weak(seen, seen | kCancelled | pinned,
                                              std::memory_order_acq_rel,
                                              std::memory_order_acquire));
        return pinned != 0 ? Cancel::pinned : Cancel::queued;
    }
    // The pinner of cancel() could not do its work: the task counts as not cancelled, and cancel()
    // may be called again.
    void take_back_cancel() {
        [[maybe_unused]] const uintptr_t before =
            word_.fetch_and(~(kPinned | kCancelled), std::memory_order_release);
        DCHECK((before & (kPinned | kDone | kCancelled)) == (kPinned | kCancelled));
    }
    // Keeps a task from ending; one pinner at a time. False: it is done.
    bool pin() {
        uintptr_t seen = word_.load(std::memory_order_acquire);
        do {
            SIM_POINT();
            if ((seen & kDone) != 0) return false;
            DCHECK((seen & (kBegun | kPinned)) == kBegun);
        } while (!word_.compare_exchange_weak(seen, seen | kPinned, std::memory_order_acq_rel,
                                              std::memory_order_acquire));
        return true;
    }
    void unpin() {
        [[maybe_unused]] const uintptr_t before =
            word_.fetch_and(~kPinned, std::memory_order_release);
        DCHECK((before & (kPinned | kDone)) == kPinned);  // TA-3
    }

private:
    static constexpr uintptr_t kDone = 1, kBegun = 2, kCancelled = 4, kPinned = 8;
    static constexpr Nanos kPinPause = 50 * kMicrosecond;
    static void* address_in(uintptr_t word) {
        return reinterpret_cast<void*>(word & ~(kAlign - 1));
    }
    static_assert((kDone | kBegun | kCancelled | kPinned) < kAlign);

    std::atomic<uintptr_t> word_{0};
};

}  // namespace lockstep::threads
