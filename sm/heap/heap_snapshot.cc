// heap_snapshot.cc - reads of snapshot transactions: by id, and all records.
//
// Concepts   A slot never moves, so each slot is told by its own versions. A stub that the snapshot
//            sees leads to the slot where it sees the moved copy. Slots are looked up under their
//            page's shared latch; records are handed over with nothing held.
#include "sm/heap/heap_snapshot.h"

#include <algorithm>

#include "sm/core/txn_local.h"
#include "sm/heap/heap_impl.h"
#include "sm/heap/heap_records.h"
#include "sm/version/quiet.h"
#include "sm/version/version_table.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm {

using namespace heap;
using Look = VersionTable::Look;

// A slot as the snapshot sees it. `newest`: raised to the newest change of its page.
Result<RecordCopy> HeapFile::slot_seen(const Snapshot& snapshot, RecordId id, Lsn* newest) {
    const SlotKey key(id);
    for (;;) {
        {
            SharedPage page = TRY(env_.pool->fix_shared(id.page));
            RecordCopy seen;
            if (!is_data_page(*page)) [[unlikely]] {
                page.release();
                TRY(no_record_in(id.page));
                return seen;
            }
            const RecordState state = slot_state(*page, id.slot.value);
            const Look look =
                is_quiet(snapshot, *page)
                    ? Look::page
                    : env_.versions->look(snapshot, name_of_slot(id_, key), state, &seen);
            if (newest != nullptr) *newest = std::max(*newest, page->lsn());
            if (look == Look::page) return RecordCopy(state);
            if (look == Look::version) return seen;
        }
        threads::yield();
    }
}

// The record, if its home slot is `home`: brings the text from where it has moved to.
Result<bool> HeapFile::follow(const Snapshot& snapshot, RecordId id, RecordCopy& home,
                              Lsn* newest) {
    DCHECK(!home.live || (home.bits & (kLive | kGhost)) == kLive);
    if (!home.live || (home.bits & kMoved)) return false;
    if (!(home.bits & kStub)) return true;
    const RecordId moved = link_of(home.bytes);
    DCHECK(moved.page != id.page);
    home = TRY(slot_seen(snapshot, moved, newest));
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

Result<bool> HeapFile::scan_snapshot(HeapPageCopy& copy, PageId id, Each& each) {
    DCHECK(each != nullptr && threads::current()->latch_depth == 0);
    TRY(copy.load(id));
    for (const auto& [record, bytes] : copy.records()) {
        // `each` may have dropped the heap, or waited while another did.
        TRY(history_.check(copy.snapshot(), lock_));
        if (!each(record, bytes)) return false;
    }
    return true;
}

// What the snapshot sees in a slot of a page that has changed; false: not to be told yet.
bool HeapPageCopy::take_slot(const Page& page, uint32_t number) {
    const SlotNo slot{static_cast<uint16_t>(number)};
    const SlotKey key({page.id(), slot});
    const Look look = heap_.env_.versions->look(snapshot_, name_of_slot(heap_.id_, key),
                                                slot_state(page, number), &version_);
    if (look == Look::again) return false;
    if (look == Look::page) take_slot_of_page(page, number);
    else if (version_.live && !(version_.bits & kMoved)) {
        DCHECK(!(version_.bits & kGhost));
        add_text(slot, version_.bytes, (version_.bits & kStub) != 0);
    }
    return true;
}

// The snapshot sees the slot as the page has it.
void HeapPageCopy::take_slot_of_page(const Page& page, uint32_t number) {
    const Slot& s = heap::slot(page, number);
    if (!is_record(s)) return;
    DCHECK(s.offset + s.length <= kPageBytes);
    rows_.push_back({SlotNo{static_cast<uint16_t>(number)}, Where::page, s.offset, s.length,
                     (s.state & kStub) != 0});
}

void HeapPageCopy::add_text(SlotNo slot, Slice bytes, bool stub) {
    rows_.push_back({slot, Where::text, static_cast<uint32_t>(text_.size()),
                     static_cast<uint32_t>(bytes.size()), stub});
    text_.append(bytes);
}

Result<bool> HeapPageCopy::take(PageId id) {
    DCHECK(threads::current()->latch_depth == 0);
    const SharedPage page = TRY(heap_.env_.pool->fix_shared(id));
    if (!heap_.is_data_page(*page)) return heap_.damaged(id);
    newest_ = std::max(newest_, page->lsn());
    rows_.clear();
    text_.clear();
    const bool quiet = is_quiet(snapshot_, *page);
    for (uint32_t i = 0; i < data(*page).slot_count; ++i) {
        if (quiet) take_slot_of_page(*page, i);
        else if (!take_slot(*page, i)) return false;
    }
    std::memcpy(static_cast<void*>(page_.get()), &*page, kPageBytes);
    return true;
}

Slice HeapPageCopy::bytes_of_row(const Row& row) const {
    DCHECK(row.where == Where::page ? row.at + row.bytes <= kPageBytes
                                    : row.at + row.bytes <= text_.size());
    const char* const from =
        row.where == Where::page ? reinterpret_cast<const char*>(page_->bytes()) : text_.data();
    return {from + row.at, row.bytes};
}

// The record of a stub, from where the snapshot sees its moved copy.
Result<void> HeapPageCopy::follow(PageId page, Row& row) {
    DCHECK(row.stub && row.bytes >= sizeof(Link));
    RecordCopy seen(RecordState{true, kLive | kStub, bytes_of_row(row)});
    CHECK(TRY(heap_.follow(snapshot_, {page, row.slot}, seen, &newest_)));
    row = {row.slot, Where::text, static_cast<uint32_t>(text_.size()),
           static_cast<uint32_t>(seen.bytes.size()), false};
    text_.append(seen.bytes);
    return {};
}

Result<void> HeapPageCopy::load_page(PageId id) {
    while (!TRY(take(id))) threads::yield();
    for (Row& row : rows_)
        if (row.stub) TRY(follow(id, row));
    records_.clear();
    for (const Row& row : rows_) records_.push_back({{id, row.slot}, bytes_of_row(row)});
    DCHECK(std::ranges::is_sorted(rows_, {}, [](const Row& row) { return row.slot.value; }));
    return {};
}

Result<void> HeapPageCopy::load(PageId id) {
    const Result<void> done = load_page(id);
    // Pages that are not the heap's own any more tell less than that.
    TRY(heap_.history().check(snapshot_, heap_.lock()));
    return done;
}

Result<void> HeapFile::see_record(RecordId id, FunctionRef<void(const RecordState& state)> see) {
    const ExclusivePage page = TRY(env_.pool->fix_exclusive(id.page));
    if (page->kind() != PageKind::heap || page->header.object != id_.value)
        return fail(ErrorCode::no_such_object, "heap", id_.value);
    see(slot_state(*page, id.slot.value));
    return {};
}

}  // namespace lockstep::sm
