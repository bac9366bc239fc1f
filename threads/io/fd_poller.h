// fd_poller.h - one kernel thread with poll(2), for waits on file descriptors where a worker's
// queue has none of its own.
//
// Concepts   The thread begins with the first wait. Each change of the table wakes it by an
//            eventfd. A wake-up looks at all descriptors of the table, so this costs more than
//            io_uring with thousands of waits. One descriptor may stand in the table several times.
// Invariants FP-1 A wait is in the table until it is done or removed. Behind remove() nothing
//            touches it. [checked: assert_state()]
// Blocking   add() and remove() take a mutex for a few instructions; the first add() starts a
//            kernel thread.
#pragma once

#include <poll.h>
#include <pthread.h>

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

    // Calls `done` of the wait when one of its events holds. Error: too_many (the system grants no
    // kernel thread or eventfd).
    Result<void> add(FdPoll& wait);
    // True if the wait was taken out of the table; false if its `done` has been called.
    bool remove(FdPoll& wait);

private:
    Result<void> start();
    static void* thread_main(void* self);
    void work();
    bool copy_table();
    void look();
    void erase(uint32_t place);
    void changed() const;
    // Under mutex_.
    void assert_state(const FdPoll& wait) const {
        DCHECK(wait.place == UINT32_MAX ||
               (wait.place < waits_.size() && waits_[wait.place] == &wait));
        DCHECK(!started_ || event_fd_ >= 0);
    }

    std::mutex mutex_;
    uint64_t numbers_ = 0;        // under mutex_
    std::vector<FdPoll*> waits_;  // under mutex_
    bool ending_ = false;         // under mutex_
    bool started_ = false;        // under mutex_
    int event_fd_ = -1;           // constant once started_
    pthread_t thread_{};          // constant once started_
    std::vector<pollfd> polled_;  // the thread's: the eventfd, then a copy of the table
    std::vector<uint64_t> copy_;  // the thread's: the number of each wait in polled_
};

}  // namespace lockstep::threads
