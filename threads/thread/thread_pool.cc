// thread_pool.cc - chunks of Thread objects.
#include "threads/thread/thread_pool.h"
#include "threads/base/coherence.h"

#include <new>

namespace lockstep::threads {

Thread* ThreadPool::take() {
    {
        SpinGuard guard(lock_);
        if (free_ != nullptr) {
            Thread* thread = free_;
            free_ = thread->queue_next;
            thread->queue_next = nullptr;
            thread->assert_idle();
            return thread;
        }
    }
    return add_chunk();
}

void ThreadPool::give(Thread* thread) {
    thread->assert_idle();
    SpinGuard guard(lock_);
    DCHECK(thread != free_);  // given back once
    thread->queue_next = free_;
    free_ = thread;
}

Thread* ThreadPool::add_chunk() {
    std::unique_ptr<Chunk> chunk(new (std::nothrow) Chunk);
    if (chunk == nullptr) return nullptr;
    Thread* mine = &chunk->threads[0];
    coherence::name("thread", chunk.get(), sizeof(Chunk), sizeof(Thread));
    SpinGuard guard(lock_);
    for (size_t i = 1; i < kChunkThreads; ++i) {
        chunk->threads[i].queue_next = free_;
        free_ = &chunk->threads[i];
    }
    chunks_.push_back(std::move(chunk));
    return mine;
}

}  // namespace lockstep::threads
