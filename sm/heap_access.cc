// heap_access.cc - reading heap records: by id, and all of them.
#include <algorithm>

#include "sm/heap_impl.h"

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
    if (out.text)
        out.text->assign(value);
    else if (out.fixed)
        std::memcpy(out.fixed, value.data(), std::min(out.capacity, value.size()));
}

}  // namespace

bool HeapFile::Ops::plausible(HeapFile& heap, RecordId id) {
    return id.page > kFirstMapPage && id.page.value < heap.engine_.space->pages_total();
}

const Slot* HeapFile::Ops::record_at(HeapFile& heap, const Page& page, SlotNo number) {
    if (page.kind() != PageKind::heap || page.header.store != heap.id_.value || number.value >= data(page).slot_count) return nullptr;
    const Slot& s = slot(page, number.value);
    return is_record(s) ? &s : nullptr;
}

Result<bool> HeapFile::fetch(txn::Transaction& txn, RecordId id, Access access, ValueOut& out) {
    if (!Ops::plausible(*this, id)) return false;
    txn::LockManager& locks = *engine_.locks;
    const txn::LockName name = txn::record_lock_name(id_, id);
    const txn::LockMode mode = mode_of(access);
    // Cursor stability: a read lock that was taken only for this read goes back at once.
    const bool brief = txn.isolation == txn::Isolation::read_committed && access == Access::read &&
                       !txn::covers(locks.held(txn.locks, name), txn::LockMode::S);
    TRY(locks.lock_record(txn.locks, lock_, name, mode));
    if (access == Access::write) TRY(locks.lock(txn.locks, txn::page_lock_name(id_, id.page), txn::LockMode::IX));

    bool found = false;
    RecordId moved{};
    {
        SharedPage page = TRY(engine_.pool->fix_shared(id.page));
        if (const Slot* s = Ops::record_at(*this, *page, id.slot)) {
            found = true;
            if (s->state & kStub)
                moved = link_of(content(*page, *s));             // stays there: we hold the record's lock
            else
                copy_out(content(*page, *s), out);
        }
    }
    if (moved.page != kPageNone) {
        SharedPage page = TRY(engine_.pool->fix_shared(moved.page));
        const Slot& s = slot(*page, moved.slot.value);
        CHECK(moved.slot.value < data(*page).slot_count && (s.state & kMoved) && link_of(content(*page, s)) == id);       // HF-2
        copy_out(content(*page, s).substr(sizeof(Link)), out);
    }
    if (brief) locks.unlock(txn.locks, name, txn::LockMode::S);
    return found;
}

namespace {

// One page's records, copied out under its latch and then handed over with nothing held.
struct PageScan {
    BufferPool& pool;
    StoreId store;
    std::unique_ptr<Page> copy = std::make_unique<Page>();
    std::string text{};

    Result<bool> run(PageId id, std::move_only_function<bool(RecordId, Slice)>& each) {
        {
            SharedPage page = TRY(pool.fix_shared(id));
            if (page->kind() != PageKind::heap || page->header.store != store.value) return true;
            std::memcpy(static_cast<void*>(copy.get()), &*page, kPageBytes);
        }
        for (uint32_t i = 0; i < data(*copy).slot_count; ++i) {
            const Slot& s = slot(*copy, i);
            if (!is_record(s)) continue;
            Slice value = content(*copy, s);
            if (s.state & kStub) {
                const RecordId target = link_of(value);
                SharedPage page = TRY(pool.fix_shared(target.page));
                text.assign(content(*page, slot(*page, target.slot.value)).substr(sizeof(Link)));
                value = text;
            }
            if (!each(RecordId{id, SlotNo{static_cast<uint16_t>(i)}}, value)) return false;
        }
        return true;
    }
};

}  // namespace

Result<void> HeapFile::scan(txn::Transaction& txn, std::move_only_function<bool(RecordId, Slice)> each) {
    using txn::LockMode;
    txn::LockManager& locks = *engine_.locks;
    const bool whole = txn.isolation == txn::Isolation::serializable;
    TRY(locks.lock_store(txn.locks, lock_, whole ? LockMode::S : LockMode::IS));
    PageScan reader{*engine_.pool, id_};
    std::vector<PageId> pages;
    for (PageId at = first_; at != kPageNone;) {
        uint32_t done = 0;
        for (;;) {                                               // pages may be added while we go
            pages.clear();
            PageId next;
            {
                SharedPage page = TRY(engine_.pool->fix_shared(at));
                const MapBody& body = map(*page);
                for (; done < body.entries; ++done) pages.push_back(PageId{body.page[done]});
                next = PageId{body.next};
            }
            for (const PageId id : pages) {
                const txn::LockName name = txn::page_lock_name(id_, id);
                const bool brief = txn.isolation == txn::Isolation::read_committed && !txn::covers(locks.held(txn.locks, name), LockMode::S);
                if (!whole) TRY(locks.lock(txn.locks, name, LockMode::S));
                const bool more = TRY(reader.run(id, each));
                if (brief) locks.unlock(txn.locks, name, LockMode::S);
                if (!more) return {};
            }
            if (pages.empty()) {
                at = next;
                break;
            }
        }
    }
    return {};
}

}  // namespace lockstep::sm
