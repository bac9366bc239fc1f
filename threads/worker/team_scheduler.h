// team_scheduler.h - what a worker asks of its teams (threads/steps): which thread runs next.
//
// Concepts   The worker knows no team. It offers the CPU to this interface once its ready threads
//            have run. It also reports a member that leaves its team by a wait. All calls come from
//            the worker's kernel thread.
// Blocking   never.
#pragma once

#include <cstdint>

#include <lockstep/steps_options.h>
#include "threads/base/park_reason.h"
#include "threads/thread/worker_local.h"

namespace lockstep::threads {

struct Thread;

class TeamScheduler {
public:
    virtual ~TeamScheduler() = default;
    // True if a thread waits for its team to run.
    virtual bool any_waiting() const = 0;
    // Begins a turn: teams may serve `members` threads before they return the CPU. 0: one team.
    virtual void new_turn(uint32_t members) = 0;
    // Forms the next team. Returns its first member, which the worker then runs.
    virtual Thread* start_next_team() = 0;
    // Removes `self` from its team: it parks, yields or has ended (reason kCount). Returns the
    // member to run next, or null.
    virtual Thread* gone_stray(Thread& self, ParkReason reason) = 0;
    // Takes effect at each member's next boundary or CTX point.
    virtual void set_options(const StepsOptions& options) = 0;
    virtual void clear_stats() = 0;
    // Fills the fields of `local` that boundaries and CTX points read.
    virtual void publish(WorkerLocal& local) = 0;
};

}  // namespace lockstep::threads
