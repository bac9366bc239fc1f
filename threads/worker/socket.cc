// socket.cc - the calls of the public net.h: a read in the worker's ring, or a call that does not
// block and a wait behind it.
#include <lockstep/net.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include <lockstep/fd.h>
#include "threads/sync/sync_wait.h"
#include "threads/worker/fd_wait.h"

namespace lockstep {
namespace threads {
namespace {

constexpr size_t kReceiveMax = 1u << 30;  // bytes of one system call

int64_t result_of(int64_t returned) { return returned < 0 ? -errno : returned; }

bool in_simulation() {
    const Thread* self = current();
    return self != nullptr && self->worker->shared().simulated;
}

Unexpected failure(int64_t result, int socket, const char* what) {
    DCHECK(result < 0);
    const int err = static_cast<int>(-result);
    ErrorCode code = ErrorCode::io_error;
    if (err == EBADF || err == ENOTSOCK || err == EOPNOTSUPP || err == ENOTCONN)
        code = ErrorCode::bad_argument;
    if (err == EMFILE || err == ENFILE) code = ErrorCode::too_many;
    if (err == ENOMEM || err == ENOBUFS) code = ErrorCode::out_of_memory;
    return fail_os(code, err, what, static_cast<uint64_t>(socket));
}

// -EAGAIN: no answer, the caller tries without the ring. The error is timeout or cancelled.
Result<int64_t> receive_in_ring(int socket, std::span<std::byte> buffer, Nanos deadline) {
    Thread* self = current();
    if (self == nullptr || self->worker->io_stage() == nullptr) return -EAGAIN;
    FdWait wait(socket, POLLIN, *self);
    if (!wait.listed()) return fail(ErrorCode::cancelled, "read_socket(): the store closes");
    wait.poll.buffer = buffer.data();
    wait.poll.buffer_bytes = static_cast<uint32_t>(buffer.size());
    if (!wait_in_queue(wait.poll, *self->worker, deadline)) return -EAGAIN;
    if (wait.poll.result != -ECANCELED) return wait.poll.result;
    if (wait.ended()) return fail(ErrorCode::cancelled, "read_socket(): the store closes");
    return fail(ErrorCode::timeout, "read_socket()", static_cast<uint64_t>(socket));
}

Result<void> wait_until(int socket, uint32_t events, Nanos deadline) {
    Nanos left = kNever;
    if (deadline != kNever) {
        const Nanos time = detail::sync_now();
        left = deadline > time ? deadline - time : 0;
    }
    (void)TRY(wait_fd(socket, events, left));
    return {};
}

// A connection that failed while it waited is none; accept(2) lists these errors.
bool passes_over(int64_t result) {
    for (const int err : {EINTR, ECONNABORTED, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET,
                          EHOSTUNREACH, ENETUNREACH, ETIMEDOUT})
        if (result == -err) return true;
    return false;
}

}  // namespace
}  // namespace threads

Result<size_t> read_socket(int socket, std::span<std::byte> buffer, Nanos timeout) {
    using namespace threads;
    if (socket < 0 || buffer.empty())
        return fail(ErrorCode::bad_argument, "socket or buffer of read_socket()",
                    static_cast<uint64_t>(socket), buffer.size());
    if (in_simulation()) return fail(ErrorCode::unsupported, "read_socket() in a simulation");
    buffer = buffer.first(std::min(buffer.size(), kReceiveMax));
    const Nanos deadline = detail::deadline_in(timeout);
    // The kernel tries at once, and waits itself if there is nothing.
    int64_t result = timeout != 0 ? TRY(receive_in_ring(socket, buffer, deadline)) : -EAGAIN;
    while (result == -EAGAIN || result == -EINTR) {
        result = result_of(::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT));
        if (result == -EAGAIN) TRY(wait_until(socket, POLLIN, deadline));
    }
    if (result < 0) return failure(result, socket, "socket of read_socket()");
    DCHECK(static_cast<size_t>(result) <= buffer.size());
    return static_cast<size_t>(result);
}

// Most sockets have space, so the call itself comes first: it needs no switch.
Result<void> write_socket(int socket, std::span<const std::byte> data, Nanos timeout) {
    using namespace threads;
    if (socket < 0)
        return fail(ErrorCode::bad_argument, "socket of write_socket()",
                    static_cast<uint64_t>(socket));
    if (in_simulation()) return fail(ErrorCode::unsupported, "write_socket() in a simulation");
    const Nanos deadline = detail::deadline_in(timeout);
    while (!data.empty()) {
        const int64_t result =
            result_of(::send(socket, data.data(), data.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
        if (result >= 0) data = data.subspan(static_cast<size_t>(result));
        else if (result == -EAGAIN) TRY(wait_until(socket, POLLOUT, deadline));
        else if (result != -EINTR) return failure(result, socket, "socket of write_socket()");
    }
    return {};
}

Result<int> accept_socket(int socket, Nanos timeout) {
    using namespace threads;
    const int flags = socket < 0 ? -1 : fcntl(socket, F_GETFL);
    if (flags < 0 || (flags & O_NONBLOCK) == 0)
        return fail(ErrorCode::bad_argument,
                    "accept_socket() takes an open socket that is non-blocking (SOCK_NONBLOCK)",
                    static_cast<uint64_t>(socket));
    if (in_simulation()) return fail(ErrorCode::unsupported, "accept_socket() in a simulation");
    const Nanos deadline = detail::deadline_in(timeout);
    for (;;) {
        const int64_t result = result_of(::accept4(socket, nullptr, nullptr, SOCK_CLOEXEC));
        if (result >= 0) return static_cast<int>(result);
        if (result == -EAGAIN) TRY(wait_until(socket, POLLIN, deadline));
        else if (!passes_over(result))
            return failure(result, socket, "listening socket of accept_socket()");
    }
}

}  // namespace lockstep
