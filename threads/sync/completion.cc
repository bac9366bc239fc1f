// completion.cc - waits of a foreign kernel thread for a user thread, and the reverse.
#include "threads/sync/completion.h"

#include "threads/base/check.h"

namespace lockstep::threads {
namespace {
// Value of waiter_ once set() has begun: a later user thread must not register.
Thread* const kSetAlready = reinterpret_cast<Thread*>(uintptr_t{1});
}  // namespace

// After the store to done_ the object may no longer exist. The rest uses only its address, and a
// Thread, which is never freed (TH-3).
void Completion::set() {
    Thread* waiter = waiter_.exchange(kSetAlready, std::memory_order_acq_rel);
    std::atomic<uint32_t>* done = &done_;
    done->store(1, std::memory_order_release);
    done->notify_all();
    if (waiter != nullptr && waiter != kSetAlready) wake(waiter);
}

void Completion::wait() {
    Thread* self = current();
    if (self == nullptr) {
        while (!is_set()) done_.wait(0, std::memory_order_acquire);
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
