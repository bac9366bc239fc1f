// park.cc - the life of a user thread: entry, park, yield, sleep, end, and the switches between.
#include "threads/thread/thread.h"

#include "threads/base/check.h"
#include "threads/base/sim_point.h"
#include "threads/thread/fast_switch.h"
#include "threads/worker/worker.h"

namespace lockstep::threads {

// --- switching (members of Worker that run on user stacks)

void Worker::enter(Thread& thread) {
    DCHECK(worker_local.current == nullptr && thread.worker == this);
    DCHECK(thread.state.load(std::memory_order_relaxed) != Thread::kParked &&
           thread.stack != nullptr);
    assert_state();
    switches_.add();
    worker_local.current = &thread;
    switch_context(&scheduler_sp_, resume_point(thread), *static_cast<Stack*>(thread.stack));
    DCHECK(worker_local.worker == this);  // the stack of the scheduler stays on its worker
    worker_local.current = nullptr;
}

// The caller has queued `self`, or waits for a wake. Returns when `self` runs again.
void Worker::switch_away(Thread& self) {
    DCHECK(&self == current());
    assert_state();
    self.fast_form = false;
    if (self.next != nullptr) [[unlikely]]
        pending_ = teams_->gone_stray(self, self.reason);
    Thread* next = nullptr;
    if (slices_left_ > 0 && (next = next_to_run()) != nullptr) {
        --slices_left_;
        DCHECK(next->worker == this && next != dead_);
        if (next == &self) return;  // a yield with no other thread ready
        switches_.add();
        worker_local.current = next;
        switch_context(&self.sp, resume_point(*next), *static_cast<Stack*>(next->stack));
    } else {
        switch_context(&self.sp, scheduler_sp_, scheduler_stack_);
    }
}

void thread_entry(Transfer transfer) {
// Only if frame descriptions exist. They serve debuggers; the engine has no unwind tables.
#if defined(__GCC_HAVE_DWARF2_CFI_ASM) && defined(__x86_64__)
    asm volatile(".cfi_undefined rip");  // debuggers stop unwinding here
#elif defined(__GCC_HAVE_DWARF2_CFI_ASM) && defined(__aarch64__)
    asm volatile(".cfi_undefined x30");
#endif
    arrived(transfer);
    Thread* self = current();
    self->worker->run_thread(*self);
}

void Worker::run_thread(Thread& self) {
    DCHECK(&self == current() && self.worker == this);
    DCHECK(self.all_prev == nullptr && self.all_next == nullptr);
    self.all_next = all_threads_;
    if (all_threads_ != nullptr) all_threads_->all_prev = &self;
    all_threads_ = &self;
    self.fn();
    self.fn = nullptr;             // destroys its captures on the thread's own stack
    CHECK(self.latch_depth == 0);  // LA-2
    if (self.next != nullptr) pending_ = teams_->gone_stray(self, ParkReason::kCount);
    DCHECK(dead_ == nullptr && self.next == nullptr);
    self.assert_state();
    dead_ = &self;
    switch_last(scheduler_sp_, scheduler_stack_);
}

void Worker::reap() {
    Thread* thread = dead_;
    if (thread == nullptr) return;
    DCHECK(thread->state.load(std::memory_order_relaxed) != Thread::kParked);
    DCHECK(thread->timer_index == TimerHeap::kNowhere && thread->next == nullptr);
    DCHECK((thread->all_prev != nullptr ? thread->all_prev->all_next : all_threads_) == thread);
    DCHECK(thread->all_next == nullptr || thread->all_next->all_prev == thread);
    DCHECK(shared_.live.load(std::memory_order_relaxed) > 0);
    dead_ = nullptr;
    (thread->all_prev != nullptr ? thread->all_prev->all_next : all_threads_) = thread->all_next;
    if (thread->all_next != nullptr) thread->all_next->all_prev = thread->all_prev;
    thread->all_prev = thread->all_next = nullptr;
    shared_.stacks.give(static_cast<Stack*>(thread->stack));
    thread->stack = nullptr;
    thread->urgent = false;
    shared_.pool.give(thread);
    if (shared_.live.fetch_sub(1, std::memory_order_acq_rel) == 1) shared_.live.notify_all();
}

// A pending token makes the park return at once. An exchange takes the token, so that the sender's
// writes become visible here (TH-2).
void Worker::park(Thread& self, ParkReason reason) {
    DCHECK(&self == current() && reason < ParkReason::kCount);
    SIM_POINT();
    uint32_t running = Thread::kRunning;
    if (!self.state.compare_exchange_strong(running, Thread::kParked, std::memory_order_acq_rel,
                                            std::memory_order_acquire)) {
        self.state.exchange(Thread::kRunning, std::memory_order_acq_rel);
        return;
    }
    self.reason = reason;
    parks_[static_cast<size_t>(reason)].add();
    if (self.packet != nullptr && !Executors::counts_while_waiting(reason)) {
        executors_.parks();
        wait_for_wake(self, reason);
        return executors_.runs_again();
    }
    wait_for_wake(self, reason);
}

inline void Worker::wait_for_wake(Thread& self, ParkReason reason) {
    if (!timed(reason)) return switch_away(self);
    const Nanos began = clock().now();
    uint32_t& waiting = waiting_[static_cast<size_t>(reason)];
    ++waiting;
    switch_away(self);
    DCHECK(waiting > 0);
    DCHECK(self.state.load(std::memory_order_relaxed) != Thread::kParked);  // TH-2
    --waiting;
    const Nanos waited = clock().now() - began;
    self.waited[static_cast<size_t>(reason)] += waited;
    waited_[static_cast<size_t>(reason)].add(waited);
    waits_ended_[static_cast<size_t>(reason)].add();
}

// Of an executing thread without a packet. May return without a cause.
void Worker::rest(Thread& self) {
    DCHECK(&self == current() && self.packet == nullptr);
    if (self.next != nullptr) pending_ = teams_->gone_stray(self, ParkReason::kCount);
    uint32_t running = Thread::kRunning;
    if (!self.state.compare_exchange_strong(running, Thread::kParked, std::memory_order_acq_rel,
                                            std::memory_order_acquire)) {
        self.state.exchange(Thread::kRunning, std::memory_order_acq_rel);
        // The next member of the team runs next.
        if (pending_ != nullptr) yield(self);
        return;
    }
    self.reason = ParkReason::event;
    switch_away(self);
}

bool Worker::park_until(Thread& self, Nanos deadline, ParkReason reason) {
    if (deadline == kNever) {
        park(self, reason);
        return true;
    }
    if (self.state.load(std::memory_order_relaxed) != Thread::kNotified &&
        clock().now() >= deadline)
        return false;
    DCHECK(self.timer_index == TimerHeap::kNowhere && self.deadline == kNever);
    self.deadline = deadline;
    self.timed_out = false;
    timers_.add(&self, deadline);
    park(self, reason);
    DCHECK(!self.timed_out || self.timer_index == TimerHeap::kNowhere);
    if (self.timer_index != TimerHeap::kNowhere) timers_.remove(&self);
    self.deadline = kNever;
    return !self.timed_out;
}

void Worker::yield(Thread& self) {
    DCHECK(&self == current() && self.worker == this);
    DCHECK(self.state.load(std::memory_order_relaxed) != Thread::kParked);
    parks_[static_cast<size_t>(ParkReason::yield)].add();
    self.reason = ParkReason::yield;
    if (!runs_alone(self)) return yield_to_others(self);
    --slices_left_;
}

void Worker::yield_to_others(Thread& self) {
    DCHECK(&self == current() && self.reason == ParkReason::yield);
    // It may wait for a packet that has not begun.
    const bool executes = self.packet != nullptr;
    if (executes) executors_.parks();
    if (Thread* const admitted = executors_.admit()) make_ready(admitted);
    make_ready(&self);
    switch_away(self);
    if (executes) executors_.runs_again();
}

bool Worker::yield_to_few(Thread& self, uint32_t others) {
    DCHECK(&self == current() && others > 0);
    if (none_ready()) {
        Thread* const admitted = executors_.admit();
        if (admitted == nullptr) return false;
        make_ready(admitted);
    }
    if (policy_ != nullptr) {
        yield(self);
        return true;
    }
    DCHECK(ready_first_ != &self);
    Thread* last = ready_first_;
    while (--others > 0 && last->queue_next != nullptr) last = last->queue_next;
    parks_[static_cast<size_t>(ParkReason::yield)].add();
    self.reason = ParkReason::yield;
    put_behind(&self, last);
    switch_away(self);
    return true;
}

// --- the calls of thread.h

void park(ParkReason reason) {
    Thread* self = current();
    DCHECK(self != nullptr);
    self->worker->park(*self, reason);
}

bool park_until(Nanos deadline, ParkReason reason) {
    Thread* self = current();
    DCHECK(self != nullptr);
    return self->worker->park_until(*self, deadline, reason);
}

// Always a read-modify-write, even if a token is already pending. The parker then sees this waker's
// earlier writes (TH-2).
void wake(Thread* thread) {
    DCHECK(thread != nullptr && thread->worker != nullptr);
    SIM_POINT();
    uint32_t seen = thread->state.load(std::memory_order_relaxed);
    while (!thread->state.compare_exchange_weak(
        seen, seen == Thread::kParked ? Thread::kRunning : Thread::kNotified,
        std::memory_order_acq_rel, std::memory_order_relaxed)) {}
    SIM_POINT();
    if (seen == Thread::kParked) thread->worker->ready(thread);
}

// The runtime ends when its last live user thread has; a pin counts as one.
void* pin_runtime(const Thread& thread) {
    RuntimeShared& shared = thread.worker->shared();
    const Thread* self = current();
    if (self != nullptr && &self->worker->shared() == &shared) return nullptr;
    [[maybe_unused]] const uint64_t live = shared.live.fetch_add(1, std::memory_order_acq_rel);
    DCHECK(live > 0);
    return &shared.live;
}

// Behind the last subtraction the runtime may be gone. The notification uses the address only.
void unpin_runtime(void* pin) {
    if (pin == nullptr) return;
    auto& live = *static_cast<std::atomic<uint64_t>*>(pin);
    const uint64_t before = live.fetch_sub(1, std::memory_order_acq_rel);
    DCHECK(before > 0);
    if (before == 1) live.notify_all();
}

void yield() {
    Thread* self = current();
    DCHECK(self != nullptr);
    self->worker->yield(*self);
}

bool yield_to_few(uint32_t others) {
    Thread* self = current();
    DCHECK(self != nullptr && others > 0);
    return self->worker->yield_to_few(*self, others);
}

void sleep_until(Nanos deadline) {
    DCHECK(deadline != kNever);
    while (park_until(deadline, ParkReason::sleep)) {}
}

Nanos now() { return worker_local.worker->clock().now(); }
Nanos waited(ParkReason reason) {
    DCHECK(reason < ParkReason::kCount);
    const Thread* self = current();
    return self == nullptr ? 0 : self->waited[static_cast<size_t>(reason)];
}
Nanos now_coarse() { return worker_local.worker->turn_time(); }
void set_steps(const StepsOptions& options) {
    DCHECK(worker_local.worker != nullptr);
    worker_local.worker->teams().clear_stats();
    worker_local.worker->set_steps(options);
}

}  // namespace lockstep::threads
