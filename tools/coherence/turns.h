// turns.h - workers take turns, so that W of them advance at equal speed on any machine.
//
// Concepts   One worker has the turn. After `quantum` accesses it hands the turn on to the next one
//            that wants it. A worker that sleeps in the system leaves the round. A clock of its own
//            moves with the accesses of all workers. While all of them sleep, it moves with the
//            real clock, slowed down as the program is by the counting.
// States     foreign -> worker (attach) -> foreign (detach); while the turns are on, a worker is
//            in the round (enter) or asleep (leave).
// Blocking   Handing the turn on blocks the kernel thread until the turn comes back.
#pragma once

#include <atomic>
#include <cstdint>

#include "tools/coherence/caches.h"

namespace lockstep::coherence {

struct TurnSettings {
    long quantum = 40;              // accesses
    double nanos_per_access = 1.0;  // of the virtual clock
};

class Turns {
public:
    // Of the calling kernel thread. Its accesses count while it is in the round.
    struct Self {
        int worker = -1;
        bool in_round = false;
        bool asleep = false;
        bool inside = false;  // in this program's own code
        long left = 0;
    };
    static thread_local Self self;

    // Workers in the round count from now on; once.
    void start(const TurnSettings& settings);
    void attach(int worker);
    void enter();  // takes part, once it has the turn
    void leave();  // takes part no more
    void hand_on();
    bool started() const { return started_.load(std::memory_order_acquire); }
    // Nanoseconds. The real clock before start().
    uint64_t now() const;

private:
    struct Worker {
        std::atomic<int> turn{0};  // futex: 1 gives the turn
        bool wants = false;        // under lock_
    };
    void lock();
    void unlock() { lock_.store(0, std::memory_order_release); }
    int next_of(int from) const;

    TurnSettings settings_;
    std::atomic<bool> started_{false};
    std::atomic<int> lock_{0};
    Worker workers_[Caches::kMax];
    int count_ = 0;                     // under lock_
    std::atomic<int> holder_{-1};       // changed under lock_
    std::atomic<uint64_t> nanos_{0};    // virtual, changed under lock_
    std::atomic<uint64_t> idle_at_{0};  // real time when the last worker left
    uint64_t base_ = 0;                 // real time at start()
};

}  // namespace lockstep::coherence
