// space_map_shrink.cc - giving the free end of the volume back to the file system, while open.
//
// Argument   (1) The end is lowered while the last map is exclusively latched. An allocation picks
//            pages below the end, under the same latch. So no page behind the new end is in use,
//            and none becomes so before the volume grows (SP-4).
//            (2) A map that goes has only its own bit set, which is how a new map begins. The
//            caller's first checkpoint writes it. If the volume grows again before the cut, or a
//            crash undoes the cut, the file has that map or zeros, and both are right (SP-3).
//            (3) The side file of written LSNs must forget these pages before the cut, else the
//            zeros that come back would look like lost writes. Hence the caller's order: lower,
//            checkpoint, forget, checkpoint, cut. The last two halves hold the growth latch and do
//            nothing if the volume has grown. A checkpoint does without that file if it cannot
//            save it; the cut does not.
//            One call at a time. Between two steps of one call, another could lower the volume to
//            the same end after it had grown. The first would then cut pages whose LSNs are not
//            forgotten.
//            (4) Redo of records from before the cut makes the file longer again, and brings the
//            pages. A freed page that an outdated descent still asks for reads as zeros
//            (BufferPool::give_up_from()).
#include <algorithm>
#include <bit>
#include <mutex>

#include "sm/space/space_map_impl.h"

namespace lockstep::sm {

using namespace space;

namespace {

// Bit of the last page in use below `limit`, or -1.
int64_t last_used(const Page& page, uint32_t limit) {
    DCHECK(page.kind() == PageKind::space_map && limit <= kPagesPerMap);
    for (uint32_t word = (limit + 63) / 64; word-- > 0;)
        if (const uint64_t bits = words(page)[word]; bits != 0)
            return int64_t{word} * 64 + 63 - std::countl_zero(bits);
    return -1;
}

}  // namespace

Result<bool> SpaceMap::lower_by_one_map() {
    Impl& s = *impl_;
    const uint64_t total = pages_total();
    const auto map = static_cast<uint32_t>((total - 1) / kPagesPerMap);
    const uint64_t base = uint64_t{map} * kPagesPerMap;
    ExclusivePage page = TRY(env_.pool->fix_exclusive(map_page(map)));
    // Under the latch no page of this map is taken. If the volume has grown, it is in use.
    if (pages_total() != total) return false;
    if (page->kind() != PageKind::space_map && (page->kind() != PageKind::free || map == 0))
        return fail(ErrorCode::corrupt_page, "space map", map_page(map).value);
    const auto limit = static_cast<uint32_t>(std::min<uint64_t>(kPagesPerMap, total - base));
    const bool formatted = page->kind() == PageKind::space_map;
    const int64_t last = formatted ? last_used(*page, limit) : -1;
    const bool gone = map > 0 && last <= 0;  // nothing but the map itself
    const uint64_t end = gone ? base : base + static_cast<uint64_t>(last) + 1;
    DCHECK(end <= total && end > kFirstMapPage.value);
    DCHECK(!gone || last == 0 || !formatted);
    const std::lock_guard held(s.grow_latch);
    if (pages_total() != total) return false;  // it has grown
    s.pages.store(end, std::memory_order_release);
    if (gone) s.hints[map].store(0, std::memory_order_relaxed);
    return gone;
}

threads::Latch& SpaceMap::giving_back() { return impl_->giving_back; }

Result<uint64_t> SpaceMap::lower_end() {
    while (TRY(lower_by_one_map())) {}
    return pages_total();
}

Result<bool> SpaceMap::forget_end(uint64_t end, uint64_t before) {
    DCHECK(end > kFirstMapPage.value && end <= before);
    const std::lock_guard held(impl_->grow_latch);
    if (pages_total() != end) return false;
    TRY(env_.pool->give_up_from(PageId{static_cast<uint32_t>(end)}, before));
    return true;
}

Result<bool> SpaceMap::cut_file(uint64_t end) {
    CHECK(end > kFirstMapPage.value);  // never the superblocks and the first map
    const std::lock_guard held(impl_->grow_latch);
    if (pages_total() != end) return false;
    if (!env_.pool->written_lsns().saved())  // (3)
        return fail(ErrorCode::io_error, "data.lsn was not saved: nothing is cut", end);
    TRY(env_.disk->truncate(env_.data_file, end * kPageBytes));
    return true;
}

}  // namespace lockstep::sm
