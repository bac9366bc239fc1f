// pacer.h - keeps a thread to a share of its worker's time while others have work.
//
// Concepts   The thread says after each slice of its work that it may rest. It then lets ready
//            threads of its worker run. Some of them are functions of the thread's own scans: their
//            time counts as its own. If others have used a tenth of the window of 10 ms, and the
//            thread has used its share of it, it sleeps until the window ends. Others that need
//            less, such as the pool's cleaner, need not wait for it anyway. Time in which nobody
//            was ready is nobody's: the worker ended transfers, or had no CPU. So a worker without
//            other work is not left idle.
// Invariants RB-7 (service.h)
// Blocking   rest() suspends the user thread.
#pragma once

#include <atomic>
#include <utility>

#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm::scan {

class Pacer {
public:
    static constexpr Nanos kWindow = 10 * kMillisecond;

    // `share` of a worker's time, above 0 and at most 1. `functions`: the time of the scans'
    // functions on this worker, which they add when they end, and the pacer takes.
    Pacer(double share, std::atomic<Nanos>& functions) : share_(share), functions_(functions) {
        DCHECK(share > 0 && share <= 1);
        begin_window(threads::now());
    }
    // The slice ends, and the next one begins when the call returns.
    void rest() {
        assert_state();
        const Nanos now = threads::now();
        DCHECK(now >= slice_began_);
        use(now - slice_began_);
        const bool others = threads::yield_to_few(UINT32_MAX);
        if (!others) threads::yield();  // for what the worker itself has to do
        const Nanos back = threads::now(), own = functions_.exchange(0, std::memory_order_relaxed);
        use(own);
        if (others && back - now > own) used_by_others_ += back - now - own;
        if (back >= window_end_) return begin_window(back);
        if (used_by_others_ > kWindow / 10 &&
            static_cast<double>(used_) > share_ * static_cast<double>(kWindow)) {
            threads::sleep_until(window_end_);
            return begin_window(threads::now());
        }
        slice_began_ = back;
    }
    // The thread has waited for something else than its turn.
    void waited() {
        const Nanos now = threads::now();
        if (now >= window_end_) return begin_window(now);
        slice_began_ = now;
        assert_state();
    }
    // Time that it has used since the last call, in nanoseconds.
    Nanos take_used() { return std::exchange(used_in_all_, 0); }

private:
    void use(Nanos time) {
        used_ += time;
        used_in_all_ += time;
    }
    void begin_window(Nanos now) {
        slice_began_ = now;
        window_end_ = now + kWindow;
        used_ = used_by_others_ = 0;
        assert_state();
    }
    void assert_state() const {
        DCHECK(window_end_ >= kWindow && slice_began_ <= window_end_);
        DCHECK(share_ > 0 && share_ <= 1);
    }

    const double share_;
    std::atomic<Nanos>& functions_;
    Nanos slice_began_ = 0, window_end_ = 0, used_ = 0, used_by_others_ = 0, used_in_all_ = 0;
};

}  // namespace lockstep::sm::scan
