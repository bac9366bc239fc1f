// scheduler_policy.h - which ready thread of a worker runs next.
#pragma once

#include <memory>

#include "threads/thread/thread.h"

namespace lockstep::threads {

// Which ready thread runs next, and in a simulation which worker. Called from the owning worker
// only.
class SchedulerPolicy {
public:
    virtual ~SchedulerPolicy() = default;
    virtual void ready(Thread* thread) = 0;  // thread became ready
    virtual Thread* pick() = 0;              // next to run and removed, or null
    virtual bool empty() const = 0;
};
// First come, first served. The default.
std::unique_ptr<SchedulerPolicy> make_fifo_policy();
// Draws the next thread at random: equal seeds give equal schedules. For tests.
std::unique_ptr<SchedulerPolicy> make_random_policy(uint64_t seed);

}  // namespace lockstep::threads
