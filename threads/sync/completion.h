// completion.h - a one-shot event between a user thread and the outside: either side may set it,
// either side may wait.
#pragma once

#include <atomic>
#include <cstdint>

#include "threads/thread/thread.h"

namespace lockstep::threads {

// Blocks a foreign kernel thread (or, on a worker, suspends the user thread; one at most) until
// set. One-shot. The waiter may destroy it as soon as wait() returns. A user thread's runtime must
// not end before the set() that it waits for has returned.
class Completion {
public:
    void set();
    void wait();
    bool is_set() const { return done_.load(std::memory_order_acquire) != 0; }

private:
    std::atomic<uint32_t> done_{0};
    std::atomic<Thread*> waiter_{nullptr};  // a user thread that waits
};

}  // namespace lockstep::threads
