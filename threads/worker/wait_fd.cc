// wait_fd.cc - the wait of the public fd.h: by the worker's queue, by the poller, or on a foreign
// kernel thread by poll(2) itself.
#include <lockstep/fd.h>

#include <errno.h>
#include <poll.h>

#include <algorithm>

#include <lockstep/clock.h>
#include "threads/worker/fd_wait.h"
#include "threads/worker/worker.h"

namespace lockstep {
namespace threads {

bool FdWaits::add(FdPoll& wait) {
    const SpinGuard guard(lock_);
    assert_state();
    if (ended_) return false;
    wait.next = first_;
    if (first_ != nullptr) first_->prev = &wait;
    first_ = &wait;
    return true;
}

void FdWaits::remove(FdPoll& wait) {
    const SpinGuard guard(lock_);
    assert_state();
    (wait.prev != nullptr ? wait.prev->next : first_) = wait.next;
    if (wait.next != nullptr) wait.next->prev = wait.prev;
}

// Wakes under the lock: the waiters cannot leave, and this happens once in the life of a store.
void FdWaits::end() {
    const SpinGuard guard(lock_);
    assert_state();
    ended_ = true;
    for (FdPoll* wait = first_; wait != nullptr; wait = wait->next) {
        wait->ended.store(true, std::memory_order_release);
        wake(wait->thread);
    }
}

namespace {

// After the store to `complete` the wait may be gone, but its thread is not (TH-3).
void complete_and_wake(FdPoll& wait, int32_t result) {
    Thread* thread = wait.thread;
    DCHECK(thread != nullptr && !wait.complete.load(std::memory_order_relaxed));
    wait.result = result;
    wait.complete.store(true, std::memory_order_release);
    wake(thread);
}

bool complete(const FdPoll& wait) { return wait.complete.load(std::memory_order_acquire); }

// Until the wait is complete; false: the deadline passed or the store closes.
bool wait_in_time(const FdPoll& wait, Nanos deadline) {
    while (!complete(wait)) {
        if (wait.ended.load(std::memory_order_acquire)) return false;
        if (!park_until(deadline, ParkReason::event)) return complete(wait);
    }
    return true;
}

// When it returns nothing touches the wait any more. Events that came meanwhile are kept.
Result<void> run(FdPoll& wait, Worker& worker, Nanos deadline) {
    if (wait_in_queue(wait, worker, deadline)) return {};
    FdPoller& poller = *worker.shared().fd_poller;
    TRY(poller.add(wait));
    if (wait_in_time(wait, deadline)) {
        // `done` of the poller runs under its mutex: let it leave.
        (void)poller.remove(wait);
    } else if (poller.remove(wait)) {
        wait.result = -ECANCELED;
    }
    return {};
}

Result<uint32_t> outcome(int32_t result, int fd, bool ended) {
    if (result > 0) return static_cast<uint32_t>(result);
    if (result == -EBADF)
        return fail_os(ErrorCode::bad_argument, EBADF, "descriptor of wait_fd()",
                       static_cast<uint64_t>(fd));
    if (result == 0 || result == -ECANCELED)
        return ended ? fail(ErrorCode::cancelled, "wait_fd(): the store closes")
                     : fail(ErrorCode::timeout, "wait_fd()", static_cast<uint64_t>(fd));
    return fail_os(ErrorCode::out_of_memory, -result, "wait_fd()", static_cast<uint64_t>(fd));
}

int32_t poll_result(const pollfd& one, int found) {
    if (found < 0) return -errno;
    return (one.revents & POLLNVAL) != 0 ? -EBADF : one.revents;
}

// On a foreign kernel thread, or for one look.
Result<uint32_t> poll_here(int fd, uint32_t events, Nanos timeout) {
    const MonotonicClock clock;
    const Nanos start = clock.now();
    const Nanos deadline = timeout < kNever - start ? start + timeout : kNever;
    pollfd one{.fd = fd, .events = static_cast<short>(events), .revents = 0};
    for (;;) {
        const Nanos now = clock.now();
        const Nanos left = deadline > now ? deadline - now : 0;
        const Nanos whole = std::min<Nanos>((left + kMillisecond - 1) / kMillisecond, 1 << 30);
        const int found = ::poll(&one, 1, timeout == 0 ? 0 : static_cast<int>(whole));
        if (found > 0 || (found < 0 && errno != EINTR))
            return outcome(poll_result(one, found), fd, false);
        if (found == 0 && clock.now() >= deadline) return outcome(0, fd, false);
    }
}

}  // namespace

FdWait::FdWait(int fd, uint32_t events, Thread& self) : waits_(self.worker->fd_waits()) {
    poll.fd = fd;
    poll.events = events;
    poll.done = complete_and_wake;
    poll.thread = &self;
    listed_ = waits_.add(poll);
}

FdWait::~FdWait() {
    if (listed_) waits_.remove(poll);
}

bool wait_in_queue(FdPoll& wait, Worker& worker, Nanos deadline) {
    IoStage* io = worker.io_stage();
    if (io == nullptr || !io->start_fd_poll(wait)) return false;
    if (wait_in_time(wait, deadline)) return true;
    while (!complete(wait) && !io->cancel_fd_poll(wait)) yield();
    while (!complete(wait)) park(ParkReason::event);
    return true;
}

}  // namespace threads

Result<uint32_t> wait_fd(int fd, uint32_t events, Nanos timeout) {
    using namespace threads;
    if (fd < 0 || (events >> 16) != 0)
        return fail(ErrorCode::bad_argument, "descriptor or events of wait_fd()",
                    static_cast<uint64_t>(fd), events);
    Thread* self = current();
    if (self == nullptr || timeout == 0) return poll_here(fd, events, timeout);
    Worker& worker = *self->worker;
    if (worker.shared().simulated) return fail(ErrorCode::unsupported, "wait_fd() in a simulation");
    const Nanos start = now();
    FdWait wait(fd, events, *self);
    if (!wait.listed()) return outcome(0, fd, true);
    TRY(run(wait.poll, worker, timeout < kNever - start ? start + timeout : kNever));
    return outcome(wait.poll.result, fd, wait.ended());
}

}  // namespace lockstep
