// fd.h - a wait for a file descriptor of the application: sockets, pipes, event descriptors.
//
// Concepts   The wait suspends a user thread and blocks any other kernel thread. It uses the
//            worker's io_uring, or one kernel thread with epoll(7) where the store has none.
//            The descriptor should be non-blocking: another reader may come first, and a read that
//            blocks stops all user threads of the worker.
// Blocking   wait_fd().
#pragma once

#include <cstdint>

#include <lockstep/result.h>
#include <lockstep/types.h>

namespace lockstep {

// Waits until one of `events` (POLLIN, POLLOUT, POLLRDHUP ... of <poll.h>) holds for the open
// descriptor `fd`, and returns those that do; POLLERR and POLLHUP may come unasked. `timeout` is
// in nanoseconds of lockstep::now(); 0 looks once. The caller keeps `fd` open until the call
// returns. Several threads may wait for one descriptor. Errors: timeout; cancelled when
// Store::close() has begun, also for a wait that has; bad_argument for a descriptor that is not
// open; unsupported in a simulation; out_of_memory, too_many.
Result<uint32_t> wait_fd(int fd, uint32_t events, Nanos timeout = kNever);

}  // namespace lockstep
