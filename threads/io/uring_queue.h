// uring_queue.h - one io_uring ring per worker, and a test whether this kernel permits rings.
#pragma once

#include "threads/io/transfer.h"

namespace lockstep::threads {

// Sets up a small ring and runs an empty request through it. Error unsupported, with errno, if the
// kernel, a container's filter or a limit refuses. make_uring_queue() returns the same error.
Result<void> probe_uring();
// Makes a ring. The first kernel thread that uses it becomes its owner; the kernel then admits only
// that thread. `clock` must outlive the ring.
Result<std::unique_ptr<IoQueue>> make_uring_queue(const Clock& clock,
                                                  SyncsAfterWrite syncs = nullptr);

}  // namespace lockstep::threads
