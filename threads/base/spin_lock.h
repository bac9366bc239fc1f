// spin_lock.h - a one-byte lock for a few instructions that never park, allocate or call out.
#pragma once

#include <atomic>

#include "threads/base/check.h"
#include "threads/base/hints.h"
#include "threads/base/sim_point.h"

namespace lockstep {

// Blocking: spins. The holder must not switch user threads, so a waiter runs on another kernel
// thread.
class SpinLock {
public:
    bool try_lock() {
        if (held_.load(std::memory_order_relaxed) ||
            held_.exchange(true, std::memory_order_acquire))
            return false;
        SIM_HOLD(1);
        return true;
    }
    void lock() {
        SIM_POINT();
        while (!try_lock()) cpu_relax();
        SIM_POINT();
    }
    void unlock() {
        DCHECK(is_held());
        held_.store(false, std::memory_order_release);
        SIM_HOLD(-1);
        SIM_POINT();
    }

    // By some thread; for assertions.
    bool is_held() const { return held_.load(std::memory_order_relaxed); }

private:
    std::atomic<bool> held_{false};
};

class [[nodiscard]] SpinGuard {
public:
    explicit SpinGuard(SpinLock& lock) : lock_(lock) { lock_.lock(); }
    ~SpinGuard() { lock_.unlock(); }
    SpinGuard(const SpinGuard&) = delete;
    SpinGuard& operator=(const SpinGuard&) = delete;

private:
    SpinLock& lock_;
};

}  // namespace lockstep
