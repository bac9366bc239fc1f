// heap_change.cc - updating and erasing heap records, moving those that outgrow their page.
#include <algorithm>

#include "sm/heap/heap_impl.h"

namespace lockstep::sm {

using namespace heap;

namespace {

Link link_to(RecordId id) { return {id.page.value, id.slot.value, 0}; }

// The differing middle of two records.
struct Difference {
    uint32_t at, old_bytes, new_bytes;
};
Difference difference(Slice before, Slice after) {
    const size_t shorter = std::min(before.size(), after.size());
    size_t head = 0;
    while (head < shorter && before[head] == after[head]) ++head;
    size_t tail = 0;
    while (tail < shorter - head &&
           before[before.size() - 1 - tail] == after[after.size() - 1 - tail])
        ++tail;
    DCHECK(head + tail <= shorter);
    return {static_cast<uint32_t>(head), static_cast<uint32_t>(before.size() - head - tail),
            static_cast<uint32_t>(after.size() - head - tail)};
}

// The last copy of a record that moves on becomes a ghost. `head` must outlive the change.
ChangePart leave_copy(ExclusivePage& page, RecordId copy, RecordId home, RemovePayload& head) {
    const Slot& s = slot(*page, copy.slot.value);
    CHECK((s.state & kMoved) && link_of(content(*page, s)) == home);  // HF-2
    head = {copy.slot.value, kToGhost, s.state};
    return {&page, PageAction::heap_remove, 0, {bytes_of(head), content(*page, s)}};
}

}  // namespace

// Replaces the record in place if it fits. The record begins after the first `skip` bytes of the
// slot.
Result<HeapFile::Outcome> HeapFile::splice(txn::Transaction& txn, ExclusivePage& page,
                                           SlotNo number, uint32_t skip, Slice record) {
    assert_state(*page);
    const Slot& s = slot(*page, number.value);
    DCHECK((s.state & (kLive | kGhost)) == kLive && skip <= s.length);
    const uint32_t capacity = capacity_for(skip + record.size());
    if (capacity > s.capacity && free_now(*page) + s.capacity < capacity) {
        const uint32_t needed = capacity - s.capacity;
        if (free_now(*page) + data(*page).reclaimable >= needed) TRY(reclaim(txn, page, needed));
        if (free_now(*page) + s.capacity < capacity) return Outcome::no_room;
    }
    const Slice before = content(*page, s).substr(skip);
    const Difference d = difference(before, record);
    if (d.old_bytes == 0 && d.new_bytes == 0) return Outcome::done;
    const ReplacePayload head{number.value,
                              s.state,
                              s.state,
                              static_cast<uint16_t>(skip + d.at),
                              static_cast<uint16_t>(d.old_bytes),
                              static_cast<uint16_t>(d.new_bytes),
                              skip != 0 ? kWithHome : uint16_t{0}};
    ChangePart part{&page,
                    PageAction::heap_replace,
                    0,
                    {bytes_of(head), record.substr(d.at, d.new_bytes),
                     before.substr(d.at, d.old_bytes), content(*page, s).substr(0, skip)}};
    TRY(change_pages(env_, &txn, ChangeRole::forward, LogKind::heap_update, id_, {&part, 1}));
    return Outcome::done;
}

Result<HeapFile::Outcome> HeapFile::update_in_place(txn::Transaction& txn, RecordId id,
                                                    Slice record) {
    ExclusivePage page = TRY(env_.pool->fix_exclusive(id.page));
    const Slot* s = record_at(*page, id.slot);
    if (!s && !is_data_page(*page)) [[unlikely]] {
        page.release();
        TRY(no_record_in(id.page));
        return Outcome::missing;
    }
    if (!s) return Outcome::missing;
    if (!(s->state & kStub)) return splice(txn, page, id.slot, 0, record);
    const RecordId target = link_of(content(*page, *s));
    // The record's lock keeps it where it is.
    page.release();
    ExclusivePage moved = TRY(env_.pool->fix_exclusive(target.page));
    if (!copy_at(*moved, target.slot, id))
        return fail(ErrorCode::corrupt_page, "moved heap record", target.page.value,
                    target.slot.value);
    return splice(txn, moved, target.slot, sizeof(Link), record);
}

// The record moves back home if it fits there, else to another page. In that case its home slot
// keeps a stub, and keeps its space until the transaction has ended.
Result<bool> HeapFile::move(txn::Transaction& txn, RecordId id, Slice record) {
    // Where the record is now, if not at home.
    RecordId copy{};
    bool fits_home = false;
    {
        SharedPage home = TRY(env_.pool->fix_shared(id.page));
        const Slot* s = record_at(*home, id.slot);
        // X lock held since update_in_place saw it.
        CHECK(s);
        if (s->state & kStub) copy = link_of(content(*home, *s));
        fits_home = free_now(*home) + s->capacity >= capacity_for(record.size());
    }
    if (copy.page != kPageNone && fits_home) return move_home(txn, id, copy, record);
    const PageId fresh = TRY(page_with_room(txn, room_for(sizeof(Link) + record.size())))->id();
    if (fresh == id.page || fresh == copy.page) return false;  // space became free there
    return move_away(txn, id, copy, fresh, record);
}

Result<bool> HeapFile::move_home(txn::Transaction& txn, RecordId id, RecordId copy, Slice record) {
    LatchedPages pages;
    pages.want(id.page);
    pages.want(copy.page);
    TRY(pages.latch(*env_.pool));
    ExclusivePage& home = pages.of(id.page);
    const Slot& s = slot(*home, id.slot.value);
    // The record's lock keeps it where it is (HF-2).
    DCHECK((s.state & kStub) && link_of(content(*home, s)) == copy);
    if (free_now(*home) + s.capacity < capacity_for(record.size())) return false;
    const ReplacePayload back{
        id.slot.value, kLive, s.state, 0, sizeof(Link), static_cast<uint16_t>(record.size()), 0};
    RemovePayload remove;
    ChangePart parts[2] = {
        {&home, PageAction::heap_replace, 0, {bytes_of(back), record, content(*home, s)}},
        leave_copy(pages.of(copy.page), copy, id, remove)};
    TRY(change_pages(env_, &txn, ChangeRole::forward, LogKind::heap_update, id_, parts));
    return true;
}

Result<bool> HeapFile::move_away(txn::Transaction& txn, RecordId id, RecordId copy, PageId fresh,
                                 Slice record) {
    DCHECK(fresh != id.page && fresh != copy.page);
    LatchedPages pages;
    pages.want(fresh);
    pages.want(id.page);
    if (copy.page != kPageNone) pages.want(copy.page);
    TRY(pages.latch(*env_.pool));
    ExclusivePage& target = pages.of(fresh);
    if (free_now(*target) < room_for(sizeof(Link) + record.size())) return false;
    uint32_t index = 0;
    for (; index < data(*target).slot_count; ++index)
        if (slot(*target, index).state == kEmpty &&
            unlocked(txn,
                     txn::record_lock_name(id_, {fresh, SlotNo{static_cast<uint16_t>(index)}})))
            break;
    ExclusivePage& home = pages.of(id.page);
    const Slot& s = slot(*home, id.slot.value);
    DCHECK(is_record(s) && ((s.state & kStub) != 0) == (copy.page != kPageNone));
    const Link back = link_to(id), forth{fresh.value, static_cast<uint16_t>(index), 0};
    const PutPayload put{static_cast<uint16_t>(index), kLive | kMoved, 0};
    const ReplacePayload stub{id.slot.value, kLive | kStub, s.state, 0, s.length, sizeof(Link), 0};
    ChangePart parts[3] = {
        {&target, PageAction::heap_put, 0, {bytes_of(put), bytes_of(back), record}},
        {&home, PageAction::heap_replace, 0, {bytes_of(stub), bytes_of(forth), content(*home, s)}},
        {}};
    uint32_t count = 2;
    RemovePayload remove;
    if (copy.page != kPageNone) parts[count++] = leave_copy(pages.of(copy.page), copy, id, remove);
    TRY(change_pages(env_, &txn, ChangeRole::forward, LogKind::heap_update, id_, {parts, count}));
    return true;
}

Result<bool> HeapFile::update(txn::Transaction& txn, RecordId id, Slice record) {
    if (record.size() > kHeapRecordBytesMax)
        return fail(ErrorCode::value_too_long, "heap record", record.size(), kHeapRecordBytesMax);
    if (!plausible(id)) return false;
    TRY(lock_record(txn, id, txn::record_lock_name(id_, id), txn::LockMode::X));
    for (;;) {
        const Outcome outcome = TRY(update_in_place(txn, id, record));
        if (outcome != Outcome::no_room) return outcome == Outcome::done;
        if (TRY(move(txn, id, record))) return true;
    }
}

Result<bool> HeapFile::erase(txn::Transaction& txn, RecordId id) {
    if (!plausible(id)) return false;
    TRY(lock_record(txn, id, txn::record_lock_name(id_, id), txn::LockMode::X));
    LatchedPages pages;
    RecordId moved{};
    pages.want(id.page);
    {
        SharedPage home = TRY(env_.pool->fix_shared(id.page));
        const Slot* s = record_at(*home, id.slot);
        if (!s && !is_data_page(*home)) [[unlikely]] {
            home.release();
            return no_record_in(id.page);
        }
        if (!s) return false;
        if (s->state & kStub) moved = link_of(content(*home, *s));
    }
    if (moved.page != kPageNone) pages.want(moved.page);
    TRY(pages.latch(*env_.pool));

    ChangePart parts[2];
    RemovePayload removes[2];
    const RecordId places[2] = {id, moved};
    uint8_t classes[2] = {};
    const uint32_t count = moved.page == kPageNone ? 1 : 2;
    for (uint32_t i = 0; i < count; ++i) {
        ExclusivePage& page = pages.of(places[i].page);
        if (i == 1 && !copy_at(*page, moved.slot, id))
            return fail(ErrorCode::corrupt_page, "moved heap record", moved.page.value);
        const Slot& s = slot(*page, places[i].slot.value);
        classes[i] = class_of(*page);
        removes[i] = {places[i].slot.value, kToGhost, s.state};
        parts[i] = {&page, PageAction::heap_remove, 0, {bytes_of(removes[i]), content(*page, s)}};
    }
    TRY(change_pages(env_, &txn, ChangeRole::forward, LogKind::heap_erase, id_, {parts, count}));
    bool richer[2] = {};
    for (uint32_t i = 0; i < count; ++i)
        richer[i] = class_of(*pages.of(places[i].page)) > classes[i];
    for (uint32_t i = 0; i < pages.count; ++i) pages.pages[i].release();
    // The map only holds hints: if noting fails now, the next worker that fills the page notes it.
    for (uint32_t i = 0; i < count; ++i)
        if (richer[i]) (void)note_class(places[i].page, false);
    return true;
}

}  // namespace lockstep::sm
