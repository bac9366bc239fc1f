// sleep_gate.h - lets others wake a sleeping worker and pay next to nothing when it does not sleep.
//
// States     awake -> asleep (try_sleep), asleep -> awake (rise); awake or asleep -> notified
//            (notify); notified -> awake (try_sleep that refuses, or rise).
// Invariants SG-1 A notify() between two sleeps makes the next try_sleep() refuse, one during a
//                 sleep says that the sleeper must be kicked: every step is one read-modify-write
//                 of the same word, so none is lost. [checked: tests]
#pragma once

#include <atomic>
#include <cstdint>

#include <lockstep/types.h>

namespace lockstep::threads {

class SleepGate {
public:
    // Owner: announces sleep. False: somebody called meanwhile, do not sleep.
    bool try_sleep() {
        uint32_t expected = kAwake;
        if (state_.compare_exchange_strong(expected, kAsleep, std::memory_order_seq_cst))
            return true;
        rise();
        return false;
    }
    void rise() { state_.exchange(kAwake, std::memory_order_seq_cst); }
    // Anybody. True: the owner sleeps and must be kicked by the caller (one caller per sleep gets
    // this answer).
    bool notify() { return state_.exchange(kNotified, std::memory_order_seq_cst) == kAsleep; }

private:
    enum : uint32_t { kAwake, kNotified, kAsleep };
    alignas(kCacheLineBytes) std::atomic<uint32_t> state_{kAwake};
};

}  // namespace lockstep::threads
