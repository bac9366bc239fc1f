// offload.cc - the wait of the public offload.h.
#include <lockstep/offload.h>

#include <atomic>

#include "threads/base/mutants.h"
#include "threads/thread/between_calls.h"
#include "threads/worker/worker.h"

namespace lockstep {
namespace {

// On the stack of the thread that waits. After the store to `done` it may be gone, but the thread
// is not (TH-3).
struct Job : threads::OffloadJob {
    void (*call)(void*) = nullptr;
    void* argument = nullptr;
    threads::Thread* thread = nullptr;
    std::atomic<bool> done{false};
};

void run_job(threads::OffloadJob& base) {
    auto& job = static_cast<Job&>(base);
    DCHECK(threads::current() == nullptr && !job.done.load(std::memory_order_relaxed));
    threads::Thread* thread = job.thread;
    job.call(job.argument);
    job.done.store(true, std::memory_order_release);
    threads::wake(thread);
}

}  // namespace

namespace detail {

Result<void> offload_call(void (*call)(void*), void* argument) {
    DCHECK(call != nullptr);
    threads::Thread* self = threads::current();
    if (self == nullptr || self->worker->shared().simulated || MUTANT(offload_on_the_spot)) {
        call(argument);
        return {};
    }
    Job job;
    job.run = run_job;
    job.call = call;
    job.argument = argument;
    job.thread = self;
    TRY(self->worker->shared().offload->push(job));
    const threads::BetweenCalls waits;
    while (!job.done.load(std::memory_order_acquire)) threads::park(threads::ParkReason::event);
    return {};
}

}  // namespace detail
}  // namespace lockstep
