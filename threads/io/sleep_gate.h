// sleep_gate.h - lets other threads wake a sleeping worker, at almost no cost when it is awake.
//
// States     awake -> asleep (try_sleep), asleep -> awake (rise); awake or asleep -> notified
//            (notify); notified -> awake (a refusing try_sleep, or rise).
// Invariants SG-1 No notify() is lost. Between two sleeps it makes the next try_sleep() refuse.
//            During a sleep it reports that the sleeper must be kicked. Every step is one
//            read-modify-write of the same word. [checked: tests]
#pragma once

#include <atomic>
#include <cstdint>

#include <lockstep/types.h>

namespace lockstep::threads {

class SleepGate {
public:
    // Owner: announces sleep. False: notify() came first, do not sleep.
    bool try_sleep() {
        uint32_t expected = kAwake;
        if (state_.compare_exchange_strong(expected, kAsleep, std::memory_order_seq_cst))
            return true;
        rise();
        return false;
    }
    void rise() { state_.exchange(kAwake, std::memory_order_seq_cst); }
    // Any thread. True: the owner sleeps, and the caller must kick it. One caller per sleep gets
    // this answer.
    bool notify() { return state_.exchange(kNotified, std::memory_order_seq_cst) == kAsleep; }

private:
    enum : uint32_t { kAwake, kNotified, kAsleep };
    alignas(kCacheLineBytes) std::atomic<uint32_t> state_{kAwake};
};

}  // namespace lockstep::threads
