// btree_records.cc - the records that the B-tree's page actions change (record_changes.h).
//
// Concepts   A record's state is its ghost bit, its overflow bit and its bytes. A ghost keeps its
//            bytes, because the undo of a delete brings them back.
#include "sm/btree/btree_records.h"
#include "sm/btree/btree_node_search.h"
#include "sm/btree/btree_payload.h"
#include "sm/change/record_changes.h"
#include "sm/version/version_renew.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr size_t kShortKey = 16;  // the lock name of such a key takes no call

// name_of_key() of a key in a payload, behind eight bytes at least: one load from its end back has
// all of a key of up to eight bytes.
[[gnu::always_inline]] inline RecordName name_behind_head(ObjectId object, Slice key) {
    const char* const end = key.data() + key.size();
    const size_t n = key.size();
    if (n - 1 >= kShortKey) [[unlikely]]  // or there is none
        return name_of_key(object, key);
    uint64_t first, second = 0;
    if (n <= 8) {
        first = load<uint64_t>(end - 8) >> (64 - 8 * n);
    } else {
        first = load<uint64_t>(key.data());
        second = load<uint64_t>(end - 8) >> (8 * (16 - n));
    }
    const uint64_t hash = txn::short_key_lock_name(object, first, second, n).value;
    DCHECK(hash == name_of_key(object, key).hash);
    return {object, key, hash};
}
static_assert(sizeof(payload::Replace) >= 8 && sizeof(payload::ReplaceRow) >= 8);
static_assert(sizeof(payload::Put) >= 8);
static_assert(sizeof(payload::PutMany) + sizeof(payload::RecordHead) >= 8);
static_assert(2 * sizeof(payload::RecordHead) >= 8);

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
    const RecordState before = state_in(page, slot);
    out.add_only(name_of_key(object_of(page), key), before, RecordPart::all(before.bytes));
}
// Of a page that is latched: nothing in it is out of bounds.
[[gnu::always_inline]] inline RecordState latched_state(const Page& page, unsigned slot,
                                                        [[maybe_unused]] Slice key) {
    check_slot(page, slot, key);
    const Slot s = slots(page)[slot];
    const char* const at = chars(page) + s.at;
    const RecordState state{!(s.bits & kGhost), s.bits & kOverflow ? kRecordOverflow : uint8_t{0},
                            Slice(at + kRecordHead + (s.bits & kKeyBits), load<uint16_t>(at))};
    DCHECK(state.bytes.data() == value(page, slot).data());
    DCHECK(state.bytes.size() == value(page, slot).size());
    return state;
}

void take_away(RecordCopy& state) { state = RecordCopy(); }

}  // namespace

RecordState record_in(const Page& page, unsigned slot) { return state_in(page, slot); }

void records_before_btree_put(const Page& page, Slice payload, ChangedRecords& out) {
    const auto p = load<payload::Put>(payload.data());
    DCHECK(payload.size() == sizeof p + p.key_bytes + p.value_bytes);
    const Slice key(payload.data() + sizeof p, p.key_bytes);
    out.add_only(name_behind_head(object_of(page), key), {}, RecordPart::all({}));
}
void records_undone_btree_put(ObjectId object, PageId, Slice payload, UndoneVisit visit) {
    payload::Reader in(payload);
    const auto p = in.get<payload::Put>();
    visit(name_of_key(object, in.bytes(p.key_bytes)), take_away);
}

// The key of a new record at `at`, which goes to the next record.
[[gnu::always_inline]] static inline Slice key_at(const char*& at) {
    const auto head = load<payload::RecordHead>(at);
    const Slice key(at + sizeof head, head.key_bytes);
    at = key.data() + key.size() + head.value_bytes;
    return key;
}
// The ascending keys of the new records at `at` as a run (key_run.h). False: they are none.
static bool add_run(ObjectId object, const char* at, unsigned count, ChangedRecords& out) {
    if (count > kRunKeysMax) return false;
    char ends[kRunKeysMax];
    const Slice first = key_at(at);
    if (first.empty()) return false;
    Slice last = first;
    ends[0] = first.back();
    for (unsigned i = 1; i < count; ++i) {
        last = key_at(at);
        if (last.size() != first.size()) return false;
        ends[i] = last.back();
    }
    const Slice prefix = first.substr(0, first.size() - 1);
    if (!same_bytes(prefix.data(), last.data(), prefix.size())) return false;
    out.add_run(name_behind_head(object_of_runs(object), prefix), {ends, count});
    return true;
}
void records_before_btree_put_many(const Page& page, Slice payload, ChangedRecords& out) {
    const auto many = load<payload::PutMany>(payload.data());
    const char* at = payload.data() + sizeof many;
    const ObjectId object = object_of(page);
    if (many.count > 1 && out.may_add_run(object) && add_run(object, at, many.count, out)) return;
    for (unsigned left = many.count; left != 0; --left) {
        const Slice key = key_at(at);
        DCHECK(at <= payload.data() + payload.size());
        out.add(name_behind_head(object, key), {}, RecordPart::all({}));
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

void records_before_btree_replace(const Page& page, Slice payload, ChangedRecords& out) {
    payload::Reader in(payload);
    const auto p = in.get<payload::Replace>();
    const Slice key = in.bytes(p.key_bytes);
    const RecordState before = latched_state(page, p.slot, key);
    const bool in_place = p.old_bytes == p.new_bytes && p.flags == 0;
    out.add_only(name_behind_head(object_of(page), key), before,
                 in_place ? RecordPart{p.offset, p.old_bytes, 0} : RecordPart::all(before.bytes));
}
[[gnu::noinline]] static void note_only_replace(VersionTable& versions, txn::Transaction& txn,
                                                const Page& page, Slice payload) {
    ChangedRecords changed(versions, txn, true);
    records_before_btree_replace(page, payload, changed);
    changed.keep();
}
// By values: what refers to nothing stays in registers up to the call.
[[gnu::noinline]] static void note_in_place(VersionTable& versions, txn::Transaction& txn,
                                            RecordName name, RecordPart part, RecordState before) {
    ChangedRecords::keep_only(versions, txn, name, before, part);
}
void keep_before_only_replace(VersionTable& versions, txn::Transaction& txn, const Page& page,
                              Slice payload, uint64_t hash) {
    const auto& p = *reinterpret_cast<const payload::Replace*>(payload.data());
    DCHECK(payload.size() >= sizeof p + p.key_bytes);
    if (p.old_bytes != p.new_bytes || p.flags != 0) [[unlikely]]
        return note_only_replace(versions, txn, page, payload);
    const Slice key(payload.data() + sizeof p, p.key_bytes);
    const RecordName name =
        hash != 0 ? RecordName{object_of(page), key, hash} : name_behind_head(object_of(page), key);
    DCHECK(name.hash == name_of_key(name.object, key).hash);
    const RecordState before = latched_state(page, p.slot, key);
    const RecordPart part{p.offset, p.old_bytes, 0};
    if (versions.renew_settled(txn, name, before, part)) return;
    note_in_place(versions, txn, name, part, before);
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

// The payload is well-formed (KI-2).
[[gnu::noinline]] static void before_replace_many(const Page& page, Slice payload,
                                                  ChangedRecords& out) {
    const auto& many = *reinterpret_cast<const payload::ReplaceMany*>(payload.data());
    const char* at = payload.data() + sizeof many;
    const ObjectId object = object_of(page);
    for (unsigned left = many.count; left != 0; --left) {
        const auto row = load<payload::ReplaceRow>(at);
        const Slice key(at + sizeof row, row.key_bytes);
        at = key.data() + key.size() + size_t{2} * row.bytes;
        DCHECK(at <= payload.data() + payload.size());
        out.add(name_behind_head(object, key), latched_state(page, row.slot, key),
                {row.offset, row.bytes, 0});
    }
}
// One row of a page, apart: most changes of several records have one on each page.
void records_before_btree_replace_many(const Page& page, Slice payload, ChangedRecords& out) {
    const auto& many = *reinterpret_cast<const payload::ReplaceMany*>(payload.data());
    const auto& row = *reinterpret_cast<const payload::ReplaceRow*>(&many + 1);
    DCHECK(many.count != 0 && payload.size() >= sizeof many + sizeof row + row.key_bytes);
    if (many.count != 1 || row.key_bytes > kShortKey) [[unlikely]]
        return before_replace_many(page, payload, out);
    const Slice key(reinterpret_cast<const char*>(&row + 1), row.key_bytes);
    const RecordName name = name_behind_head(object_of(page), key);
    const RecordState before = latched_state(page, row.slot, key);
    const RecordPart part{row.offset, row.bytes, 0};
    if (out.full()) [[unlikely]]
        before_replace_many(page, payload, out);
    else out.add(name, before, part);
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

// CR-1: the keys must stay until keep(), and the log record has them in two pieces.
void records_before_btree_set_ghosts(const Page& page, Slice payload, ChangedRecords& out) {
    std::string key;
    payload::each_ghost(payload, key, [&](unsigned slot, Slice whole) {
        check_slot(page, slot, whole);
        const RecordState before = state_in(page, slot);
        out.add(name_of_key(object_of(page), whole), before, RecordPart::all(before.bytes));
        out.keep();
    });
}
// What a rollback has brought back already is live; to say so again changes nothing.
void records_undone_btree_set_ghosts(ObjectId object, PageId, Slice payload, UndoneVisit visit) {
    std::string key;
    const bool was_live = payload::Reader(payload).get<payload::SetGhosts>().ghost != 0;
    payload::each_ghost(payload, key, [&](unsigned, Slice whole) {
        visit(name_of_key(object, whole), [&](RecordCopy& state) { state.live = was_live; });
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
