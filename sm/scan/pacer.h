// pacer.h - keeps the threads of reports to a share of their worker's time while others have work.
//
// Concepts   A *budget* has the time that such threads of one worker have used in a window of 10
//            ms: servers of passes, functions of scans, stages of operators. Each has a *pacer*. It
//            says after each slice of its work that it may rest, and lets ready threads of its
//            worker run. If the budget's threads have used their share of the window, and others a
//            tenth of what has passed of it, it sleeps until the window ends. Others that need
//            less, such as the pool's cleaner, need not wait for it anyway. Time in which nobody
//            was ready is nobody's: the worker ended transfers, or had no CPU. So a worker without
//            other work is not left idle.
// Invariants RB-7 (service.h)
// Blocking   rest() suspends the user thread. Only threads of one worker use a budget.
#pragma once

#include <algorithm>
#include <utility>

#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm::scan {

class alignas(kCacheLineBytes) Budget {
public:
    static constexpr Nanos kWindow = 10 * kMillisecond;

    void use(Nanos time) {
        used_ += time;
        used_in_all_ += time;
    }
    // A number from which used_since() counts.
    Nanos used() const { return used_in_all_; }
    Nanos used_since(Nanos before) const {
        DCHECK(before <= used_in_all_);
        return used_in_all_ - before;
    }
    // Threads were ready from `from`, when used() was `before`, until now. What is not the budget's
    // own of it is that of others; each moment counts once, whoever waited meanwhile.
    void note_others(Nanos from, Nanos before, Nanos now) {
        if (from < noted_until_) {
            from = noted_until_;
            before = used_at_noted_;
        }
        noted_until_ = now;
        used_at_noted_ = used_in_all_;
        if (const Nanos own = used_since(before); now - from > own)
            used_by_others_ += now - from - own;
    }
    void begin_window(Nanos now) {
        if (now < window_end_) return;
        window_end_ = now + kWindow;
        used_ = used_by_others_ = 0;
    }
    // When those that have used the share must sleep until; 0: they need not.
    Nanos sleeps_until(double share) const {
        const bool spent = 9 * used_by_others_ > used_ &&
                           static_cast<double>(used_) > share * static_cast<double>(kWindow);
        DCHECK(window_end_ >= kWindow);
        return spent ? window_end_ : 0;
    }

private:
    Nanos window_end_ = 0, used_ = 0, used_by_others_ = 0;  // of the window
    Nanos used_in_all_ = 0, noted_until_ = 0, used_at_noted_ = 0;
};

class Pacer {
public:
    // `share` of a worker's time, above 0 and at most 1. On a thread of the budget's worker.
    Pacer(double share, Budget& budget) : share_(share), budget_(budget) {
        DCHECK(share > 0 && share <= 1);
        begin_slice();
    }
    // The slice ends, and the next one begins when the call returns.
    void rest() {
        end_slice();
        const Nanos now = slice_began_, before = budget_.used();
        const bool others = threads::yield_to_few(UINT32_MAX);
        if (!others) threads::yield();  // for what the worker itself has to do
        const Nanos back = threads::now();
        if (others) budget_.note_others(now, before, back);
        if (const Nanos until = budget_.sleeps_until(share_); until > back)
            threads::sleep_until(until);
        begin_slice();
    }
    // The thread is about to wait for something else than its turn; it has waited.
    void waits() { end_slice(); }
    void waited() { begin_slice(); }
    // Time that it has used since the last call, in nanoseconds.
    Nanos take_used() { return std::exchange(used_, 0); }

private:
    void begin_slice() {
        slice_began_ = threads::now();
        before_ = budget_.used();
        budget_.begin_window(slice_began_);
    }
    // Where it parked meanwhile, others of the budget have noted their time.
    void end_slice() {
        const Nanos now = threads::now(), siblings = budget_.used_since(before_);
        DCHECK(now >= slice_began_);
        const Nanos own = now - slice_began_ - std::min(siblings, now - slice_began_);
        budget_.use(own);
        used_ += own;
        slice_began_ = now;
        before_ = budget_.used();
    }

    const double share_;
    Budget& budget_;
    Nanos slice_began_ = 0, before_ = 0, used_ = 0;
};

}  // namespace lockstep::sm::scan
