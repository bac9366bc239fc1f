// btree_many.cc - point reads of many keys at once, so that their cache misses and page reads
// overlap.
//
// Concepts   Keys are taken in groups. Each step of a point read runs for all keys of a group
//            before the next step. It also prefetches the memory that the next step will touch:
//            lock buckets and the words of leaves; leaves; records. So the number of concurrent
//            misses limits a point read, not the sum of their delays. Leaves that are not in memory
//            are read together.
//            As in btree_fetch.cc the descent comes before the locks, and counts only if its path
//            is unchanged afterwards. The leaf's version is taken under the locks. The level-1 node
//            above it is validated after that, so it was the right leaf then. At read_committed no
//            lock is taken: the look at the lock table comes between the leaf's version and the
//            read (LM-9).
//            Exceptions are read again alone: a long key, a page that changed or is not in memory,
//            a large value.
// Blocking   Parks for locks, with no latch held. A key that is read alone may also park for pages.
// Source     O. Kocberber, B. Falsafi, B. Grot, "Asynchronous Memory Access Chaining", VLDB 2015
//            (there as a state machine). Groups in step: S. Chen et al., "Improving Hash Join
//            Performance through Prefetching", ICDE 2004.
#include <lockstep/index.h>
#include "sm/btree/btree_impl.h"
#include "sm/core/lock_wait.h"
#include "threads/base/hints.h"
#include "threads/base/mutants.h"
#include "threads/steps/ctx.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr size_t kGroup = 16;       // keys whose misses overlap
constexpr size_t kKeyRoom = 48;     // longer keys are read one by one
constexpr unsigned kLeafLines = 5;  // of a leaf: header and the first slots
constexpr size_t kRecordLines = 5;

struct Look {
    KeyView key;
    PageId leaf;  // kPageNone: this key is read alone
    OptimisticPage parent;
    BTree::Position pos;
};

class Group {
public:
    Group(BTree& tree, Env& env, txn::Transaction& txn, std::span<Lookup> rows)
        : tree_(tree),
          pool_(*env.pool),
          locks_(*env.locks),
          txn_(txn),
          rows_(rows),
          leaves_freed_(tree.leaves_freed()) {
        DCHECK(rows.size() <= kGroup);
    }

    // False: some key is too long for a group.
    bool set_keys() {
        for (size_t i = 0; i < rows_.size(); ++i) {
            if (rows_[i].key.size() > kKeyRoom) [[unlikely]]
                return false;
            put_key(text_[i], rows_[i].key);
            looks_[i].key = KeyView(text_[i], rows_[i].key.size());
            looks_[i].leaf = kPageNone;
            names_[i] = looks_[i].key.lock_name(tree_.id());
            locks_.prefetch(names_[i]);
        }
        return true;
    }
    void find_leaves();
    Result<void> lock(txn::LockMode mode) {
        DCHECK(threads::current()->latch_depth == 0);  // BT-3
        const std::span names(names_, rows_.size());
        for (size_t i = 0; i < names.size(); ++i) {
            if (auto locked = locks_.ask_records(txn_.locks, tree_.lock(), names, mode, i); !locked)
                [[unlikely]]
                TRY(wait_for_key(locks_, txn_.locks, locked.error(), looks_[i].key));
        }
        return {};
    }
    void find_records(bool for_change);
    Result<size_t> read(bool committed);

private:
    bool find_parent(const KeyView& key, OptimisticPage& at) const;
    bool same_parent(const Look& before, const KeyView& key) const;
    void prefetch_leaves();
    bool take(const Look& look, Lookup& row) const;
    Result<void> read_alone(Lookup& row, bool committed);

    BTree& tree_;
    BufferPool& pool_;
    txn::LockManager& locks_;
    txn::Transaction& txn_;
    const std::span<Lookup> rows_;
    const uint32_t leaves_freed_;
    txn::LockName names_[kGroup];
    Look looks_[kGroup];
    char text_[kGroup][kKeyRoom + 16];
};

// The level-1 node on the descent to `key`, if all its nodes are in memory and do not change.
bool Group::find_parent(const KeyView& key, OptimisticPage& at) const {
    if (!pool_.try_fix_optimistic(tree_.root(), at) || at.page->header.object != tree_.id().value)
        return false;
    while (at.page->header.level > 1) {
        OptimisticPage child;
        const bool here =
            pool_.try_fix_optimistic(child_at(*at.page, child_slot(*at.page, key)), child);
        if (!at.valid() || !here) [[unlikely]]
            return false;
        at = child;
    }
    return at.page->header.level == 1;
}

// Does the node above the last key's leaf cover this key too? It does if the key is not below the
// last key and is below the node's end.
bool Group::same_parent(const Look& before, const KeyView& key) const {
    if (before.leaf == kPageNone) return false;
    const uint64_t a = __builtin_bswap64(before.key.eight(0)), b = __builtin_bswap64(key.eight(0));
    if (a > b || (a == b && before.key.slice() > key.slice())) return false;
    const Page& page = *before.parent.page;
    return high_infinite(page) || compare_fence(key, high(page), page) < 0;
}

void Group::find_leaves() {
    for (size_t i = 0; i < rows_.size(); ++i) {
        Look& look = looks_[i];
        if (i > 0 && same_parent(looks_[i - 1], look.key)) look.parent = looks_[i - 1].parent;
        else if (!find_parent(look.key, look.parent)) continue;
        look.leaf = child_at(*look.parent.page, child_slot(*look.parent.page, look.key));
        prefetch_line(pool_.word_address(look.leaf));
    }
    prefetch_leaves();
}

void Group::prefetch_leaves() {
    PageId missing[kGroup];
    size_t n = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
        const Look& look = looks_[i];
        if (look.leaf == kPageNone) [[unlikely]]
            continue;
        if (const Page* page = pool_.resident(look.leaf)) [[likely]] {
            for (unsigned line = 0; line < kLeafLines; ++line)
                prefetch_line(chars(*page) + line * kCacheLineBytes);
        } else if (look.parent.valid()) {  // else the page's number may be invalid
            missing[n++] = look.leaf;
        }
    }
    if (n > 1) [[unlikely]]
        pool_.read_ahead({missing, n});
}

void Group::find_records(bool for_change) {
    for (size_t i = 0; i < rows_.size(); ++i) {
        Look& look = looks_[i];
        if (look.leaf == kPageNone) [[unlikely]]
            continue;
        BTree::Position& pos = look.pos;
        if (!pool_.try_fix_optimistic(look.leaf, pos.at) || !look.parent.valid() ||
            !is_node_of(*pos.at.page, tree_.id(), 0)) [[unlikely]] {
            look.leaf = kPageNone;
            continue;
        }
        pos.slot = find(*pos.at.page, look.key, pos.found);
        if (!pos.found) continue;
        // A change notes the page as changed, and checks its own place by the low fence (BT-6).
        if (for_change) {
            pool_.prefetch_for_change(pos.at);
            prefetch_line(low(*pos.at.page).data());
        }
        // Its length is in the record: not to be read now.
        const char* const at = chars(*pos.at.page) + slots(*pos.at.page)[pos.slot].at;
        const size_t bytes = std::min(rows_[i].buffer.size(), kRecordLines * kCacheLineBytes);
        for (size_t line = 0; line <= bytes; line += kCacheLineBytes) prefetch_line(at + line);
    }
}

// False: it must be read alone.
bool Group::take(const Look& look, Lookup& row) const {
    const Page& page = *look.pos.at.page;
    row.found = look.pos.found && !ghost(page, look.pos.slot);
    if (row.found) {
        if (overflow(page, look.pos.slot)) [[unlikely]]
            return false;
        const Slice value = node::value(page, look.pos.slot);
        row.bytes = value.size();
        row.hint = {look.leaf, static_cast<uint16_t>(look.pos.slot), leaves_freed_};
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

Result<size_t> Group::read(bool committed) {
    size_t found = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
        const bool in_group = looks_[i].leaf != kPageNone &&
                              (!committed || locks_.only_committed(txn_.locks, names_[i])) &&
                              take(looks_[i], rows_[i]);
        if (!in_group) [[unlikely]]
            TRY(read_alone(rows_[i], committed));
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
                                  bool committed) {
    Group group(*this, env_, txn, rows);
    if (!group.set_keys()) [[unlikely]]
        return fetch_each(txn, rows, access);
    group.find_leaves();
    CTX(btree_leaf);
    if (committed) TRY(env_.locks->lock_object(txn.locks, lock_, txn::LockMode::IS));
    else TRY(group.lock(mode_of(access)));
    group.find_records(access != Access::read);
    return group.read(committed);
}

Result<size_t> BTree::fetch_many(txn::Transaction& txn, std::span<Lookup> rows, Access access) {
    const bool committed =
        access == Access::read &&
        (txn.isolation == txn::Isolation::read_committed || MUTANT(fetch_unlocked));
    size_t found = 0;
    while (!rows.empty()) {
        const std::span<Lookup> group = rows.first(std::min(rows.size(), kGroup));
        found += TRY(group.size() == 1 ? fetch_each(txn, group, access)
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
