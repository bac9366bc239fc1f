// worker.h - one kernel thread's scheduler: ready queue, mailbox, timers, I/O batch and switches.
//
// Concepts   A turn takes the mail, expires timers, runs up to turn_slices() slices, submits the
//            collected I/O requests and runs completions. When no thread is ready, packets that
//            wait get executing threads (executors.h). A thread that parks switches directly to the
//            next ready thread while the turn has slices left. Otherwise it switches to the
//            scheduler's own context. With nothing ready, the worker sleeps in the I/O queue or in
//            a futex.
// Layout     A thread's own worker puts it into the ready queue directly. Other kernel threads use
//            the mailbox, a stack that is pushed by compare-and-swap. The worker takes the mailbox
//            whole and reverses it, so mail arrives in order.
// States     awake -> asleep (sleep), asleep -> awake (kick, completion, deadline).
// Invariants WK-1 A thread is in at most one of: running, ready queue, mailbox. This follows from
//            thread.h: only the thread that moves `state` away from kParked queues it.
//            WK-2 No mail is overlooked. The sleeper announces itself, then reads the mailbox; the
//            sender pushes, then reads the announcement. All four steps are sequentially
//            consistent. [checked: sleep(), post()]
//            WK-3 A dead thread's stack is reused only after the worker has left it. [checked:
//            reap()]
//            WK-4 A worker does not fall asleep beside packets that it would take. It announces
//            itself, then looks at the queues of the others. submit() lengthens a queue, then
//            looks for sleepers. [checked by packet_sleep_test]
//            WK-5 Each turn hands requests to the kernel and takes completions, also a turn whose
//            sleep is refused because packets were taken from others. [checked by
//            packet_workers_test]
// Blocking   sleep() blocks the kernel thread. Everything else is free of waits.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "threads/base/spare_blocks.h"
#include "threads/io/fd_poll.h"
#include "threads/io/fd_poller.h"
#include "threads/io/offload_pool.h"
#include "threads/thread/stack.h"
#include "threads/thread/switch.h"
#include "threads/thread/thread.h"
#include "threads/thread/thread_pool.h"
#include "threads/thread/timer_heap.h"
#include "threads/worker/admission.h"
#include "threads/worker/executors.h"
#include "threads/worker/io_stage.h"
#include "threads/worker/runtime_stats.h"
#include "threads/worker/scheduler_policy.h"
#include "threads/worker/team_scheduler.h"

namespace lockstep::threads {

#ifdef LOCKSTEP_SIM_POINTS
class VirtualCores;
#endif
class Worker;

// State shared by all workers of a runtime.
struct RuntimeShared {
    RuntimeShared(size_t stack_bytes, MappingCache* mappings) : stacks(stack_bytes, mappings) {}
    ExecutorsShared executors;
    // --- hardly ever changed while workers run
    alignas(kCacheLineBytes) Admission::Settings admission;
    std::vector<Worker*> workers;  // fixed before the first runs
    uint32_t packet_workers = 1;   // the first so many of them take packets
    const Clock* clock = nullptr;
    Disk* disk = nullptr;
    // If false, a deadline does not tell how long to sleep.
    bool clock_is_real = true;
    bool whole_turns = false;  // for step(), see RuntimeOptions
    // Pauses before a latch parks; 0 if all threads share one kernel thread.
    uint32_t latch_spins = 0;
    std::atomic<bool> stopping{false};  // no new threads
    std::atomic<bool> ending{false};    // workers leave
    bool simulated = false;             // caller-driven
    // Their kernel threads begin at first use. They wake user threads, so they end before the
    // workers are destroyed.
    FdPoller* fd_poller = nullptr;
    OffloadPool* offload = nullptr;
    // --- written by all workers; each line apart
    alignas(kCacheLineBytes) std::atomic<uint32_t> sleepers{0};  // that sleep or are about to
    alignas(kCacheLineBytes) StackPool stacks;
    alignas(kCacheLineBytes) ThreadPool pool;
    alignas(kCacheLineBytes) std::atomic<uint64_t> next_id{1};
    std::atomic<uint64_t> live{0};  // user threads spawned and not yet reaped
    std::atomic<uint64_t> live_max{0};
};

// Waits for descriptors by threads of one worker. The worker adds and removes; any kernel thread
// may end them.
class FdWaits {
public:
    bool add(FdPoll& wait);  // false after end()
    void remove(FdPoll& wait);
    void end();

private:
    void assert_state() const {
        DCHECK(first_ == nullptr || (first_->prev == nullptr && first_->thread != nullptr));
    }
    SpinLock lock_;
    FdPoll* first_ = nullptr;  // under lock_
    bool ended_ = false;       // under lock_
};

// A counter that one thread writes and any thread may read.
class Tally {
public:
    void add(uint64_t more = 1) {
        value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }
    uint64_t get() const { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<uint64_t> value_{0};
};

class alignas(kCacheLineBytes) Worker {
public:
    static constexpr uint32_t kTurnSlices = 64;
    // Limit while the log is being written. Many threads wait for it, and the worker sees its
    // completion at the turn's end.
    static constexpr uint32_t kTurnSlicesLog = 4;
    // Team members per slice: a member runs one operation, a slice a transaction.
    static constexpr uint32_t kSliceMembers = 12;
    // Packets that wait on a busy worker before another one is woken for them, and the most that it
    // takes at once.
    static constexpr uint64_t kFewPackets = 4, kStealMax = 16;

    Worker(RuntimeShared& shared, uint32_t index, std::unique_ptr<SchedulerPolicy> policy);
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    uint32_t index() const { return index_; }
    RuntimeShared& shared() const { return shared_; }
    const Clock& clock() const { return *shared_.clock; }

    // --- any kernel thread
    // Makes a thread ready that is in no queue (WK-1).
    void ready(Thread* thread) {
        if (worker_local.worker == this) make_ready(thread);
        else post(thread);
    }
    void kick();  // wakes the worker if it sleeps
    // Makes a thread that is not ready yet. The caller has counted it: it is one of `live`. Errors:
    // out_of_memory.
    Result<Thread*> make_thread(const char* name, ThreadFn fn, uint64_t live);
    // Enqueues a packet. Errors: those of Admission::submit().
    Result<void> submit(Packet& packet);
    Admission& admission() { return admission_; }
    const Admission& admission() const { return admission_; }
    // Ends all waits for descriptors, and refuses further ones.
    void end_fd_waits() { fd_waits_.end(); }
    // Grows with each slice: a thread entered, given the CPU back by its own yield, or took another
    // packet.
    uint64_t slices() const {
        return switches_.get() + parks_[static_cast<size_t>(ParkReason::yield)].get() +
               executors_.packets_run();
    }
    // The user thread that runs now, null in the scheduler; for another kernel thread, so it may
    // have changed when the call returns. The object stays (TH-3).
    const Thread* running() const;
    bool asleep() const { return asleep_.load(std::memory_order_relaxed) != 0; }
    void add_stats(RuntimeStats& stats) const;
    // While nothing runs and no transfer is in flight, as between two steps that found nothing to
    // do. Text of a fault, or empty. Adds the user threads that live.
    std::string verify(uint64_t& threads) const;
    void add_io_stats(IoStats& stats) const;
    const char* io_name() const { return io_ ? io_->name() : "none"; }

    // --- the worker's kernel thread
    // Binds the worker to this kernel thread and makes its I/O queue.
    Result<void> attach();
    void detach();  // waits for I/O in flight; undoes attach()
    void run();     // turns until the runtime ends
    // Caller-driven: one slice. False if there is nothing to do.
    bool step();
    void abandon();  // caller-driven: drops queues, timers, I/O
#ifdef LOCKSTEP_SIM_POINTS
    void runs_on(const Stack& stack, VirtualCores* cores) {
        scheduler_stack_ = stack, cores_ = cores;
    }
#endif
    Nanos next_deadline() const {
        return std::min({timers_.earliest(), admission_.next_due(), executors_.next_deadline()});
    }

    // --- user threads of this worker
    void park(Thread& self, ParkReason reason);
    bool park_until(Thread& self, Nanos deadline, ParkReason reason);
    void yield(Thread& self);
    bool yield_to_few(Thread& self, uint32_t others);
    void start_io(IoRequest& request);
    bool try_start_io(IoRequest& request);
    void set_io_mode(IoMode mode);
    FdWaits& fd_waits() { return fd_waits_; }
    IoStage* io_stage() { return io_.get(); }  // null without a disk
    Nanos turn_time() const { return turn_time_; }
    [[noreturn]] void run_thread(Thread& self);

    // --- the teams (team_scheduler.h)
    // Called once, before the worker runs.
    void adopt_teams(std::unique_ptr<TeamScheduler> teams) {
        DCHECK(teams_ == nullptr && teams != nullptr);
        teams_ = std::move(teams);
    }
    TeamScheduler& teams() const { return *teams_; }
    // Called by a thread of this worker. Existing teams are still served.
    void set_steps(const StepsOptions& options);
    void follow_steps();  // call after the teams' options have changed
    uint64_t sleeps() const { return sleeps_.get(); }
    // Threads that wait for a timed reason, or are ready again but have not run since.
    uint32_t waiting(ParkReason reason) const {
        DCHECK(timed(reason));  // the others are not counted
        return waiting_[static_cast<size_t>(reason)];
    }
    // No ready thread, no packet to admit, no mail and no I/O to submit: only the running thread
    // and the teams need the CPU.
    bool idle_but_for_self() const {
        return none_ready() && !system_waits() && !executors_.may_admit();
    }
    bool system_waits() const {
        return (io_ != nullptr && io_->queued() != 0) ||
               mailbox_.load(std::memory_order_relaxed) != nullptr;
    }
    // The turn has slices left, and none but the running thread could have the next one: what a
    // yield queues would run at once.
    bool runs_alone(const Thread& self) const {
        DCHECK(&self == worker_local.current);
        return slices_left_ > 0 && ready_first_ == nullptr && policy_ == nullptr &&
               pending_ == nullptr && self.next == nullptr && !executors_.packets_wait();
    }
    Thread* take_ready() { return slices_left_ > 0 ? --slices_left_, pick_or_admit() : nullptr; }

    // --- the executing threads (executors.h)
    Executors& executors() { return executors_; }
    // The running thread may take another packet: nothing that has begun needs the CPU.
    bool gives_slice(const Thread& self) {
        if (slices_left_ == 0 || pending_ != nullptr || !none_ready() || system_waits() ||
            (self.next == nullptr && teams_->any_waiting()))
            return false;
        --slices_left_;
        return true;
    }
    void rest(Thread& self);
    void note_switch(Thread& next) {
        DCHECK(next.worker == this && &next != worker_local.current);
        DCHECK(next.state.load(std::memory_order_relaxed) != Thread::kParked);
        switches_.add();
        worker_local.current = &next;
    }
    [[noreturn]] void enter_scheduler() { switch_last(scheduler_sp_, scheduler_stack_); }
    // Teams were switched off: the member continues as an ordinary thread, after the rest of its
    // team.
    void disband(Thread& self) { yield(self); }
    void suspend_to_scheduler(Thread& self) {
        DCHECK(&self == worker_local.current && scheduler_sp_ != nullptr);
        switch_context(&self.sp, scheduler_sp_, scheduler_stack_);
    }

private:
    // What the worker itself finds between two threads, and what a running thread of it finds.
    void assert_state() const {
        DCHECK(worker_local.worker == this || worker_local.worker == nullptr);  // abandon()
        DCHECK((ready_first_ == nullptr) == (ready_last_ == nullptr));
        DCHECK(ready_last_ == nullptr || ready_last_->queue_next == nullptr);
        DCHECK(policy_ == nullptr || ready_first_ == nullptr);
        DCHECK(slices_left_ <= kTurnSlices);
        DCHECK(pending_ == nullptr || pending_->worker == this);
        DCHECK(dead_ == nullptr || dead_->worker == this);  // WK-3
    }
    void make_ready(Thread* thread) {
        DCHECK(thread->worker == this);  // WK-1
        assert_state();
        thread->assert_state();
        DCHECK(thread->state.load(std::memory_order_relaxed) != Thread::kParked);
        DCHECK(thread != ready_last_ && thread != pending_ && thread != dead_);  // ready once
        if (policy_ != nullptr) [[unlikely]]
            return policy_->ready(thread);
        if (thread->urgent && thread->reason != ParkReason::yield) [[unlikely]]
            return put_behind(thread, nullptr);
        thread->queue_next = nullptr;
        (ready_last_ != nullptr ? ready_last_->queue_next : ready_first_) = thread;
        ready_last_ = thread;
    }
    // Inserts into the ready queue behind `before`, or at the front.
    void put_behind(Thread* thread, Thread* before) {
        DCHECK(thread != before && policy_ == nullptr);
        DCHECK(before == nullptr || before->worker == this);
        Thread*& link = before != nullptr ? before->queue_next : ready_first_;
        thread->queue_next = std::exchange(link, thread);
        if (thread->queue_next == nullptr) ready_last_ = thread;
    }
    Thread* pick() {
        if (policy_ != nullptr) [[unlikely]]
            return policy_->pick();
        Thread* first = ready_first_;
        if (first == nullptr) return nullptr;
        DCHECK(first->worker == this);
        DCHECK(first->state.load(std::memory_order_relaxed) != Thread::kParked);
        ready_first_ = first->queue_next;
        if (ready_first_ == nullptr) ready_last_ = nullptr;
        return first;
    }
    // The next member of a team comes first, after the running member has ended or, in a
    // simulation, gone stray.
    Thread* next_to_run() {
        return pending_ != nullptr ? std::exchange(pending_, nullptr) : pick();
    }
    Thread* pick_or_admit() {
        Thread* const ready = pick();
        return ready != nullptr ? ready : executors_.admit();
    }
    bool nothing_to_run() const {
        return pending_ == nullptr && none_ready() && !teams_->any_waiting() &&
               !executors_.may_admit();
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
    bool expire_packets();
    Worker* longest_other() const;
    bool steal_packets();
    void wake_another();
    void admit_all();
    bool submit_io();
    bool poll_io();
    uint32_t run_slices(uint32_t slices);
    void switch_away(Thread& self);
    [[gnu::noinline]] void yield_to_others(Thread& self);
    void wait_for_wake(Thread& self, ParkReason reason);
    void enter(Thread& thread);
    void reap();
    std::string verify_packets() const;
    bool sleep();  // false: something may run, so it did not sleep
    void sleep_in_futex(Nanos deadline);

    // Offsets for tools/gdb/lockstep_gdb.py, which then needs no type information. The script
    // defines the order.
    static const uint32_t kDebuggerLayout[];

    RuntimeShared& shared_;
    const uint32_t index_;
    Thread* all_threads_ = nullptr;  // threads that have begun and not ended
    Thread* ready_first_ = nullptr;
    Thread* ready_last_ = nullptr;
    std::atomic<const WorkerLocal*> local_{nullptr};  // of its kernel thread, once attached
    uint32_t slices_left_ = 0;
    uint32_t waiting_[static_cast<size_t>(ParkReason::kCount)] = {};
    void* scheduler_sp_ = nullptr;  // while a user thread runs
    Stack scheduler_stack_;
#ifdef LOCKSTEP_SIM_POINTS
    VirtualCores* cores_ = nullptr;
#endif
    Thread* dead_ = nullptr;  // just ended; the scheduler reaps it (WK-3)
    Tally switches_, sleeps_, remote_wakes_, parks_[static_cast<size_t>(ParkReason::kCount)];
    // Of the timed reasons: waits that have ended, and their nanoseconds.
    Tally waits_ended_[static_cast<size_t>(ParkReason::kCount)],
        waited_[static_cast<size_t>(ParkReason::kCount)];
    std::unique_ptr<SchedulerPolicy> policy_;  // null: the ready queue above, no virtual calls
    std::unique_ptr<TeamScheduler> teams_;
    Thread* pending_ = nullptr;  // see next_to_run()
    Nanos turn_time_ = 0;
    TimerHeap timers_;
    std::unique_ptr<IoStage> io_;
    FdWaits fd_waits_;
    SpareBlocks blocks_;
    Executors executors_;
    alignas(kCacheLineBytes) Admission admission_;  // other kernel threads submit

    // Other kernel threads push.
    alignas(kCacheLineBytes) std::atomic<Thread*> mailbox_{nullptr};
    std::atomic<uint32_t> asleep_{0};  // WK-2; also the futex
};

// Entry of every user thread.
void thread_entry(Transfer transfer);

}  // namespace lockstep::threads
