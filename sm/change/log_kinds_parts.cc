// log_kinds_parts.cc - walking the parts of a record, and page images.
#include <cstring>

#include "sm/change/log_kinds.h"
#include "threads/base/check.h"

namespace lockstep::sm {
namespace {

constexpr uint32_t kImageHead = 2 * sizeof(uint16_t);

bool hole_sound(uint32_t begin, uint32_t end) {
    return begin >= sizeof(PageHeader) && begin <= end && end <= kPageBytes;
}

bool known(uint8_t action) {
    switch (static_cast<PageAction>(action)) {
#define X(number, name) case PageAction::name:
        LOCKSTEP_PAGE_ACTIONS(X)
#undef X
        return true;
    }
    return false;
}

bool image_sound(Slice image, bool packed = false) {
    uint16_t hole[2];
    if (image.size() < kImageHead) return false;
    std::memcpy(hole, image.data(), sizeof hole);
    if (!hole_sound(hole[0], hole[1])) return false;
    const uint32_t plain = kImageHead + static_cast<uint32_t>(kPageBytes) - (hole[1] - hole[0]);
    if (!packed) return image.size() == plain;
    return image.size() > kPackedHeadBytes && image.size() <= packed_bytes_max(plain);  // PI-1
}

}  // namespace

Result<bool> next_part(const txn::LogRecordView& record, uint32_t& cursor, PartView& part) {
    const uint32_t total = record.payload_bytes();
    DCHECK(cursor % 8 == 0);
    if (cursor >= total) return false;
    const auto damaged = [&] {
        return fail(ErrorCode::corrupt_log, "part of a log record", record.lsn.value, cursor);
    };
    PartHeader header;
    if (total - cursor < sizeof header) return damaged();
    std::memcpy(&header, record.payload() + cursor, sizeof header);
    const uint64_t image = txn::log_align(header.image_bytes),
                   payload = (uint64_t{header.payload_bytes} + 7) & ~7ull;
    if (image + payload > total - cursor - sizeof header || !known(header.action)) return damaged();
    if (((header.flags & kPartImage) != 0) != (header.image_bytes != 0)) return damaged();
    const bool packed = header.flags & kPartPacked;
    if (packed && header.image_bytes == 0) return damaged();
    const auto* at = reinterpret_cast<const char*>(record.payload()) + cursor + sizeof header;
    part.page = PageId{header.page};
    part.action = static_cast<PageAction>(header.action);
    part.flags = header.flags;
    part.image = Slice(at, header.image_bytes);
    part.payload = Slice(at + image, header.payload_bytes);
    if (header.image_bytes != 0 && !image_sound(part.image, packed)) return damaged();
    cursor += static_cast<uint32_t>(sizeof header + image + payload);
    DCHECK(cursor <= total);
    return true;
}

uint32_t image_bytes(const Page& page) {
    CHECK(hole_sound(page.header.hole_begin, page.header.hole_end));  // PG-2
    return kImageHead + static_cast<uint32_t>(kPageBytes) -
           (page.header.hole_end - page.header.hole_begin);
}

void write_image(const Page& page, std::byte* out) {
    const uint16_t hole[2] = {page.header.hole_begin, page.header.hole_end};
    std::memcpy(out, hole, sizeof hole);
    std::memcpy(out + kImageHead, page.bytes(), hole[0]);
    std::memcpy(out + kImageHead + hole[0], page.bytes() + hole[1], kPageBytes - hole[1]);
}

// The hole becomes zeros, so that rebuilding a page twice gives the same bytes.
void install_image(Page& page, Slice image) {
    CHECK(image_sound(image));  // next_part() has looked
    uint16_t hole[2];
    std::memcpy(hole, image.data(), sizeof hole);
    std::byte* to = page.bytes();
    std::memcpy(to, image.data() + kImageHead, hole[0]);
    std::memset(to + hole[0], 0, hole[1] - hole[0]);
    std::memcpy(to + hole[1], image.data() + kImageHead + hole[0], kPageBytes - hole[1]);
    DCHECK(page.header.hole_begin == hole[0] && page.header.hole_end == hole[1]);
}

}  // namespace lockstep::sm
