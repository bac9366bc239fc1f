// aligned_buffer.h - memory for direct I/O: page-aligned, zeroed, on huge pages if requested.
//
// Concepts   Each buffer is a private mapping. It takes no memory until touched, and returns to the
//            system whole.
#pragma once

#include <cstddef>
#include <memory>

#include <lockstep/result.h>

namespace lockstep::threads {

inline constexpr size_t kIoAlignment = 4096;  // suits every device's direct I/O

struct AlignedDelete {
    size_t mapped_bytes = 0;
    void operator()(std::byte* data) const;
};
using AlignedBuffer = std::unique_ptr<std::byte[], AlignedDelete>;

// huge: aligned to 2 MB, on huge pages where the system grants them.
enum class PageSize : uint8_t { normal, huge };

// Zeroed bytes, aligned to kIoAlignment (or 2 MB). Error: out_of_memory.
Result<AlignedBuffer> make_aligned_buffer(size_t bytes, PageSize pages = PageSize::normal);

}  // namespace lockstep::threads
