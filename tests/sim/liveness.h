// liveness.h - an oracle of progress: after the faults have stopped, every transaction ends within
// ten simulated seconds.
//
// Concepts   A transaction counts from its begin() on, or from the end of the faults if that is
//            later. Waits for locks, log space, frames and I/O count. A repetition is a transaction
//            of its own. A run looks after each slice, so a transaction that hangs is noticed too.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include <lockstep/clock.h>

namespace lockstep::sim {

class Liveness {
public:
    static constexpr Nanos kLongest = 10 * kSecond;

    // Each thread of the work has one transaction at a time.
    void begun(uint32_t thread, Nanos now) {
        if (live_.size() <= thread) live_.resize(thread + 1);
        live_[thread] = now;
    }
    // True if it had to end in time.
    bool ended(uint32_t thread) {
        live_[thread].reset();
        return calm_since_.has_value();
    }
    void faults_stopped(Nanos now) { calm_since_ = now; }

    // A thread whose transaction has not ended in time.
    std::optional<uint32_t> late(Nanos now) const {
        if (!calm_since_ || now - *calm_since_ <= kLongest) return std::nullopt;
        for (uint32_t thread = 0; thread < live_.size(); ++thread)
            if (live_[thread] && now - std::max(*live_[thread], *calm_since_) > kLongest)
                return thread;
        return std::nullopt;
    }

private:
    std::optional<Nanos> calm_since_;         // none: faults strike
    std::vector<std::optional<Nanos>> live_;  // begin of each thread's transaction
};

}  // namespace lockstep::sim
