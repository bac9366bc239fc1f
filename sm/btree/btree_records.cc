// btree_records.cc - the records that the B-tree's page actions change (record_changes.h).
//
// Concepts   A record's state is its ghost bit, its overflow bit and its bytes. A ghost keeps its
//            bytes, because the undo of a delete brings them back.
#include "sm/btree/btree_records.h"
#include "sm/btree/btree_node_search.h"
#include "sm/btree/btree_payload.h"
#include "sm/change/record_changes.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr size_t kShortKey = 16;  // the lock name of such a key takes no call

// The page may be changing (BN-3).
inline RecordState state_in(const Page& page, unsigned slot) {
    const unsigned bits = slots(page)[slot].bits;
    return {!(bits & kGhost), bits & kOverflow ? kRecordOverflow : uint8_t{0}, value(page, slot)};
}

ObjectId object_of(const Page& page) { return ObjectId{page.header.object}; }

void check_slot([[maybe_unused]] const Page& page, [[maybe_unused]] unsigned slot,
                [[maybe_unused]] Slice key) {
    DCHECK(is_leaf(page) && slot < count(page) && key_equals(page, slot, SearchKey(key)));
}
void add_slot(const Page& page, unsigned slot, Slice key, ChangedRecords& out) {
    check_slot(page, slot, key);
    out.add(object_of(page), key, state_in(page, slot));
}
// As many bytes are replaced there, and nothing else changes.
[[gnu::always_inline]] inline void add_part(const Page& page, unsigned slot, Slice key,
                                            uint16_t offset, uint16_t bytes, ChangedRecords& out) {
    check_slot(page, slot, key);
    // The page is latched: nothing in it is out of bounds.
    const Slot s = slots(page)[slot];
    const char* const at = chars(page) + s.at;
    const RecordState before{!(s.bits & kGhost), s.bits & kOverflow ? kRecordOverflow : uint8_t{0},
                             Slice(at + kRecordHead + (s.bits & kKeyBits), load<uint16_t>(at))};
    DCHECK(before.bytes.data() == value(page, slot).data());
    DCHECK(before.bytes.size() == value(page, slot).size());
    out.add(object_of(page), key, before, {offset, bytes, 0});
}

void take_away(RecordCopy& state) { state = RecordCopy(); }

}  // namespace

RecordState record_in(const Page& page, unsigned slot) { return state_in(page, slot); }

void records_before_btree_put(const Page& page, Slice payload, ChangedRecords& out) {
    payload::Reader in(payload);
    const auto p = in.get<payload::Put>();
    out.add(object_of(page), in.bytes(p.key_bytes), {});
}
void records_undone_btree_put(ObjectId object, PageId, Slice payload, UndoneVisit visit) {
    payload::Reader in(payload);
    const auto p = in.get<payload::Put>();
    visit(name_of_key(object, in.bytes(p.key_bytes)), take_away);
}

void records_before_btree_put_many(const Page& page, Slice payload, ChangedRecords& out) {
    payload::Reader in(payload);
    const ObjectId object = object_of(page);
    for (unsigned left = in.get<payload::PutMany>().count; left != 0; --left) {
        const auto head = in.get<payload::RecordHead>();
        out.add(object, in.bytes(head.key_bytes), {});
        in.bytes(head.value_bytes);
    }
}
void records_undone_btree_put_many(ObjectId object, PageId, Slice payload, UndoneVisit visit) {
    payload::Reader in(payload);
    for (unsigned left = in.get<payload::PutMany>().count; left != 0; --left) {
        const auto head = in.get<payload::RecordHead>();
        const Slice key = in.bytes(head.key_bytes);
        in.bytes(head.value_bytes);
        visit(name_of_key(object, key), take_away);
    }
}

[[gnu::noinline]] static void before_replace(const Page& page, Slice payload, ChangedRecords& out) {
    payload::Reader in(payload);
    const auto p = in.get<payload::Replace>();
    const Slice key = in.bytes(p.key_bytes);
    if (p.old_bytes == p.new_bytes && p.flags == 0)
        add_part(page, p.slot, key, p.offset, p.old_bytes, out);
    else add_slot(page, p.slot, key, out);
}
// What most changes are, apart: this path calls nothing, so it saves no registers.
void records_before_btree_replace(const Page& page, Slice payload, ChangedRecords& out) {
    const auto& p = *reinterpret_cast<const payload::Replace*>(payload.data());
    DCHECK(payload.size() >= sizeof p + p.key_bytes);
    if (p.old_bytes != p.new_bytes || p.flags != 0 || p.key_bytes > kShortKey || out.full())
        return before_replace(page, payload, out);
    add_part(page, p.slot, {payload.data() + sizeof p, p.key_bytes}, p.offset, p.old_bytes, out);
}
void records_undone_btree_replace(ObjectId object, PageId, Slice payload, UndoneVisit visit) {
    payload::Reader in(payload);
    const auto p = in.get<payload::Replace>();
    const Slice key = in.bytes(p.key_bytes), old = in.bytes(p.old_bytes);
    visit(name_of_key(object, key), [&](RecordCopy& state) {
        DCHECK(p.offset + p.new_bytes <= state.bytes.size());
        state.bytes.replace(p.offset, p.new_bytes, old);
        state.bits = p.flags & payload::kOldOverflow ? kRecordOverflow : 0;
    });
}

[[gnu::noinline]] static void before_replace_many(const Page& page, Slice payload,
                                                  ChangedRecords& out) {
    payload::Reader in(payload);
    for (unsigned left = in.get<payload::ReplaceMany>().count; left != 0; --left) {
        const auto row = in.get<payload::ReplaceRow>();
        const Slice key = in.bytes(row.key_bytes);
        in.bytes(row.bytes);
        in.bytes(row.bytes);
        add_part(page, row.slot, key, row.offset, row.bytes, out);
    }
}
// One row of a page, apart as in records_before_btree_replace().
void records_before_btree_replace_many(const Page& page, Slice payload, ChangedRecords& out) {
    const auto& many = *reinterpret_cast<const payload::ReplaceMany*>(payload.data());
    const auto& row = *reinterpret_cast<const payload::ReplaceRow*>(&many + 1);
    DCHECK(many.count != 0 && payload.size() >= sizeof many + sizeof row + row.key_bytes);
    if (many.count != 1 || row.key_bytes > kShortKey || out.full())
        return before_replace_many(page, payload, out);
    const Slice key(reinterpret_cast<const char*>(&row + 1), row.key_bytes);
    add_part(page, row.slot, key, row.offset, row.bytes, out);
}
// A row that a rollback has undone already has its old bytes; to write them again changes nothing.
void records_undone_btree_replace_many(ObjectId object, PageId, Slice payload, UndoneVisit visit) {
    payload::Reader in(payload);
    for (unsigned left = in.get<payload::ReplaceMany>().count; left != 0; --left) {
        const auto row = in.get<payload::ReplaceRow>();
        const Slice key = in.bytes(row.key_bytes), old = in.bytes(row.bytes);
        in.bytes(row.bytes);
        visit(name_of_key(object, key), [&](RecordCopy& state) {
            DCHECK(row.offset + row.bytes <= state.bytes.size());
            state.bytes.replace(row.offset, row.bytes, old);
        });
    }
}

void records_before_btree_set_ghost(const Page& page, Slice payload, ChangedRecords& out) {
    payload::Reader in(payload);
    const auto p = in.get<payload::SetGhost>();
    add_slot(page, p.slot, in.bytes(p.key_bytes), out);
}
void records_undone_btree_set_ghost(ObjectId object, PageId, Slice payload, UndoneVisit visit) {
    payload::Reader in(payload);
    const auto p = in.get<payload::SetGhost>();
    visit(name_of_key(object, in.bytes(p.key_bytes)), [&](RecordCopy& state) {
        DCHECK(state.live == (p.ghost == 0));
        state.live = p.ghost != 0;
    });
}

void records_before_btree_revive(const Page& page, Slice payload, ChangedRecords& out) {
    payload::Reader in(payload);
    const auto p = in.get<payload::Revive>();
    add_slot(page, p.slot, in.bytes(p.key_bytes), out);
}
void records_undone_btree_revive(ObjectId object, PageId, Slice payload, UndoneVisit visit) {
    payload::Reader in(payload);
    const auto p = in.get<payload::Revive>();
    const Slice key = in.bytes(p.key_bytes), old = in.bytes(p.old_bytes);
    visit(name_of_key(object, key), [&](RecordCopy& state) {
        DCHECK(state.live && state.bytes.size() == p.new_bytes);
        state.live = false;
        state.bits = p.flags & payload::kOldOverflow ? kRecordOverflow : 0;
        state.bytes.assign(old);
    });
}

}  // namespace lockstep::sm
