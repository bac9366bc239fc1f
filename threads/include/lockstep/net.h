// net.h - reads, writes and accepts on sockets of the application, which suspend the user thread.
//
// Concepts   A user thread with these three calls and Store::run() is a whole server of one
//            connection. Other user threads run while it waits. Where the store's workers have
//            io_uring, a read is a request of its own in the worker's ring: thousands of waiting
//            readers cost one system call per batch. Elsewhere a read is a non-blocking call, and
//            wait_fd() when there is nothing to read. On a foreign kernel thread the calls block.
//            The socket may be in blocking mode, which is the cheaper one for reads in a ring.
// Closing    The caller keeps the socket open until the call returns. To end the calls of other
//            threads use shutdown(socket, SHUT_RDWR): reads then return 0, writes io_error with
//            EPIPE, accepts io_error with EINVAL. Close the socket when these threads have left.
// Blocking   All three.
// Source     POSIX.1-2017: recv, send, accept.
#pragma once

#include <cstddef>
#include <span>

#include <lockstep/result.h>
#include <lockstep/types.h>

namespace lockstep {

// In all three, `timeout` is in nanoseconds of lockstep::now(); 0 does not wait. They share these
// errors: timeout; cancelled when Store::close() has begun, also for a call that waits;
// bad_argument for a descriptor that is no open socket; unsupported in a simulation; and those of
// wait_fd().

// Waits until the connected `socket` has bytes, and copies at most buffer.size() of them to
// `buffer`, which must not be empty. Returns their number, or 0 when the peer has ended its side.
// The buffer must stay until the call returns. Timeout and cancelled lose no byte: what has come
// stays in the socket or is the result. Several threads may read from one socket. Error: io_error
// with the errno (ECONNRESET: the peer has reset the connection).
Result<size_t> read_socket(int socket, std::span<std::byte> buffer, Nanos timeout = kNever);
// Sends all of `data`, and waits while the socket's buffer is full. Never raises SIGPIPE. After an
// error an unknown part has been sent, so the connection is of no further use. Two threads that
// write at once may mix their bytes. Error: io_error with the errno (EPIPE, ECONNRESET: the peer
// is gone).
Result<void> write_socket(int socket, std::span<const std::byte> data, Nanos timeout = kNever);
// Waits for a connection on `socket`, which listens and must be non-blocking (SOCK_NONBLOCK):
// another thread may take the connection first. Returns a socket in blocking mode that is
// close-on-exec and the caller's to close. Connections that ended before they were accepted are
// passed over. Errors: bad_argument also for a socket in blocking mode; too_many if the process or
// the system has no descriptor left (the connection waits: close others, pause, and try again);
// io_error.
Result<int> accept_socket(int socket, Nanos timeout = kNever);

}  // namespace lockstep
