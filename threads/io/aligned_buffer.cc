// aligned_buffer.cc - maps and unmaps aligned buffers.
#include "threads/io/aligned_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "threads/base/check.h"

namespace lockstep::threads {
namespace {

constexpr size_t kHugeBytes = 2u << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void AlignedDelete::operator()(std::byte* data) const {
    DCHECK(mapped_bytes > 0 && reinterpret_cast<uintptr_t>(data) % kIoAlignment == 0);
    CHECK(munmap(data, mapped_bytes) == 0);
}

// Huge pages need alignment: map more than requested, and unmap the excess on both sides.
Result<AlignedBuffer> make_aligned_buffer(size_t bytes, PageSize pages) {
    const size_t unit = pages == PageSize::huge ? kHugeBytes : kIoAlignment;
    if (bytes > SIZE_MAX / 2) return fail(ErrorCode::out_of_memory, "aligned buffer", bytes);
    const size_t wanted = round_up(std::max<size_t>(bytes, 1), unit);
    const size_t slack = pages == PageSize::huge ? kHugeBytes : 0;
    void* mapped = mmap(nullptr, wanted + slack, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return fail_os(ErrorCode::out_of_memory, errno, "aligned buffer", bytes);
    auto* start = static_cast<std::byte*>(mapped);
    if (slack > 0) {
        const size_t before = round_up(reinterpret_cast<uintptr_t>(start), kHugeBytes) -
                              reinterpret_cast<uintptr_t>(start);
        if (before > 0) munmap(start, before);
        start += before;
        if (slack > before) munmap(start + wanted, slack - before);
        madvise(start, wanted, MADV_HUGEPAGE);  // a refusal costs only speed
    }
    DCHECK(reinterpret_cast<uintptr_t>(start) % unit == 0);
    return AlignedBuffer(start, AlignedDelete{wanted});
}

}  // namespace lockstep::threads
