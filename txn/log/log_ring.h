// log_ring.h - the log's buffer: a power-of-two ring mapped twice in a row, so that any stretch of
// it is contiguous memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include <lockstep/result.h>
#include <lockstep/types.h>

namespace lockstep::txn {

class LogRing {
public:
    // `bytes`: power of two, multiple of the page size. Errors: out_of_memory. All pages are
    // touched once, so that appending never takes a page fault.
    static Result<LogRing> make(uint64_t bytes);
    LogRing(LogRing&& other) noexcept : base_(other.base_), bytes_(other.bytes_) {
        other.base_ = nullptr;
    }
    LogRing& operator=(LogRing&&) = delete;
    ~LogRing();

    // Memory of the byte at `lsn`; the `bytes()` bytes that follow are contiguous.
    std::byte* at(uint64_t lsn) const { return base_ + (lsn & (bytes_ - 1)); }
    uint64_t bytes() const { return bytes_; }

private:
    LogRing(std::byte* base, uint64_t bytes) : base_(base), bytes_(bytes) {}
    std::byte* base_;
    uint64_t bytes_;
};

}  // namespace lockstep::txn
