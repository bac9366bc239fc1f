// sync_wait.cc - the queue of the public primitives, and both forms of its waits.
#include "threads/sync/sync_wait.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <lockstep/clock.h>
#include "threads/thread/between_calls.h"

namespace lockstep::detail {
namespace {

static_assert(sizeof(SpinLock) == sizeof(SyncLock) && alignof(SpinLock) == 1);
static_assert(std::is_trivially_destructible_v<SpinLock>);

void remove(SyncQueue& queue, SyncWaiter& waiter) {
    assert_queue(queue);
    DCHECK(waiter.queued);
    (waiter.prev != nullptr ? waiter.prev->next : queue.first) = waiter.next;
    (waiter.next != nullptr ? waiter.next->prev : queue.last) = waiter.prev;
    waiter.prev = waiter.next = nullptr;
    waiter.queued = false;
}

// Until the word is set or the deadline has passed. May return early.
void sleep_in_futex(std::atomic<uint32_t>& word, Nanos deadline) {
    const timespec until{.tv_sec = static_cast<time_t>(deadline / kSecond),
                         .tv_nsec = static_cast<long>(deadline % kSecond)};
    syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, deadline == kNever ? nullptr : &until,
            nullptr, FUTEX_BITSET_MATCH_ANY);
}

// False: the deadline has passed. True may be spurious for a user thread.
bool wait_once(SyncWaiter& waiter, Nanos deadline) {
    if (waiter.thread != nullptr) {
        const threads::BetweenCalls waits;
        return threads::park_until(deadline, threads::ParkReason::event);
    }
    while (waiter.woken.load(std::memory_order_acquire) == 0) {
        if (deadline != kNever && sync_now() >= deadline) return false;
        sleep_in_futex(waiter.woken, deadline);
    }
    return true;
}

}  // namespace

SyncLock::SyncLock() { new (memory_) SpinLock; }

Nanos sync_now() { return threads::current() != nullptr ? threads::now() : MonotonicClock().now(); }

Nanos deadline_in(Nanos timeout) {
    if (timeout == 0 || timeout == kNever) return timeout;  // 0 has passed
    const Nanos now = sync_now();
    return timeout < kNever - now ? now + timeout : kNever;
}

void sync_enqueue(SyncQueue& queue, SyncWaiter& waiter) {
    assert_queue(queue);
    CHECK(!waiter.queued);  // SY-1
    waiter.queued = true;
    waiter.prev = queue.last;
    (queue.last != nullptr ? queue.last->next : queue.first) = &waiter;
    queue.last = &waiter;
}

bool sync_wait(SyncLock& lock, SyncQueue& queue, SyncWaiter& waiter, Nanos deadline) {
    for (;;) {
        const bool in_time = wait_once(waiter, deadline);
        {
            const SyncGuard guard(lock);
            if (!waiter.queued) break;
            if (in_time) continue;  // spurious
            remove(queue, waiter);
            return false;
        }
    }
    // A waker that has taken a foreign waiter still stores into it.
    if (waiter.thread == nullptr) (void)wait_once(waiter, kNever);
    return true;
}

void SyncRelease::take(SyncQueue& queue, SyncWaiter& waiter, bool served) {
    remove(queue, waiter);
    waiter.served = served;
    if (count_ == kMax) flush();
    void* pin = waiter.thread != nullptr ? threads::pin_runtime(*waiter.thread) : nullptr;
    wakes_[count_++] = {.thread = waiter.thread, .pin = pin, .word = &waiter.woken};
}

// Behind the store into `word` the waiter may be gone. The system call uses its address only.
void SyncRelease::flush() {
    DCHECK(count_ <= kMax);
    for (uint32_t i = 0; i < count_; ++i) {
        const Wake& wake = wakes_[i];
        if (wake.thread != nullptr) {
            threads::wake(wake.thread);
            threads::unpin_runtime(wake.pin);
            continue;
        }
        std::atomic<uint32_t>* word = wake.word;
        word->store(1, std::memory_order_release);
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
    count_ = 0;
}

}  // namespace lockstep::detail
