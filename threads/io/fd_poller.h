// fd_poller.h - one kernel thread with epoll(7), for waits on file descriptors where a worker's
// queue has none of its own.
//
// Concepts   The thread begins with the first wait. The epoll instance knows a descriptor once, and
//            is told the union of what its waits want. It reports once (EPOLLONESHOT), and is asked
//            again while waits are left. So a wake-up costs the same with thousands of waits.
//            A descriptor that was closed leaves the instance by itself. Files that epoll refuses
//            are always ready, as for poll(2).
// Invariants FP-1 A wait is in the table until it is done or removed. Behind remove() nothing
//            touches it. [checked: assert_state()]
//            FP-2 A descriptor that has waits is armed for the union of their events, or its report
//            is on the way to look(). [checked: tests]
// Blocking   add() and remove() take a mutex for a few instructions and one system call; the first
//            add() starts a kernel thread.
// Source     epoll(7), epoll_ctl(2) of the Linux manual.
#pragma once

#include <pthread.h>
#include <sys/epoll.h>

#include <mutex>
#include <vector>

#include <lockstep/result.h>
#include "threads/io/fd_poll.h"

namespace lockstep::threads {

class FdPoller {
public:
    FdPoller() = default;
    ~FdPoller();  // no wait is in the table; ends the thread
    FdPoller(const FdPoller&) = delete;
    FdPoller& operator=(const FdPoller&) = delete;

    // Calls `done` of the wait when one of its events holds, perhaps before the return. Errors:
    // too_many (the system grants no kernel thread, eventfd or epoll instance); out_of_memory.
    Result<void> add(FdPoll& wait);
    // True if the wait was taken out of the table; false if its `done` has been called.
    bool remove(FdPoll& wait);

private:
    struct Waits {
        FdPoll* first = nullptr;
        uint32_t armed = 0;  // times; a report of an earlier time is too old
    };
    Result<void> start();
    static void* thread_main(void* self);
    void work();
    void look(const epoll_event& found);
    int arm(int fd);
    void link(FdPoll& wait);
    void unlink(FdPoll& wait);
    void finish(FdPoll& wait, int32_t result);
    // Under mutex_.
    void assert_state(const FdPoll& wait) const {
        DCHECK(!wait.listed || static_cast<size_t>(wait.fd) < waits_.size());
        DCHECK(!wait.listed || wait.before != nullptr ||
               waits_[static_cast<size_t>(wait.fd)].first == &wait);
        DCHECK(!started_ || (event_fd_ >= 0 && epoll_fd_ >= 0));
    }

    std::mutex mutex_;
    std::vector<Waits> waits_;  // under mutex_: by descriptor
    uint64_t listed_ = 0;       // under mutex_: waits in the table
    bool started_ = false;      // under mutex_
    int event_fd_ = -1;         // constant once started_; written to end the thread
    int epoll_fd_ = -1;         // constant once started_
    pthread_t thread_{};        // constant once started_
};

}  // namespace lockstep::threads
