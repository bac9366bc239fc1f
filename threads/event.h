// event.h - what user threads wait on: WaitQueue (building block), Event (one-shot), Semaphore (counting).
//
// Invariants EV-1 A thread is in at most one wait queue. [checked: WaitQueue::add]
//            EV-2 A waiter that times out has left the queue before its wait returns.
// Blocking   Waits suspend the user thread. set/post/wake_* never block and may come from any kernel thread.
#pragma once

#include "threads/base/spin_lock.h"
#include "threads/thread.h"

namespace lockstep::threads {

// One waiting thread, on the waiter's own stack.
struct Waiter {
    Thread* thread = nullptr;
    Waiter* prev = nullptr;
    Waiter* next = nullptr;
    bool queued = false;
    uint64_t tag = 0;                            // meaning belongs to the queue's user
};

// An intrusive list of waiters, protected by its user's lock (usually a SpinLock beside it).
class WaitQueue {
public:
    void add(Waiter& waiter);                    // at the end
    void remove(Waiter& waiter);                 // no-op if not queued
    Waiter* pop();                               // first, removed; null if empty
    Waiter* first() const { return head_; }
    bool empty() const { return head_ == nullptr; }

private:
    Waiter* head_ = nullptr;
    Waiter* tail_ = nullptr;
};

// One-shot: once set, every wait returns at once.
class Event {
public:
    void set();
    bool is_set() const { return set_.load(std::memory_order_acquire); }
    void wait(ParkReason reason = ParkReason::event) { wait_until(kNever, reason); }
    bool wait_until(Nanos deadline, ParkReason reason = ParkReason::event);     // false: deadline passed
    void reset();                                // only while nobody waits

private:
    SpinLock lock_;
    std::atomic<bool> set_{false};               // written under lock_
    WaitQueue waiters_;                          // under lock_
};

// Counting; first come, first served.
class Semaphore {
public:
    explicit Semaphore(uint64_t units) : units_(units) {}
    bool try_acquire(uint64_t units = 1);
    bool acquire(uint64_t units = 1, Nanos deadline = kNever, ParkReason reason = ParkReason::event);
    void release(uint64_t units = 1);

private:
    SpinLock lock_;
    uint64_t units_;                             // under lock_
    WaitQueue waiters_;                          // under lock_; Waiter::tag = units wanted
};

}  // namespace lockstep::threads
