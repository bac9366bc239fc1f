// runtime.cc - starting and stopping workers, spawning user threads, driving virtual workers.
#include "threads/runtime/runtime.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include <algorithm>

#include <new>
#include <vector>

#include "threads/base/check.h"
#include "threads/base/rng.h"
#include "threads/io/size_signal.h"
#include "threads/runtime/virtual_cores.h"
#include "threads/thread/stack_overflow.h"
#include "threads/worker/worker.h"

namespace lockstep::threads {

// A worker and its kernel thread. `attached`: 0 not yet, 1 runs, 2 failed with `error`.
struct KernelThread {
    Worker* worker = nullptr;
    int cpu = -1;  // CPU to bind to, or -1
    pthread_t handle{};
    bool started = false;
    pid_t number = 0;  // of the kernel thread, valid once attached
    std::atomic<uint32_t> attached{0};
    Error error;
};

struct Runtime::Impl {
    explicit Impl(const RuntimeOptions& options)
        : shared(options.stack_bytes, options.mappings),
          caller_driven(options.caller_driven),
          rng(options.seed),
          offload(options.offload_threads) {
        shared.simulated = caller_driven;
        shared.fd_poller = &fd_poller;
        shared.offload = &offload;
    }

    OverflowReports overflow_reports;
    MonotonicClock own_clock;
    RuntimeShared shared;
    const bool caller_driven;
    Rng rng;             // draws the worker of each step
    bool ended = false;  // stop() has finished
    std::vector<std::unique_ptr<Worker>> workers;
    std::vector<std::unique_ptr<KernelThread>> kernel_threads;
    // Behind the workers: a thread of theirs may still be waking one.
    FdPoller fd_poller;
    OffloadPool offload;
    std::unique_ptr<SliceWatch> watch;
#ifdef LOCKSTEP_SIM_POINTS
    // Run the workers' turns if these may be interrupted.
    std::unique_ptr<VirtualCores> cores;
#endif

    Result<void> start_kernel_threads(bool pin);
    Result<void> attach_here();
    void end_workers();
    void abandon_here();
};

namespace {

// The teams that start() gave the worker.
const Steps& steps_of(const Worker& worker) { return static_cast<const Steps&>(worker.teams()); }

std::vector<int> allowed_cpus() {
    std::vector<int> cpus;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    return cpus;
}

void* kernel_thread_main(void* argument) {
    auto& self = *static_cast<KernelThread*>(argument);
    DCHECK(self.worker != nullptr && current() == nullptr);
    if (self.cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(self.cpu, &set);
        sched_setaffinity(0, sizeof set, &set);  // failure costs only speed
    }
    const SignalStack signal_stack;
    block_size_signal();
    self.number = gettid();
    const Result<void> ok = self.worker->attach();
    if (!ok) self.error = ok.error();
    self.attached.store(ok ? 1 : 2, std::memory_order_release);
    self.attached.notify_all();
    if (!ok) return nullptr;
    self.worker->run();
    self.worker->detach();
    return nullptr;
}

Result<void> check_options(const RuntimeOptions& options) {
    if (options.workers < 1 || options.workers > 64)
        return fail(ErrorCode::bad_option, "workers", options.workers);
    if (options.without_packets >= options.workers)
        return fail(ErrorCode::bad_option, "without_packets", options.without_packets);
    if (options.offload_threads < 1)
        return fail(ErrorCode::bad_option, "offload_threads", options.offload_threads);
    if (options.executors < 1) return fail(ErrorCode::bad_option, "executors", options.executors);
    if (options.steps.team_max < 1 || options.steps.team_max > 1024)
        return fail(ErrorCode::bad_option, "team_max", options.steps.team_max);
    if (options.stack_bytes < StackPool::kBytesMin || options.stack_bytes > StackPool::kBytesMax)
        return fail(ErrorCode::bad_option, "stack_bytes", options.stack_bytes);
    return {};
}

}  // namespace

Result<void> Runtime::Impl::start_kernel_threads(bool pin) {
    DCHECK(kernel_threads.empty() && !caller_driven);
    const std::vector<int> cpus = pin ? allowed_cpus() : std::vector<int>{};
    for (auto& worker : workers) {
        auto& thread = *kernel_threads.emplace_back(std::make_unique<KernelThread>());
        thread.worker = worker.get();
        if (!cpus.empty()) thread.cpu = cpus[worker->index() % cpus.size()];
        const int err = pthread_create(&thread.handle, nullptr, kernel_thread_main, &thread);
        if (err != 0)
            return fail_os(ErrorCode::out_of_memory, err, "kernel thread of a worker",
                           worker->index());
        thread.started = true;
    }
    for (auto& thread : kernel_threads) {
        thread->attached.wait(0, std::memory_order_acquire);
        if (thread->attached.load(std::memory_order_acquire) == 2)
            return std::unexpected(thread->error);
    }
    return {};
}

// Caller-driven: attach() makes each worker's queue here; step() sets the thread-local worker while
// it runs.
Result<void> Runtime::Impl::attach_here() {
    const WorkerLocal outer = worker_local;
    for (auto& worker : workers) {
        const Result<void> ok = worker->attach();
        worker_local = outer;
        if (!ok) return ok;
    }
    return {};
}

void Runtime::Impl::abandon_here() {
    DCHECK(caller_driven && !ended && shared.stopping.load());
    for (auto& worker : workers) worker->abandon();
    ended = true;
}

void Runtime::Impl::end_workers() {
    DCHECK(!ended && !shared.ending.load());
    shared.ending.store(true, std::memory_order_seq_cst);
    for (auto& worker : workers) worker->kick();
    for (auto& thread : kernel_threads)
        if (thread->started) pthread_join(thread->handle, nullptr);
}

Result<std::unique_ptr<Runtime>> Runtime::start(const RuntimeOptions& options) {
    TRY(check_options(options));
    std::unique_ptr<Impl> impl(new (std::nothrow) Impl(options));
    if (impl == nullptr) return fail(ErrorCode::out_of_memory, "runtime");
    RuntimeShared& shared = impl->shared;
    shared.clock = options.clock != nullptr ? options.clock : &impl->own_clock;
    shared.clock_is_real = shared.clock->moves_by_itself();
    shared.disk = options.disk;
    shared.whole_turns = options.whole_turns;
    shared.packet_workers = options.workers - options.without_packets;
    shared.executors.executors = options.executors;
    shared.executors.begun_max = options.begun_max;
    shared.admission = {.policy = options.packet_policy, .packets_max = options.packets_max};
    shared.latch_spins = options.workers > 1 && !options.caller_driven ? 60 : 0;
    for (uint32_t i = 0; i < options.workers; ++i) {
        auto policy = options.policy ? options.policy(i) : nullptr;
        auto& worker =
            impl->workers.emplace_back(std::make_unique<Worker>(shared, i, std::move(policy)));
        worker->adopt_teams(std::make_unique<Steps>(*worker, options.steps));
        shared.workers.push_back(worker.get());
    }
    Result<void> ok = options.caller_driven ? impl->attach_here()
                                            : impl->start_kernel_threads(options.pin_workers);
#ifdef LOCKSTEP_SIM_POINTS
    if (ok && options.caller_driven && options.interrupt_one_in != 0) {
        impl->cores =
            std::make_unique<VirtualCores>(impl->workers, options.seed, options.interrupt_one_in);
        ok = impl->cores->start();
    }
#endif
    if (!ok) {
        impl->end_workers();
        return std::unexpected(ok.error());
    }
    return std::unique_ptr<Runtime>(new Runtime(std::move(impl)));
}

Runtime::Runtime(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Runtime::~Runtime() { stop(); }

// Counts the thread before it reads `stopping`. stop() then either sees this thread or makes it
// fail.
Result<Thread*> Runtime::spawn(uint32_t worker, const char* name, ThreadFn fn) {
    DCHECK(name != nullptr && static_cast<bool>(fn));
    RuntimeShared& shared = impl_->shared;
    const uint64_t live = shared.live.fetch_add(1, std::memory_order_seq_cst) + 1;
    auto refused = [&](std::unexpected<Error> error) -> Result<Thread*> {
        if (shared.live.fetch_sub(1, std::memory_order_acq_rel) == 1) shared.live.notify_all();
        return error;
    };
    if (shared.stopping.load(std::memory_order_seq_cst))
        return refused(fail(ErrorCode::store_closed, "runtime"));
    Worker& home = *impl_->workers[worker % impl_->workers.size()];
    auto made = home.make_thread(name, std::move(fn), live);
    if (!made) return refused(std::unexpected(made.error()));
    home.ready(*made);
    return *made;
}

// --- packets

Result<void> Runtime::submit(uint32_t worker, Packet& packet) {
    ExecutorsShared& executors = impl_->shared.executors;
    if (executors.begun.load(std::memory_order_relaxed) >= executors.begun_max) [[unlikely]]
        return fail(ErrorCode::too_many,
                    "user threads: join some, or raise option user_threads_max",
                    executors.begun_max);
    if (executors.no_stack.load(std::memory_order_relaxed)) [[unlikely]] {
        StackPool& stacks = impl_->shared.stacks;
        stacks.give(TRY(stacks.take()));
        executors.no_stack.store(false, std::memory_order_relaxed);
    }
    return impl_->workers[worker % impl_->shared.packet_workers]->submit(packet);
}

// The packet may move to another worker meanwhile, at most for a moment at a time.
bool Runtime::withdraw(Packet& packet) {
    using Withdrawn = Admission::Withdrawn;
    auto answer = Withdrawn::at_another_worker;
    while (answer == Withdrawn::at_another_worker) {
        const uint8_t home = packet.home.get();
        DCHECK(home < impl_->workers.size());
        answer = impl_->workers[home]->admission().withdraw(packet);
    }
    return answer == Withdrawn::yes;
}

void Runtime::set_team_hook(TeamHook* hook) {
    impl_->shared.executors.hook.store(hook, std::memory_order_release);
}

void Runtime::close_admission() {
    impl_->shared.executors.draining.store(true, std::memory_order_seq_cst);
    for (auto& worker : impl_->workers) {
        worker->admission().close();
        worker->kick();
    }
}

// AD-3: ended first.
uint64_t Runtime::packets() const {
    uint64_t ended = 0, submitted = 0;
    for (const auto& worker : impl_->workers) ended += worker->admission().ended();
    for (const auto& worker : impl_->workers) submitted += worker->admission().submitted();
    DCHECK(ended <= submitted);
    return submitted - ended;
}

void Runtime::drain() {
    DCHECK(!impl_->caller_driven && impl_->shared.executors.draining.load());
    std::atomic<uint32_t>& begun = impl_->shared.executors.begun;
    for (;;) {
        const uint32_t busy = begun.load(std::memory_order_seq_cst);
        if (busy != 0) begun.wait(busy, std::memory_order_seq_cst);
        else if (packets() == 0) return;
        else usleep(50);  // the first of them is being admitted
    }
}

bool Runtime::drained() const {
    DCHECK(!impl_->caller_driven && !impl_->ended);
    DCHECK(impl_->shared.executors.draining.load());  // no packet comes any more
    return impl_->shared.executors.begun.load(std::memory_order_seq_cst) == 0 && packets() == 0;
}

StageStats Runtime::admission_stats() const {
    StageStats sum;
    for (const auto& worker : impl_->workers) sum.add(worker->admission().stats());
    return sum;
}

uint64_t Runtime::packets_timed() const {
    uint64_t sum = 0;
    for (const auto& worker : impl_->workers) sum += worker->admission().timed();
    return sum;
}

bool Runtime::owns(const Thread& thread) const {
    return &thread.worker->shared() == &impl_->shared;
}
const char* Runtime::io_name() const { return impl_->workers[0]->io_name(); }
std::vector<TeamStats> Runtime::team_stats() const {
    std::vector<TeamStats> all;
    for (const auto& worker : impl_->workers) {
        for (const TeamStats& list : steps_of(*worker).team_stats()) {
            const auto same = std::find_if(all.begin(), all.end(), [&](const TeamStats& s) {
                return s.op == list.op && s.object == list.object && s.merged == list.merged;
            });
            if (same == all.end()) all.push_back(list);
            else same->add(list);
        }
    }
    return all;
}

std::vector<TunerStats> Runtime::tuner_stats() const {
    std::vector<TunerStats> all;
    for (const auto& worker : impl_->workers) all.push_back(steps_of(*worker).tuner_stats());
    return all;
}

CtxStats Runtime::ctx_stats() const {
    CtxStats sum;
    for (const auto& worker : impl_->workers) sum.add(steps_of(*worker).ctx_stats());
    return sum;
}

IoStats Runtime::io_stats() const {
    IoStats sum;
    for (const auto& worker : impl_->workers) worker->add_io_stats(sum);
    return sum;
}

Result<void> Runtime::watch_slices(Nanos bound, SliceReport report) {
    DCHECK(impl_->watch == nullptr && !impl_->ended);
    if (impl_->caller_driven) return {};
    std::vector<SliceWatch::Watched> watched;
    for (const auto& thread : impl_->kernel_threads)
        watched.push_back(
            {.worker = thread->worker, .handle = thread->handle, .number = thread->number});
    impl_->watch = TRY(SliceWatch::start(bound, std::move(watched), std::move(report)));
    return {};
}

void Runtime::end_fd_waits() {
    for (const auto& worker : impl_->workers) worker->end_fd_waits();
}

uint32_t Runtime::workers() const { return static_cast<uint32_t>(impl_->workers.size()); }
const Clock& Runtime::clock() const { return *impl_->shared.clock; }
Disk* Runtime::disk() const { return impl_->shared.disk; }

void Runtime::stop() {
    if (impl_->ended) return;
    // A user thread would wait for itself; one of another runtime blocks its kernel thread.
    CHECK(current() == nullptr || (!impl_->caller_driven && !owns(*current())));
    RuntimeShared& shared = impl_->shared;
    shared.stopping.store(true, std::memory_order_seq_cst);
    close_admission();
    if (impl_->caller_driven) {
        while (step()) {}
        return impl_->abandon_here();
    }
    drain();
    shared.executors.retiring.store(true, std::memory_order_seq_cst);
    for (auto& worker : impl_->workers) worker->kick();
    for (uint64_t live; (live = shared.live.load(std::memory_order_acquire)) > 0;)
        shared.live.wait(live);
    impl_->watch.reset();  // it sends signals to the kernel threads
    impl_->end_workers();
    impl_->ended = true;
}

void Runtime::abandon() {
    CHECK(impl_->caller_driven && current() == nullptr);
    if (impl_->ended) return;
    impl_->shared.stopping.store(true, std::memory_order_seq_cst);
    impl_->abandon_here();
}

// Tries a random worker, then the others in order. If any worker has work, it makes progress.
bool Runtime::step() {
    CHECK(impl_->caller_driven);
#ifdef LOCKSTEP_SIM_POINTS
    if (impl_->cores != nullptr) return impl_->cores->step();
#endif
    const size_t count = impl_->workers.size();
    const size_t first = count == 1 ? 0 : impl_->rng.below(count);
    for (size_t i = 0; i < count; ++i)
        if (impl_->workers[(first + i) % count]->step()) return true;
    return false;
}

Nanos Runtime::next_deadline() const {
    CHECK(impl_->caller_driven);
    Nanos earliest = kNever;
    for (const auto& worker : impl_->workers)
        earliest = std::min(earliest, worker->next_deadline());
    return earliest;
}

std::string Runtime::verify() const {
    CHECK(impl_->caller_driven && current() == nullptr);
    uint64_t threads = 0;
    for (const auto& worker : impl_->workers)
        if (std::string fault = worker->verify(threads); !fault.empty())
            return "worker " + std::to_string(worker->index()) + ": " + fault;
    if (threads != impl_->shared.live.load()) return "live threads are miscounted";
    return {};
}

Runtime::Stats Runtime::stats() const {
    Stats stats;
    for (const auto& worker : impl_->workers) worker->add_stats(stats);
    stats.threads_live = impl_->shared.live.load(std::memory_order_relaxed);
    stats.threads_max = impl_->shared.live_max.load(std::memory_order_relaxed);
#ifdef LOCKSTEP_SIM_POINTS
    if (impl_->cores != nullptr) stats.interruptions = impl_->cores->interruptions();
#endif
    return stats;
}

}  // namespace lockstep::threads
