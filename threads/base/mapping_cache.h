// mapping_cache.h - mapped memory that a closed store leaves to the next one of the same process.
//
// Concepts   Only simulations use it: they open thousands of small stores. The system would map,
//            clear and unmap the same memory for each. The giver clears what it has written where
//            the next owner expects zeros. Guard pages of stacks stay as they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "threads/base/spin_lock.h"

namespace lockstep::threads {

enum class MappingUse : uint8_t { stacks, frames, write_buffers, log_ring, locks };

class MappingCache {
public:
    MappingCache() = default;
    ~MappingCache();  // unmaps what is idle
    MappingCache(const MappingCache&) = delete;
    MappingCache& operator=(const MappingCache&) = delete;

    // A mapping of exactly this use and size, or null.
    void* take(MappingUse use, size_t bytes);
    // Takes over the mapping [at, at + bytes).
    void give(MappingUse use, void* at, size_t bytes);

private:
    struct Idle {
        MappingUse use;
        size_t bytes;
        void* at;
    };
    static constexpr size_t kIdleMax = 32;  // beyond it the oldest goes

    SpinLock lock_;
    Idle idle_[kIdleMax];  // under lock_, the oldest first: a close allocates nothing
    size_t used_ = 0;      // under lock_
};

}  // namespace lockstep::threads
