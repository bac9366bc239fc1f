// btree_descent.h - the optimistic descent from the root to a node, with its CTX points.
//
// Concepts   The descent is inlined where an operation begins, so that all points of the operation
//            stand in one function (threads/steps/ctx.h). All other callers use btree_search.cc.
// Invariants The order rule: the parent is validated before its child's number is used for a
//            prefetch. After the switch the child's version is read first, then the parent is
//            validated again. So a descent starts over if its path changed while other threads ran.
// Blocking   Parks on page misses; may switch at its points. No latch may be held.
#pragma once

#include "sm/btree/btree_impl.h"
#include "threads/steps/ctx.h"

namespace lockstep::sm {

// Where a descent expects its leaf. uncached: it prefetched the leaf while other threads ran.
enum class Expect : uint8_t { cached, uncached };

struct BTree::Descent {
    using Uncached = Stats::Uncached;

    // Nodes with at most so many siblings stay in the caches, with their latch words: no switch for
    // them.
    static constexpr unsigned kCachedInner = 32, kCachedLeaves = 8;
    static bool worth_a_switch(const Page& parent) {
        return parent.header.level == 1
                   ? node::count(parent) > kCachedLeaves
                   : parent.header.level == 2 && node::count(parent) > kCachedInner;
    }
    // Notes the fill of a level-1 node: the next one is expected to be as full.
    static void note_inner(Stats& stats, const Page& page) {
        const unsigned n = node::count(page),
                       seen = stats.inner_slots.load(std::memory_order_relaxed);
        if (n > seen + 32 || n + 32 < seen) stats.inner_slots.store(n, std::memory_order_relaxed);
    }
    // Of a node that a walk has met: walks prefetch as much of the next one. All workers read it,
    // so a few slots more do not change it.
    static void note_slots(std::atomic<uint32_t>& seen, unsigned slots) {
        DCHECK(slots <= node::kSlotsMax);
        const unsigned before = seen.load(std::memory_order_relaxed);
        if (slots > before + 16 || 4 * slots < before) seen.store(slots, std::memory_order_relaxed);
    }
    static void note_uncached(Stats& stats, Uncached uncached) {
        if (stats.uncached.load(std::memory_order_relaxed) < uncached)
            stats.uncached.store(uncached, std::memory_order_relaxed);
    }

    // Prefetches the leaf while the team runs.
    [[gnu::always_inline]] static void pass_on_for_leaf(const BufferPool& pool, const Stats& stats,
                                                        PageId leaf) {
        if (stats.uncached.load(std::memory_order_relaxed) == Uncached::leaves_and_words) {
            if (threads::worker_local.prefetch) prefetch_line(pool.word_address(leaf));
            CTX(btree_word);
        }
        if (threads::worker_local.prefetch) prefetch_leaf(pool, leaf);
        CTX(btree_leaf);
    }
    // --- btree_search.cc
    [[gnu::noinline]] static void pass_on_for_leaf_apart(const BufferPool& pool, const Stats& stats,
                                                         PageId leaf);
    [[gnu::noinline]] static void pass_on_for_inner(BufferPool& pool, const Stats& stats,
                                                    PageId node, unsigned share);
    [[gnu::noinline]] static void prefetch_leaf(const BufferPool& pool, PageId leaf);
    // Of a page on a valid path that is no node of the tree: no_such_object if the root is not
    // either, else corrupt_page.
    [[gnu::cold, gnu::noinline]] static std::unexpected<Error> wrong_node(BufferPool& pool,
                                                                          ObjectId object,
                                                                          PageId root, PageId id);

    // From a node, which should be of `level`, to its child on the descent to `key`. False: the
    // node changed, so the descent starts over.
    template <bool kPointsInLine>
    [[gnu::always_inline]] static Result<bool> step_down(BufferPool& pool, ObjectId object,
                                                         PageId root, Stats& stats,
                                                         const node::SearchKey& key,
                                                         BTree::Side side, unsigned level,
                                                         BTree::Position& at, Expect& expected) {
        const Page& page = *at.at.page;
        const int slot = side == BTree::Side::covering ? node::child_slot(page, key)
                                                       : node::child_slot_below(page, key);
        const PageId next = node::child_at(page, slot);
        // Upper levels stay in the caches. Below them, the child's lines are prefetched while the
        // team runs.
        if (threads::worker_local.points && worth_a_switch(page)) {
            const bool leaf = page.header.level == 1;
            const unsigned share = leaf ? 0 : node::share_behind(page, slot, key);
            if (!at.valid()) return false;
            note_uncached(stats, leaf ? Uncached::leaves : Uncached::leaves_and_words);
            if (leaf) {
                expected = Expect::uncached;
                note_inner(stats, page);
                if constexpr (kPointsInLine) pass_on_for_leaf(pool, stats, next);
                else pass_on_for_leaf_apart(pool, stats, next);
            } else {
                pass_on_for_inner(pool, stats, next, share);
            }
        }
        OptimisticPage child;
        if (!pool.try_fix_optimistic(next, child)) [[unlikely]] {
            // Validate before anything is read for a page number that may be invalid.
            const bool is_node = is_node_of(page, object, level);
            if (!at.valid()) return false;
            if (!is_node) return wrong_node(pool, object, root, at.id);
            Result<OptimisticPage> seen_page = pool.fix_optimistic(next);
            // Validate first: an error on a page that is no longer in this tree does not count.
            if (!at.valid()) return false;
            if (!seen_page) return std::unexpected(seen_page.error());
            child = *seen_page;
        } else if (!at.valid()) [[unlikely]] {
            return false;
        }
        at.at = child;
        at.id = next;
        return true;
    }

    // Sets `out` to the node of `level` on the descent to `key`, unvalidated. A lower tree gives
    // its root with its own level. Errors: no_such_object if the root belongs to another object,
    // corrupt_page if the descent ends at a page that is no node of this tree and level.
    template <bool kPointsInLine = false>
    [[gnu::always_inline]] static Result<Expect> walk(BufferPool& pool, ObjectId object,
                                                      PageId root, Stats& stats,
                                                      const node::SearchKey& key, BTree::Side side,
                                                      unsigned level, BTree::Position& out) {
        for (Expect expected = Expect::cached;;) {
            out.id = root;
            if (!pool.try_fix_optimistic(root, out.at)) [[unlikely]]
                out.at = TRY(pool.fix_optimistic(root));
            // The level is counted, not read from each node: a wrong page may lead back up.
            for (unsigned here = out.at.page->header.level;; --here) {
                if (here <= level) {
                    if (is_node_of(*out.at.page, object, here)) [[likely]]
                        return expected;
                    if (out.at.valid()) return wrong_node(pool, object, root, out.id);
                    break;
                }
                if (!TRY(step_down<kPointsInLine>(pool, object, root, stats, key, side, here, out,
                                                  expected))) [[unlikely]]
                    break;
            }
            stats.restarts.fetch_add(1, std::memory_order_relaxed);
        }
    }

    // Before the lock on `name` is requested: finds and searches the key's leaf while the lock's
    // bucket is being loaded. The caller validates the result again under the lock. No latch may be
    // held. False: the leaf was not found yet.
    template <bool kInTeam>
    [[gnu::always_inline]] static bool locate_ahead(BTree& tree, txn::Transaction& txn,
                                                    const node::SearchKey& key, txn::LockName name,
                                                    BTree::Position& out, Expect& expected) {
        BufferPool& pool = *tree.env_.pool;
        expected = Expect::cached;
        if (!kInTeam || threads::worker_local.prefetch) tree.env_.locks->prefetch(name);
        const LeafHint& hint = hint_of(txn, tree.id_);
        // The transaction's last leaf, or a place that it has announced.
        if ((hint.object == tree.id_ && hint.score != 0) ||
            (!kInTeam && local_of(txn).places != nullptr)) {
            if constexpr (kInTeam) CTX(lock_bucket);
            return tree.locate(txn, key, false, out).has_value();
        }
        out.leaves_freed = tree.leaves_freed();
        const Result<Expect> walked = walk<kInTeam>(pool, tree.id_, tree.root_, tree.stats_, key,
                                                    BTree::Side::covering, 0, out);
        // Errors without a lock are ignored: the index may have been dropped (CA-2).
        if (!walked) [[unlikely]]
            return false;
        expected = *walked;
        out.slot = node::find(*out.at.page, key, out.found);
        return true;
    }
};

}  // namespace lockstep::sm
