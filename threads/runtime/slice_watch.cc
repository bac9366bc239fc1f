// slice_watch.cc - the kernel thread that looks at the workers, and its reports.
#include "threads/runtime/slice_watch.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>

#include "threads/base/check.h"
#include "threads/base/mutants.h"
#include "threads/runtime/slice_time.h"
#include "threads/worker/worker.h"

namespace lockstep::threads {
namespace {

constexpr uint64_t kLooksPerBound = 4;

Nanos interval_of(Nanos bound) { return std::max(bound / kLooksPerBound, kMillisecond / 4); }

// `elapsed` has passed since the time was noted last. `queued`: then, becomes `queued_now`. A look
// that comes late says that this thread, too, had no CPU or was stopped: it counts as one.
void note_time(Nanos& held, Nanos& queued, Nanos elapsed, Nanos queued_now, Nanos bound) {
    DCHECK(bound > 0 && elapsed < kNever);
    queued_now = std::max(queued_now, queued);
    const Nanos interval = interval_of(bound);
    held = held_after(held, elapsed, queued_now - queued, interval + interval / 2);
    queued = queued_now;
}

// "1234 ms".
std::string millis(Nanos time) { return std::to_string(time / kMillisecond) + " ms"; }

}  // namespace

SliceWatch::SliceWatch(Nanos bound, std::vector<Watched> watched, SliceReport report)
    : bound_(bound), report_(std::move(report)) {
    for (const Watched& one : watched) {
        State state;
        state.watched = one;
        states_.push_back(state);
    }
}

Result<std::unique_ptr<SliceWatch>> SliceWatch::start(Nanos bound, std::vector<Watched> watched,
                                                      SliceReport report) {
    DCHECK(bound > 0 && !watched.empty() && report);
    std::unique_ptr<SliceWatch> watch(new (std::nothrow)
                                          SliceWatch(bound, std::move(watched), std::move(report)));
    if (watch == nullptr) return fail(ErrorCode::out_of_memory, "watch of slices");
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int refused = pthread_create(&watch->thread_, nullptr, thread_main, watch.get());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (refused == 0) return watch;
    watch->ending_.store(2, std::memory_order_relaxed);  // nothing to join
    return fail_os(ErrorCode::out_of_memory, refused, "kernel thread that watches slices");
}

SliceWatch::~SliceWatch() {
    if (ending_.exchange(1, std::memory_order_release) == 2) return;
    syscall(SYS_futex, &ending_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    pthread_join(thread_, nullptr);
}

void* SliceWatch::thread_main(void* self) {
    pthread_setname_np(pthread_self(), "lockstep-watch");
    static_cast<SliceWatch*>(self)->work();
    return nullptr;
}

void SliceWatch::work() {
    const Nanos interval = interval_of(bound_);
    const timespec pause{.tv_sec = static_cast<time_t>(interval / kSecond),
                         .tv_nsec = static_cast<long>(interval % kSecond)};
    Nanos last = clock_.now();
    while (ending_.load(std::memory_order_acquire) == 0) {
        syscall(SYS_futex, &ending_, FUTEX_WAIT_PRIVATE, 0, &pause, nullptr, 0);
        const Nanos now = clock_.now();
        for (State& state : states_) look(state, now - last);
        last = clock_.now();
    }
}

void SliceWatch::look(State& state, Nanos elapsed) {
    const Worker& worker = *state.watched.worker;
    const uint64_t slices = worker.slices();
    DCHECK(slices >= state.slices);
    if (slices != state.slices || worker.asleep()) {
        if (state.reported) tell_end(state);
        state = {.watched = state.watched, .slices = slices, .before = {}};
        return;
    }
    if (!state.begun) {
        state.begun = true;
        state.before = usage_of(state.watched.number);
        return;
    }
    note_time(state.held, state.before.queued, elapsed, usage_of(state.watched.number).queued,
              bound_);
    if (!state.reported && state.held >= bound_) warn(state);
}

void SliceWatch::warn(State& state) {
    DCHECK(!state.reported && state.held >= bound_);
    const Worker& worker = *state.watched.worker;
    const Nanos began = clock_.now();
    const std::optional<StackSample> sample = samples_.take(state.watched.handle);
    // SL-2: the slice has just ended, or the scheduler ran.
    if (worker.slices() != state.slices || (sample && sample->thread_id == 0)) return;
    // The kernel counts a wait for a CPU when it ends, which the answer shows.
    const Usage now = usage_of(state.watched.number);
    note_time(state.held, state.before.queued, clock_.now() - began, now.queued, bound_);
    if (state.held < bound_) return;
    state.reported = !MUTANT(slice_reported_again);
    std::string text = "worker " + std::to_string(worker.index()) + ": ";
    if (sample) {
        state.thread_id = sample->thread_id;
        text += "user thread " + std::to_string(sample->thread_id) + " \"" + sample->name + "\"";
    } else {
        text += "a user thread";
    }
    text += " has kept the CPU for more than " + millis(state.held);
    if (now.on_cpu > state.before.on_cpu)
        text += ", " + millis(now.on_cpu - state.before.on_cpu) + " of it computing";
    text +=
        "; the other user threads of the worker wait. Suspend instead (lockstep/sync.h, timer.h, "
        "fd.h), call offload() for what blocks, or yield() in long computations. Stack:";
    text += sample ? sample->text() : " the kernel thread did not answer to SIGURG";
    report_(1, text);
}

void SliceWatch::tell_end(State& state) const {
    DCHECK(state.reported);
    const std::string who =
        state.thread_id != 0 ? "user thread " + std::to_string(state.thread_id) : "a user thread";
    report_(2, "worker " + std::to_string(state.watched.worker->index()) + ": " + who +
                   " gave up the CPU after about " + millis(state.held));
}

// From schedstat: nanoseconds on a CPU, nanoseconds ready without one.
SliceWatch::Usage SliceWatch::usage_of(pid_t number) {
    const std::string path = "/proc/self/task/" + std::to_string(number) + "/schedstat";
    FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) return {};
    unsigned long long on_cpu = 0, queued = 0;
    const int found = std::fscanf(file, "%llu %llu", &on_cpu, &queued);
    std::fclose(file);
    return found == 2 ? Usage{on_cpu, queued} : Usage{};
}

}  // namespace lockstep::threads
