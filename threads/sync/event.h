// event.h - wait queue (building block), one-shot event and counting semaphore for user threads.
//
// Invariants EV-1 A thread is in at most one wait queue. [checked: WaitQueue::add]
//            EV-2 A waiter that times out has left the queue before its wait returns.
//            EV-3 When Event::wait or Semaphore::acquire returns, the thread that released the
//            waiter no longer touches the object. The waiter may therefore own the object, for
//            example on its stack. is_set() alone gives no such promise.
// Blocking   Waits suspend the user thread. set(), release() and wake() never block and may come
//            from any kernel thread.
#pragma once

#include "threads/base/check.h"
#include "threads/base/spin_lock.h"
#include "threads/thread/thread.h"

namespace lockstep::threads {

// One waiting thread, on the waiter's own stack.
struct Waiter {
    Thread* thread = nullptr;
    Waiter* prev = nullptr;
    Waiter* next = nullptr;
    bool queued = false;
    uint64_t tag = 0;  // the queue's user defines the meaning
};

// An intrusive list of waiters, protected by its user's lock (usually a SpinLock beside it).
class WaitQueue {
public:
    void add(Waiter& waiter);  // at the end
    void add_front(Waiter& waiter);
    void remove(Waiter& waiter);  // no-op if not queued
    Waiter* pop();                // first, removed; null if empty
    Waiter* first() const { return head_; }
    bool empty() const { return head_ == nullptr; }
    void assert_state() const {
        DCHECK((head_ == nullptr) == (tail_ == nullptr));
        DCHECK(head_ == nullptr || (head_->queued && head_->prev == nullptr));
        DCHECK(tail_ == nullptr || (tail_->queued && tail_->next == nullptr));
    }

private:
    Waiter* head_ = nullptr;
    Waiter* tail_ = nullptr;
};

// Threads to wake once a spin lock is released. Waking may enter the kernel, which a lock holder
// should not do. A full batch wakes at once instead, which is slower but correct.
class WakeBatch {
public:
    WakeBatch() = default;
    ~WakeBatch() { flush(); }
    WakeBatch(const WakeBatch&) = delete;
    WakeBatch& operator=(const WakeBatch&) = delete;
    void add(Thread* thread) {
        DCHECK(thread != nullptr && count_ <= kMax);
        if (count_ == kMax) flush();
        threads_[count_++] = thread;
    }
    void flush() {
        for (uint32_t i = 0; i < count_; ++i) wake(threads_[i]);
        count_ = 0;
    }

private:
    static constexpr uint32_t kMax = 16;
    uint32_t count_ = 0;
    Thread* threads_[kMax];
};

// Parks the current thread, whose `waiter` is in `queue`, until another thread removes the waiter:
// true. At the deadline it removes the waiter itself: false. `lock` protects the queue and is not
// held on entry or return.
bool wait_in(SpinLock& lock, WaitQueue& queue, Waiter& waiter, Nanos deadline, ParkReason reason);

// One-shot: once set, every wait returns at once.
class Event {
public:
    void set();
    bool is_set() const { return set_.load(std::memory_order_acquire); }
    void wait(ParkReason reason = ParkReason::event) { wait_until(kNever, reason); }
    // false: deadline passed.
    bool wait_until(Nanos deadline, ParkReason reason = ParkReason::event);
    void reset();  // only while no thread waits

private:
    SpinLock lock_;
    std::atomic<bool> set_{false};  // written under lock_
    WaitQueue waiters_;             // under lock_
};

// Counting; first come, first served.
class Semaphore {
public:
    explicit Semaphore(uint64_t units) : units_(units) {}
    bool try_acquire(uint64_t units = 1);
    bool acquire(uint64_t units = 1, Nanos deadline = kNever,
                 ParkReason reason = ParkReason::event);
    void release(uint64_t units = 1);

private:
    void grant(WakeBatch& batch);  // under lock_

    SpinLock lock_;
    uint64_t units_;     // under lock_
    WaitQueue waiters_;  // under lock_; Waiter::tag = units wanted
};

}  // namespace lockstep::threads
