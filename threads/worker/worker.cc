// worker.cc - turns of a worker, its sleep, and its mailbox.
#include "threads/worker/worker.h"
#include "threads/base/coherence.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "threads/base/limits.h"
#include "threads/base/sim_point.h"

namespace lockstep::threads {

constinit thread_local WorkerLocal worker_local;

Worker::Worker(RuntimeShared& shared, uint32_t index, std::unique_ptr<SchedulerPolicy> policy)
    : shared_(shared),
      index_(index),
      policy_(std::move(policy)),
      executors_(*this, shared.executors, admission_),
      admission_(index, shared.admission) {}

Result<Thread*> Worker::make_thread(const char* name, ThreadFn fn, uint64_t live) {
    DCHECK(name != nullptr && static_cast<bool>(fn));
    Thread* const thread = shared_.pool.take();
    if (thread == nullptr) return fail(ErrorCode::out_of_memory, "user thread");
    const Result<Stack*> stack = shared_.stacks.take();
    if (!stack) {
        shared_.pool.give(thread);
        return std::unexpected(stack.error());
    }
    uint64_t max = shared_.live_max.load(std::memory_order_relaxed);
    while (max < live &&
           !shared_.live_max.compare_exchange_weak(max, live, std::memory_order_relaxed)) {}
    thread->id = shared_.next_id.fetch_add(1, std::memory_order_relaxed);
    thread->name = name;
    thread->fn = std::move(fn);
    thread->stack = *stack;
    thread->sp = make_context(**stack, thread_entry);
    thread->next = nullptr;
    thread->latch_depth = 0;
    std::fill(std::begin(thread->waited), std::end(thread->waited), 0);
    thread->fast_form = false;
    thread->worker = this;
    thread->state.store(Thread::kRunning, std::memory_order_release);
    DCHECK(thread->queue_next == nullptr && thread->deadline == kNever);
    return thread;
}

Result<void> Worker::attach() {
    // Nothing in the program reads the table. This brings its object out of the static library.
    asm volatile("" ::"r"(kDebuggerLayout));
    DCHECK(teams_ != nullptr && shared_.clock != nullptr && io_ == nullptr);
    scheduler_stack_ = kernel_stack();
    turn_time_ = clock().now();
    if (shared_.disk != nullptr)
        io_ = std::make_unique<IoStage>(TRY(shared_.disk->make_queue(index_, clock())), clock());
    worker_local = local();
    local_.store(&worker_local, std::memory_order_release);
    return {};
}

// The variable is its kernel thread's, which writes it without a thought for others.
LOCKSTEP_NO_TSAN const Thread* Worker::running() const {
    const WorkerLocal* const local = local_.load(std::memory_order_acquire);
    return local != nullptr ? *const_cast<Thread* const volatile*>(&local->current) : nullptr;
}

// Requests without a waiting thread (write-back, read-ahead) may still be in flight. The queue
// stays until the worker is destroyed, because another thread may be about to kick it.
void Worker::detach() {
    submit_io();
    while (io_ != nullptr && !io_->idle()) {
        io_->wait(kNever);
        submit_io();
    }
    DCHECK(all_threads_ == nullptr && timers_.empty());  // all threads have ended
    DCHECK(none_ready() && pending_ == nullptr && dead_ == nullptr);
    worker_local = {};
}

// A turn ends early when so many requests wait. Devices complete in bursts; if the worker first ran
// the whole burst of threads, the device would lack work meanwhile.

static void name_lines(const RuntimeShared& shared) {
    coherence::name("runtime", &shared, sizeof shared, sizeof shared);
    coherence::name_field("runtime", "executors", shared.executors);
    coherence::name_field("runtime", "sleepers", shared.sleepers);
    coherence::name_field("runtime", "stacks", shared.stacks);
    coherence::name_field("runtime", "threads", shared.pool);
    coherence::name_field("runtime", "clock", shared.clock);
    coherence::name_field("runtime", "next_id", shared.next_id);
    coherence::name_field("runtime", "live", shared.live);
}

void Worker::run() {
    coherence::attach(index_);
    coherence::name("worker", this, sizeof(Worker), sizeof(Worker));
    if (index_ == 0) name_lines(shared_);
    while (!shared_.ending.load(std::memory_order_relaxed)) {
        assert_state();
        DCHECK(worker_local.current == nullptr && clock().now() >= turn_time_);
        turn_time_ = clock().now();
        take_mail();
        expire_timers();
        expire_packets();
        run_slices(turn_slices());
        run_teams(turn_slices() * kSliceMembers);
        submit_io();
        // A sleep submits and waits with one system call.
        if (!nothing_to_run() || !sleep()) poll_io();  // WK-5
    }
    coherence::detach();
}

// Runs one slice and returns to the caller. The budget of one slice is used up at once, so a
// parking thread enters the scheduler. With whole_turns it runs a turn as run() does.
bool Worker::step() {
    DCHECK(worker_local.worker != this || worker_local.current == nullptr);
    DCHECK(dead_ == nullptr);
    const WorkerLocal outer = worker_local;
    worker_local = local();
    turn_time_ = clock().now();
    bool progress = take_mail();
    progress |= expire_timers();
    progress |= expire_packets();
    progress |= submit_io();
    progress |= poll_io();
    if (shared_.whole_turns) {
        progress |= run_slices(kTurnSlices) > 0;
        progress |= run_teams(kTurnSlices * kSliceMembers);
    } else {
        progress |= run_slices(1) > 0 || run_teams(0);
    }
    // The slices above may have found that one more packet may begin.
    if (!progress && (executors_.may_admit() || steal_packets() || executors_.admit_stalled()))
        progress = run_slices(1) > 0;
    worker_local = outer;
    return progress;
}

// Requests in flight lose their requesters. A simulated disk's queue drops them; other queues wait
// in their destructors.
void Worker::abandon() {
    const WorkerLocal outer = worker_local;
    worker_local = local();
    io_.reset();
    worker_local = outer;
    executors_.abandon(all_threads_);
    take_mail();
    while (next_to_run() != nullptr) {}
    while (timers_.pop_due(kNever) != nullptr) {}
    all_threads_ = nullptr;
}

uint32_t Worker::run_slices(uint32_t slices) {
    DCHECK(slices <= kTurnSlices && dead_ == nullptr);
    slices_left_ = slices;
    if (policy_ != nullptr) admit_all();
    while (slices_left_ > 0) {
        Thread* thread = next_to_run();
        if (thread == nullptr) thread = executors_.admit();
        if (thread == nullptr) break;
        --slices_left_;
        enter(*thread);
        reap();
    }
    const uint32_t used = slices - slices_left_;
    if (Thread* const late = executors_.passed_over(used)) make_ready(late);
    return used;
}

// Called after ready threads, including strays, could join a list. Teams run without a return to
// the scheduler until about `members` threads have been served. 0: one team.
bool Worker::run_teams(uint32_t members) {
    if (pending_ != nullptr || !teams_->any_waiting()) return false;
    DCHECK(members <= kTurnSlices * kSliceMembers && dead_ == nullptr);
    teams_->new_turn(members);
    slices_left_ = members != 0 ? kTurnSlices : 0;
    enter(*teams_->start_next_team());
    reap();
    return true;
}

// A policy draws among all that may run.
void Worker::admit_all() {
    while (Thread* thread = executors_.admit()) make_ready(thread);
}

bool Worker::take_mail() {
    if (mailbox_.load(std::memory_order_relaxed) == nullptr) return false;
    Thread* newest = mailbox_.exchange(nullptr, std::memory_order_acquire);
    Thread* oldest = nullptr;
    while (newest != nullptr) {
        DCHECK(newest->worker == this);  // WK-1
        Thread* older = newest->queue_next;
        newest->queue_next = oldest;
        oldest = newest;
        newest = older;
    }
    while (oldest != nullptr) {
        Thread* next = oldest->queue_next;
        remote_wakes_.add();
        make_ready(oldest);
        oldest = next;
    }
    return true;
}

bool Worker::expire_timers() {
    bool any = false;
    while (Thread* thread = timers_.pop_due(turn_time_)) {
        DCHECK(thread->worker == this && thread->deadline <= turn_time_);
        uint32_t parked = Thread::kParked;  // else another thread has just woken it
        if (!thread->state.compare_exchange_strong(parked, Thread::kRunning,
                                                   std::memory_order_acq_rel))
            continue;
        thread->timed_out = true;
        make_ready(thread);
        any = true;
    }
    return any;
}

bool Worker::expire_packets() {
    executors_.new_turn(turn_time_);
    if (!admission_.expire(turn_time_)) return false;
    if (admission_.movable() > kFewPackets) wake_another();
    return true;
}

// The worker with the longest queue that this one would take packets from; or null. A sleeping
// worker's own packets have just arrived: it is being woken for them.
Worker* Worker::longest_other() const {
    if (index_ >= shared_.packet_workers || shared_.packet_workers < 2 ||
        !executors_.wants_packets())
        return nullptr;
    Worker* longest = nullptr;
    uint64_t most = 0;
    for (Worker* other : shared_.workers) {
        const uint64_t length = other->admission_.movable();
        if (other != this && length > most && !other->asleep()) longest = other, most = length;
    }
    DCHECK(longest != this);
    return longest;
}

// Before it sleeps.
bool Worker::steal_packets() {
    Worker* const longest = longest_other();
    return longest != nullptr &&
           longest->admission_.give_to(admission_, kStealMax, clock().now()) != 0;
}

// Behind a change of movable() (WK-4).
void Worker::wake_another() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (shared_.sleepers.load(std::memory_order_relaxed) == 0) return;
    const size_t count = shared_.packet_workers;
    DCHECK(index_ < count);
    for (size_t i = 1; i < count; ++i) {
        Worker& other = *shared_.workers[(index_ + i) % count];
        if (other.asleep()) return other.kick();
    }
}

Result<void> Worker::submit(Packet& packet) {
    const bool foreign = worker_local.worker != this;
    const bool pinned = packet.pinned;  // behind the next call the packet may be gone
    bool wake = false;
    TRY(admission_.submit(packet, foreign ? clock().now() : turn_time_, foreign, wake));
    if (foreign && wake) kick();  // AD-2
    if (!pinned && admission_.movable() > kFewPackets) [[unlikely]]
        wake_another();
    return {};
}

WorkerLocal Worker::local() {
    WorkerLocal local{
        .worker = this, .index = index_, .latch_spins = shared_.latch_spins, .blocks = &blocks_};
    teams_->publish(local);
#ifdef LOCKSTEP_SIM_POINTS
    local.cores = cores_;
#endif
    return local;
}

void Worker::set_steps(const StepsOptions& options) {
    teams_->set_options(options);
    follow_steps();
}

void Worker::follow_steps() {
    DCHECK(worker_local.worker == this);
    WorkerLocal next = local();
    next.current = worker_local.current;
    worker_local = next;
}

void Worker::start_io(IoRequest& request) {
    CHECK(io_ != nullptr);  // a runtime without a disk has no I/O
    DCHECK(worker_local.worker == this);
    io_->add(request);
    // End the turn at the next switch: for a log request, which is urgent, and for so many requests
    // that the device would otherwise be idle.
    if (request.io_class == IoClass::log || io_->queued() >= limits::turn_requests())
        slices_left_ = 0;
}

bool Worker::try_start_io(IoRequest& request) {
    CHECK(io_ != nullptr);
    return io_->try_add(request);
}

void Worker::set_io_mode(IoMode mode) {
    if (io_ != nullptr) io_->set_mode(mode);
}

bool Worker::submit_io() { return io_ != nullptr && io_->submit(); }
bool Worker::poll_io() { return io_ != nullptr && io_->has_in_flight() && io_->poll() > 0; }

void Worker::post(Thread* thread) {
    DCHECK(thread->worker == this && worker_local.worker != this);
    DCHECK(thread->state.load(std::memory_order_relaxed) != Thread::kParked);
    SIM_POINT();
    Thread* head = mailbox_.load(std::memory_order_relaxed);
    do {
        thread->queue_next = head;
    } while (!mailbox_.compare_exchange_weak(head, thread, std::memory_order_seq_cst,
                                             std::memory_order_relaxed));
    kick();
}

void Worker::kick() {
    if (asleep_.load(std::memory_order_seq_cst) == 0) return;
    // Another thread is waking it.
    if (asleep_.exchange(0, std::memory_order_seq_cst) == 0) return;
    if (io_ != nullptr) io_->wake();
    else syscall(SYS_futex, &asleep_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

bool Worker::sleep() {
    DCHECK(worker_local.worker == this && pending_ == nullptr && none_ready());
    DCHECK(!teams_->any_waiting());  // a packet may come at any moment
    if (steal_packets()) return false;
    const Nanos again = executors_.look_again(clock().now());
    if (again == 0) return false;
    bool slept = false;
    asleep_.store(1, std::memory_order_seq_cst);
    shared_.sleepers.fetch_add(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (mailbox_.load(std::memory_order_seq_cst) == nullptr &&
        (again != kNever || admission_.queued_for_sleep() == 0) && !executors_.retires() &&
        !shared_.ending.load(std::memory_order_seq_cst) && longest_other() == nullptr &&
        (io_ == nullptr || !io_->can_submit())) {
        sleeps_.add();
        Nanos deadline = std::min({timers_.earliest(), admission_.next_due_for_sleep(), again});
        if (!shared_.clock_is_real && deadline != kNever)
            deadline = std::min(deadline, turn_time_ + kMillisecond);
        coherence::sleeps();
        if (io_ != nullptr) io_->wait(deadline);
        else sleep_in_futex(deadline);
        coherence::wakes();
        slept = true;
    }
    shared_.sleepers.fetch_sub(1, std::memory_order_relaxed);
    asleep_.store(0, std::memory_order_relaxed);
    return slept;
}

void Worker::sleep_in_futex(Nanos deadline) {
    DCHECK(io_ == nullptr);  // else it sleeps in the queue, where completions wake it
    timespec timeout{};
    if (deadline != kNever) {
        const Nanos now = clock().now();
        if (deadline <= now) return;
        timeout.tv_sec = static_cast<time_t>((deadline - now) / kSecond);
        timeout.tv_nsec = static_cast<long>((deadline - now) % kSecond);
    }
    syscall(SYS_futex, &asleep_, FUTEX_WAIT_PRIVATE, 1, deadline == kNever ? nullptr : &timeout,
            nullptr, 0);
}

void Worker::add_io_stats(IoStats& stats) const {
    if (io_ != nullptr) io_->add_stats(stats);
}

void Worker::add_stats(RuntimeStats& stats) const {
    stats.switches += switches_.get();
    stats.sleeps += sleeps_.get();
    stats.remote_wakes += remote_wakes_.get();
    for (size_t i = 0; i < static_cast<size_t>(ParkReason::kCount); ++i) {
        stats.waits_ended[i] += waits_ended_[i].get();
        stats.parks[i] += parks_[i].get();
        stats.waited[i] += waited_[i].get();
    }
}

}  // namespace lockstep::threads
