// btree_impl.h - what the files of the B-tree share: positions, descents, latching a leaf, changes,
// locks' names.
//
// Concepts   Position: an optimistic fix of a leaf with the place of a key in it. It holds nothing,
//            so valid() must succeed before anything read from it is trusted.
//            Target: the same with the leaf exclusively latched.
// Blocking   Descend and locate park only on page misses; latch_for also parks for the latch. The
//            caller may hold no latch.
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
// Times a leaf is split or cleaned for one record: other threads took the space, or the leaf is
// damaged.
inline constexpr unsigned kRoomTriesMax = 1000;

struct BTree::Ops {
    using SearchKey = node::SearchKey;
    struct Position {
        OptimisticPage at;
        PageId id;
        unsigned slot = 0;
        uint32_t leaves_freed = 0;  // before the fix
        bool found = false;
        bool valid() const { return at.valid(); }
    };
    struct Target {
        ExclusivePage page;
        PageId id;
        unsigned slot = 0;
        uint32_t leaves_freed = 0;
        bool found = false;

        // Before a record of this leaf changes.
        void assert_state() const {
            node::assert_state(*page);
            DCHECK(node::is_leaf(*page) && slot <= node::count(*page));
            DCHECK(!found || slot < node::count(*page));
        }
    };
    // The node that covers a key, or the one with the largest keys below it.
    enum class Side : uint8_t { covering, below };

    // --- btree_search.cc
    // Node of `level` on the descent to `key`; unvalidated. A lower tree gives its root with its
    // own level.
    static Result<void> descend(BTree& tree, const SearchKey& key, Side side, unsigned level,
                                Position& out);
    // Rightmost leaf.
    static Result<void> descend_last(BTree& tree, Position& out);
    // Leaf that covers `key`, searched; through the transaction's hint if it looks useful.
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
        DCHECK(leaf != kPageNone && slot <= node::kSlotsMax);
        DCHECK(hint.score >= 0 && hint.score <= 4);
        hint.store = tree.id_;
        hint.page = leaf;
        hint.slot = static_cast<uint16_t>(slot);
        hint.leaves_freed = leaves_freed;
    }
    // Takes a fresh version of a leaf that was searched before a switch, and searches again if the
    // leaf has changed (LA-3). So a page that changes often costs a second search, but never
    // starves a reader. False: it is no longer the leaf for `key`.
    [[gnu::noinline]] static bool revalidate(BufferPool& pool, const BTree& tree,
                                             const SearchKey& key, Position& pos);
    // After failed validations: waits for a shared latch on the leaf that covers `key` (or lies
    // below it), so the next read is valid.
    [[gnu::cold, gnu::noinline]] static Result<bool> latch_leaf_shared(BTree& tree,
                                                                       const SearchKey& key,
                                                                       Side side, Position& out,
                                                                       SharedPage& hold);
    // Leaf that covers `key`, exclusively latched and searched; that of `ahead` if it is still
    // valid.
    static Result<void> latch_for(BTree& tree, txn::Transaction& txn, const SearchKey& key,
                                  bool hint_first, Target& out, const Position* ahead = nullptr);
    // Called after `tries` failures in a row; each means a concurrent writer. After kSpinRetries,
    // sleeps 1 ms per try in case the writer's kernel thread was preempted. After kRetriesMax
    // (about 2 s), returns corrupt_page: the page's fences must be wrong.
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
    // Unvalidated: a leaf, of the tree that the caller descended, whose fences cover the key.
    static bool is_leaf_for(const Page& page, const SearchKey& key) {
        return page.kind() == PageKind::btree && page.header.level == 0 && node::covers(page, key);
    }
    static bool is_node_for(const BTree& tree, const Page& page, unsigned level,
                            const SearchKey& key) {
        return page.kind() == PageKind::btree && page.header.object == tree.id_.value &&
               page.header.level == level && node::covers(page, key);
    }

    // Name of the key that follows slot `slot` - 1 of a leaf, for gap locks. If that key is in the
    // right sibling, the sibling's snapshot is in the result. False: the page changed during the
    // read. `at` is the leaf's snapshot if it is not latched; the caller validates it again at the
    // end.
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
    // Replaces the whole value of a live record. `flags` of payload::ReplaceFlags. Leaves `t` empty
    // and returns false if the leaf had to be split.
    static Result<bool> replace_value(BTree& tree, txn::Transaction& txn, Target& t, Slice key,
                                      Slice value, uint16_t flags);
    static void note_ghost(BTree& tree, const Page& leaf, Slice key);

    // --- btree_split.cc: makes `extra` bytes free in the node of `level` that covers `key`; the
    // caller holds no latch.
    static Result<void> split(BTree& tree, Slice key, unsigned level, size_t extra);
    // True: the root is of `level` and has enough space already.
    static Result<bool> grow(BTree& tree, unsigned level, size_t extra);

    // --- btree_merge.cc
    // Removes unlocked ghosts without chains from the leaf of `key`. False: there was none.
    static Result<bool> remove_leaf_ghosts(BTree& tree, Slice key);
    static Result<void> merge(BTree& tree, Slice key, unsigned level);
    static Result<void> shrink_root(BTree& tree);
};

}  // namespace lockstep::sm
