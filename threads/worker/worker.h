// worker.h - one kernel thread's scheduler: ready queue, mailbox, timers, I/O batch, and the switch
// between its user threads.
//
// Concepts   A turn: take the mail, expire timers, run up to turn_slices() slices, submit the I/O
//            requests that those collected, run completions. A thread that parks switches straight
//            to the next ready one while the turn has slices left, and only else to the scheduler's
//            own context. With nothing ready the worker sleeps in the I/O queue (or a futex).
// Layout     Threads reach the ready queue from their own worker directly, from elsewhere through
//            the mailbox: a stack that is pushed by compare-and-swap, taken whole and reversed, so
//            that mail arrives in order.
// States     awake -> asleep (sleep), asleep -> awake (kick, completion, deadline). Invariants WK-1
//            A thread is in at most one of: running, ready queue, mailbox. Follows from thread.h:
//            only the one who moves
//                 `state` away from kParked queues it.
//            WK-2 No mail is overlooked: the sleeper announces itself, then looks at the mailbox;
//                 the sender pushes, then looks at the announcement; all four sequentially
//                 consistent. [checked: sleep(), post()]
//            WK-3 A dead thread's stack is reused only after the worker has left it. [checked:
//            reap()]
// Blocking   sleep() blocks the kernel thread. Everything else is free of waits.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "threads/thread/stack.h"
#include "threads/thread/switch.h"
#include "threads/thread/thread.h"
#include "threads/thread/thread_pool.h"
#include "threads/thread/timer_heap.h"
#include "threads/worker/io_stage.h"
#include "threads/worker/runtime_stats.h"
#include "threads/worker/scheduler_policy.h"
#include "threads/worker/team_scheduler.h"

namespace lockstep::threads {

#ifdef LOCKSTEP_SIM_POINTS
class VirtualCores;
#endif

// What all workers of a runtime share.
struct RuntimeShared {
    explicit RuntimeShared(size_t stack_bytes) : stacks(stack_bytes) {}
    StackPool stacks;
    ThreadPool pool;
    const Clock* clock = nullptr;
    Disk* disk = nullptr;
    // Else deadlines say nothing about how long to sleep.
    bool clock_is_real = true;
    bool whole_turns = false;  // of step(), see RuntimeOptions
    // Pauses before a latch parks; 0 if all threads share one kernel thread.
    uint32_t latch_spins = 0;
    std::atomic<uint64_t> next_id{1};
    std::atomic<uint64_t> live{0};  // user threads spawned and not yet reaped
    std::atomic<uint64_t> live_max{0};
    std::atomic<bool> stopping{false};  // no new threads
    std::atomic<bool> ending{false};    // workers leave
};

// A figure that one thread counts and any may read.
class Tally {
public:
    void add() {
        value_.store(value_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    uint64_t get() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<uint64_t> value_{0};
};

class alignas(kCacheLineBytes) Worker {
public:
    static constexpr uint32_t kTurnSlices = 64;
    // While the log is being written: whoever waits for it are many, and its end is seen at a
    // turn's end.
    static constexpr uint32_t kTurnSlicesLog = 4;
    // A team member runs one operation, a slice a transaction.
    static constexpr uint32_t kSliceMembers = 12;

    Worker(RuntimeShared& shared, uint32_t index, std::unique_ptr<SchedulerPolicy> policy);
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    uint32_t index() const { return index_; }
    RuntimeShared& shared() const { return shared_; }
    const Clock& clock() const { return *shared_.clock; }

    // --- any kernel thread
    // Makes a thread ready that is in no queue.
    void ready(Thread* thread) {
        if (worker_local.worker == this) make_ready(thread);
        else post(thread);
    }
    void kick();  // a sleeping worker looks around
    void add_stats(RuntimeStats& stats) const;
    void add_io_stats(IoStats& stats) const;
    const char* io_name() const { return io_ ? io_->name() : "none"; }

    // --- the worker's kernel thread
    // Becomes this kernel thread's worker; makes its I/O queue.
    Result<void> attach();
    void detach();  // waits for I/O in flight; opposite of attach
    void run();     // turns until the runtime ends
    // Caller-driven: one slice; false if there is nothing to do.
    bool step();
    void abandon();  // caller-driven: forgets queues, timers, I/O
#ifdef LOCKSTEP_SIM_POINTS
    void runs_on(const Stack& stack, VirtualCores* cores) {
        scheduler_stack_ = stack, cores_ = cores;
    }
#endif
    Nanos next_deadline() const { return timers_.earliest(); }

    // --- user threads of this worker
    void park(Thread& self, ParkReason reason);
    bool park_until(Thread& self, Nanos deadline, ParkReason reason);
    void yield(Thread& self);
    bool yield_to_few(Thread& self, uint32_t others);
    void start_io(IoRequest& request);
    bool try_start_io(IoRequest& request);
    void set_io_mode(IoMode mode);
    Nanos turn_time() const { return turn_time_; }
    [[noreturn]] void run_thread(Thread& self);

    // --- the teams (team_scheduler.h)
    // Called once, before the worker runs.
    void adopt_teams(std::unique_ptr<TeamScheduler> teams) { teams_ = std::move(teams); }
    TeamScheduler& teams() const { return *teams_; }
    // From a thread of this worker. Teams that exist are still served.
    void set_steps(const StepsOptions& options);
    void follow_steps();  // the teams' options have changed
    uint64_t sleeps() const { return sleeps_.get(); }
    // Threads that wait for a timed reason, or are ready again and have not run since.
    uint32_t waiting(ParkReason reason) const { return waiting_[static_cast<size_t>(reason)]; }
    // Nothing but the running thread and the teams asks for the CPU or the scheduler: no ready
    // thread, no mail, no I/O to submit.
    bool idle_but_for_self() const { return none_ready() && !system_waits(); }
    bool system_waits() const {
        return (io_ != nullptr && io_->queued() != 0) ||
               mailbox_.load(std::memory_order_relaxed) != nullptr;
    }
    Thread* take_ready() { return slices_left_ > 0 ? --slices_left_, pick() : nullptr; }
    void note_switch(Thread& next) {
        DCHECK(next.worker == this);
        switches_.add();
        worker_local.current = &next;
    }
    [[noreturn]] void enter_scheduler() { switch_last(scheduler_sp_, scheduler_stack_); }
    // Teams were switched off: the member goes on as an ordinary thread, after the rest of its
    // team.
    void disband(Thread& self) { yield(self); }
    void suspend_to_scheduler(Thread& self) {
        switch_context(&self.sp, scheduler_sp_, scheduler_stack_);
    }

private:
    void make_ready(Thread* thread) {
        DCHECK(thread->worker == this && worker_local.worker == this);  // WK-1
        DCHECK((ready_first_ == nullptr) == (ready_last_ == nullptr));
        DCHECK(ready_last_ == nullptr || ready_last_->queue_next == nullptr);
        if (policy_ != nullptr) [[unlikely]]
            return policy_->ready(thread);
        if (thread->urgent && thread->reason != ParkReason::yield) [[unlikely]]
            return put_behind(thread, nullptr);
        thread->queue_next = nullptr;
        (ready_last_ != nullptr ? ready_last_->queue_next : ready_first_) = thread;
        ready_last_ = thread;
    }
    // Into the ready queue behind `before`, or in front of all.
    void put_behind(Thread* thread, Thread* before) {
        Thread*& link = before != nullptr ? before->queue_next : ready_first_;
        thread->queue_next = std::exchange(link, thread);
        if (thread->queue_next == nullptr) ready_last_ = thread;
    }
    Thread* pick() {
        if (policy_ != nullptr) [[unlikely]]
            return policy_->pick();
        Thread* first = ready_first_;
        if (first == nullptr) return nullptr;
        ready_first_ = first->queue_next;
        if (ready_first_ == nullptr) ready_last_ = nullptr;
        return first;
    }
    // A team whose running member has ended or, in a simulation, gone stray: its next member comes
    // before anything else.
    Thread* next_to_run() {
        return pending_ != nullptr ? std::exchange(pending_, nullptr) : pick();
    }
    bool nothing_to_run() const {
        return pending_ == nullptr && none_ready() && !teams_->any_waiting();
    }
    uint32_t turn_slices() const {
        return waiting(ParkReason::log) > 0 && io_ != nullptr && io_->log_in_flight()
                   ? kTurnSlicesLog
                   : kTurnSlices;
    }
    WorkerLocal local();
    bool run_teams(uint32_t members);
    bool none_ready() const {
        return policy_ != nullptr ? policy_->empty() : ready_first_ == nullptr;
    }

    void post(Thread* thread);
    bool take_mail();
    bool expire_timers();
    bool submit_io();
    bool poll_io();
    uint32_t run_slices(uint32_t slices);
    void switch_away(Thread& self);
    void enter(Thread& thread);
    void reap();
    void sleep();
    void sleep_in_futex(Nanos deadline);

    // Offsets for tools/gdb/lockstep_gdb.py, so that it needs no type information. Its order is the
    // script's.
    static const uint32_t debugger_layout[];

    RuntimeShared& shared_;
    const uint32_t index_;
    Thread* all_threads_ = nullptr;  // that have run at least once and have not ended
    Thread* ready_first_ = nullptr;
    Thread* ready_last_ = nullptr;
    uint32_t slices_left_ = 0;
    uint32_t waiting_[static_cast<size_t>(ParkReason::kCount)] = {};
    void* scheduler_sp_ = nullptr;  // while a user thread runs
    Stack scheduler_stack_;
#ifdef LOCKSTEP_SIM_POINTS
    VirtualCores* cores_ = nullptr;
#endif
    Thread* dead_ = nullptr;  // just ended, to be reaped by the scheduler (WK-3)
    Tally switches_, sleeps_, remote_wakes_, parks_[static_cast<size_t>(ParkReason::kCount)];
    std::unique_ptr<SchedulerPolicy> policy_;  // null: the queue above, without virtual calls
    std::unique_ptr<TeamScheduler> teams_;
    Thread* pending_ = nullptr;  // see next_to_run()
    Nanos turn_time_ = 0;
    TimerHeap timers_;
    std::unique_ptr<IoStage> io_;

    // Pushed by other kernel threads.
    alignas(kCacheLineBytes) std::atomic<Thread*> mailbox_{nullptr};
    std::atomic<uint32_t> asleep_{0};  // WK-2; also the futex
};

// Entry of every user thread.
void thread_entry(Transfer transfer);

}  // namespace lockstep::threads
