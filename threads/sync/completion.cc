// completion.cc - waits of a foreign kernel thread for a user thread, and the reverse.
#include "threads/sync/completion.h"

#include "threads/base/check.h"
#include "threads/sync/foreign_wait.h"

namespace lockstep::threads {
namespace {
// Value of waiter_ once set() has begun: a later user thread must not register.
Thread* const kSetAlready = reinterpret_cast<Thread*>(uintptr_t{1});
}  // namespace

// After the store to done_ the object may no longer exist, and the waiter may have ended. The rest
// uses only the object's address, and a Thread, which lives as long as its pinned runtime (TH-3).
void Completion::set() {
    Thread* waiter = waiter_.exchange(kSetAlready, std::memory_order_acq_rel);
    const bool waits = waiter != nullptr && waiter != kSetAlready;
    void* pin = waits ? pin_runtime(*waiter) : nullptr;
    std::atomic<uint32_t>* done = &done_;
    if (done->exchange(kSet, std::memory_order_acq_rel) == kSleeps) wake_sleepers(done);
    if (!waits) return;
    DCHECK(pin == nullptr || current() == nullptr || current()->worker != waiter->worker);
    wake(waiter);
    unpin_runtime(pin);
}

void Completion::wait() {
    Thread* self = current();
    if (self == nullptr) {
        uint32_t word = kRuns;
        while (!is_set())
            if (done_.compare_exchange_strong(word = kRuns, kSleeps) || word == kSleeps)
                sleep_while(done_, kSleeps);  // FW-1
        return;
    }
    Thread* nobody = nullptr;
    const bool registered =
        waiter_.compare_exchange_strong(nobody, self, std::memory_order_acq_rel);
    CHECK(registered || nobody == kSetAlready);  // one user thread may wait
    while (!is_set()) {
        if (registered) park(ParkReason::event);
        else yield();  // set() is between its two stores
    }
}

}  // namespace lockstep::threads
