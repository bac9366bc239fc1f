// pacer.h - keeps a thread to a share of its worker's time while others have work.
//
// Concepts   The thread says after each slice of its work that it may rest. It then lets ready
//            threads of its worker run. If some did run in the window of 10 ms, and the thread has
//            used its share of the window, it sleeps until the window ends. A worker without other
//            work is not left idle.
// Invariants RB-7 (service.h)
// Blocking   rest() suspends the user thread.
#pragma once

#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm::scan {

class Pacer {
public:
    static constexpr Nanos kWindow = 10 * kMillisecond;

    // `share` of a worker's time, above 0 and at most 1.
    explicit Pacer(double share) : share_(share) {
        DCHECK(share > 0 && share <= 1);
        begin_window(threads::now());
    }
    // The slice ends, and the next one begins when the call returns.
    void rest() {
        assert_state();
        const Nanos now = threads::now();
        DCHECK(now >= slice_began_);
        used_ += now - slice_began_;
        threads::yield();
        const Nanos back = threads::now();
        others_ran_ |= back - now > kOfAYield;
        if (back >= window_end_) return begin_window(back);
        if (others_ran_ && static_cast<double>(used_) > share_ * static_cast<double>(kWindow)) {
            threads::sleep_until(window_end_);
            return begin_window(threads::now());
        }
        slice_began_ = back;
    }

private:
    static constexpr Nanos kOfAYield = 2 * kMicrosecond;  // longer: others have run
    void begin_window(Nanos now) {
        slice_began_ = now;
        window_end_ = now + kWindow;
        used_ = 0;
        others_ran_ = false;
        assert_state();
    }
    void assert_state() const {
        DCHECK(window_end_ >= kWindow && slice_began_ <= window_end_);
        DCHECK(share_ > 0 && share_ <= 1);
    }

    const double share_;
    Nanos slice_began_ = 0, window_end_ = 0, used_ = 0;
    bool others_ran_ = false;
};

}  // namespace lockstep::sm::scan
