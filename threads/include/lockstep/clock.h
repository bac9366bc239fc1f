// clock.h - the only source of time: a real clock, or one that a test moves.
#pragma once

#include <lockstep/types.h>

namespace lockstep {

// A source of time. Must outlive the store that uses it. Safe from any kernel thread.
class Clock {
public:
    virtual ~Clock() = default;
    // Nanoseconds from an arbitrary start; never goes back.
    virtual Nanos now() const = 0;
    // True if time passes while all threads sleep, so that a kernel thread may sleep until a
    // deadline.
    virtual bool moves_by_itself() const { return true; }
};

// CLOCK_MONOTONIC through the vDSO: about 20 ns a call, no system call.
class MonotonicClock final : public Clock {
public:
    Nanos now() const override;
};

// A clock that stands still until a test moves it.
class ManualClock final : public Clock {
public:
    Nanos now() const override { return __atomic_load_n(&now_, __ATOMIC_RELAXED); }
    bool moves_by_itself() const override { return false; }
    // Moves the clock forward.
    void advance(Nanos by) { __atomic_fetch_add(&now_, by, __ATOMIC_RELAXED); }

private:
    Nanos now_ = 1;  // atomic
};

}  // namespace lockstep
