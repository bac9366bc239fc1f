// version_pool.cc - chunks, and blocks that other workers return.
#include "sm/version/version_pool.h"

#include <linux/mman.h>  // keep: MADV_POPULATE_WRITE, which older C libraries do not name
#include <sys/mman.h>

#include "threads/io/aligned_buffer.h"
#include "threads/worker/offload.h"

namespace lockstep::sm {

VersionPool::~VersionPool() { release(); }

bool VersionPool::start(uint64_t limit) {
    DCHECK(chunks_.load() == nullptr && chunk_bytes_.load() == 0);
    limit_ = limit;
    if (!by_worker_) by_worker_.reset(new (std::nothrow) Worker[workers_]);
    return by_worker_ != nullptr;
}

void VersionPool::release() {
    for (uint32_t i = 0; by_worker_ && i < workers_; ++i) {
        Worker& worker = by_worker_[i];
        for (Block*& first : worker.free) first = nullptr;
        worker.at = worker.end = nullptr;
        worker.returned.store(nullptr, std::memory_order_relaxed);
    }
    for (Chunk* chunk = chunks_.exchange(nullptr); chunk != nullptr;) {
        Chunk* const before = chunk->before;
        free_chunk(chunk);
        chunk = before;
    }
    if (std::byte* const spare = spare_.exchange(nullptr)) free_chunk(spare);
    chunk_bytes_.store(0);
}

// The class has no free block, and blocks have been returned or the newest chunk has no room.
VersionPool::Taken VersionPool::refill(Worker& worker, size_t bytes) {
    const size_t whole = bytes_of(bytes);
    DCHECK(worker.free[class_of(bytes)] == nullptr && whole <= kClasses * kStep);
    take_returned(worker);
    Block*& first = worker.free[class_of(bytes)];
    if (first != nullptr) return {std::exchange(first, first->next), false};
    if (static_cast<size_t>(worker.end - worker.at) < whole && !add_chunk(worker))
        return of_heap(bytes);
    return {std::exchange(worker.at, worker.at + whole), false};
}

// What is left of the chunk before becomes a free block.
bool VersionPool::add_chunk(Worker& worker) {
    if (chunk_bytes_.load(std::memory_order_relaxed) >= limit_) return false;  // VP-2
    std::byte* memory = spare_.exchange(nullptr, std::memory_order_acquire);
    if (memory == nullptr) memory = make_chunk();
    if (memory == nullptr) return false;
    if (const auto left = static_cast<size_t>(worker.end - worker.at); left != 0) {
        DCHECK(left % kStep == 0 && left <= kClasses * kStep);
        Block*& first = worker.free[class_of(left)];
        first = new (worker.at) Block{first, 0};
    }
    chunk_bytes_.fetch_add(chunk_size_, std::memory_order_relaxed);
    auto* const chunk = new (memory) Chunk{chunks_.load(std::memory_order_relaxed)};
    while (!chunks_.compare_exchange_weak(chunk->before, chunk, std::memory_order_release)) {}
    worker.at = memory + sizeof(Chunk);
    worker.end = memory + chunk_size_;
    return true;
}

std::byte* VersionPool::make_chunk() const {
    auto made = threads::make_aligned_buffer(chunk_size_, chunk_size_ == kLargeChunk
                                                              ? threads::PageSize::huge
                                                              : threads::PageSize::normal);
    return made ? made->release() : nullptr;
}

void VersionPool::free_chunk(void* chunk) const {
    threads::AlignedDelete{chunk_size_}(static_cast<std::byte*>(chunk));
}

// A system that cannot touch it ahead, or has no kernel thread for it, costs time only.
void VersionPool::prepare() {
    if (chunk_size_ != kLargeChunk || spare_.load(std::memory_order_relaxed) != nullptr ||
        chunk_bytes_.load(std::memory_order_relaxed) >= limit_)
        return;
    const auto made = threads::run_on(helper_, [this] {
        std::byte* const chunk = make_chunk();
        if (chunk != nullptr) (void)madvise(chunk, chunk_size_, MADV_POPULATE_WRITE);
        return chunk;
    });
    if (!made || *made == nullptr) return;
    if (std::byte* const before = spare_.exchange(*made, std::memory_order_release))
        free_chunk(before);
}

void VersionPool::take_returned(Worker& worker) {
    if (worker.returned.load(std::memory_order_relaxed) == nullptr) return;
    Block* block = worker.returned.exchange(nullptr, std::memory_order_acquire);
    while (block != nullptr) {
        Block* const next = block->next;
        Block*& first = worker.free[class_of(block->bytes)];
        block->next = std::exchange(first, block);
        block = next;
    }
}

void VersionPool::give_back(Worker& worker, Block* block, size_t bytes) {
    block->bytes = bytes;
    block->next = worker.returned.load(std::memory_order_relaxed);
    while (!worker.returned.compare_exchange_weak(block->next, block, std::memory_order_release)) {}
}

}  // namespace lockstep::sm
