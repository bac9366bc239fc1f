// btree_undo.cc - rollback of inserts, updates and deletes: logical, by key, each with a
// compensation record.
//
// Concepts   The rolled-back transaction still holds X on its keys, or restart runs no other
//            transaction. So the record is as the log says; splits and merges may have changed its
//            page and slot. Only the undo of an update or revive may need space, which a split (a
//            system record) makes.
#include <algorithm>
#include <vector>

#include "sm/btree/btree_impl.h"
#include "sm/core/cleanup.h"

namespace lockstep::sm {

using namespace node;

namespace {

// The record's single part.
Result<PartView> only_part(const txn::LogRecordView& record) {
    uint32_t cursor = 0;
    PartView part;
    if (!TRY(next_part(record, cursor, part)))
        return fail(ErrorCode::corrupt_log, "record of an index", record.lsn.value);
    return part;
}

[[gnu::cold]] std::unexpected<Error> lost(const BTree& tree, const txn::LogRecordView& record) {
    return fail(ErrorCode::corrupt_page, "record to be rolled back is not in its index",
                record.lsn.value, tree.id().value);
}

// Puts `old` back where `fresh` stands, at `offset` of the value.
Result<void> put_back(BTree& tree, txn::Transaction& txn, const txn::LogRecordView& record,
                      Slice key, unsigned offset, Slice old, Slice fresh, uint16_t logged_flags,
                      bool becomes_ghost) {
    DCHECK(record.header->txn == txn.id.value && record.header->object == tree.id().value);
    uint16_t flags = becomes_ghost ? payload::kBecomesGhost : 0;
    if (logged_flags & payload::kOldOverflow) flags |= payload::kNewOverflow;
    if (logged_flags & payload::kNewOverflow) flags |= payload::kOldOverflow;
    for (;;) {
        BTree::Target t;
        TRY(tree.latch_for(txn, key, true, t));
        if (!t.found || ghost(*t.page, t.slot)) return lost(tree, record);
        const Slice now = value(*t.page, t.slot);
        if (offset + fresh.size() > now.size() || now.substr(offset, fresh.size()) != fresh)
            return lost(tree, record);
        if (old.size() > fresh.size() && old.size() - fresh.size() > free_bytes(*t.page)) {
            t.page.release();
            TRY(tree.split(key, 0, old.size() - fresh.size()));
            continue;
        }
        TRY(tree.log_replace(
            txn, t, key, offset, static_cast<unsigned>(fresh.size()), old, flags,
            ChangeRole::compensation,
            becomes_ghost ? LogKind::btree_undo_insert : LogKind::btree_undo_update,
            Lsn{record.header->prev}));
        if (becomes_ghost) tree.note_ghost(*t.page, key);
        return {};
    }
}

// Key `n` of a record of many inserts. There are few: they are counted from the front each time,
// and nothing is allocated.
Slice key_of_many(Slice payload, unsigned n) {
    payload::Reader in(payload);
    [[maybe_unused]] const auto all = in.get<payload::PutMany>();
    DCHECK(n < all.count);
    for (;; --n) {
        const auto head = in.get<payload::RecordHead>();
        const Slice key = in.bytes(head.key_bytes);
        in.bytes(head.value_bytes);
        if (n == 0) return key;
    }
}

// Row `n` of a record of many updates, over all parts; `count`: how many there are.
struct UpdatedRow {
    payload::ReplaceRow head{};
    Slice key, old, fresh;
    unsigned count = 0;
};
Result<UpdatedRow> row_of_many(const txn::LogRecordView& record, unsigned n) {
    UpdatedRow found;
    uint32_t cursor = 0;
    for (PartView part; TRY(next_part(record, cursor, part));) {
        DCHECK(part.action == PageAction::btree_replace_many);
        payload::Reader in(part.payload);
        for (unsigned left = in.get<payload::ReplaceMany>().count; left-- > 0; ++found.count) {
            const auto head = in.get<payload::ReplaceRow>();
            const Slice key = in.bytes(head.key_bytes), old = in.bytes(head.bytes),
                        fresh = in.bytes(head.bytes);
            if (found.count != n) continue;
            found.head = head;
            found.key = key, found.old = old, found.fresh = fresh;
        }
    }
    return found;
}

Result<BTree*> tree_of(Env& env, const txn::LogRecordView& record) {
    const ObjectId id{record.header->object};
    BTree* tree = env.objects ? env.objects->index_by_id(id) : nullptr;
    if (!tree)
        return fail(ErrorCode::no_such_object, "index of a record to be rolled back", id.value,
                    record.lsn.value);
    return tree;
}

}  // namespace

Result<void> BTree::undo_insert(txn::Transaction& txn, const txn::LogRecordView& record) {
    const PartView part = TRY(only_part(record));
    payload::Reader in(part.payload);
    if (part.action == PageAction::btree_revive) {
        const auto p = in.get<payload::Revive>();
        const Slice key = in.bytes(p.key_bytes), old = in.bytes(p.old_bytes),
                    fresh = in.bytes(p.new_bytes);
        return put_back(*this, txn, record, key, 0, old, fresh, p.flags, true);
    }
    DCHECK(part.action == PageAction::btree_put && record.header->txn == txn.id.value);
    const auto p = in.get<payload::Put>();
    const Slice key = in.bytes(p.key_bytes);
    BTree::Target t;
    TRY(latch_for(txn, key, true, t));
    if (!t.found || ghost(*t.page, t.slot)) return lost(*this, record);
    return log_set_ghost(txn, t, key, true, ChangeRole::compensation, LogKind::btree_undo_insert,
                         Lsn{record.header->prev});
}

// One compensation for each key, from the last to the first. All but the last name this record
// itself as the next to undo. If a crash interrupts the rollback, the next rollback starts here
// again and skips what is a ghost already.
Result<void> BTree::undo_insert_many(txn::Transaction& txn, const txn::LogRecordView& record) {
    const PartView part = TRY(only_part(record));
    DCHECK(part.action == PageAction::btree_put_many && record.header->txn == txn.id.value);
    for (unsigned left = payload::Reader(part.payload).get<payload::PutMany>().count; left-- > 0;) {
        const Slice key = key_of_many(part.payload, left);
        BTree::Target t;
        TRY(latch_for(txn, key, true, t));
        const bool undone = t.found && ghost(*t.page, t.slot);
        if (!t.found || (undone && left == 0)) return lost(*this, record);
        if (undone) continue;
        const bool last = left == 0;
        const Lsn next = last ? Lsn{record.header->prev} : record.lsn;
        TRY(log_set_ghost(txn, t, key, true, ChangeRole::compensation, LogKind::btree_undo_insert,
                          next));
    }
    return {};
}

Result<void> BTree::undo_update(txn::Transaction& txn, const txn::LogRecordView& record) {
    const PartView part = TRY(only_part(record));
    DCHECK(part.action == PageAction::btree_replace);
    payload::Reader in(part.payload);
    const auto p = in.get<payload::Replace>();
    const Slice key = in.bytes(p.key_bytes), old = in.bytes(p.old_bytes),
                fresh = in.bytes(p.new_bytes);
    return put_back(*this, txn, record, key, p.offset, old, fresh, p.flags, false);
}

// One compensation for each row, from the last to the first. As with many inserts, all but the last
// name this record itself as the next to undo, and a row that has its old bytes again is skipped.
Result<void> BTree::undo_update_many(txn::Transaction& txn, const txn::LogRecordView& record) {
    DCHECK(record.header->txn == txn.id.value && record.header->object == id_.value);
    for (unsigned left = TRY(row_of_many(record, 0)).count; left-- > 0;) {
        const UpdatedRow row = TRY(row_of_many(record, left));
        const unsigned offset = row.head.offset;
        BTree::Target t;
        TRY(latch_for(txn, row.key, true, t));
        if (!t.found || ghost(*t.page, t.slot)) return lost(*this, record);
        const Slice now = value(*t.page, t.slot);
        if (offset + row.fresh.size() > now.size()) return lost(*this, record);
        const bool undone = now.substr(offset, row.old.size()) == row.old;
        if (undone && left != 0) continue;
        if (now.substr(offset, row.fresh.size()) != row.fresh) return lost(*this, record);
        const bool last = left == 0;
        TRY(log_replace(txn, t, row.key, offset, static_cast<unsigned>(row.fresh.size()), row.old,
                        0, ChangeRole::compensation, LogKind::btree_undo_update,
                        last ? Lsn{record.header->prev} : record.lsn));
    }
    return {};
}

Result<void> BTree::undo_erase(txn::Transaction& txn, const txn::LogRecordView& record) {
    const PartView part = TRY(only_part(record));
    DCHECK(part.action == PageAction::btree_set_ghost && record.header->txn == txn.id.value);
    payload::Reader in(part.payload);
    const auto p = in.get<payload::SetGhost>();
    const Slice key = in.bytes(p.key_bytes);
    BTree::Target t;
    TRY(latch_for(txn, key, true, t));
    if (!t.found || !ghost(*t.page, t.slot)) return lost(*this, record);
    return log_set_ghost(txn, t, key, false, ChangeRole::compensation, LogKind::btree_undo_erase,
                         Lsn{record.header->prev});
}

// One compensation for the neighbours that are in one leaf, from the last key to the first. As with
// many inserts, all but the last name this record itself as the next to undo, and what has its
// record again is skipped.
Result<void> BTree::undo_erase_many(txn::Transaction& txn, const txn::LogRecordView& record) {
    const PartView part = TRY(only_part(record));
    DCHECK(part.action == PageAction::btree_set_ghosts && record.header->txn == txn.id.value);
    std::vector<std::string> keys;
    std::string buffer;
    payload::each_ghost(part.payload, buffer, [&](unsigned, Slice key) { keys.emplace_back(key); });
    DCHECK(!keys.empty() && std::ranges::is_sorted(keys));
    DCHECK(record.header->object == id_.value);
    std::vector<uint16_t> slots;
    for (size_t left = keys.size(); left > 0;) {
        Target t;
        TRY(latch_for(txn, SearchKey(keys[left - 1]), true, t));
        if (!t.found || (left == 1 && !ghost(*t.page, t.slot))) return lost(*this, record);
        if (!ghost(*t.page, t.slot)) {
            --left;
            continue;
        }
        slots.clear();
        for (Found f{t.slot, true}; f.exact;) {
            if (!ghost(*t.page, f.slot)) return lost(*this, record);
            slots.push_back(static_cast<uint16_t>(f.slot));
            if (--left == 0 || Slice(keys[left - 1]) < low(*t.page)) break;
            f = search(*t.page, Slice(keys[left - 1]));
            if (!f.exact) return lost(*this, record);
        }
        std::ranges::reverse(slots);
        TRY(log_set_ghosts(txn, t, slots, false, ChangeRole::compensation,
                           LogKind::btree_undo_erase,
                           left == 0 ? Lsn{record.header->prev} : record.lsn, 0));
    }
    return {};
}

Result<void> undo_btree_insert(Env& env, txn::Transaction& txn, const txn::LogRecordView& record) {
    return TRY(tree_of(env, record))->undo_insert(txn, record);
}
Result<void> undo_btree_insert_many(Env& env, txn::Transaction& txn,
                                    const txn::LogRecordView& record) {
    return TRY(tree_of(env, record))->undo_insert_many(txn, record);
}
Result<void> undo_btree_update(Env& env, txn::Transaction& txn, const txn::LogRecordView& record) {
    return TRY(tree_of(env, record))->undo_update(txn, record);
}
Result<void> undo_btree_update_many(Env& env, txn::Transaction& txn,
                                    const txn::LogRecordView& record) {
    return TRY(tree_of(env, record))->undo_update_many(txn, record);
}
Result<void> undo_btree_erase(Env& env, txn::Transaction& txn, const txn::LogRecordView& record) {
    return TRY(tree_of(env, record))->undo_erase(txn, record);
}
Result<void> undo_btree_erase_many(Env& env, txn::Transaction& txn,
                                   const txn::LogRecordView& record) {
    return TRY(tree_of(env, record))->undo_erase_many(txn, record);
}
Result<void> undo_btree_bulk(Env& env, txn::Transaction& txn, const txn::LogRecordView& record) {
    return TRY(tree_of(env, record))->undo_bulk(txn, record);
}

}  // namespace lockstep::sm
