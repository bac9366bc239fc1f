// spare_blocks.h - memory blocks of one size that a worker keeps, so that an object which comes and
// goes with each operation needs no allocator.
//
// Concepts   Each worker has one (worker_local.h). A block may come from one worker's and go to
//            another's, or be a plain allocation. Under the address sanitizer all are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "threads/base/check.h"
#include "threads/base/sanitized.h"

namespace lockstep::threads {

class SpareBlocks {
public:
    static constexpr size_t kBytes = 6 * 1024;
    static constexpr uint32_t kKeptMax = 32;

    SpareBlocks() = default;
    ~SpareBlocks() {
        while (first_ != nullptr) ::operator delete(pop());
    }
    SpareBlocks(const SpareBlocks&) = delete;
    SpareBlocks& operator=(const SpareBlocks&) = delete;

    // A block of kBytes, aligned as operator new aligns. `from` may be null.
    static void* take(SpareBlocks* from) {
        if (from != nullptr && from->first_ != nullptr) [[likely]]
            return from->pop();
        return ::operator new(kBytes);
    }
    // Keeps the block, or frees it. `to` may be null.
    static void give(SpareBlocks* to, void* block) {
        if (!kAddressSanitizer && to != nullptr && to->kept_ < kKeptMax) [[likely]]
            return to->push(block);
        ::operator delete(block);
    }
    uint32_t kept() const { return kept_; }

private:
    struct Block {
        Block* next;
    };
    void* pop() {
        DCHECK(kept_ > 0);
        --kept_;
        Block* const block = first_;
        first_ = block->next;
        return block;
    }
    void push(void* block) {
        ++kept_;
        first_ = ::new (block) Block{first_};
    }

    Block* first_ = nullptr;
    uint32_t kept_ = 0;
};

}  // namespace lockstep::threads
