// slice_watch.h - reports user threads that keep their worker's CPU for too long.
//
// Concepts   One kernel thread looks at Worker::slices() of each worker four times per bound. If
//            the number stands still and the worker does not sleep, its user thread does not give
//            up the CPU: it computes, or it blocks its kernel thread. The other user threads of the
//            worker wait meanwhile. The report names the user thread and shows its stack.
//            Workers pay nothing: they count their slices in any case.
//            Only time counts in which the kernel thread was on a CPU, or was asleep in a system
//            call. What the process spends stopped, or the worker waiting for a CPU, does not.
// Invariants SL-1 A slice is reported once, and its end once. A slice that was too long when it was
//            looked at is reported, even if it has ended since.
//            SL-2 Nothing is reported about a worker that runs no user thread. [checked: look()]
// Blocking   The destructor waits for a report that is being made.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/clock.h>
#include <lockstep/result.h>
#include "threads/thread/stack_sample.h"

namespace lockstep::threads {

class Worker;

// Level as in Logger: 1 for a slice, 2 for its end.
using SliceReport = std::function<void(int level, std::string_view text)>;

class SliceWatch {
public:
    // A worker and its kernel thread, which live as long as the watch.
    struct Watched {
        const Worker* worker;
        pthread_t handle;
        pid_t number;  // of the kernel thread
    };
    // Reports slices longer than `bound` nanoseconds. Error: out_of_memory (no kernel thread).
    static Result<std::unique_ptr<SliceWatch>> start(Nanos bound, std::vector<Watched> watched,
                                                     SliceReport report);
    ~SliceWatch();
    SliceWatch(const SliceWatch&) = delete;
    SliceWatch& operator=(const SliceWatch&) = delete;

private:
    // What the kernel has counted for a thread; zero if it does not count.
    struct Usage {
        Nanos on_cpu = 0;
        Nanos queued = 0;  // ready, but on no CPU
    };
    struct State {
        Watched watched;
        bool begun = false;      // the number was the same twice
        uint64_t slices = 0;     // when last looked at
        Nanos held = 0;          // that number has not changed for so long, at least
        Nanos computed = 0;      // of it on a CPU
        Usage before;            // at the last look
        bool reported = false;   // this slice
        uint64_t thread_id = 0;  // whose slice it is
        const char* name = "";   // static
        const Thread* thread = nullptr;
    };
    SliceWatch(Nanos bound, std::vector<Watched> watched, SliceReport report);
    static void* thread_main(void* self);
    static Usage usage_of(pid_t number);
    void work();
    void look(State& state, Nanos elapsed);
    static bool identify(State& state);
    [[gnu::cold]] void warn(State& state, const KernelActivity& activity);
    [[gnu::cold]] std::string stack_text(const State& state, const KernelActivity& activity);
    [[gnu::cold]] void tell_end(State& state) const;

    const Nanos bound_;
    const SliceReport report_;
    std::vector<State> states_;  // the thread's
    StackSamples samples_;
    MonotonicClock clock_;
    std::atomic<uint32_t> ending_{0};  // futex
    pthread_t thread_{};
};

}  // namespace lockstep::threads
