// space_map_impl.h - the bytes of a space-map page, and where map pages are. Private to
// space_map*.cc.
#pragma once

#include <cstring>

#include "sm/space/space_map.h"
#include "threads/base/check.h"
#include "threads/base/on_disk.h"

namespace lockstep::sm::space {

struct Run {
    uint32_t first, count;
};
static_assert(kOnDisk<Run, 8>);

inline constexpr uint32_t kUsedAt = 32, kBitsAt = 64;
inline constexpr uint32_t kWordsPerMap = kPagesPerMap / 64;
static_assert(kBitsAt + kWordsPerMap * 8 == kPageBytes);

inline uint32_t map_of(PageId page) { return page.value / kPagesPerMap; }
inline PageId map_page(uint32_t map) {
    return map == 0 ? kFirstMapPage : PageId{map * kPagesPerMap};
}
inline uint32_t first_covered(PageId map_page) {
    return map_page == kFirstMapPage ? 0 : map_page.value;
}

inline uint64_t* words(Page& page) { return reinterpret_cast<uint64_t*>(page.bytes() + kBitsAt); }
inline const uint64_t* words(const Page& page) {
    return reinterpret_cast<const uint64_t*>(page.bytes() + kBitsAt);
}
inline uint32_t& used(Page& page) { return *reinterpret_cast<uint32_t*>(page.bytes() + kUsedAt); }
inline uint32_t used(const Page& page) {
    return *reinterpret_cast<const uint32_t*>(page.bytes() + kUsedAt);
}

}  // namespace lockstep::sm::space
