// growing_map.h - memory whose addresses are reserved at once, and which is opened from its begin
// on, as far as it is needed.
//
// Concepts   What is reserved and not open counts neither as data of the process (RLIMIT_DATA) nor
//            as memory that the system has promised (vm.overcommit_memory=2). It does count as
//            address space (RLIMIT_AS).
// Invariants GM-1 Addresses never change, and what is open stays open. [checked: open()]
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "threads/base/check.h"

namespace lockstep::sm {

class GrowingMap {
public:
    GrowingMap() = default;
    GrowingMap(const GrowingMap&) = delete;
    GrowingMap& operator=(const GrowingMap&) = delete;
    ~GrowingMap() {
        if (whole_ != nullptr) munmap(whole_, whole_bytes_);
    }
    // Once. `alignment`: of the begin, a power of two. False: the system has not the addresses.
    [[nodiscard]] bool reserve(size_t bytes, size_t alignment) {
        DCHECK(whole_ == nullptr && std::has_single_bit(alignment) && alignment >= kPage);
        whole_bytes_ = (bytes + kPage - 1) / kPage * kPage + alignment;
        void* at = mmap(nullptr, whole_bytes_, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) return false;
        whole_ = static_cast<std::byte*>(at);
        begin_ = whole_ + (alignment - reinterpret_cast<uintptr_t>(at) % alignment) % alignment;
        return true;
    }
    // Opens the first `bytes` bytes, which are zeros if they were not open before. One call at a
    // time. False: the system does not give the memory.
    [[nodiscard]] bool open(size_t bytes) {
        const size_t wanted = (bytes + kPage - 1) / kPage * kPage;
        if (wanted <= open_bytes_) return true;
        DCHECK(begin_ != nullptr && begin_ + wanted <= whole_ + whole_bytes_);  // GM-1
        if (mprotect(begin_ + open_bytes_, wanted - open_bytes_, PROT_READ | PROT_WRITE) != 0)
            return false;
        open_bytes_ = wanted;
        return true;
    }
    std::byte* begin() const { return begin_; }
    size_t reserved_bytes() const { return whole_bytes_; }

private:
    static constexpr size_t kPage = 4096;
    std::byte *whole_ = nullptr, *begin_ = nullptr;
    size_t whole_bytes_ = 0, open_bytes_ = 0;
};

}  // namespace lockstep::sm
