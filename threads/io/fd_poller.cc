// fd_poller.cc - the table of waits, and the kernel thread that polls it.
#include "threads/io/fd_poller.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "threads/base/check.h"

namespace lockstep::threads {

FdPoller::~FdPoller() {
    {
        const std::lock_guard lock(mutex_);
        CHECK(waits_.empty());  // FP-1
        if (!started_) return;
        ending_ = true;
        changed();
    }
    pthread_join(thread_, nullptr);
    close(event_fd_);
}

Result<void> FdPoller::add(FdPoll& wait) {
    wait.assert_state();
    DCHECK(wait.buffer == nullptr);  // only a queue receives
    const std::lock_guard lock(mutex_);
    assert_state(wait);
    DCHECK(wait.place == UINT32_MAX && !ending_);
    if (!started_) TRY(start());
    wait.number = ++numbers_;
    wait.place = static_cast<uint32_t>(waits_.size());
    waits_.push_back(&wait);
    changed();
    return {};
}

bool FdPoller::remove(FdPoll& wait) {
    const std::lock_guard lock(mutex_);
    assert_state(wait);
    if (wait.place == UINT32_MAX) return false;
    erase(wait.place);
    changed();
    return true;
}

// Under mutex_. The application's signals are for its own threads.
Result<void> FdPoller::start() {
    DCHECK(!started_ && waits_.empty());
    if (event_fd_ < 0) event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event_fd_ < 0) return fail_os(ErrorCode::too_many, errno, "eventfd of wait_fd()");
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
    while (copy_table()) {
        const int ready = ::poll(polled_.data(), polled_.size(), -1);
        CHECK(ready >= 0 || errno == EINTR || errno == ENOMEM || errno == EAGAIN);
        if (ready > 0) look();
    }
}

// False: the thread ends. Empties the eventfd first, so that a later change ends the next poll.
bool FdPoller::copy_table() {
    uint64_t changes = 0;
    (void)!read(event_fd_, &changes, sizeof changes);
    const std::lock_guard lock(mutex_);
    polled_.assign(1, {.fd = event_fd_, .events = POLLIN, .revents = 0});
    copy_.clear();
    for (const FdPoll* wait : waits_) {
        copy_.push_back(wait->number);
        polled_.push_back(
            {.fd = wait->fd, .events = static_cast<short>(wait->events), .revents = 0});
    }
    return !ending_;
}

// A wait that has changed its place since the copy is looked at in the next round.
void FdPoller::look() {
    for (size_t i = copy_.size(); i-- > 0;) {
        const pollfd& found = polled_[i + 1];
        if (found.revents == 0) continue;
        const std::lock_guard lock(mutex_);
        if (i >= waits_.size() || waits_[i]->number != copy_[i]) continue;
        FdPoll* wait = waits_[i];
        DCHECK(wait->fd == found.fd);
        erase(static_cast<uint32_t>(i));
        // Under the mutex: remove() must not return before the wait is left alone.
        const bool closed = (found.revents & POLLNVAL) != 0;
        wait->done(*wait, closed ? -EBADF : found.revents);
    }
}

// Under mutex_. The last wait takes the place.
void FdPoller::erase(uint32_t place) {
    DCHECK(place < waits_.size() && waits_[place]->place == place);
    waits_[place]->place = UINT32_MAX;
    if (place + 1 < waits_.size()) {
        waits_[place] = waits_.back();
        waits_[place]->place = place;
    }
    waits_.pop_back();
}

void FdPoller::changed() const {
    const uint64_t one = 1;
    while (write(event_fd_, &one, sizeof one) < 0 && errno == EINTR) {}
}

}  // namespace lockstep::threads
