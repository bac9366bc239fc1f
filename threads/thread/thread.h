// thread.h - user-level threads as the code that runs on them sees them: park, wake, yield, sleep.
//
// Concepts   A Thread runs on one worker for its whole life (worker.h). It gives up the CPU only in park(), yield(),
//            sleep_until() and at CTX points, so code between those runs undisturbed by other threads of its worker.
// States     running -> parked (park), parked -> ready (wake, or its deadline), ready -> running (worker turn). `state` keeps
//            kRunning for ready threads too: only kParked is worth a push to a ready queue. kNotified is kRunning plus a token.
// Invariants TH-1 A thread parks only with latch_depth it can answer for: public waits assert nothing, latches count.
//            TH-2 wake() never gets lost: a wake that arrives before the park leaves a token that the park consumes.
//            TH-3 Thread objects are pooled and never freed before their runtime, so a late wake() is at worst spurious.
// Blocking   park and everything built on it suspends the user thread only. Every wait re-checks its own condition:
//            park may return without cause.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include <lockstep/result.h>
#include <lockstep/types.h>
#include <lockstep/steps_options.h>
#include "threads/base/park_reason.h"
#include "threads/thread/worker_local.h"

namespace lockstep::threads {

class Worker;
class Runtime;

using ThreadFn = std::move_only_function<void()>;

// Intrusive, cache-line aligned; the fields that the switch needs come first.
struct alignas(kCacheLineBytes) Thread {
    void* sp = nullptr;                       // saved stack pointer while not running [owner worker only]
    Thread* next = nullptr;                   // ring of the running team, or list of those that wait for theirs [owner worker only]
    uint32_t latch_depth = 0;                 // exclusive latches held; CTX does nothing while non-zero [itself only]
    enum State : uint32_t { kRunning, kParked, kNotified };
    std::atomic<uint32_t> state{kRunning};    // TH-2
    Worker* worker = nullptr;                 // constant while the thread lives
    bool fast_form = false;                   // sp was saved by the fast switch, see fast_switch.h [owner worker only]
    uint32_t team_rounds = 0;                 // CTX taken in the present team, see steps.h [owner worker only]
    uint32_t team_stays = 0;                  // boundaries crossed within it, see steps.h [owner worker only]
    // --- second line: scheduling
    Thread* queue_next = nullptr;             // link in a ready queue or mailbox
    Nanos deadline = kNever;                  // while parked with a deadline
    uint32_t timer_index = UINT32_MAX;        // place in the worker's timer heap
    ParkReason reason = ParkReason::event;
    bool timed_out = false;
    bool urgent = false;                      // others wait for what it does: woken, it comes before them [itself only]
    void* stack = nullptr;                    // see stack.h
    uint64_t id = 0;                          // unique within the runtime
    const char* name = "";                    // static string, for the debugger script
    Thread* all_prev = nullptr;               // list of all live threads of the worker, for the debugger script
    Thread* all_next = nullptr;
    ThreadFn fn;
    Nanos waited[static_cast<size_t>(ParkReason::kCount)] = {};   // since the thread began; timed reasons only [itself only]
#ifdef LOCKSTEP_DEBUG_CHECKS
    uint16_t ranks[16] = {};                  // of the ranked latches held, ascending; see Latch [itself only]
    uint32_t rank_count = 0;
#endif
};

// current() and worker_index() are in worker_local.h.

// Suspends the current user thread until wake(); consumes a pending token at once. May return spuriously.
void park(ParkReason reason);
// The same with a deadline in the runtime clock's time. False if the deadline passed first.
bool park_until(Nanos deadline, ParkReason reason);
// Makes `thread` ready; from any kernel thread, also before it has parked (TH-2). Never blocks.
void wake(Thread* thread);

// Lets other ready threads of this worker run first.
void yield();
// Lets at most `others` of them run first. False: nobody was ready.
bool yield_to_few(uint32_t others);
void sleep_until(Nanos deadline);
// The runtime's clock, from a user thread: read once per scheduler turn when coarse suffices.
Nanos now();            // exact
Nanos now_coarse();     // as of the worker's last turn (at most some tens of slices ago): costs two loads
// How long the current user thread has waited for this reason since it began; 0 elsewhere, and for reasons that are not timed.
Nanos waited(ParkReason reason);
// How the current worker's teams go on, or that they end; clears their figures. Only on a user thread.
void set_steps(const StepsOptions& options);

}  // namespace lockstep::threads
