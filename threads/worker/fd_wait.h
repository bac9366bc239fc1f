// fd_wait.h - what the public fd.h and net.h share: one wait for a descriptor, which the end of the
// store cancels.
//
// Blocking   wait_in_queue() parks.
#pragma once

#include "threads/io/fd_poll.h"
#include "threads/thread/between_calls.h"
#include "threads/worker/worker.h"

namespace lockstep::threads {

// A wait of the user thread `self`, in the list of its worker from here to the destructor.
class FdWait {
public:
    FdWait(int fd, uint32_t events, Thread& self);
    ~FdWait();  // nothing touches `poll` any more
    FdWait(const FdWait&) = delete;
    FdWait& operator=(const FdWait&) = delete;
    // False: the store closes, and no wait may begin.
    bool listed() const { return listed_; }
    // Whether the store closes.
    bool ended() const { return !listed_ || poll.ended.load(std::memory_order_acquire); }

    FdPoll poll;

private:
    const BetweenCalls between_;
    FdWaits& waits_;
    bool listed_ = false;
};

// Passes the wait to the worker's queue, and parks until it is complete: `wait.result` holds. When
// the deadline passes or the store closes it is cancelled, so that nothing touches the wait or its
// buffer behind the return. What came before the cancellation is kept. False: this queue cannot, or
// has no place now; nothing has happened.
bool wait_in_queue(FdPoll& wait, Worker& worker, Nanos deadline);

}  // namespace lockstep::threads
