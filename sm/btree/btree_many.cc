// btree_many.cc - point reads of many keys at once, so that their cache misses and page reads
// overlap.
//
// Concepts   Keys are taken in groups, which a walk (btree_key_walk.h) takes to their leaves and
//            records. As in btree_fetch.cc the walk to the leaves comes before the locks, and
//            counts only if its path is unchanged afterwards. The leaf's version is taken under the
//            locks. The level-1 node above it is validated after that, so it was the right leaf
//            then. At read_committed no lock is taken: the look at the lock table comes between the
//            leaf's version and the read (LM-9).
//            A key that the transaction has announced is at its place already (places.h).
//            A snapshot takes no lock. It looks for versions between the read and a last look at
//            the leaf's version, as in btree_snapshot.cc (VT-1).
//            Exceptions are read again alone: a long key, a page that changed or is not in memory,
//            a large value, a record of which the snapshot needs a version.
// Blocking   Parks for locks, with no latch held. A key that is read alone may also park for pages.
#include <memory>

#include <lockstep/index.h>
#include "sm/btree/btree_impl.h"
#include "sm/btree/btree_key_walk.h"
#include "sm/btree/btree_snapshot.h"
#include "sm/core/lock_wait.h"
#include "sm/core/places.h"
#include "sm/version/version_table.h"
#include "threads/base/limits.h"
#include "threads/steps/ctx.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr size_t kGroup = KeyWalk::kKeys;

class Group {
public:
    Group(BTree& tree, Env& env, txn::Transaction& txn, std::span<Lookup> rows)
        : tree_(tree), locks_(*env.locks), txn_(txn), rows_(rows), walk_(env) {
        DCHECK(rows.size() <= kGroup);
    }

    // False: some key is too long for a group.
    bool set_keys(bool for_change) {
        for (const Lookup& row : rows_) {
            if (row.key.size() > KeyWalk::kKeyRoom) [[unlikely]]
                return false;
            walk_.add(tree_, row.key, row.buffer.size(), for_change);
        }
        return true;
    }
    // True: they are in the caches.
    bool find_leaves() {
        if (BTree::has_places(txn_)) [[unlikely]]
            placed_ = find_places();
        if (!placed_) walk_.find_leaves();
        return placed_;
    }
    Result<void> lock(txn::LockMode mode) {
        DCHECK(threads::current()->latch_depth == 0);  // BT-3
        const std::span names = walk_.names();
        for (size_t i = 0; i < names.size(); ++i) {
            i += locks_.try_lock_records(txn_.locks, tree_.lock(), names.subspan(i), mode);
            if (i < names.size()) [[unlikely]]
                TRY(wait_for_key(locks_, txn_.locks, {tree_.lock(), names[i], mode}, walk_[i].key));
        }
        return {};
    }
    void find_records() {
        if (placed_) [[unlikely]]
            take_places();
        else walk_.find_records();
    }
    // `seen`: if not null, gets of each row the look at its leaf in which it was read; without a
    // page if the row was read alone.
    Result<size_t> read(bool committed, OptimisticPage* seen);
    Result<size_t> read_snapshot(const Snapshot& snapshot, const VersionTable& versions);

private:
    bool find_places();
    void take_places();
    [[gnu::always_inline]] bool take(const KeyWalk::Look& look, Lookup& row) const;
    Result<void> read_alone(Lookup& row, bool committed);

    BTree& tree_;
    txn::LockManager& locks_;
    txn::Transaction& txn_;
    const std::span<Lookup> rows_;
    bool placed_ = false;  // every key has a place
    const LeafHint* places_[kGroup];
    KeyWalk walk_;
};

// The places that the transaction has announced. False: some key has no such place. A walk for a
// part of the keys would gain little: what was announced is in the caches.
[[gnu::cold, gnu::noinline]] bool Group::find_places() {
    DCHECK(walk_.size() == rows_.size() && local_of(txn_).places != nullptr);
    for (size_t i = 0; i < rows_.size(); ++i)
        if (places_[i] = tree_.place_of(txn_, walk_.names()[i]); places_[i] == nullptr)
            return false;
    return true;
}

// Under the locks. A key whose place no longer counts is read alone.
[[gnu::cold, gnu::noinline]] void Group::take_places() {
    for (size_t i = 0; i < rows_.size(); ++i) {
        DCHECK(places_[i] != nullptr && places_[i]->object == tree_.id());
        KeyWalk::Look& look = walk_[i];
        const bool counts = tree_.take_place(*places_[i], look.key, look.pos);
        look.leaf = counts ? look.pos.id : kPageNone;
        look.leaves_freed = places_[i]->leaves_freed;
        local_of(txn_).places->used += counts;
    }
}

// False: it must be read alone.
inline bool Group::take(const KeyWalk::Look& look, Lookup& row) const {
    const Page& page = *look.pos.at.page;
    row.found = look.pos.found && !ghost(page, look.pos.slot);
    if (row.found) {
        if (overflow(page, look.pos.slot)) [[unlikely]]
            return false;
        const Slice value = node::value(page, look.pos.slot);
        row.bytes = value.size();
        row.hint = {look.leaf, static_cast<uint16_t>(look.pos.slot), look.leaves_freed};
        copy_bytes(reinterpret_cast<char*>(row.buffer.data()), value.substr(0, row.buffer.size()));
    }
    return look.pos.at.valid();
}

[[gnu::noinline]] Result<void> Group::read_alone(Lookup& row, bool committed) {
    ValueOut out{.fixed = row.buffer.data(), .capacity = row.buffer.size()};
    row.found = TRY(committed ? tree_.fetch(txn_, row.key, Access::read, out)
                              : tree_.read_locked(txn_, row.key, out));
    row.bytes = out.bytes;
    const LeafHint& hint = hint_of(txn_, tree_.id());
    row.hint = {hint.page, hint.slot, hint.leaves_freed};
    return {};
}

Result<size_t> Group::read(bool committed, OptimisticPage* seen) {
    DCHECK(walk_.size() == rows_.size());
    size_t found = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
        const bool in_group = walk_[i].leaf != kPageNone &&
                              (!committed || locks_.only_committed(txn_.locks, walk_.names()[i])) &&
                              take(walk_[i], rows_[i]);
        if (seen != nullptr)
            new (&seen[i]) OptimisticPage(in_group ? walk_[i].pos.at : OptimisticPage{});
        if (!in_group) [[unlikely]]
            TRY(read_alone(rows_[i], committed));
        found += rows_[i].found;
    }
    return found;
}

Result<size_t> Group::read_snapshot(const Snapshot& snapshot, const VersionTable& versions) {
    DCHECK(walk_.size() == rows_.size() && txn_.read_only);
    const auto prefetch = [&](size_t i) {
        if (walk_[i].leaf != kPageNone && !is_quiet(snapshot, *walk_[i].pos.at.page))
            versions.prefetch(walk_.names()[i].value);
    };
    const auto as_in_page = [&](size_t i) {
        const KeyWalk::Look& look = walk_[i];
        if (look.leaf == kPageNone || !take(look, rows_[i])) return false;
        const RecordName name{tree_.id(), rows_[i].key, walk_.names()[i].value};
        if (!is_quiet(snapshot, *look.pos.at.page) &&
            versions.look(snapshot, name, {}, nullptr) != VersionTable::Look::page)
            return false;
        return look.pos.at.valid();
    };
    for (size_t i = 0; i < rows_.size(); ++i) prefetch(i);
    size_t found = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
        if (!as_in_page(i)) [[unlikely]]
            TRY(read_alone(rows_[i], true));
        found += rows_[i].found;
    }
    return found;
}

}  // namespace

// One after the other: long keys.
Result<size_t> BTree::fetch_each(txn::Transaction& txn, std::span<Lookup> rows, Access access) {
    size_t found = 0;
    for (Lookup& row : rows) {
        ValueOut out{.fixed = row.buffer.data(), .capacity = row.buffer.size()};
        row.found = TRY(fetch(txn, row.key, access, out));
        row.bytes = out.bytes;
        const LeafHint& hint = hint_of(txn, id_);
        row.hint = {hint.page, hint.slot, hint.leaves_freed};
        found += row.found;
    }
    return found;
}

Result<size_t> BTree::fetch_group(txn::Transaction& txn, std::span<Lookup> rows, Access access,
                                  bool committed, OptimisticPage* seen) {
    DCHECK(rows.size() <= kGroup);
    Group group(*this, env_, txn, rows);
    if (!group.set_keys(access != Access::read)) [[unlikely]] {
        if (seen != nullptr) std::uninitialized_value_construct_n(seen, rows.size());
        return fetch_each(txn, rows, access);
    }
    if (!group.find_leaves()) CTX(btree_leaf);
    if (committed) TRY(env_.locks->lock_object(txn.locks, lock_, txn::LockMode::IS));
    else TRY(group.lock(mode_of(access)));
    group.find_records();
    return group.read(committed, seen);
}

Result<size_t> BTree::fetch_group_snapshot(txn::Transaction& txn, std::span<Lookup> rows,
                                           Access access) {
    const Snapshot& snapshot = *local_of(txn).snapshot;
    Group group(*this, env_, txn, rows);
    // The single read tells what is wrong with the call, and that the index is younger.
    if (access != Access::read || history_.empty_to(snapshot) || !group.set_keys(false))
        [[unlikely]]
        return fetch_each(txn, rows, access);
    TRY(history_.check(snapshot, lock_));
    if (!group.find_leaves()) CTX(btree_leaf);
    group.find_records();
    const size_t found = TRY(group.read_snapshot(snapshot, *env_.versions));
    TRY(history_.check(snapshot, lock_));
    return found;
}

Result<size_t> BTree::fetch_many(txn::Transaction& txn, std::span<Lookup> rows, Access access) {
    const bool committed = access == Access::read && txn::rules_of(txn.isolation).gives_back;
    const bool snapshot = txn::rules_of(txn.isolation).by_snapshot;
    size_t found = 0;
    while (!rows.empty()) {
        const std::span<Lookup> group =
            rows.first(std::min<size_t>(rows.size(), limits::get_group()));
        found += TRY(group.size() == 1 ? fetch_each(txn, group, access)
                     : snapshot        ? fetch_group_snapshot(txn, group, access)
                                       : fetch_group(txn, group, access, committed));
        rows = rows.subspan(group.size());
    }
    return found;
}

void BTree::note_hint(txn::Transaction& txn, const RecordHint& hint) const {
    hint_of(txn, id_) = {.object = id_,
                         .page = hint.page,
                         .slot = hint.slot,
                         .score = 0,
                         .leaves_freed = hint.leaves_freed};
}

}  // namespace lockstep::sm
