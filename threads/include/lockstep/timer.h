// timer.h - waits until a point in time, and timers that expire once or periodically.
//
// Concepts   Waits suspend a user thread and block any other kernel thread. Time is that of
//            lockstep::now(). A store's worker looks at its deadlines once per turn, so a wait ends
//            late if another user thread does not give up the CPU.
// Blocking   sleep_until() and Timer::wait().
#pragma once

#include <cstdint>

#include <lockstep/result.h>
#include <lockstep/sync.h>
#include <lockstep/types.h>

namespace lockstep {

namespace detail {
class SyncRelease;
}

// Waits until lockstep::now() is `deadline` or later. kNever: for ever.
void sleep_until(Nanos deadline);

// A timer that expires once or periodically. Expiries of a periodic timer stand at fixed distances
// from the start; a late wait does not move them. Safe from any thread; normally one waits.
class Timer {
public:
    Timer() = default;
    // No thread may wait.
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    // Expires `first` nanoseconds from now, and then every `period` nanoseconds; 0: once. A timer
    // that was started before forgets its older expiries, and its waits go on with the new ones.
    void start(Nanos first, Nanos period = 0);
    // Ends all waits with the error cancelled, and later ones until the next start().
    void cancel();
    // Waits for the next expiry that no wait has returned. The result is the number of expiries
    // since then, more than 1 if the caller came late. Error: cancelled after cancel(), before
    // start(), and when a timer that expires once has done so.
    Result<uint64_t> wait();

private:
    uint64_t expire(Nanos now, detail::SyncRelease& release);
    void assert_state() const;

    detail::SyncLock lock_;
    Nanos next_ = kNever;        // under lock_: kNever if not started
    Nanos period_ = 0;           // under lock_
    detail::SyncQueue waiters_;  // under lock_
};

}  // namespace lockstep
