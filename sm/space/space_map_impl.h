// space_map_impl.h - the bytes of a space-map page, and where map pages are. Private to
// space_map*.cc.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>

#include "sm/core/env.h"
#include "sm/space/space_map.h"
#include "threads/base/check.h"
#include "threads/base/on_disk.h"
#include "threads/sync/latch.h"

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

static_assert(kPagesPerMap % 64 == 0 && kFirstMapPage.value < kPagesPerMap);

inline uint64_t* words(Page& page) { return reinterpret_cast<uint64_t*>(page.bytes() + kBitsAt); }
inline const uint64_t* words(const Page& page) {
    return reinterpret_cast<const uint64_t*>(page.bytes() + kBitsAt);
}
inline uint32_t& used(Page& page) { return *reinterpret_cast<uint32_t*>(page.bytes() + kUsedAt); }
inline uint32_t used(const Page& page) {
    return *reinterpret_cast<const uint32_t*>(page.bytes() + kUsedAt);
}

// Of a space-map page that is about to change.
inline void assert_state(const Page& page) {
    DCHECK(page.kind() == PageKind::space_map && page.id() == map_page(map_of(page.id())));
    DCHECK(used(page) <= kPagesPerMap);
    DCHECK(page.header.hole_begin >= kBitsAt && page.header.hole_begin % 8 == 0);
    DCHECK(page.header.hole_end == kPageBytes && page.header.object == 0);
}

}  // namespace lockstep::sm::space

namespace lockstep::sm {

inline constexpr uint32_t kMapsMax = kPageNone.value / kPagesPerMap + 1;
inline constexpr uint32_t kFull = UINT32_MAX;  // a hint: nothing free here
static_assert(kFull > kPagesPerMap);

struct SpaceMap::Impl {
    Env& env;
    std::atomic<uint64_t> pages{0};  // of the file; grows under grow_latch
    std::atomic<uint32_t> map_hint{0};
    // Bit, or kFull.
    std::unique_ptr<std::atomic<uint32_t>[]> hints =
        std::make_unique<std::atomic<uint32_t>[]>(kMapsMax);
    threads::Latch grow_latch{900, "volume growth"};
    threads::Latch giving_back{4, "giving back space"};  // below the checkpoint's

    Result<ExclusivePage> fix_map(uint32_t map);
    bool pick(const ExclusivePage& page, uint32_t map, uint32_t count, PageReservation& out);
    Result<void> free_group(SpaceMap& space, std::span<const PageId> group);  // under one map
    Result<void> grow(uint64_t seen);
    Result<void> extend_to(uint64_t bytes);
};

inline void PageReservation::assert_state() const {
    DCHECK(map && map->kind() == PageKind::space_map);
    DCHECK(count >= 1 && count <= std::size(pages));
    DCHECK(run_count >= 1 && 2 * run_count <= std::size(runs));
    // SP-3: the runs lie under the one map that is latched, and are what was reserved.
    [[maybe_unused]] const auto sound = [&] {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < run_count; ++i) {
            const PageId first{runs[2 * i]}, last{runs[2 * i] + runs[2 * i + 1] - 1};
            if (space::map_page(space::map_of(first)) != map->id() ||
                space::map_of(first) != space::map_of(last))
                return false;
            sum += runs[2 * i + 1];
        }
        return sum == count || action == PageAction::space_clear;
    };
    DCHECK(sound());
}

}  // namespace lockstep::sm
