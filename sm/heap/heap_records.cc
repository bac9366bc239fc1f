// heap_records.cc - the slots that the heap's page actions change (record_changes.h).
//
// Concepts   A record's state is that of one slot: its state bits and its content. A record that
//            has moved is a stub in one slot and a copy in another, each with its own versions.
//            Reclaiming a slot changes no state that a reader distinguishes: a ghost and an empty
//            slot are both no record.
#include "sm/heap/heap_records.h"
#include "sm/change/record_changes.h"

namespace lockstep::sm {

using namespace heap;

RecordState slot_state(const Page& page, uint32_t number) {
    DCHECK(page.kind() == PageKind::heap);
    if (number >= data(page).slot_count) return {};
    const Slot& s = slot(page, number);
    return {(s.state & (kLive | kGhost)) == kLive, s.state, content(page, s)};
}

namespace {

void add_slot(const Page& page, uint16_t number, ChangedRecords& out,
              const RecordPart* part = nullptr) {
    const RecordState state = slot_state(page, number);
    out.add_only(ObjectId{page.header.object}, RecordId{page.id(), SlotNo{number}}, state,
                 part != nullptr ? *part : RecordPart::all(state.bytes));
}
void visit_undone(ObjectId object, PageId page, uint16_t number, UndoneVisit visit, Undo undo) {
    const SlotKey key({page, SlotNo{number}});
    visit(name_of_slot(object, key), undo);
}

}  // namespace

void records_before_heap_put(const Page& page, Slice payload, ChangedRecords& out) {
    add_slot(page, head_of<PutPayload>(payload).slot, out);
}
void keep_before_only_heap_put(VersionTable& versions, txn::Transaction& txn, const Page& page,
                               Slice payload, uint64_t hash) {
    const uint16_t number = head_of<PutPayload>(payload).slot;
    const ObjectId object{page.header.object};
    const SlotKey key({page.id(), SlotNo{number}});
    const RecordName name = hash != 0 ? RecordName{object, key, hash} : name_of_slot(object, key);
    DCHECK(name.hash == name_of_slot(object, key).hash);
    const RecordState before = slot_state(page, number);
    ChangedRecords::keep_only(versions, txn, name, before, RecordPart::all(before.bytes));
}
void records_undone_heap_put(ObjectId object, PageId page, Slice payload, UndoneVisit visit) {
    visit_undone(object, page, head_of<PutPayload>(payload).slot, visit,
                 [](RecordCopy& state) { state = RecordCopy(); });
}

void records_before_heap_replace(const Page& page, Slice payload, ChangedRecords& out) {
    const auto p = head_of<ReplacePayload>(payload);
    const bool in_place = p.old_bytes == p.new_bytes && p.state_old == p.state_new;
    const RecordPart part{p.at, p.old_bytes, 0};
    add_slot(page, p.slot, out, in_place ? &part : nullptr);
}
void records_undone_heap_replace(ObjectId object, PageId page, Slice payload, UndoneVisit visit) {
    const auto p = head_of<ReplacePayload>(payload);
    visit_undone(object, page, p.slot, visit, [&](RecordCopy& state) {
        DCHECK(state.live && state.bits == p.state_new);
        DCHECK(p.at + p.new_bytes <= state.bytes.size() && !(p.flags & kWithoutOld));
        state.bytes.replace(p.at, p.new_bytes, payload.substr(sizeof p + p.new_bytes, p.old_bytes));
        state.bits = p.state_old;
    });
}

void records_before_heap_remove(const Page& page, Slice payload, ChangedRecords& out) {
    const auto p = head_of<RemovePayload>(payload);
    if (p.mode != kTrim) add_slot(page, p.slot, out);
}
void records_undone_heap_remove(ObjectId object, PageId page, Slice payload, UndoneVisit visit) {
    const auto p = head_of<RemovePayload>(payload);
    if (p.mode == kTrim) return;
    visit_undone(object, page, p.slot, visit, [&](RecordCopy& state) {
        DCHECK(!state.live);
        state.live = true;
        state.bits = p.state_old;
        state.bytes.assign(payload.substr(sizeof p));
    });
}

}  // namespace lockstep::sm
