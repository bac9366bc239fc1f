// thread_pool.h - memory of Thread objects: reused, and never freed before the runtime ends (TH-3).
//
// Concepts   Threads come in chunks. A returned Thread keeps its type and its atomic state. A late
//            wake() therefore finds a Thread, perhaps a different one, and does no harm.
// Blocking   take() allocates when the pool is empty, outside the lock. Any kernel thread may call
//            it.
#pragma once

#include <memory>
#include <vector>

#include "threads/base/spin_lock.h"
#include "threads/thread/thread.h"

namespace lockstep::threads {

class ThreadPool {
public:
    static constexpr size_t kChunkThreads = 64;

    Thread* take();  // null if memory is out
    void give(Thread* thread);

private:
    struct Chunk {
        Thread threads[kChunkThreads];
    };
    [[gnu::cold]] Thread* add_chunk();

    SpinLock lock_;
    Thread* free_ = nullptr;                      // under lock_, linked by queue_next
    std::vector<std::unique_ptr<Chunk>> chunks_;  // under lock_
};

}  // namespace lockstep::threads
