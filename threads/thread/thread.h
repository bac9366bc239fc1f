// thread.h - user-level threads as their own code sees them: park, wake, yield, sleep.
//
// Concepts   A Thread runs on one worker for its whole life (worker.h). It gives up the CPU only in
//            park(), yield(), sleep_until() and at CTX points. Between those, no other thread of
//            its worker runs.
// States     running -> parked (park), parked -> ready (wake, or its deadline), ready -> running
//            (worker turn). `state` is kRunning for ready threads too, because only a kParked
//            thread must be queued. kNotified is kRunning plus a token.
// Invariants TH-1 A thread may park with latches held, at its own risk: waits do not check
//            latch_depth, and latches only count it. [kept by: park()]
//            TH-2 wake() is never lost: a wake before the park leaves a token, which the park
//            consumes.
//            TH-3 Thread objects are pooled and never freed before their runtime, so a late wake()
//            is at worst spurious.
// Blocking   park() and all waits built on it suspend only the user thread. Every wait rechecks its
//            condition, because park() may return without cause.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include <lockstep/result.h>
#include <lockstep/steps_options.h>
#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/base/park_reason.h"
#include "threads/thread/worker_local.h"

namespace lockstep::threads {

class Worker;
class Runtime;
struct Packet;

using ThreadFn = std::move_only_function<void()>;

// Intrusive, cache-line aligned; the fields that the switch needs come first.
struct alignas(kCacheLineBytes) Thread {
    // Saved stack pointer while not running [owner worker only].
    void* sp = nullptr;
    // Link in the running team's ring, or in the list of a waiting team [owner worker only].
    Thread* next = nullptr;
    // Exclusive latches held; CTX does nothing while non-zero [itself only].
    uint32_t latch_depth = 0;
    enum State : uint32_t { kRunning, kParked, kNotified };
    std::atomic<uint32_t> state{kRunning};  // TH-2
    Worker* worker = nullptr;               // constant while the thread lives
    // The fast switch saved sp, see fast_switch.h [owner worker only].
    bool fast_form = false;
    // Its transaction runs to completion: a boundary does nothing [itself only].
    bool to_completion = false;
    // CTX switches in the present team, see steps.h [owner worker only].
    uint32_t team_rounds = 0;
    // Boundaries crossed within the team, see steps.h [owner worker only].
    uint32_t team_stays = 0;
    uint64_t id = 0;  // unique within the runtime
    // For the layers above: what it runs for the application, or null [itself only].
    const void* task = nullptr;
    // --- second line: scheduling
    Thread* queue_next = nullptr;       // link in a ready queue or mailbox
    Nanos deadline = kNever;            // while parked with a deadline
    uint32_t timer_index = UINT32_MAX;  // place in the worker's timer heap
    ParkReason reason = ParkReason::event;
    bool timed_out = false;
    // Other threads wait for this one; once woken it goes to the front [itself only].
    bool urgent = false;
    // See between_calls.h [owner worker only].
    bool between_calls = false;
    // Its packet has just begun, and has no transaction yet [itself only].
    bool packet_begins = false;
    uint32_t callbacks = 0;  // operations on its stack that call the application
    void* stack = nullptr;   // see stack.h
    const char* name = "";   // static string, for the debugger script
    // List of all live threads of the worker, for the debugger script.
    Thread* all_prev = nullptr;
    Thread* all_next = nullptr;
    ThreadFn fn;
    // Since the thread began; timed reasons only [itself only].
    Nanos waited[static_cast<size_t>(ParkReason::kCount)] = {};
    // For the lock manager: the owner for which it waits now, or null. Written by itself.
    std::atomic<void*> lock_wait{nullptr};
    // The packet that it runs, or null [itself only].
    Packet* packet = nullptr;
    // What the layer above has prepared for that packet, or null [itself only].
    void* ahead = nullptr;
#ifdef LOCKSTEP_DEBUG_CHECKS
    // Ranks of the ranked latches held, ascending; see Latch [itself only].
    uint16_t ranks[16] = {};
    uint32_t rank_count = 0;
#endif

    // Of a thread that lives, seen by its worker.
    void assert_state() const {
        DCHECK(worker != nullptr && stack != nullptr);
        DCHECK(state.load(std::memory_order_relaxed) <= kNotified);  // TH-2
        DCHECK(reason < ParkReason::kCount);
        DCHECK(timer_index == UINT32_MAX || deadline != kNever);  // TM-1
        DCHECK(queue_next != this && all_next != this);
    }
    // Of one that has not begun or has ended: in no list, heap or ring.
    void assert_idle() const {
        DCHECK(stack == nullptr && !fn);
        DCHECK(all_prev == nullptr && all_next == nullptr);
        DCHECK(timer_index == UINT32_MAX);
        DCHECK(next == nullptr && latch_depth == 0 && !urgent);
        DCHECK(!between_calls && callbacks == 0 && task == nullptr);
        DCHECK(packet == nullptr && ahead == nullptr && !to_completion);
        DCHECK(lock_wait.load(std::memory_order_relaxed) == nullptr);
    }
};

// current() and worker_index() are in worker_local.h.

// Suspends the current user thread until wake(). Returns at once if a token is pending. May return
// spuriously.
void park(ParkReason reason);
// The same with a deadline in the runtime clock's time. False if the deadline passed first.
bool park_until(Nanos deadline, ParkReason reason);
// Makes `thread` ready, even if it has not parked yet (TH-2). Any kernel thread. Never blocks.
void wake(Thread* thread);
// For a waker that is no user thread of the thread's runtime, while the thread certainly lives: the
// runtime does not end until unpin_runtime(). Null, and not needed, for its own user threads.
void* pin_runtime(const Thread& thread);
void unpin_runtime(void* pin);  // of pin_runtime(), or null

// Lets other ready threads of this worker run first.
void yield();
// Lets at most `others` of them run first. False: no other thread was ready.
bool yield_to_few(uint32_t others);
void sleep_until(Nanos deadline);
// The runtime's clock, from a user thread.
Nanos now();  // exact
// The time of the worker's last turn, at most some tens of slices ago. Costs two loads.
Nanos now_coarse();
// How long the current user thread has waited for this reason since it began. 0 on other threads,
// and for reasons that are not timed.
Nanos waited(ParkReason reason);
// Changes the options of the current worker's teams and clears their statistics. Only on a user
// thread.
void set_steps(const StepsOptions& options);

}  // namespace lockstep::threads
