// io_wait.cc - I/O for user threads: queue a request on the worker and park until it completes.
#include "threads/worker/io_wait.h"

#include "threads/base/check.h"
#include "threads/worker/worker.h"

namespace lockstep::threads {
namespace {

void complete_and_wake(IoRequest* request) {
    request->complete = true;
    // The request may no longer exist once its waiter runs, but not before.
    DCHECK(request->waiter == nullptr || request->waiter->worker == worker_local.worker);
    if (request->waiter != nullptr) wake(request->waiter);
}

Result<size_t> transfer(IoRequest& request, const char* what, ParkReason reason) {
    io_start(request);
    io_wait(request, reason);
    DCHECK(request.result <= static_cast<int64_t>(io_bytes(request)));
    if (request.result >= 0) [[likely]]
        return static_cast<size_t>(request.result);
    return fail_request(request, what, request.offset, static_cast<uint64_t>(request.file.value));
}

Worker& prepare(IoRequest& request) {
    Worker* worker = worker_local.worker;
    CHECK(worker != nullptr);  // user threads and completions only
    request.assert_state();
    request.complete = false;
    if (request.done == nullptr) request.done = complete_and_wake;
    return *worker;
}

}  // namespace

std::unexpected<Error> fail_request(const IoRequest& request, const char* what, uint64_t a,
                                    uint64_t b) {
    DCHECK(request.complete && request.result < 0);
    const int err = static_cast<int>(-request.result);
    const bool full = err == ENOSPC || err == EDQUOT || err == EFBIG;
    return fail_os(full ? ErrorCode::no_space : ErrorCode::io_error, err, what, a, b);
}

void io_start(IoRequest& request) { prepare(request).start_io(request); }
bool io_try_start(IoRequest& request) { return prepare(request).try_start_io(request); }
void set_io_mode(IoMode mode) { worker_local.worker->set_io_mode(mode); }

void io_wait(IoRequest& request, ParkReason reason) {
    request.waiter = current();
    DCHECK(request.waiter != nullptr);
    DCHECK(request.done != nullptr);  // started, and its completion wakes the waiter
    while (!request.complete) park(reason);
}

Result<size_t> io_read(FileId file, uint64_t offset, void* data, size_t bytes, const char* what,
                       ParkReason reason) {
    IoRequest request;
    request.kind = IoKind::read;
    request.file = file;
    request.offset = offset;
    request.iov[0] = {data, bytes};
    request.iov_count = 1;
    return transfer(request, what, reason);
}

Result<void> io_write(FileId file, uint64_t offset, const void* data, size_t bytes,
                      IoClass io_class, const char* what) {
    IoRequest request;
    request.kind = IoKind::write;
    request.io_class = io_class;
    request.file = file;
    request.offset = offset;
    request.iov[0] = {const_cast<void*>(data), bytes};
    request.iov_count = 1;
    TRY(transfer(request, what, io_class == IoClass::log ? ParkReason::log : ParkReason::io));
    return {};
}

Result<void> io_sync(FileId file, const char* what, ParkReason reason) {
    IoRequest request;
    request.kind = IoKind::sync;
    request.io_class = IoClass::log;
    request.file = file;
    TRY(transfer(request, what, reason));
    return {};
}

}  // namespace lockstep::threads
