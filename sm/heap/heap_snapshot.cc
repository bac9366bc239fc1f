// heap_snapshot.cc - reads of snapshot transactions: by id, and all records.
//
// Concepts   A slot never moves, so each slot is told by its own versions. A stub that the snapshot
//            sees leads to the slot where it sees the moved copy. Slots are looked up under their
//            page's shared latch; records are handed over with nothing held.
#include <algorithm>
#include <utility>
#include <vector>

#include "sm/core/txn_local.h"
#include "sm/heap/heap_impl.h"
#include "sm/heap/heap_records.h"
#include "sm/version/version_table.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm {

using namespace heap;
using Look = VersionTable::Look;

// The slot of a latched page as the snapshot sees it. False: not to be told yet.
bool HeapFile::see_slot(const Snapshot& snapshot, const Page& page, uint32_t number,
                        RecordCopy& out) {
    DCHECK(page.kind() == PageKind::heap && number <= UINT16_MAX);
    const SlotKey key({page.id(), SlotNo{static_cast<uint16_t>(number)}});
    const RecordState state = slot_state(page, number);
    const Look look = page.header.lsn <= snapshot.quiet.value
                          ? Look::page
                          : env_.versions->look(snapshot, name_of_slot(id_, key), state, &out);
    if (look == Look::page) out = RecordCopy(state);
    return look != Look::again;
}

Result<RecordCopy> HeapFile::slot_seen(const Snapshot& snapshot, RecordId id) {
    for (;;) {
        {
            SharedPage page = TRY(env_.pool->fix_shared(id.page));
            RecordCopy seen;
            if (!is_data_page(*page)) [[unlikely]] {
                page.release();
                TRY(no_record_in(id.page));
                return seen;
            }
            if (see_slot(snapshot, *page, id.slot.value, seen)) return seen;
        }
        threads::yield();
    }
}

// The record, if its home slot is `home`: brings the text from where it has moved to.
Result<bool> HeapFile::follow(const Snapshot& snapshot, RecordId id, RecordCopy& home) {
    DCHECK(!home.live || (home.bits & (kLive | kGhost)) == kLive);
    if (!home.live || (home.bits & kMoved)) return false;
    if (!(home.bits & kStub)) return true;
    const RecordId moved = link_of(home.bytes);
    DCHECK(moved.page != id.page);
    home = TRY(slot_seen(snapshot, moved));
    if (!home.live || !(home.bits & kMoved) || home.bytes.size() < sizeof(Link) ||
        link_of(home.bytes) != id)
        return fail(ErrorCode::corrupt_page, "moved heap record", moved.page.value,
                    moved.slot.value);
    home.bytes.erase(0, sizeof(Link));
    return true;
}

Result<bool> HeapFile::fetch_snapshot(txn::Transaction& txn, RecordId id, Access access,
                                      ValueOut& out) {
    if (access != Access::read) return fail(ErrorCode::read_only, "transaction", txn.id.value);
    const Snapshot& snapshot = *local_of(txn).snapshot;
    DCHECK(txn.read_only && txn.locks.locks_held == 0);
    TRY(history_.check(snapshot, lock_));
    const auto read = [&]() -> Result<bool> {
        RecordCopy seen = TRY(slot_seen(snapshot, id));
        if (!TRY(follow(snapshot, id, seen))) return false;
        out.bytes = seen.bytes.size();
        if (out.text) *out.text = std::move(seen.bytes);
        else if (out.fixed)
            std::memcpy(out.fixed, seen.bytes.data(), std::min(out.capacity, seen.bytes.size()));
        return true;
    };
    const Result<bool> found = read();
    TRY(history_.check(snapshot, lock_));
    return found;
}

Result<bool> HeapFile::scan_snapshot(const Snapshot& snapshot, PageId id, Each& each) {
    DCHECK(threads::current()->latch_depth == 0);
    std::vector<std::pair<SlotNo, RecordCopy>> records;
    for (bool told = false; !told;) {
        {
            const SharedPage page = TRY(env_.pool->fix_shared(id));
            if (!is_data_page(*page)) return damaged(id);
            records.clear();
            told = true;
            for (uint32_t i = 0; told && i < data(*page).slot_count; ++i) {
                RecordCopy seen;
                told = see_slot(snapshot, *page, i, seen);
                if (told && seen.live && !(seen.bits & kMoved))
                    records.emplace_back(SlotNo{static_cast<uint16_t>(i)}, std::move(seen));
            }
        }
        if (!told) threads::yield();
    }
    TRY(history_.check(snapshot, lock_));
    for (auto& [number, seen] : records) {
        const RecordId record{id, number};
        if (!TRY(follow(snapshot, record, seen))) continue;
        TRY(history_.check(snapshot, lock_));
        if (!each(record, seen.bytes)) return false;
    }
    return true;
}

Result<void> HeapFile::see_record(RecordId id, FunctionRef<void(const RecordState& state)> see) {
    const ExclusivePage page = TRY(env_.pool->fix_exclusive(id.page));
    if (page->kind() != PageKind::heap || page->header.object != id_.value)
        return fail(ErrorCode::no_such_object, "heap", id_.value);
    see(slot_state(*page, id.slot.value));
    return {};
}

}  // namespace lockstep::sm
