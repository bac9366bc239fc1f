// space_map.cc - finding free pages, freeing pages, growing the volume file.
//
// Concepts   Each map has a hint where the search continues: next fit, so pages taken in sequence
//            are adjacent. The space map has a hint which map to try first. Hints are unprotected:
//            an outdated hint costs a search, never a page.
#include "sm/space/space_map.h"

#include <algorithm>
#include <bit>

#include "sm/core/env.h"
#include "sm/space/space_map_impl.h"

namespace lockstep::sm {

using namespace space;

namespace {
constexpr uint64_t kGrowMin = 256u << 10, kGrowMax = 64u << 20, kGrowLeast = 64u << 10;  // bytes
static_assert(kGrowLeast <= kGrowMin && kGrowMin <= kGrowMax);
static_assert(kGrowLeast % kPageBytes == 0 && kGrowMin % kPageBytes == 0);
}  // namespace

SpaceMap::SpaceMap(Env& env) : env_(env), impl_(std::make_shared<Impl>(env)) {}

void PageReservation::add(PageId page) {
    DCHECK(count < kPagesMax);
    pages[count++] = page;
    if (run_count > 0) {
        uint32_t &first = runs[2 * run_count - 2], &length = runs[2 * run_count - 1];
        const bool before = page.value + 1 == first;
        if (before || page.value == first + length) {
            first -= before;
            ++length;
            return;
        }
    }
    runs[2 * run_count] = page.value;
    runs[2 * run_count + 1] = 1;
    ++run_count;
    DCHECK(run_count <= count);
}

ChangePart PageReservation::part() {
    assert_state();
    return {.page = &map,
            .action = action,
            .flags = 0,
            .pieces = {
                Slice(reinterpret_cast<const char*>(runs), run_count * sizeof(Run)), {}, {}, {}}};
}

// SP-3.
Result<ExclusivePage> SpaceMap::Impl::fix_map(uint32_t map) {
    DCHECK(map < kMapsMax);
    ExclusivePage page = TRY(env.pool->fix_exclusive(map_page(map)));
    if (page->kind() == PageKind::space_map) [[likely]]
        return page;
    // Given up by lower_end() since the caller looked: nothing is free there (SP-4).
    if (map_page(map).value >= pages.load(std::memory_order_acquire)) return page;
    if (page->kind() != PageKind::free)
        return fail(ErrorCode::corrupt_page, "space map", map_page(map).value);
    const uint32_t id = map_page(map).value;
    ChangePart part{.page = &page,
                    .action = PageAction::space_format,
                    .flags = kPartFresh,
                    .pieces = {Slice(reinterpret_cast<const char*>(&id), sizeof id), {}, {}, {}}};
    TRY(change_pages(env, nullptr, ChangeRole::system, LogKind::space_grow, ObjectId{0},
                     {&part, 1}));
    return page;
}

// Takes `count` zero bits from the hint on, then from the beginning; false if there are not so many
// within the file.
bool SpaceMap::Impl::pick(const ExclusivePage& page, uint32_t map, uint32_t count,
                          PageReservation& out) {
    const uint64_t base = uint64_t{map} * kPagesPerMap,
                   total = pages.load(std::memory_order_acquire);
    // Not formatted: the map was given up when the caller fixed it, and the volume has grown since.
    if (total <= base || page->kind() != PageKind::space_map) return false;
    const auto limit = static_cast<uint32_t>(std::min<uint64_t>(kPagesPerMap, total - base));
    const uint32_t hint = hints[map].load(std::memory_order_relaxed),
                   from = hint < limit ? hint : 0;
    DCHECK(page->id() == map_page(map) && (hint == kFull || hint <= kPagesPerMap));
    const uint64_t* bits = words(*page);
    out.count = out.run_count = 0;
    const auto search = [&](uint32_t begin, uint32_t end) {
        for (uint32_t bit = begin; bit < end && out.count < count;) {
            const uint64_t zeros = ~bits[bit / 64] >> (bit % 64);
            if (zeros == 0) {
                bit = (bit / 64 + 1) * 64;
            } else {
                bit += static_cast<uint32_t>(std::countr_zero(zeros));
                if (bit < end) out.add(PageId{static_cast<uint32_t>(base + bit)});
                ++bit;
            }
        }
    };
    if (limit >= used(*page) + count) {
        search(from, limit);
        const uint32_t next =
            out.count > 0 ? out.pages[out.count - 1].value - static_cast<uint32_t>(base) + 1 : 0;
        if (out.count < count) search(0, from);
        hints[map].store(next, std::memory_order_relaxed);
    }
    if (out.count < count && limit == kPagesPerMap)
        hints[map].store(kFull, std::memory_order_relaxed);
    DCHECK(out.count <= count);
    return out.count == count;
}

Result<PageReservation> SpaceMap::prepare(uint32_t count) {
    CHECK(count >= 1 && count <= std::size(PageReservation{}.pages));
    Impl& s = *impl_;
    for (;;) {
        const uint64_t total = s.pages.load(std::memory_order_acquire);
        const auto maps = static_cast<uint32_t>((total + kPagesPerMap - 1) / kPagesPerMap);
        const uint32_t first = s.map_hint.load(std::memory_order_relaxed);
        for (uint32_t i = 0; i < maps; ++i) {
            const uint32_t map = (first + i) % maps;
            if (s.hints[map].load(std::memory_order_relaxed) == kFull) continue;
            PageReservation r;
            r.map = TRY(s.fix_map(map));
            if (!s.pick(r.map, map, count, r)) continue;
            if (map != first) s.map_hint.store(map, std::memory_order_relaxed);
            r.assert_state();
            return r;
        }
        TRY(s.grow(total));
    }
}

Result<PageReservation> SpaceMap::prepare_free(std::span<const PageId> pages) {
    DCHECK(!pages.empty() && pages.size() <= PageReservation::kPagesMax);
    const uint32_t map = map_of(pages[0]);
    PageReservation r;
    for (const PageId page : pages) {
        if (page.value >= pages_total())
            return fail(ErrorCode::corrupt_page, "page beyond the volume", page.value);
        // Superblocks and maps are never freed.
        DCHECK(page > kFirstMapPage && !is_map_page(page) && map_of(page) == map);
        r.add(page);
    }
    r.map = TRY(impl_->fix_map(map));
    r.action = PageAction::space_clear;
    if (impl_->hints[map].load(std::memory_order_relaxed) == kFull) {
        impl_->hints[map].store(pages[0].value - map * kPagesPerMap, std::memory_order_relaxed);
        impl_->map_hint.store(map, std::memory_order_relaxed);
    }
    return r;
}

Result<void> SpaceMap::free_now(std::span<const PageId> pages) {
    while (!pages.empty()) {
        size_t n = 1;
        while (n < pages.size() && n < PageReservation::kPagesMax &&
               map_of(pages[n]) == map_of(pages[0]))
            ++n;
        TRY(impl_->free_group(*this, pages.first(n)));
        pages = pages.subspan(n);
    }
    return {};
}

// Latched in ascending order, like everywhere.
Result<void> SpaceMap::Impl::free_group(SpaceMap& space, std::span<const PageId> group) {
    PageId sorted[PageReservation::kPagesMax];
    const std::span ids(sorted, group.size());
    DCHECK(!group.empty() && group.size() <= std::size(sorted));
    std::ranges::copy(group, sorted);
    std::ranges::sort(ids, {}, &PageId::value);
    ExclusivePage pages[PageReservation::kPagesMax];
    ChangePart parts[PageReservation::kPagesMax + 1];
    size_t n = 0;
    const auto free = [&]() -> Result<void> {
        for (const PageId id : ids) {
            pages[n] = TRY(env.pool->fix_new(id));
            parts[n] = {.page = &pages[n],
                        .action = PageAction::page_free,
                        .flags = kPartFresh,
                        .pieces = {}};
            ++n;
        }
        PageReservation r = TRY(space.prepare_free(ids));
        parts[n] = r.part();
        TRY(change_pages(env, nullptr, ChangeRole::system, LogKind::space_free, ObjectId{0},
                         {parts, n + 1}));
        return {};
    };
    const Result<void> done = free();
    for (size_t i = 0; i < n; ++i) {
        DCHECK(!done || (pages[i]->kind() == PageKind::free && pages[i]->header.object == 0));
        // What was not in memory must not seem to be free: it still counts.
        if (done || pages[i]->header.lsn == 0) env.pool->drop(std::move(pages[i]));
    }
    return done;
}

Result<void> SpaceMap::undo_allocation(txn::Transaction& txn, const txn::LogRecordView& record) {
    DCHECK(record.header->txn == txn.id.value && txn.last_lsn >= record.lsn);
    PageId ids[PageReservation::kPagesMax];
    ExclusivePage pages[PageReservation::kPagesMax];
    ChangePart parts[PageReservation::kPagesMax + 1];
    uint32_t cursor = 0, n = 0;
    for (PartView part; TRY(next_part(record, cursor, part));) {
        if (!(part.flags & kPartFresh)) continue;  // the map's part
        if (n == std::size(pages))
            return fail(ErrorCode::corrupt_log, "record that took pages", record.lsn.value, n);
        ids[n] = part.page;
        pages[n] = TRY(env_.pool->fix_new(part.page));
        parts[n + 1] = {
            .page = &pages[n], .action = PageAction::page_free, .flags = kPartFresh, .pieces = {}};
        ++n;
    }
    if (n == 0) return fail(ErrorCode::corrupt_log, "record that took pages", record.lsn.value);
    PageReservation map = TRY(prepare_free({ids, n}));
    parts[0] = map.part();
    TRY(change_pages(env_, &txn, ChangeRole::compensation, LogKind::space_free,
                     ObjectId{record.header->object}, {parts, n + 1}, Lsn{record.header->prev}));
    map.map.release();
    for (uint32_t i = 0; i < n; ++i) env_.pool->drop(std::move(pages[i]));
    return {};
}

Result<void> undo_allocation(Env& env, txn::Transaction& txn, const txn::LogRecordView& record) {
    return env.space->undo_allocation(txn, record);
}

// The volume grows by a sixteenth, in steps between kGrowMin and kGrowMax; smaller ones when the
// device is nearly full.
Result<void> SpaceMap::Impl::grow(uint64_t seen) {
    grow_latch.lock();
    Result<void> result;
    if (pages.load(std::memory_order_relaxed) == seen) {
        const uint64_t bytes = seen * kPageBytes;
        for (uint64_t step = std::clamp(bytes / 16, kGrowMin, kGrowMax); step >= kGrowLeast;
             step /= 2) {
            result = extend_to(bytes + step / kPageBytes * kPageBytes);
            if (result || result.error().code != ErrorCode::no_space) break;
        }
    }
    grow_latch.unlock();
    return result;
}

Result<void> SpaceMap::Impl::extend_to(uint64_t bytes) {
    if (bytes / kPageBytes > BufferPoolOptions().pages_max)
        return fail(ErrorCode::no_space, "data file: page numbers used up", bytes);
    DCHECK(bytes % kPageBytes == 0);
    TRY(env.pool->open_pages(bytes / kPageBytes));
    // First what a save needs: without a save, a full device gives nothing back.
    if (env.lsns_file.value >= 0)
        TRY(env.disk->allocate(env.lsns_file, WrittenLsns::file_bytes(bytes / kPageBytes)));
    TRY(env.disk->allocate(env.data_file, bytes));
    DCHECK(bytes / kPageBytes >= pages.load(std::memory_order_relaxed));  // a volume only grows
    pages.store(bytes / kPageBytes, std::memory_order_release);
    return {};
}

Result<void> SpaceMap::ensure_size(PageId page) {
    if (page.value < pages_total()) return {};
    impl_->grow_latch.lock();
    Result<void> result;
    if (page.value >= pages_total()) {
        const uint64_t bytes = (uint64_t{page.value} + 1) * kPageBytes;
        result = impl_->extend_to((bytes + kGrowMin - 1) / kGrowMin * kGrowMin);
    }
    impl_->grow_latch.unlock();
    return result;
}

Result<bool> SpaceMap::is_used(PageId page) {
    if (page.value >= pages_total()) return false;
    const SharedPage map = TRY(env_.pool->fix_shared(map_page(map_of(page))));
    if (map->kind() != PageKind::space_map) return false;
    const uint32_t bit = page.value % kPagesPerMap;
    return (words(*map)[bit / 64] >> (bit % 64) & 1) != 0;
}

uint64_t SpaceMap::pages_used() {
    uint64_t sum = 0;
    for (uint32_t map = 0; map_page(map).value < pages_total(); ++map) {
        const Result<SharedPage> page = env_.pool->fix_shared(map_page(map));
        if (page && (*page)->kind() == PageKind::space_map) sum += used(**page);
    }
    return sum;
}

uint64_t SpaceMap::pages_total() const { return impl_->pages.load(std::memory_order_acquire); }

Result<void> SpaceMap::format_new_volume() {
    TRY(open());
    TRY(ensure_size(PageId{kGrowMin / kPageBytes - 1}));
    TRY(impl_->fix_map(0));
    return {};
}

Result<void> SpaceMap::open() {
    const uint64_t pages = TRY(env_.disk->size(env_.data_file)) / kPageBytes;
    TRY(env_.pool->open_pages(pages));
    const uint64_t before = impl_->pages.exchange(pages, std::memory_order_acq_rel);
    impl_->map_hint.store(0, std::memory_order_relaxed);
    const uint64_t maps = std::max(before, pages) / kPagesPerMap + 1;
    for (uint64_t map = 0; map < std::min<uint64_t>(maps, kMapsMax); ++map)
        impl_->hints[map].store(0, std::memory_order_relaxed);
    return {};
}

}  // namespace lockstep::sm
