// fd_poller.cc - the table of waits, and the kernel thread that epoll tells of their descriptors.
#include "threads/io/fd_poller.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "threads/base/check.h"

namespace lockstep::threads {
namespace {

constexpr int kEventsAtOnce = 64;
constexpr uint64_t kEnd = UINT64_MAX;  // epoll's data of the eventfd; else descriptor and `armed`
// What epoll and poll report unasked.
constexpr uint32_t kUnasked = POLLERR | POLLHUP;
static_assert(POLLIN == uint32_t{EPOLLIN} && POLLOUT == uint32_t{EPOLLOUT});
static_assert(POLLERR == uint32_t{EPOLLERR} && POLLHUP == uint32_t{EPOLLHUP});
static_assert(POLLPRI == uint32_t{EPOLLPRI} && POLLRDHUP == uint32_t{EPOLLRDHUP});

}  // namespace

FdPoller::~FdPoller() {
    {
        const std::lock_guard lock(mutex_);
        CHECK(listed_ == 0);  // FP-1
    }
    if (started_) {
        const uint64_t one = 1;
        while (write(event_fd_, &one, sizeof one) < 0 && errno == EINTR) {}
        pthread_join(thread_, nullptr);
    }
    if (event_fd_ >= 0) close(event_fd_);
    if (epoll_fd_ >= 0) close(epoll_fd_);
}

// `done` also tells what epoll says of the descriptor at once.
Result<void> FdPoller::add(FdPoll& wait) {
    wait.assert_state();
    DCHECK(wait.buffer == nullptr);  // only a queue receives
    const std::lock_guard lock(mutex_);
    DCHECK(!wait.listed);
    assert_state(wait);
    if (!started_) TRY(start());
    // The table grows for open descriptors only.
    if (static_cast<size_t>(wait.fd) >= waits_.size() && fcntl(wait.fd, F_GETFD) < 0) {
        wait.done(wait, -EBADF);
        return {};
    }
    link(wait);
    const int refused = arm(wait.fd);
    if (refused == 0) return {};
    if (refused == EPERM) {
        finish(wait, static_cast<int32_t>(wait.events & (POLLIN | POLLOUT)));
    } else if (refused == EBADF) {
        finish(wait, -EBADF);
    } else {
        unlink(wait);
        return fail_os(ErrorCode::out_of_memory, refused, "wait_fd()",
                       static_cast<uint64_t>(wait.fd));
    }
    return {};
}

// A descriptor without waits is disarmed, because the application may close it now, and another
// process may still have it open.
bool FdPoller::remove(FdPoll& wait) {
    const std::lock_guard lock(mutex_);
    assert_state(wait);
    if (!wait.listed) return false;
    unlink(wait);
    (void)arm(wait.fd);
    return true;
}

// Under mutex_. The application's signals are for its own threads.
Result<void> FdPoller::start() {
    DCHECK(!started_ && listed_ == 0);
    if (event_fd_ < 0) event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd_ < 0) return fail_os(ErrorCode::too_many, errno, "eventfd of wait_fd()");
    if (epoll_fd_ < 0) epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
    epoll_event end{.events = EPOLLIN, .data = {.u64 = kEnd}};
    if (epoll_fd_ < 0 ||
        (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, event_fd_, &end) != 0 && errno != EEXIST))
        return fail_os(ErrorCode::too_many, errno, "epoll instance of wait_fd()");
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int refused = pthread_create(&thread_, nullptr, thread_main, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (refused != 0) return fail_os(ErrorCode::too_many, refused, "kernel thread of wait_fd()");
    started_ = true;
    return {};
}

void* FdPoller::thread_main(void* self) {
    pthread_setname_np(pthread_self(), "lockstep-poll");
    static_cast<FdPoller*>(self)->work();
    return nullptr;
}

void FdPoller::work() {
    for (;;) {
        epoll_event found[kEventsAtOnce];
        const int count = epoll_wait(epoll_fd_, found, kEventsAtOnce, -1);
        CHECK(count >= 0 || errno == EINTR);
        for (int i = 0; i < count; ++i) {
            if (found[i].data.u64 == kEnd) return;
            look(found[i]);
        }
    }
}

// A report from before the last arm() may be older than the waits, or than the file of that number.
// What it told is told again if it still holds.
void FdPoller::look(const epoll_event& found) {
    const std::lock_guard lock(mutex_);
    const auto fd = static_cast<uint32_t>(found.data.u64);
    DCHECK(fd < waits_.size());
    if (waits_[fd].armed != found.data.u64 >> 32) return;
    for (FdPoll *wait = waits_[fd].first, *after; wait != nullptr; wait = after) {
        after = wait->after;
        const uint32_t events = found.events & (wait->events | kUnasked);
        // Under the mutex: remove() must not return before the wait is left alone.
        if (events != 0) finish(*wait, static_cast<int32_t>(events));
    }
    if (waits_[fd].first != nullptr) (void)arm(static_cast<int>(fd));
}

// Under mutex_ (FP-2). 0, or the errno.
int FdPoller::arm(int fd) {
    DCHECK(fd >= 0 && static_cast<size_t>(fd) < waits_.size());
    Waits& waits = waits_[static_cast<size_t>(fd)];
    ++waits.armed;
    epoll_event wanted{.events = EPOLLONESHOT,
                       .data = {.u64 = uint64_t{waits.armed} << 32 | static_cast<uint32_t>(fd)}};
    for (const FdPoll* wait = waits.first; wait != nullptr; wait = wait->after)
        wanted.events |= wait->events;
    const bool none = waits.first == nullptr;
    if (epoll_ctl(epoll_fd_, none ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, fd, &wanted) == 0) return 0;
    if (errno != ENOENT || none) return errno;
    return epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &wanted) == 0 ? 0 : errno;
}

// Under mutex_, as the next two.
void FdPoller::link(FdPoll& wait) {
    DCHECK(!wait.listed && wait.fd >= 0);
    const auto fd = static_cast<size_t>(wait.fd);
    if (fd >= waits_.size()) waits_.resize(fd + 1 + fd / 2);
    wait.before = nullptr;
    wait.after = waits_[fd].first;
    if (wait.after != nullptr) wait.after->before = &wait;
    waits_[fd].first = &wait;
    wait.listed = true;
    ++listed_;
}

void FdPoller::unlink(FdPoll& wait) {
    DCHECK(wait.listed && listed_ > 0);
    (wait.before != nullptr ? wait.before->after : waits_[static_cast<size_t>(wait.fd)].first) =
        wait.after;
    if (wait.after != nullptr) wait.after->before = wait.before;
    wait.listed = false;
    --listed_;
}

// Behind `done` the wait may be gone.
void FdPoller::finish(FdPoll& wait, int32_t result) {
    unlink(wait);
    wait.done(wait, result);
}

}  // namespace lockstep::threads
