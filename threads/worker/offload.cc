// offload.cc - see offload.h, and the public one.
#include "threads/worker/offload.h"

#include <atomic>

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

// Of the job that the kernel thread runs. Jobs do not nest: in one, offload() runs on the spot.
constinit thread_local const threads::RuntimeShared* waiting_runtime = nullptr;

void run_job(threads::OffloadJob& base) {
    auto& job = static_cast<Job&>(base);
    DCHECK(threads::current() == nullptr && !job.done.load(std::memory_order_relaxed));
    DCHECK(waiting_runtime == nullptr);
    threads::Thread* thread = job.thread;
    waiting_runtime = &thread->worker->shared();
    job.call(job.argument);
    waiting_runtime = nullptr;
    job.done.store(true, std::memory_order_release);
    threads::wake(thread);
}

}  // namespace

namespace threads {

bool offloaded_by(const RuntimeShared* runtime) {
    return runtime != nullptr && waiting_runtime == runtime;
}

Result<void> run_call_on(OffloadPool& pool, void (*call)(void*), void* argument) {
    Thread* self = current();
    DCHECK(self != nullptr && call != nullptr);
    if (self->worker->shared().simulated) {
        call(argument);
        return {};
    }
    Job job;
    job.run = run_job;
    job.call = call;
    job.argument = argument;
    job.thread = self;
    TRY(pool.push(job));
    const BetweenCalls waits;
    while (!job.done.load(std::memory_order_acquire)) park(ParkReason::event);
    return {};
}

}  // namespace threads

namespace detail {

Result<void> offload_call(void (*call)(void*), void* argument) {
    DCHECK(call != nullptr);
    threads::Thread* self = threads::current();
    if (self != nullptr)
        return threads::run_call_on(*self->worker->shared().offload, call, argument);
    call(argument);
    return {};
}

}  // namespace detail
}  // namespace lockstep
