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
#include "threads/base/sanitized.h"
#include "threads/runtime/slice_time.h"
#include "threads/worker/worker.h"

namespace lockstep::threads {
namespace {

constexpr uint64_t kLooksPerBound = 4;

Nanos interval_of(Nanos bound) { return std::max(bound / kLooksPerBound, kMillisecond / 4); }

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
        state.begun = identify(state);
        state.before = usage_of(state.watched.number);
        return;
    }
    DCHECK(state.thread != nullptr && elapsed < kNever);
    const KernelActivity activity = activity_of(state.watched.number);
    const Usage now = usage_of(state.watched.number);
    // Without the kernel's word it may sleep.
    const SliceLook seen{.elapsed = elapsed,
                         .computed = now.on_cpu - std::min(now.on_cpu, state.before.on_cpu),
                         .queued = now.queued - std::min(now.queued, state.before.queued),
                         .asleep = activity.kind != KernelActivity::Kind::ready};
    const Nanos interval = interval_of(bound_);
    state.held = held_after(state.held, seen, interval + interval / 2);
    state.computed += seen.computed;
    state.before = now;
    if (!state.reported && state.held >= bound_) warn(state, activity);
}

// Whose slice it is. False: nobody's (SL-2), or it has just ended.
LOCKSTEP_NO_TSAN bool SliceWatch::identify(State& state) {
    const Worker& worker = *state.watched.worker;
    DCHECK(!state.begun && !state.reported);
    state.thread = worker.running();
    if (state.thread == nullptr) return false;
    state.thread_id = state.thread->id;
    state.name = state.thread->name;
    return worker.slices() == state.slices && worker.running() == state.thread;
}

void SliceWatch::warn(State& state, const KernelActivity& activity) {
    DCHECK(!state.reported && state.held >= bound_ && state.thread != nullptr);  // SL-2
    state.reported = true;
    std::string text = "worker " + std::to_string(state.watched.worker->index()) +
                       ": user thread " + std::to_string(state.thread_id) + " \"" + state.name +
                       "\" has kept the CPU for more than " + millis(state.held);
    if (state.computed > 0) text += ", " + millis(state.computed) + " of it computing";
    text +=
        "; the other user threads of the worker wait. Suspend instead (lockstep/sync.h, timer.h, "
        "fd.h), call offload() for what blocks, or yield() in long computations. Stack:" +
        stack_text(state, activity);
    report_(1, text);
}

// SS-3. The stack of a slice that has ended meanwhile would be another one.
std::string SliceWatch::stack_text(const State& state, const KernelActivity& activity) {
    using Kind = KernelActivity::Kind;
    const Worker& worker = *state.watched.worker;
    DCHECK(state.reported);
    if (activity.kind == Kind::unknown)
        return " unknown, because /proc does not tell whether the kernel thread sleeps";
    if (activity.kind == Kind::asleep) {
        const StackSample sample = read_stack(activity, *state.thread);
        const bool still =
            worker.slices() == state.slices && activity_of(state.watched.number).sp == activity.sp;
        return still ? sample.text() : " it went on before its stack was read";
    }
    const std::optional<StackSample> sample = samples_.take(state.watched.handle);
    if (!sample) return " the kernel thread did not answer to SIGURG";
    if (sample->thread_id != state.thread_id) return " it ended before its stack was read";
    return sample->text();
}

void SliceWatch::tell_end(State& state) const {
    DCHECK(state.reported);
    report_(2, "worker " + std::to_string(state.watched.worker->index()) + ": user thread " +
                   std::to_string(state.thread_id) + " gave up the CPU after about " +
                   millis(state.held));
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
