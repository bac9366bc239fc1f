// page_image.cc - packing page images, and bringing them back.
#include "sm/change/page_image.h"

#include <lz4.h>
#include <xxhash.h>

#include <cstring>
#include <memory>
#include <new>

#include "threads/base/check.h"

namespace lockstep::sm {
namespace {

// Below this nothing is to be gained.
constexpr uint32_t kLeastBytes = 512;

struct PackedHead {
    uint16_t hole_begin;
    uint16_t hole_end;
    uint32_t sum;
};
static_assert(kOnDisk<PackedHead, 8> && offsetof(PackedHead, hole_end) == 2);
static_assert(offsetof(PackedHead, sum) == 4 && sizeof(PackedHead) == kPackedHeadBytes);

// LZ4 wants 16 KB of memory and adjacent bytes: both are too much for a user thread's stack.
struct Workspace {
    LZ4_stream_t state;
    char bytes[kPageBytes];
};

uint32_t sum_of(const void* bytes, size_t count) {
    return static_cast<uint32_t>(XXH3_64bits(bytes, count));
}

}  // namespace

std::byte* pack_image(const Page& page, uint32_t& bytes) {
    const uint32_t plain = image_bytes(page), most = packed_bytes_max(plain);
    if (plain < kLeastBytes) return nullptr;
    const std::unique_ptr<Workspace> work(new (std::nothrow) Workspace);
    std::unique_ptr<std::byte[]> packed(new (std::nothrow) std::byte[most]);
    if (!work || !packed) return nullptr;
    const uint16_t begin = page.header.hole_begin, end = page.header.hole_end;
    std::memcpy(work->bytes, page.bytes(), begin);
    std::memcpy(work->bytes + begin, page.bytes() + end, kPageBytes - end);
    const uint32_t raw = begin + static_cast<uint32_t>(kPageBytes) - end;
    const int block = LZ4_compress_fast_extState(
        &work->state, work->bytes, reinterpret_cast<char*>(packed.get() + sizeof(PackedHead)),
        static_cast<int>(raw), static_cast<int>(most - sizeof(PackedHead)), 1);
    if (block <= 0) return nullptr;
    const PackedHead head{begin, end, sum_of(work->bytes, raw)};
    std::memcpy(packed.get(), &head, sizeof head);
    bytes = static_cast<uint32_t>(sizeof head) + static_cast<uint32_t>(block);
    DCHECK(bytes <= most);  // PI-1
    return packed.release();
}

// The block is unpacked to the page's begin. Then the bytes behind the hole move to their place.
Result<void> bring_image(Page& page, const PartView& part) {
    if (!(part.flags & kPartPacked)) {
        install_image(page, part.image);
        return {};
    }
    PackedHead head;
    CHECK(part.image.size() > sizeof head);  // next_part() has looked
    std::memcpy(&head, part.image.data(), sizeof head);
    CHECK(head.hole_begin >= sizeof(PageHeader) && head.hole_begin <= head.hole_end &&
          head.hole_end <= kPageBytes);
    const size_t behind = kPageBytes - head.hole_end, raw = head.hole_begin + behind;
    char* const to = reinterpret_cast<char*>(page.bytes());
    const int got = LZ4_decompress_safe(part.image.data() + sizeof head, to,
                                        static_cast<int>(part.image.size() - sizeof head),
                                        static_cast<int>(raw));
    const bool whole = got == static_cast<int>(raw);
    if (!whole || sum_of(to, raw) != head.sum)
        return fail(ErrorCode::corrupt_log, "page image", part.page.value, part.image.size());
    std::memmove(to + head.hole_end, to + head.hole_begin, behind);
    std::memset(to + head.hole_begin, 0, head.hole_end - head.hole_begin);
    if (page.header.hole_begin != head.hole_begin || page.header.hole_end != head.hole_end)
        return fail(ErrorCode::corrupt_log, "page image", part.page.value, part.image.size());
    return {};
}

}  // namespace lockstep::sm
