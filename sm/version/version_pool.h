// version_pool.h - memory of versions, by worker.
//
// Concepts   A *class* is a multiple of 64 bytes. Each worker has a list of free blocks for each
//            class and cuts new blocks from chunks. A block goes back to the worker that took it:
//            into its list, or from another worker onto its stack of returned blocks.
//            Large chunks are huge pages. A kernel thread touches one of them ahead of its use, so
//            that no worker waits while the system clears it.
// Invariants VP-1 Lists and chunks of a worker are used by its threads only; only the stack of
//                 returned blocks is shared.
//            VP-2 Chunks take at most the limit, and free blocks stay in their class until
//                 release(). What is taken beyond that comes from the heap. So the pool and the
//                 heap hold at most twice the limit, a chunk for each worker, and the spare one.
// Blocking   Only prepare() parks. Memory for a chunk comes from the system.
// Source     Bonwick, "The Slab Allocator", 1994; the stack of returned blocks as in mimalloc
//            (Leijen, Zorn, de Moura, 2019).
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/base/sanitized.h"
#include "threads/io/offload_pool.h"

namespace lockstep::sm {

// small: of a store in a simulation, which opens thousands of them.
enum class VersionMemory : uint8_t { small, large };

class VersionPool {
public:
    VersionPool(uint32_t workers, VersionMemory memory)
        : workers_(workers),
          chunk_size_(memory == VersionMemory::large ? kLargeChunk : kSmallChunk) {}
    ~VersionPool();

    // False: no memory. `limit`: bytes of all chunks.
    bool start(uint64_t limit);
    // Gives the chunks back; no block is taken.
    void release();
    // Gets the next large chunk ready, if none is. Parks meanwhile. By one thread at a time.
    void prepare();
    const std::byte* spare() const { return spare_.load(std::memory_order_relaxed); }

    // The bytes that a block of so many bytes takes.
    static size_t bytes_of(size_t bytes) { return (bytes + kStep - 1) / kStep * kStep; }
    struct Taken {
        void* block = nullptr;  // null: no memory
        bool of_heap = false;
    };
    // For a thread of the worker.
    Taken take(uint32_t worker, size_t bytes) {
        DCHECK(by_worker_ != nullptr && worker < workers_ && bytes != 0);
        if (bytes > kClasses * kStep || kHeapOnly) [[unlikely]]
            return of_heap(bytes);
        Worker& own = by_worker_[worker];
        Block*& first = own.free[class_of(bytes)];
        if (first != nullptr) return {std::exchange(first, first->next), false};
        const size_t whole = bytes_of(bytes);
        if (own.returned.load(std::memory_order_relaxed) != nullptr ||
            static_cast<size_t>(own.end - own.at) < whole) [[unlikely]]
            return refill(own, bytes);
        return {std::exchange(own.at, own.at + whole), false};
    }
    // `worker` has taken the block of `bytes`; `here` is the caller's worker, or a number beyond.
    void give(uint32_t worker, uint32_t here, Taken taken, size_t bytes) {
        DCHECK(taken.block != nullptr && worker < workers_);
        if (taken.of_heap) [[unlikely]]
            return ::operator delete(taken.block);
        auto* const block = static_cast<Block*>(taken.block);
        if (worker != here) return give_back(by_worker_[worker], block, bytes);
        Block*& first = by_worker_[worker].free[class_of(bytes)];
        block->next = std::exchange(first, block);
    }

private:
    static constexpr size_t kStep = 64, kClasses = 16;
    static constexpr size_t kSmallChunk = 64 << 10,
                            kLargeChunk = 2 << 20;  // the latter a huge page
    // The address sanitizer sees a use of what was freed only if the heap has it.
    static constexpr bool kHeapOnly = kAddressSanitizer;

    struct Block {
        Block* next;
        size_t bytes;  // of a returned block
    };
    struct alignas(kStep) Chunk {
        Chunk* before;
    };
    struct alignas(kCacheLineBytes) Worker {
        Block* free[kClasses] = {};
        std::byte* at = nullptr;  // what is left of its newest chunk
        std::byte* end = nullptr;
        alignas(kCacheLineBytes) std::atomic<Block*> returned{nullptr};
    };

    static size_t class_of(size_t bytes) { return (bytes - 1) / kStep; }
    static Taken of_heap(size_t bytes) { return {::operator new(bytes, std::nothrow), true}; }
    Taken refill(Worker& worker, size_t bytes);
    bool add_chunk(Worker& worker);
    std::byte* make_chunk() const;  // null: no memory
    void free_chunk(void* chunk) const;
    static void take_returned(Worker& worker);
    static void give_back(Worker& worker, Block* block, size_t bytes);

    const uint32_t workers_;
    const size_t chunk_size_;
    uint64_t limit_ = 0;
    std::unique_ptr<Worker[]> by_worker_;
    std::atomic<Chunk*> chunks_{nullptr};
    std::atomic<uint64_t> chunk_bytes_{0};
    std::atomic<std::byte*> spare_{nullptr};  // a chunk without a header
    threads::OffloadPool helper_{1};
};

}  // namespace lockstep::sm
