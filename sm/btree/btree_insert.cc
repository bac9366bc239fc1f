// btree_insert.cc - inserting a record: key lock, next key's gap, space, one logged change.
//
// Concepts   First, take X on the key with no latch held, and wait for other holders. Second, latch
//            the leaf. Third, check that no other transaction holds gap_read on the next key's gap.
//            Fourth, change the page.
//            The check is made under the latch, so no scan can protect the gap between check and
//            change: its validation of this leaf would fail. If the next key is in the right
//            sibling, that leaf's version is validated last.
#include "sm/btree/btree_descent.h"
#include "sm/btree/overflow.h"
#include "sm/change/rollback.h"
#include "sm/core/cleanup.h"
#include "sm/core/lock_error.h"
#include "sm/core/lock_wait.h"
#include "sm/core/upkeep.h"
#include "threads/base/error_detail.h"

namespace lockstep::sm {

using namespace node;
using txn::LockMode;

using GapCheck = BTree::GapCheck;

// May a key be put in front of the target's slot?
Result<GapCheck> BTree::check_gap(txn::LockManager& locks, txn::Transaction& txn, const Target& t,
                                  txn::LockName name, NextKey& next) {
    if (!TRY(next_key(*t.page, t.slot, nullptr, next))) [[unlikely]]
        return GapCheck::changed;
    if (!locks.grantable(txn.locks, next.name, LockMode::gap_insert)) [[unlikely]]
        return GapCheck::wait_above;
    // The new key splits a gap: a transaction that protects the whole gap must protect both halves.
    if (local_of(txn).gap_reader == txn.id &&
        (locks.held(txn.locks, next.name) & LockMode::gap_read) != LockMode::none) [[unlikely]]
        if (!locks.try_lock_record(txn.locks, lock(), name, LockMode::gap_read))
            return GapCheck::wait_own;
    return next.valid() ? GapCheck::clear : GapCheck::changed;
}

namespace {

inline Result<void> log_put(Env& env, BTree& tree, txn::Transaction& txn, BTree::Target& t,
                            Slice key, Slice value, bool overflow) {
    t.assert_state();
    DCHECK(!t.found && covers(*t.page, key) && t.page->header.object == tree.id().value);
    DCHECK(fits(*t.page, key.size(), value.size()));
    const payload::Put head{static_cast<uint16_t>(t.slot), overflow ? kOverflow : uint16_t{0},
                            static_cast<uint16_t>(key.size()), static_cast<uint16_t>(value.size())};
    ChangePart part{&t.page, PageAction::btree_put, 0, {payload::bytes_of(head), key, value, {}}};
    TRY(change_pages(env, &txn, ChangeRole::forward, LogKind::btree_insert, tree.id(), {&part, 1}));
    return {};
}

// A ghost of the key gets a new value. The old one is logged too: the ghost may be this
// transaction's own delete, which may be undone as well.
[[gnu::noinline]] Result<bool> revive(Env& env, BTree& tree, txn::Transaction& txn,
                                      BTree::Target& t, Slice key, Slice fresh, bool is_overflow) {
    t.assert_state();
    DCHECK(t.found && ghost(*t.page, t.slot));
    const Slice old = value(*t.page, t.slot);
    if (fresh.size() > old.size() && fresh.size() - old.size() > free_bytes(*t.page)) return false;
    const Lsn before = txn.last_lsn;
    const bool was_overflow = overflow(*t.page, t.slot);
    // Of another chain, the transaction that erased the record has disposed.
    const std::string owned(was_overflow && is_unlisted(old) ? old : Slice{});
    const payload::Revive head{static_cast<uint16_t>(t.slot),
                               static_cast<uint16_t>((was_overflow ? payload::kOldOverflow : 0) |
                                                     (is_overflow ? payload::kNewOverflow : 0)),
                               static_cast<uint16_t>(key.size()),
                               static_cast<uint16_t>(old.size()),
                               static_cast<uint16_t>(fresh.size()),
                               0};
    ChangePart part{
        &t.page, PageAction::btree_revive, 0, {payload::bytes_of(head), key, old, fresh}};
    TRY(change_pages(env, &txn, ChangeRole::forward, LogKind::btree_insert, tree.id(), {&part, 1}));
    t.page.release();
    if (owned.empty()) return true;
    Result<void> released = release_overflow(env, txn, tree.id(), owned);
    if (released) return true;
    return undo_operation(env, txn, before, released.error());
}

// The leaf of `key` is full. It drops unlocked ghosts first and is split only if there are none. A
// failed removal does not fail the insert.
[[gnu::cold, gnu::noinline]] Result<void> make_room(BTree& tree, const SearchKey& key,
                                                    bool has_ghosts, size_t extra) {
    if (has_ghosts) {
        const Result<bool> removed = tree.remove_leaf_ghosts(key);
        if (removed.has_value() && *removed) return {};
    }
    return tree.split(key, 0, extra);
}

[[gnu::cold, gnu::noinline]] Result<void> insert_large(Env& env, BTree& tree, txn::Transaction& txn,
                                                       txn::LockName name, const SearchKey& key,
                                                       Slice value) {
    const Lsn before = txn.last_lsn;
    const std::string ref = TRY(write_overflow(env, &txn, tree.id(), value));
    Result<void> done = tree.insert_record(txn, name, key, ref, true);
    if (!done) return undo_operation(env, txn, before, done.error());  // no record refers to it
    return done;
}

}  // namespace

std::unexpected<Error> key_too_long(size_t bytes) {
    DCHECK(bytes > kKeyBytesMax);
    return fail(ErrorCode::key_too_long, "bytes of the key, and the most that an index takes",
                bytes, kKeyBytesMax);
}

[[gnu::cold]] static std::unexpected<Error> key_taken(ObjectId index, Slice key) {
    Error error = fail(ErrorCode::duplicate_key, "index", index.value).error();
    set_error_detail(error, "index " + std::to_string(index.value) + " has a record of key " +
                                printable(key) + "; put() and update() replace it");
    return std::unexpected(error);
}

Result<void> check_write(const txn::Transaction& txn, size_t key_bytes, size_t value_bytes) {
    if (txn.must_abort()) return fail(ErrorCode::txn_aborting, "transaction", txn.id.value);
    if (txn.read_only) return fail(ErrorCode::read_only, "transaction", txn.id.value);
    if (key_bytes > kKeyBytesMax) return key_too_long(key_bytes);
    if (value_bytes > kValueBytesMax)
        return fail(ErrorCode::value_too_long, "value", value_bytes, kValueBytesMax);
    return {};
}

Result<void> BTree::wait_for_gap(txn::Transaction& txn, GapCheck gap, txn::LockName name,
                                 txn::LockName next, const SearchKey& key) {
    DCHECK(threads::current()->latch_depth == 0);  // BT-3
    DCHECK(name.value != 0 && next.value != 0 && gap != GapCheck::clear);
    if (gap == GapCheck::wait_above) {
        TRY(wait_for_insert(*env_.locks, txn.locks, id_, next, key));
    }
    if (gap == GapCheck::wait_own) {
        TRY(lock_key(txn, key, name, LockMode::gap_read));
    }
    return {};
}

Result<void> BTree::insert_record(txn::Transaction& txn, txn::LockName name, const SearchKey& key,
                                  Slice value, bool is_overflow, const Position* ahead) {
    DCHECK(!too_large(key.size(), value.size()) || is_overflow);
    DCHECK(!is_overflow || overflow_ref(value).first != kPageNone.value);
    txn::LockManager& locks = *env_.locks;
    unsigned changes = 0, rooms = 0;
    for (;;) {
        Target t;
        TRY(latch_for(txn, key, false, t, std::exchange(ahead, nullptr)));
        if (t.found) {
            if (!ghost(*t.page, t.slot)) return key_taken(id_, key);
            if (TRY(revive(env_, *this, txn, t, key, value, is_overflow))) return {};
        } else {
            NextKey next;
            const GapCheck gap = TRY(check_gap(locks, txn, t, name, next));
            // BT-3: nothing is waited for with the leaf latched.
            if (gap != GapCheck::clear) [[unlikely]] {
                t.page.release();
                TRY(wait_for_gap(txn, gap, name, next.name, key));
                if (gap == GapCheck::changed) TRY(backoff(++changes, t.id));
                continue;
            }
            if (fits(*t.page, key.size(), value.size())) [[likely]] {
                const PageId leaf = t.id;
                const unsigned slot = t.slot;
                const uint32_t leaves_freed = t.leaves_freed;
                TRY(log_put(env_, *this, txn, t, key, value, is_overflow));
                t.page.release();
                remember(txn, leaf, slot, leaves_freed);
                return {};
            }
        }
        // A leaf whose header has a wrong count of free bytes.
        if (++rooms > kRoomTriesMax) [[unlikely]]
            return damaged(t.id);
        const bool has_ghosts = header(*t.page).ghosts != 0;
        t.page.release();
        TRY(make_room(*this, key, has_ghosts, kSlotCost + key.size() + value.size()));
    }
}

Result<void> BTree::insert(txn::Transaction& txn, Slice key, Slice value) {
    if (!writable(txn, key.size(), value.size())) [[unlikely]]
        return check_write(txn, key.size(), value.size());
    DCHECK(threads::current()->latch_depth == 0);  // BT-3
    const SearchKey wanted(key);
    const txn::LockName name = wanted.lock_name(id_);
    BTree::Position place;
    Expect expected;
    const BTree::Position* ahead = nullptr;
    if (!in_uncached_team(txn)) env_.locks->prefetch(name);
    else if (Descent::locate_ahead<true>(*this, txn, wanted, name, place, expected)) ahead = &place;
    TRY(lock_key(txn, wanted, name, LockMode::X));
    if (Upkeep* upkeep = upkeep_for(txn)) [[unlikely]]
        return upkeep->insert(txn, key, value);
    if (too_large(key.size(), value.size())) [[unlikely]]
        return insert_large(env_, *this, txn, name, wanted, value);
    return insert_record(txn, name, wanted, value, false, ahead);
}

}  // namespace lockstep::sm
