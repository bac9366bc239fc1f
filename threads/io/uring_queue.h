// uring_queue.h - one io_uring ring per worker, and the test whether this kernel grants rings at
// all.
#pragma once

#include "threads/io/io.h"

namespace lockstep::threads {

// Sets up a small ring and runs an empty request through it. Error unsupported with errno if the
// kernel, a container's filter or a limit refuses; the same error comes from make_uring_queue.
Result<void> probe_uring();
// A ring that becomes its worker's at the first call (the kernel then admits that thread only).
// `clock` must outlive it.
Result<std::unique_ptr<IoQueue>> make_uring_queue(const Clock& clock);

}  // namespace lockstep::threads
