// io_wait.h - I/O for user threads: queue a request on the worker and park until it completes.
//
// Concepts   Each call passes a request to the current worker's I/O stage (io_stage.h). The worker
//            submits a batch once per turn.
// Blocking   io_wait(), io_read(), io_write() and io_sync() park the user thread. io_start() parks
//            only while the stage is full.
#pragma once

#include "threads/base/park_reason.h"
#include "threads/io/io.h"

namespace lockstep::threads {

// Adds the request to the current worker's stage, which submits it with its next batch. The request
// must live until complete. Parks while the stage is full.
void io_start(IoRequest& request);
// The same for an optional request: false if the stage is full. Never parks.
bool io_try_start(IoRequest& request);
// Sets the mode of the current worker's stage; for measurements.
void set_io_mode(IoMode mode);
// Parks until `request.complete`.
void io_wait(IoRequest& request, ParkReason reason);
// The error of a request that has failed: no_space if the disk, the quota or the file's limit is
// full, else io_error. `a` and `b` as in Error.
[[gnu::cold]] std::unexpected<Error> fail_request(const IoRequest& request, const char* what,
                                                  uint64_t a = 0, uint64_t b = 0);
// Whole transfers. Errors: io_error or no_space, with errno and the given `what`.
Result<size_t> io_read(FileId file, uint64_t offset, void* data, size_t bytes, const char* what,
                       ParkReason reason = ParkReason::page_read);
Result<void> io_write(FileId file, uint64_t offset, const void* data, size_t bytes,
                      IoClass io_class, const char* what);
Result<void> io_sync(FileId file, const char* what, ParkReason reason = ParkReason::io);

}  // namespace lockstep::threads
