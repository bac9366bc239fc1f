// worker_local.h - what a kernel thread knows about itself: its worker and its running user thread.
//
// Concepts   The only thread-local variable of the project. initial-exec makes current() two
//            instructions. Generated code may keep the variable's address across a switch. That is
//            harmless, because a user thread never leaves its kernel thread.
#pragma once

#include <cstdint>

namespace lockstep::threads {

struct Thread;
class Steps;
class Worker;
#ifdef LOCKSTEP_SIM_POINTS
class VirtualCores;
#endif

struct WorkerLocal {
    // Null in a scheduler and on foreign kernel threads.
    Thread* current = nullptr;
    // Null on foreign kernel threads; in caller-driven mode set during step().
    Worker* worker = nullptr;
    // The worker's teams, if operations run in teams; else null.
    Steps* steps = nullptr;
    Steps* begin_steps = nullptr;  // the same, if begin runs in a team
    Steps* teams = nullptr;        // the worker's teams, never null on a worker
    bool prefetch = false;         // do CTX points prefetch?
    // Do CTX points prefetch or switch?
    bool points = false;
    bool code_points = false;  // is a code point on?
    bool needs = false;        // are needs walked?
    uint32_t index = 0;        // the worker's number
    // Pauses before a latch parks; 0 if all threads share one kernel thread.
    uint32_t latch_spins = 0;
#ifdef LOCKSTEP_SIM_POINTS
    VirtualCores* cores = nullptr;  // if the worker may be interrupted in its turn
#endif
};

extern constinit thread_local WorkerLocal worker_local __attribute__((tls_model("initial-exec")));

// The running user thread; null in a worker's scheduler and on foreign kernel threads.
inline Thread* current() { return worker_local.current; }
// Number of the current worker, 0-based. Only on a worker.
inline uint32_t worker_index() { return worker_local.index; }

}  // namespace lockstep::threads
