// fd_poll.h - one wait for a file descriptor of the application: for events, or for received bytes.
#pragma once

#include <atomic>
#include <cstdint>

#include "threads/base/check.h"

namespace lockstep::threads {

struct Thread;

// The waiting thread owns it, and keeps it until `done` has begun. `done` runs once: in the
// worker's scheduler, or on the poller's kernel thread. It must not block.
struct FdPoll {
    int fd = -1;
    uint32_t events = 0;                       // of poll(2)
    void (*done)(FdPoll&, int32_t) = nullptr;  // with the events that hold, or -errno
    // Not null: `fd` is a socket, and the queue receives into this memory instead of polling.
    // `done` then gets the number of bytes, 0 at the end of the stream. Queues only.
    void* buffer = nullptr;
    uint32_t buffer_bytes = 0;
    // --- for the poller (fd_poller.h), under its mutex: waits for the same descriptor
    FdPoll* before = nullptr;
    FdPoll* after = nullptr;
    bool listed = false;

    // --- for the waiting thread (worker/wait_fd.cc)
    Thread* thread = nullptr;
    int32_t result = 0;  // valid once complete
    std::atomic<bool> complete{false};
    std::atomic<bool> ended{false};  // the store closes
    FdPoll* prev = nullptr;          // list of the worker, under its lock
    FdPoll* next = nullptr;

    // What a waiter has filled in.
    void assert_state() const {
        DCHECK(fd >= 0 && done != nullptr && !complete.load(std::memory_order_relaxed));
        DCHECK((events >> 16) == 0);
        DCHECK((buffer == nullptr) == (buffer_bytes == 0));
    }
};

}  // namespace lockstep::threads
