// heap_space.cc - where a record finds room: insert pages, candidates, reclaiming, new pages.
#include <algorithm>
#include <vector>

#include "sm/heap/heap_impl.h"
#include "threads/base/limits.h"

namespace lockstep::sm {

using namespace heap;

namespace {

uint32_t class_needed(uint32_t bytes) {
    return std::min((bytes + kClassBytes - 1) / kClassBytes, kClasses - 1);
}

}  // namespace

Result<ExclusivePage> HeapFile::page_with_room(txn::Transaction& txn, uint32_t bytes) {
    DCHECK(bytes <= kPageBytes - kSlotsAt && threads::current()->latch_depth == 0);
    const uint32_t hint =
        hints_->workers[threads::worker_index()].page.load(std::memory_order_relaxed);
    if (hint != kPageNone.value) [[likely]] {
        Result<ExclusivePage> fixed = env_.pool->fix_exclusive(PageId{hint});
        if (!fixed) [[unlikely]] {
            if (!is_bad_page(fixed.error().code)) return fixed;
            leave_damaged(PageId{hint});
            return find_page(txn, bytes);
        }
        ExclusivePage page = std::move(*fixed);
        DCHECK(is_data_page(*page));
        if (free_now(*page) >= bytes) [[likely]]
            return page;
        if (free_now(*page) + data(*page).reclaimable >= bytes) {
            TRY(reclaim(txn, page, bytes));
            if (free_now(*page) >= bytes) return page;
        }
    }
    return find_page(txn, bytes);
}

// The page itself is left as it is, and nobody is offered it before the next open.
[[gnu::cold, gnu::noinline]] void HeapFile::leave_damaged(PageId id) {
    DCHECK(id != kPageNone && threads::current()->latch_depth == 0);
    Hints& hints = *hints_;
    hints.latch.lock();
    uint32_t expected = id.value;
    hints.workers[threads::worker_index()].page.compare_exchange_strong(expected, kPageNone.value,
                                                                        std::memory_order_relaxed);
    hints.latch.unlock();
}

PageId HeapFile::Hints::next_candidate(uint32_t& lowest, PageId& refused) {
    for (; lowest < kClasses; ++lowest, refused = kPageNone) {
        std::deque<PageId>& list = candidates[lowest];
        while (!list.empty() && list.front() != refused) {
            const PageId id = list.front();
            list.pop_front();
            if (!is_insert_page(id)) return id;  // HF-4; its worker offers it when it leaves it
        }
    }
    return kPageNone;
}

void HeapFile::Hints::prune() {
    DCHECK(places() > 0);
    uint32_t last = 0;
    for (const auto& list : candidates)
        for (const PageId id : list) last = std::max(last, id.value);
    std::vector<bool> seen(last + size_t{1});
    for (uint32_t c = kClasses; c-- > 0;)
        std::erase_if(candidates[c], [&](PageId id) {
            const bool again = seen[id.value];
            seen[id.value] = true;
            return again;
        });
    prune_at = 2 * places() + kPruneLeast;
}

// Cold: the insert page is full.
[[gnu::cold, gnu::noinline]] Result<ExclusivePage> HeapFile::find_page(txn::Transaction& txn,
                                                                       uint32_t bytes) {
    TRY(load_hints());
    Hints& hints = *hints_;
    auto& mine = hints.workers[threads::worker_index()].page;
    hints.latch.lock();
    hints.assert_state();
    const PageId left{mine.exchange(kPageNone.value, std::memory_order_relaxed)};
    hints.latch.unlock();
    // The bytes of a page that cannot be read are lost until the next open.
    if (left != kPageNone)
        if (const auto noted = note_class(left, true); !noted && !is_bad_page(noted.error().code))
            return std::unexpected(noted.error());

    PageId refused = kPageNone;  // the first one of class `lowest`
    for (uint32_t tried = 0, lowest = class_needed(bytes); tried < limits::heap_candidates();
         ++tried) {
        hints.latch.lock();
        // Another thread of this worker may have found one.
        const PageId current{mine.load(std::memory_order_relaxed)};
        PageId candidate = kPageNone;
        if (current == kPageNone) candidate = hints.next_candidate(lowest, refused);
        if (candidate != kPageNone) mine.store(candidate.value, std::memory_order_relaxed);
        hints.assert_state();
        hints.latch.unlock();
        if (current != kPageNone) return page_with_room(txn, bytes);
        if (candidate == kPageNone) break;
        Result<ExclusivePage> fixed = env_.pool->fix_exclusive(candidate);
        if (!fixed && !is_bad_page(fixed.error().code)) return fixed;
        // An insert needs no page that is damaged.
        if (!fixed || !is_data_page(**fixed)) [[unlikely]] {
            if (fixed) fixed->release();
            leave_damaged(candidate);
            continue;
        }
        ExclusivePage page = std::move(*fixed);
        if (free_now(*page) < bytes && free_now(*page) + data(*page).reclaimable >= bytes)
            TRY(reclaim(txn, page, bytes));
        if (free_now(*page) >= bytes) return page;
        const bool promising = class_of(*page) >= class_needed(bytes);
        page.release();
        hints.latch.lock();
        uint32_t expected = candidate.value;
        const bool left_mine =
            mine.compare_exchange_strong(expected, kPageNone.value, std::memory_order_relaxed);
        // The bytes belong to a transaction that has not ended. The map has the class already, so
        // no other note would offer the page again.
        if (promising && left_mine) {
            hints.offer(candidate, lowest);
            if (refused == kPageNone) refused = candidate;
        }
        hints.latch.unlock();
        if (!promising) TRY(note_class(candidate, true));
    }
    TRY(extend());
    return page_with_room(txn, bytes);
}

// A new page at the end of the list becomes the worker's insert page. The last map page's latch
// keeps extenders apart.
Result<void> HeapFile::extend() {
    Env& env = env_;
    Hints& hints = *hints_;
    hints.latch.lock();
    PageId last = hints.last_map;
    DCHECK(hints.loaded);
    hints.latch.unlock();
    ExclusivePage map_page = TRY(env.pool->fix_exclusive(last));
    while (map(*map_page).next != kPageNone.value) {
        last = PageId{map(*map_page).next};
        map_page.release();
        map_page = TRY(env.pool->fix_exclusive(last));
    }
    const uint16_t entries = map(*map_page).entries;
    const bool full = entries == kMapEntries;
    PageReservation reservation = TRY(env.space->prepare(full ? 2 : 1));
    const PageId fresh = reservation.pages[0];
    ExclusivePage page = TRY(env.pool->fix_new(fresh));
    ExclusivePage new_map;
    if (full) {
        last = reservation.pages[1];
        new_map = TRY(env.pool->fix_new(last));
    }
    const FormatPayload format{fresh.value, id_.value, last.value, full ? uint16_t{0} : entries, 0};
    const MapSetPayload append{entries, kClasses - 1, kAppend, fresh.value};
    const MapFormatPayload format_map{last.value, id_.value, fresh.value, kClasses - 1};
    ChangePart parts[4] = {reservation.part(),
                           {&page, PageAction::heap_format, kPartFresh, {bytes_of(format)}}};
    uint32_t count = 2;
    if (full) {
        parts[count++] = {
            &new_map, PageAction::heap_map_format, kPartFresh, {bytes_of(format_map)}};
        parts[count++] = {&map_page, PageAction::heap_set_link, 0, {bytes_of(last.value)}};
    } else {
        parts[count++] = {&map_page, PageAction::heap_map_set, 0, {bytes_of(append)}};
    }
    TRY(change_pages(env, nullptr, ChangeRole::system, LogKind::heap_extend, id_, {parts, count}));
    hints.latch.lock();
    hints.last_map = last;
    auto& mine = hints.workers[threads::worker_index()].page;
    const PageId before{mine.exchange(fresh.value, std::memory_order_relaxed)};
    // Looked at again before use.
    hints.assert_state();
    if (before != kPageNone && before != fresh) hints.offer(before, kClasses - 1);
    hints.latch.unlock();
    return {};
}

// First insert after open: loads all pages with free space from the map.
Result<void> HeapFile::load_hints() {
    Hints& hints = *hints_;
    hints.latch.lock();
    const bool loaded = hints.loaded;
    hints.latch.unlock();
    if (loaded) return {};
    std::deque<PageId> found[kClasses];  // lowest page first
    PageId last = first_;
    for (PageId at = first_; at != kPageNone;) {
        SharedPage page = TRY(env_.pool->fix_shared(at));
        const MapBody& body = map(*page);
        for (uint32_t i = 0; i < body.entries; ++i)
            if (body.free_class[i] > 0)
                found[std::min<uint32_t>(body.free_class[i], kClasses - 1)].push_back(
                    PageId{body.page[i]});
        last = at;
        at = PageId{body.next};
    }
    hints.latch.lock();
    hints.assert_state();
    if (!hints.loaded) {
        for (uint32_t c = 0; c < kClasses; ++c) hints.candidates[c] = std::move(found[c]);
        hints.prune_at = 2 * hints.places() + Hints::kPruneLeast;
        hints.last_map = last;
        hints.loaded = true;
    }
    hints.latch.unlock();
    return {};
}

txn::LockName HeapFile::lock_of(PageId page, uint32_t index, const Slot& s,
                                const Page& bytes) const {
    const RecordId id = s.state & kMoved ? link_of(content(bytes, s))
                                         : RecordId{page, SlotNo{static_cast<uint16_t>(index)}};
    return txn::record_lock_name(id_, id);
}

bool HeapFile::unlocked(txn::Transaction& txn, txn::LockName name) {
    txn::LockManager& locks = *env_.locks;
    // A transaction that holds the whole heap erases without record locks. Its ghosts look as free
    // as old ghosts, but it may still roll back.
    if (lock().strong.load(std::memory_order_acquire) != 0) return false;
    return locks.held(txn.locks, name) == txn::LockMode::none &&
           locks.grantable(txn.locks, name, txn::LockMode::X);
}

// The bytes of a ghost and the unused bytes of a shortened record belong to their transaction until
// its lock is gone. A later change of the record needs this page's latch. So a record found
// unlocked here stays unlocked until the change is applied.
[[gnu::cold, gnu::noinline]] Result<void> HeapFile::reclaim(txn::Transaction& txn,
                                                            ExclusivePage& page, uint32_t bytes) {
    assert_state(*page);
    const DataHeader& head = data(*page);
    uint16_t slots[kSlotsMax];
    uint32_t count = 0, gain = 0;
    for (uint32_t i = 0; i < head.slot_count && head.free_bytes + gain < bytes; ++i) {
        const Slot& s = slot(*page, i);
        if (s.state == kEmpty) continue;
        const uint32_t spare = s.state & kGhost ? s.capacity : s.capacity - capacity_for(s.length);
        const txn::LockName name = lock_of(page->id(), i, s, *page);
        if (spare == 0 || !unlocked(txn, name)) continue;
        // A scan that comes later finds no record to lock here.
        if (s.state & kGhost) env_.locks->keep_note(name);
        slots[count++] = static_cast<uint16_t>(i);
        gain += spare;
    }
    if (count == 0) return {};
    DCHECK(count <= kSlotsMax && gain <= head.reclaimable);
    const RemovePayload trim{static_cast<uint16_t>(count), kTrim, 0};
    ChangePart part{&page,
                    PageAction::heap_remove,
                    0,
                    {bytes_of(trim), {reinterpret_cast<const char*>(slots), count * 2u}}};
    TRY(change_pages(env_, nullptr, ChangeRole::system, LogKind::heap_reclaim, id_, {&part, 1}));
    return {};
}

// True: the class has grown.
Result<bool> HeapFile::set_class(PageId map_id, uint16_t index, PageId id, uint8_t now) {
    DCHECK(now < kClasses && map_id != id);
    ExclusivePage map_page = TRY(env_.pool->fix_exclusive(map_id));
    if (map_page->kind() != PageKind::heap_map || index >= map(*map_page).entries ||
        map(*map_page).page[index] != id.value)
        return fail(ErrorCode::corrupt_page, "free-space map of a heap", map_id.value, id.value);
    const uint8_t noted = map(*map_page).free_class[index];
    if (noted == now) return false;
    const MapSetPayload set{index, now, kSetClass, id.value};
    ChangePart part{&map_page, PageAction::heap_map_set, 0, {bytes_of(set)}};
    TRY(change_pages(env_, nullptr, ChangeRole::system, LogKind::heap_free_space, id_, {&part, 1}));
    return now > noted;
}

Result<void> HeapFile::note_class(PageId id, bool offer) {
    TRY(load_hints());
    PageId map_id;
    uint16_t index;
    uint8_t now;
    {
        SharedPage page = TRY(env_.pool->fix_shared(id));
        map_id = PageId{data(*page).map_page};
        index = data(*page).map_index;
        now = class_of(*page);
    }
    const Result<bool> grown = set_class(map_id, index, id, now);
    // Without a map entry, for example while the log is full, the page still has its room.
    if (now != 0 && (offer || (grown.has_value() && *grown))) {
        Hints& hints = *hints_;
        hints.latch.lock();
        if (!hints.is_insert_page(id)) hints.offer(id, now);
        hints.latch.unlock();
    }
    if (!grown.has_value()) return std::unexpected(grown.error());
    return {};
}

}  // namespace lockstep::sm
