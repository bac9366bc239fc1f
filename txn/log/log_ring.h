// log_ring.h - the log's buffer: a power-of-two ring mapped twice in a row, so that any range of it
// is contiguous memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include <lockstep/result.h>
#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/base/mapping_cache.h"

namespace lockstep::txn {

class LogRing {
public:
    // `bytes`: power of two, multiple of the page size. Error: out_of_memory. Pages of a ring above
    // 4 MB are populated here, so that appends take no page faults.
    // The memory comes from `cache` and goes there, if there is one.
    static Result<LogRing> make(uint64_t bytes, threads::MappingCache* cache = nullptr);
    LogRing(LogRing&& other) noexcept
        : base_(other.base_), bytes_(other.bytes_), cache_(other.cache_) {
        other.base_ = nullptr;
    }
    LogRing& operator=(LogRing&&) = delete;
    ~LogRing();

    // Memory of the byte at `lsn`; the `bytes()` bytes that follow are contiguous.
    std::byte* at(uint64_t lsn) const {
        DCHECK(base_ != nullptr);  // not moved from
        return base_ + (lsn & (bytes_ - 1));
    }
    uint64_t bytes() const { return bytes_; }
    // [from, to) was written: call before the end, so that the next owner finds zeros.
    void clear(uint64_t from, uint64_t to);

private:
    LogRing(std::byte* base, uint64_t bytes, threads::MappingCache* cache)
        : base_(base), bytes_(bytes), cache_(cache) {
        DCHECK((bytes & (bytes - 1)) == 0 && reinterpret_cast<uintptr_t>(base) % 4096 == 0);
    }
    std::byte* base_;
    uint64_t bytes_;
    threads::MappingCache* cache_;
};

}  // namespace lockstep::txn
