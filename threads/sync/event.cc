// event.cc - wait queues, events and semaphores.
#include "threads/sync/event.h"

#include "threads/base/check.h"

namespace lockstep::threads {

void WaitQueue::add(Waiter& waiter) {
    assert_state();
    CHECK(!waiter.queued);  // EV-1
    waiter.queued = true;
    waiter.next = nullptr;
    waiter.prev = tail_;
    (tail_ != nullptr ? tail_->next : head_) = &waiter;
    tail_ = &waiter;
}

void WaitQueue::add_front(Waiter& waiter) {
    assert_state();
    CHECK(!waiter.queued);  // EV-1
    waiter.queued = true;
    waiter.prev = nullptr;
    waiter.next = head_;
    (head_ != nullptr ? head_->prev : tail_) = &waiter;
    head_ = &waiter;
}

void WaitQueue::remove(Waiter& waiter) {
    if (!waiter.queued) return;
    assert_state();
    DCHECK((waiter.prev != nullptr ? waiter.prev->next : head_) == &waiter);
    DCHECK((waiter.next != nullptr ? waiter.next->prev : tail_) == &waiter);
    (waiter.prev != nullptr ? waiter.prev->next : head_) = waiter.next;
    (waiter.next != nullptr ? waiter.next->prev : tail_) = waiter.prev;
    waiter.prev = waiter.next = nullptr;
    waiter.queued = false;
}

Waiter* WaitQueue::pop() {
    Waiter* first = head_;
    if (first != nullptr) remove(*first);
    return first;
}

bool wait_in(SpinLock& lock, WaitQueue& queue, Waiter& waiter, Nanos deadline, ParkReason reason) {
    DCHECK(waiter.thread == current());
    for (;;) {
        const bool in_time = park_until(deadline, reason);
        SpinGuard guard(lock);
        if (!waiter.queued) return true;
        if (in_time) continue;  // spurious
        queue.remove(waiter);   // EV-2
        return false;
    }
}

void Event::set() {
    WakeBatch batch;  // wakes after the guard below has released the lock
    SpinGuard guard(lock_);
    set_.store(true, std::memory_order_release);
    while (Waiter* waiter = waiters_.pop()) batch.add(waiter->thread);
}

void Event::reset() {
    SpinGuard guard(lock_);
    CHECK(waiters_.empty());
    set_.store(false, std::memory_order_relaxed);
}

bool Event::wait_until(Nanos deadline, ParkReason reason) {
    Waiter me;
    me.thread = current();
    CHECK(me.thread != nullptr);
    {
        // Take the lock even if the event is set: the setter must have left (EV-3).
        SpinGuard guard(lock_);
        if (set_.load(std::memory_order_relaxed)) return true;
        waiters_.add(me);
    }
    return wait_in(lock_, waiters_, me, deadline, reason);
}

bool Semaphore::try_acquire(uint64_t units) {
    DCHECK(units > 0);
    SpinGuard guard(lock_);
    if (units_ < units || !waiters_.empty()) return false;
    units_ -= units;
    return true;
}

bool Semaphore::acquire(uint64_t units, Nanos deadline, ParkReason reason) {
    Waiter me;
    me.thread = current();
    me.tag = units;
    CHECK(me.thread != nullptr);
    DCHECK(units > 0);
    {
        SpinGuard guard(lock_);
        if (units_ >= units && waiters_.empty()) {
            units_ -= units;
            return true;
        }
        waiters_.add(me);
    }
    if (wait_in(lock_, waiters_, me, deadline, reason)) return true;
    // Later waiters may have waited only behind this one.
    WakeBatch batch;
    SpinGuard guard(lock_);
    grant(batch);
    return false;
}

void Semaphore::release(uint64_t units) {
    WakeBatch batch;
    SpinGuard guard(lock_);
    DCHECK(units > 0 && units_ + units > units_);
    units_ += units;
    grant(batch);
}

void Semaphore::grant(WakeBatch& batch) {
    DCHECK(lock_.is_held());
    while (Waiter* first = waiters_.first()) {
        if (first->tag > units_) return;
        units_ -= first->tag;
        waiters_.remove(*first);
        batch.add(first->thread);
    }
}

}  // namespace lockstep::threads
