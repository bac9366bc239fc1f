// scheduler_policy.h - which ready thread of a worker runs next.
#pragma once

#include <memory>

#include "threads/thread/thread.h"

namespace lockstep::threads {

// Chooses the ready thread that runs next. Only the owning worker calls it.
class SchedulerPolicy {
public:
    virtual ~SchedulerPolicy() = default;
    virtual void ready(Thread* thread) = 0;  // `thread` became ready
    virtual Thread* pick() = 0;              // removes the next thread to run, or null
    virtual bool empty() const = 0;
};
// First come, first served. The default.
std::unique_ptr<SchedulerPolicy> make_fifo_policy();
// Draws the next thread at random: equal seeds give equal schedules. For tests.
std::unique_ptr<SchedulerPolicy> make_random_policy(uint64_t seed);

}  // namespace lockstep::threads
