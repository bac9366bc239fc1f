// heap_access.cc - reading heap records: by id, and all of them.
#include <algorithm>

#include "sm/core/lock_wait.h"
#include "sm/core/txn_local.h"
#include "sm/heap/heap_impl.h"
#include "sm/heap/heap_snapshot.h"
#include "threads/base/limits.h"

namespace lockstep::sm {

using namespace heap;

namespace {

txn::LockMode mode_of(Access access) {
    switch (access) {
        case Access::read: return txn::LockMode::S;
        case Access::update: return txn::LockMode::U;
        case Access::write: return txn::LockMode::X;
    }
    __builtin_unreachable();
}

void copy_out(Slice value, ValueOut& out) {
    out.bytes = value.size();
    DCHECK(out.fixed == nullptr || out.text == nullptr);
    if (out.text) out.text->assign(value);
    else if (out.fixed) std::memcpy(out.fixed, value.data(), std::min(out.capacity, value.size()));
}

}  // namespace

bool HeapFile::plausible(RecordId id) {
    return id.page > kFirstMapPage && id.page.value < env_.space->pages_total();
}

// A page that lost its writes may hold anything.
bool HeapFile::is_data_page(const Page& page) const {
    return page.kind() == PageKind::heap && page.header.object == id_.value &&
           data(page).slot_count <= kSlotsMax;
}
bool HeapFile::is_map_page(const Page& page) const {
    return page.kind() == PageKind::heap_map && page.header.object == id_.value &&
           map(page).entries <= kMapEntries;
}
std::unexpected<Error> HeapFile::damaged(PageId id) const {
    return fail(ErrorCode::corrupt_page, "page of a heap", id.value, id_.value);
}

// An id may be any number, so the map tells whether the page is the heap's. HF-5: the map is
// latched while no data page is.
Result<bool> HeapFile::no_record_in(PageId id) {
    DCHECK(threads::current()->latch_depth == 0);
    for (PageId at = first_; at != kPageNone;) {
        SharedPage page = TRY(env_.pool->fix_shared(at));
        if (!is_map_page(*page)) return damaged(at);
        const std::span entries(map(*page).page, map(*page).entries);
        if (std::ranges::find(entries, id.value) != entries.end()) {
            page.release();
            // It may be a new page of the heap, since the caller looked.
            page = TRY(env_.pool->fix_shared(id));
            if (!is_data_page(*page)) return damaged(id);
            return false;
        }
        at = PageId{map(*page).next};
    }
    return false;
}

const Slot* HeapFile::record_at(const Page& page, SlotNo number) {
    if (!is_data_page(page) || number.value >= data(page).slot_count) return nullptr;
    const Slot& s = slot(page, number.value);
    return is_record(s) ? &s : nullptr;
}

// Is the moved copy of record `home` in that slot (HF-2)?
bool HeapFile::copy_at(const Page& page, SlotNo number, RecordId home) {
    if (!is_data_page(page) || number.value >= data(page).slot_count) return false;
    const Slot& s = slot(page, number.value);
    return (s.state & kMoved) && s.length >= sizeof(Link) && link_of(content(page, s)) == home;
}

// Copies the record out of its page or from where it has moved to; the caller holds the record's
// lock. False: no such record.
Result<bool> HeapFile::read(RecordId id, std::move_only_function<void(Slice)> take) {
    RecordId moved{};
    DCHECK(threads::current()->latch_depth == 0);
    {
        SharedPage page = TRY(env_.pool->fix_shared(id.page));
        const Slot* s = record_at(*page, id.slot);
        if (!s && !is_data_page(*page)) [[unlikely]] {
            page.release();
            return no_record_in(id.page);
        }
        if (!s) return false;
        if (!(s->state & kStub)) {
            take(content(*page, *s));
            return true;
        }
        // Stays there: we hold the record's lock.
        moved = link_of(content(*page, *s));
    }
    SharedPage page = TRY(env_.pool->fix_shared(moved.page));
    if (!copy_at(*page, moved.slot, id))
        return fail(ErrorCode::corrupt_page, "moved heap record", moved.page.value,
                    moved.slot.value);
    const Slot& s = slot(*page, moved.slot.value);
    take(content(*page, s).substr(sizeof(Link)));
    return true;
}

Result<bool> HeapFile::fetch(txn::Transaction& txn, RecordId id, Access access, ValueOut& out) {
    if (!plausible(id)) return false;
    if (txn::rules_of(txn.isolation).by_snapshot) return fetch_snapshot(txn, id, access, out);
    txn::LockManager& locks = *env_.locks;
    const txn::LockName name = txn::record_lock_name(id_, id);
    // Cursor stability: a read lock that was taken only for this read goes back at once.
    const bool brief = access == Access::read && gives_back(txn, name);
    TRY(lock_record(txn, id, name, mode_of(access)));
    const bool found = TRY(read(id, [&](Slice value) { copy_out(value, out); }));
    if (brief) locks.unlock(txn.locks, name, txn::LockMode::S);
    return found;
}

Result<void> HeapFile::lock_record(txn::Transaction& txn, RecordId id, txn::LockName name,
                                   txn::LockMode mode) {
    DCHECK(threads::current() == nullptr || threads::current()->latch_depth == 0);  // HF-5
    if (!env_.locks->try_lock_record(txn.locks, lock_, name, mode)) [[unlikely]]
        return wait_for_record(*env_.locks, txn.locks, {lock_, name, mode}, id);
    return {};
}

bool HeapFile::gives_back(txn::Transaction& txn, txn::LockName name) {
    return txn::rules_of(txn.isolation).gives_back &&
           !txn::covers(env_.locks->held(txn.locks, name), txn::LockMode::S);
}

// The whole heap is locked: a copy of the page is made under its latch, and its records are handed
// over with nothing held.
Result<bool> HeapFile::scan_locked(PageId id, Each& each) {
    auto copy = std::make_unique<Page>();
    {
        SharedPage page = TRY(env_.pool->fix_shared(id));
        std::memcpy(static_cast<void*>(copy.get()), &*page, kPageBytes);
    }
    if (!is_data_page(*copy)) return damaged(id);
    std::string text;
    for (uint32_t i = 0; i < data(*copy).slot_count; ++i) {
        const Slot& s = slot(*copy, i);
        if (!is_record(s)) continue;
        const RecordId record{id, SlotNo{static_cast<uint16_t>(i)}};
        Slice value = content(*copy, s);
        if (s.state & kStub) {
            // Erased by `each`.
            if (!TRY(read(record, [&](Slice moved) { text.assign(moved); }))) continue;
            value = text;
        }
        if (!each(record, value)) return false;
    }
    return true;
}

// Record by record: lock, read, hand over.
Result<bool> HeapFile::scan_records(txn::Transaction& txn, PageId id, Each& each) {
    txn::LockManager& locks = *env_.locks;
    std::string text;
    for (uint32_t i = 0;; ++i) {
        {
            SharedPage page = TRY(env_.pool->fix_shared(id));
            if (!is_data_page(*page)) return damaged(id);
            while (i < data(*page).slot_count && slot(*page, i).state == kEmpty) ++i;
            if (i >= data(*page).slot_count) return true;
        }
        const RecordId record{id, SlotNo{static_cast<uint16_t>(i)}};
        const txn::LockName name = txn::record_lock_name(id_, record);
        const bool brief = gives_back(txn, name);
        TRY(lock_record(txn, record, name, txn::LockMode::S));
        const bool found = TRY(read(record, [&](Slice value) { text.assign(value); }));
        if (brief) locks.unlock(txn.locks, name, txn::LockMode::S);
        if (found && !each(record, text)) return false;
    }
}

Result<void> HeapFile::scan(txn::Transaction& txn,
                            std::move_only_function<bool(RecordId, Slice)> each) {
    if (const Snapshot* const snapshot = local_of(txn).snapshot; snapshot != nullptr) {
        TRY(history_.check(*snapshot, lock_));
        HeapPageCopy copy(*this, *snapshot);
        const Result<void> done = scan_pages(
            [&](PageId page) -> Result<bool> { return scan_snapshot(copy, page, each); });
        // Pages that are not its own any more tell less than that.
        TRY(history_.check(*snapshot, lock_));
        return done;
    }
    const bool whole = txn::rules_of(txn.isolation).locks_gaps;
    TRY(env_.locks->lock_object(txn.locks, lock_, whole ? txn::LockMode::S : txn::LockMode::IS));
    return scan_pages([&](PageId page) -> Result<bool> {
        return whole ? scan_locked(page, each) : scan_records(txn, page, each);
    });
}

Result<PageId> HeapFile::list_pages(PageId map_page, uint32_t from, std::vector<PageId>& out) {
    const SharedPage page = TRY(env_.pool->fix_shared(map_page));
    const MapBody& body = map(*page);
    if (!is_map_page(*page))
        return fail(ErrorCode::corrupt_page, "map page of a heap", map_page.value, id_.value);
    for (uint32_t i = from; i < body.entries; ++i) out.push_back(PageId{body.page[i]});
    return PageId{body.next};
}

// Calls `visit` for each data page until it returns false.
Result<void> HeapFile::scan_pages(FunctionRef<Result<bool>(PageId)> visit) {
    DCHECK(threads::current()->latch_depth == 0);
    std::vector<PageId> pages;
    for (PageId at = first_; at != kPageNone;) {
        uint32_t done = 0;
        PageId next = kPageNone;
        do {  // pages may be added while we go
            pages.clear();
            next = TRY(list_pages(at, done, pages));
            done += static_cast<uint32_t>(pages.size());
            // Pages that are here or were asked for ahead.
            size_t asked = 1;
            for (size_t i = 0; i < pages.size(); ++i) {
                if (i + limits::scan_ahead() / 2 >= asked && asked < pages.size()) {
                    const auto next = std::span(pages).subspan(
                        asked, std::min<size_t>(limits::scan_ahead(), pages.size() - asked));
                    asked += std::max<size_t>(env_.pool->read_ahead(next), 1);
                }
                if (!TRY(visit(pages[i]))) return {};
            }
        } while (!pages.empty());
        at = next;
    }
    return {};
}

}  // namespace lockstep::sm
