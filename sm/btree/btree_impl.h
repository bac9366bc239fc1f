// btree_impl.h - what the files of the B-tree share: positions, descents, latching a leaf, changes,
// locks' names.
//
// Concepts   Position: an optimistic look at a leaf with the place of a key in it; nothing is held,
//            valid() must be asked before anything read from it is believed. Target: the same with
//            the leaf exclusively latched.
// Blocking   descend/locate park only on page misses; latch_for parks for the latch. None may be
//            called with a latch held.
#pragma once

#include "sm/btree/btree.h"
#include "sm/btree/btree_node_search.h"
#include "sm/btree/btree_payload.h"
#include "sm/change/page_change.h"
#include "sm/core/txn_local.h"

namespace lockstep::sm {

inline constexpr unsigned kOptimisticTries = 2;
inline constexpr unsigned kSpinRetries = 200, kRetriesMax = 2200;
inline constexpr Nanos kRetryPause = kMillisecond;
// Times a leaf is split or cleaned for one record: the room is taken by others, or the leaf lies.
inline constexpr unsigned kRoomTriesMax = 1000;

struct BTree::Ops {
    using SearchKey = node::SearchKey;
    struct Position {
        OptimisticPage at;
        PageId id;
        unsigned slot = 0;
        uint32_t leaves_freed = 0;  // before the look
        bool found = false;
        bool valid() const { return at.valid(); }
    };
    struct Target {
        ExclusivePage page;
        PageId id;
        unsigned slot = 0;
        uint32_t leaves_freed = 0;
        bool found = false;
    };
    // The node that covers a key, or the one with the largest keys below it.
    enum class Side : uint8_t { covering, below };

    // --- btree_search.cc
    // Node of `level` on the way to `key`; unvalidated. If the tree is lower than that, the root
    // with its own level.
    static Result<void> descend(BTree& tree, const SearchKey& key, Side side, unsigned level,
                                Position& out);
    // Rightmost leaf.
    static Result<void> descend_last(BTree& tree, Position& out);
    // Leaf that covers `key`, searched; through the transaction's hint if that promises something.
    static Result<void> locate(BTree& tree, txn::Transaction& txn, const SearchKey& key,
                               bool hint_first, Position& out);
    static LeafHint& hint_of(txn::Transaction& txn, ObjectId store) {
        return local_of(txn).leaf_hints[store.value % std::size(local_of(txn).leaf_hints)];
    }
    static void remember(BTree& tree, txn::Transaction& txn, PageId leaf, unsigned slot,
                         uint32_t leaves_freed) {
        LeafHint& hint = hint_of(txn, tree.id_);
        hint.score = hint.page == leaf && hint.store == tree.id_
                         ? static_cast<int16_t>(std::min(hint.score + 1, 4))
                         : int16_t{0};
        hint.store = tree.id_;
        hint.page = leaf;
        hint.slot = static_cast<uint16_t>(slot);
        hint.leaves_freed = leaves_freed;
    }
    // A leaf that was searched before a switch is looked at with a fresh version, and searched
    // again if it has changed meanwhile (LA-3): pages that others keep changing cost a second
    // search then, never a starved reader. False: it is no longer the leaf for `key`.
    [[gnu::noinline]] static bool revalidate(BufferPool& pool, const BTree& tree,
                                             const SearchKey& key, Position& pos);
    // After failed validations: waits for a shared latch on the leaf that covers `key` (or lies
    // below it), so that the next look is valid.
    [[gnu::cold, gnu::noinline]] static Result<bool> latch_leaf_shared(BTree& tree,
                                                                       const SearchKey& key,
                                                                       Side side, Position& out,
                                                                       SharedPage& hold);
    // Leaf that covers `key`, exclusively latched and searched; the one of `ahead` if that look is
    // still valid.
    static Result<void> latch_for(BTree& tree, txn::Transaction& txn, const SearchKey& key,
                                  bool hint_first, Target& out, const Position* ahead = nullptr);
    // Asked after `tries` failed tries in a row. Somebody who changes the tree is behind each of
    // them; after kSpinRetries a pause is made, because the kernel may have put that one's worker
    // aside, and after kRetriesMax (two seconds) it is a page that lies about its place:
    // corrupt_page.
    [[gnu::cold, gnu::noinline]] static Result<void> backoff(const BTree& tree, unsigned tries,
                                                             PageId near);
    [[gnu::cold, gnu::noinline]] static std::unexpected<Error> damaged(const BTree& tree,
                                                                       PageId near);
    [[gnu::cold, gnu::noinline]] static Result<bool> latch_pessimistic(BTree& tree,
                                                                       const SearchKey& key,
                                                                       Target& out);
    // The same without a transaction.
    static Result<void> latch_leaf(BTree& tree, const SearchKey& key, Target& out);
    // Exclusively latches the inner node of `level` above `key`. False: the tree is not that high.
    static Result<bool> latch_parent(BTree& tree, const SearchKey& key, unsigned level,
                                     Target& out);
    // Unvalidated: a leaf (of whatever tree the caller followed) whose fences cover the key.
    static bool is_leaf_for(const Page& page, const SearchKey& key) {
        return page.kind() == PageKind::btree && page.header.level == 0 && node::covers(page, key);
    }
    static bool is_node_for(const BTree& tree, const Page& page, unsigned level,
                            const SearchKey& key) {
        return page.kind() == PageKind::btree && page.header.object == tree.id_.value &&
               page.header.level == level && node::covers(page, key);
    }

    // Name of the key that follows slot `slot` - 1 of a leaf, for gap locks. When it stands in the
    // right sibling, that one's snapshot is in `next`. False: what was read changed meanwhile. `at`
    // is the leaf's snapshot if it is not latched; the caller validates it once more at the end.
    struct NextKey {
        txn::LockName name;
        OptimisticPage sibling;
        bool valid() const { return sibling.page == nullptr || sibling.valid(); }
    };
    static Result<bool> next_key(BTree& tree, const Page& leaf, unsigned slot,
                                 const OptimisticPage* at, NextKey& out);

    // --- btree_fetch.cc: reads a record whose name is locked.
    [[gnu::noinline]] static Result<bool> read_locked(BTree& tree, txn::Transaction& txn,
                                                      const SearchKey& key, ValueOut& out);
    [[gnu::always_inline]] static Result<bool> lock_in_team(BTree& tree, txn::Transaction& txn,
                                                            const SearchKey& key,
                                                            txn::LockName name, txn::LockMode mode,
                                                            Position& pos);
    static txn::LockMode mode_of(Access access) {
        return access == Access::read     ? txn::LockMode::S
               : access == Access::update ? txn::LockMode::U
                                          : txn::LockMode::X;
    }

    // --- values
    static bool too_large(size_t key_bytes, size_t value_bytes) {
        return key_bytes + value_bytes > node::kInlineMax;
    }
    [[gnu::cold, gnu::noinline]] static Result<void> check_write(const txn::Transaction& txn,
                                                                 size_t key_bytes,
                                                                 size_t value_bytes);
    static bool writable(const txn::Transaction& txn, size_t key_bytes, size_t value_bytes) {
        return key_bytes <= kKeyBytesMax && value_bytes <= kValueBytesMax && !txn.read_only &&
               !txn.must_abort;
    }

    // --- changes of one record; the target stays latched. replace: value[offset, +old) -> fresh
    static Result<void> log_replace(BTree& tree, txn::Transaction& txn, Target& t, Slice key,
                                    unsigned offset, unsigned old_bytes, Slice fresh,
                                    uint16_t flags, ChangeRole role, LogKind kind, Lsn undo_next);
    static Result<void> log_set_ghost(BTree& tree, txn::Transaction& txn, Target& t, Slice key,
                                      bool ghost, ChangeRole role, LogKind kind, Lsn undo_next);
    enum class GapCheck : uint8_t { clear, changed, wait_above, wait_own };
    static Result<GapCheck> check_gap(BTree& tree, txn::LockManager& locks, txn::Transaction& txn,
                                      const Target& t, txn::LockName name, NextKey& next);
    static Result<void> insert_record(BTree& tree, txn::Transaction& txn, txn::LockName name,
                                      const SearchKey& key, Slice value, bool overflow,
                                      const Position* ahead = nullptr);
    // Whole new value over that of an existing live record. `flags` of payload::ReplaceFlags.
    // Leaves `t` empty and returns false if the leaf had to be split.
    static Result<bool> replace_value(BTree& tree, txn::Transaction& txn, Target& t, Slice key,
                                      Slice value, uint16_t flags);
    static void note_ghost(BTree& tree, const Page& leaf, Slice key);

    // --- btree_split.cc: makes room for `extra` bytes in the node of `level` that covers `key`; no
    // latch held.
    static Result<void> split(BTree& tree, Slice key, unsigned level, size_t extra);
    // true: the root is of `level` and has room already.
    static Result<bool> grow(BTree& tree, unsigned level, size_t extra);

    // --- btree_merge.cc
    // Removes ghosts without chains that nobody has locked from the leaf of `key`. False: there was
    // none.
    static Result<bool> remove_leaf_ghosts(BTree& tree, Slice key);
    static Result<void> merge(BTree& tree, Slice key, unsigned level);
    static Result<void> shrink_root(BTree& tree);
};

}  // namespace lockstep::sm
