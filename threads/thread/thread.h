// thread.h - user-level threads as the code that runs on them sees them: park, wake, yield, sleep.
//
// Concepts   A Thread runs on one worker for its whole life (worker.h). It gives up the CPU only in
//            park(), yield(), sleep_until() and at CTX points, so code between those runs
//            undisturbed by other threads of its worker.
// States     running -> parked (park), parked -> ready (wake, or its deadline), ready -> running
//            (worker turn). `state` keeps kRunning for ready threads too: only kParked is worth a
//            push to a ready queue. kNotified is kRunning plus a token.
// Invariants TH-1 A thread parks only with latch_depth it can answer for: public waits assert
// nothing, latches count.
//            TH-2 wake() never gets lost: a wake that arrives before the park leaves a token that
//            the park consumes.
//            TH-3 Thread objects are pooled and never freed before their runtime, so a late wake()
//            is at worst spurious.
// Blocking   park and everything built on it suspends the user thread only. Every wait re-checks
//            its own condition: park may return without cause.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include <lockstep/result.h>
#include <lockstep/steps_options.h>
#include <lockstep/types.h>
#include "threads/base/park_reason.h"
#include "threads/thread/worker_local.h"

namespace lockstep::threads {

class Worker;
class Runtime;

using ThreadFn = std::move_only_function<void()>;

// Intrusive, cache-line aligned; the fields that the switch needs come first.
struct alignas(kCacheLineBytes) Thread {
    // Saved stack pointer while not running [owner worker only].
    void* sp = nullptr;
    // Ring of the running team, or list of those that wait for theirs [owner worker only].
    Thread* next = nullptr;
    // Exclusive latches held; CTX does nothing while non-zero [itself only].
    uint32_t latch_depth = 0;
    enum State : uint32_t { kRunning, kParked, kNotified };
    std::atomic<uint32_t> state{kRunning};  // TH-2
    Worker* worker = nullptr;               // constant while the thread lives
    // Sp was saved by the fast switch, see fast_switch.h [owner worker only].
    bool fast_form = false;
    // CTX taken in the present team, see steps.h [owner worker only].
    uint32_t team_rounds = 0;
    // Boundaries crossed within it, see steps.h [owner worker only].
    uint32_t team_stays = 0;
    // --- second line: scheduling
    Thread* queue_next = nullptr;       // link in a ready queue or mailbox
    Nanos deadline = kNever;            // while parked with a deadline
    uint32_t timer_index = UINT32_MAX;  // place in the worker's timer heap
    ParkReason reason = ParkReason::event;
    bool timed_out = false;
    // Others wait for what it does: woken, it comes before them [itself only].
    bool urgent = false;
    void* stack = nullptr;  // see stack.h
    uint64_t id = 0;        // unique within the runtime
    const char* name = "";  // static string, for the debugger script
    // List of all live threads of the worker, for the debugger script.
    Thread* all_prev = nullptr;
    Thread* all_next = nullptr;
    ThreadFn fn;
    // Since the thread began; timed reasons only [itself only].
    Nanos waited[static_cast<size_t>(ParkReason::kCount)] = {};
#ifdef LOCKSTEP_DEBUG_CHECKS
    // Of the ranked latches held, ascending; see Latch [itself only].
    uint16_t ranks[16] = {};
    uint32_t rank_count = 0;
#endif
};

// current() and worker_index() are in worker_local.h.

// Suspends the current user thread until wake(); consumes a pending token at once. May return
// spuriously.
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
Nanos now();  // exact
// As of the worker's last turn (at most some tens of slices ago): costs two loads.
Nanos now_coarse();
// How long the current user thread has waited for this reason since it began; 0 elsewhere, and for
// reasons that are not timed.
Nanos waited(ParkReason reason);
// How the current worker's teams go on, or that they end; clears their figures. Only on a user
// thread.
void set_steps(const StepsOptions& options);

}  // namespace lockstep::threads
