// completion.h - a one-shot event between a user thread and a foreign kernel thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "threads/thread/thread.h"

namespace lockstep::threads {

// One-shot; either side may set it, and either may wait. wait() blocks a foreign kernel thread, or
// suspends a user thread (at most one). The waiter may destroy it as soon as wait() returns. The
// two sides may belong to two runtimes: set() keeps the waiter's runtime from ending.
class Completion {
public:
    void set();
    void wait();
    bool is_set() const { return done_.load(std::memory_order_acquire) == kSet; }

private:
    enum : uint32_t { kRuns, kSleeps, kSet };  // kSleeps: foreign kernel threads do
    std::atomic<uint32_t> done_{kRuns};
    std::atomic<Thread*> waiter_{nullptr};  // a user thread that waits
};

}  // namespace lockstep::threads
