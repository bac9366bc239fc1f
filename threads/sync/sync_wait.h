// sync_wait.h - waits of user threads and foreign kernel threads in one queue; behind the public
// sync.h and timer.h.
//
// Concepts   A SyncWaiter stands on the stack of the waiting thread. A waker takes it out of the
//            queue under the object's lock and wakes its thread behind the lock. A user thread
//            parks; a foreign kernel thread sleeps in a futex.
// Invariants SY-1 to SY-3 of <lockstep/sync.h>. For SY-3 a waiter returns only after it has had the
//            lock behind its removal. A waker that is no user thread of the waiter's runtime pins
//            that runtime until the wake-up is done (thread.h). [checked: sync_wait(), SyncRelease]
// Blocking   sync_wait() only.
#pragma once

#include <atomic>
#include <new>

#include <lockstep/sync.h>
#include "threads/base/check.h"
#include "threads/base/spin_lock.h"
#include "threads/thread/thread.h"

namespace lockstep::detail {

struct SyncWaiter {
    // Null: a foreign kernel thread.
    threads::Thread* const thread = threads::current();
    // Who it is, for a mutex: its user thread, or an address that a foreign kernel thread has
    // alone.
    const void* const identity =
        thread != nullptr ? static_cast<const void*>(thread) : &threads::worker_local;
    SyncWaiter* prev = nullptr;
    SyncWaiter* next = nullptr;
    bool queued = false;             // under the lock, as the two below
    bool served = false;             // has what it waited for; else the object was closed
    uint64_t wanted = 0;             // units of a semaphore
    ChannelItem* item = nullptr;     // what a sender brings, or a receiver got
    std::atomic<uint32_t> woken{0};  // futex of a foreign kernel thread
};

// The SpinLock behind a SyncLock.
struct SyncAccess {
    static SpinLock& of(SyncLock& lock) {
        return *std::launder(reinterpret_cast<SpinLock*>(lock.memory_));
    }
};

class [[nodiscard]] SyncGuard {
public:
    explicit SyncGuard(SyncLock& lock) : guard_(SyncAccess::of(lock)) {}

private:
    SpinGuard guard_;
};

// Takes waiters out of their queue under the lock, and wakes their threads when it is destroyed.
// Declare it before the guard. A full one wakes under the lock, which is slower but correct.
class SyncRelease {
public:
    SyncRelease() = default;
    ~SyncRelease() { flush(); }
    SyncRelease(const SyncRelease&) = delete;
    SyncRelease& operator=(const SyncRelease&) = delete;
    // `served`: it got what it waited for.
    void take(SyncQueue& queue, SyncWaiter& waiter, bool served);
    void take_all(SyncQueue& queue, bool served) {
        while (queue.first != nullptr) take(queue, *queue.first, served);
    }

private:
    static constexpr uint32_t kMax = 16;
    struct Wake {
        threads::Thread* thread;      // null: a foreign kernel thread
        void* pin;                    // of its runtime, if the caller is outside
        std::atomic<uint32_t>* word;  // of a foreign kernel thread
    };
    void flush();

    uint32_t count_ = 0;
    Wake wakes_[kMax];
};

void sync_enqueue(SyncQueue& queue, SyncWaiter& waiter);
// Waits until a SyncRelease has taken the waiter: true; or until the deadline: then it takes the
// waiter out itself. The caller has queued it and does not hold the lock.
bool sync_wait(SyncLock& lock, SyncQueue& queue, SyncWaiter& waiter, Nanos deadline);
// The clock of the calling thread.
Nanos sync_now();

inline void assert_queue([[maybe_unused]] const SyncQueue& queue) {
    DCHECK((queue.first == nullptr) == (queue.last == nullptr));
    DCHECK(queue.first == nullptr || (queue.first->queued && queue.first->prev == nullptr));
    DCHECK(queue.last == nullptr || (queue.last->queued && queue.last->next == nullptr));
}

}  // namespace lockstep::detail
