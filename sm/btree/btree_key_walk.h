// btree_key_walk.h - the walk of many keys to their leaves and records, in step, in any indexes.
//
// Concepts   Each step runs for all keys before the next one. It prefetches the memory that the
//            next step touches: level-1 nodes; the entries of leaves there; latch words of leaves;
//            leaves; records. So the number of concurrent misses limits a walk, not the sum of
//            their delays. Leaves that are not in memory are read together.
//            Only the lines of a node that its search will touch are prefetched. The node above
//            tells where the key lies between its neighbours, and the tree's statistics tell how
//            many slots such a node has.
//            A walk locks nothing. What it found is a hint until the caller has validated it.
// Invariants KW-1 A page number counts only if the node that named it is valid afterwards.
//            LA-3 (latch.h) A look is validated before anything is concluded from it.
// Blocking   Starts page reads; waits for nothing.
// Source     O. Kocberber, B. Falsafi, B. Grot, "Asynchronous Memory Access Chaining", VLDB 2015
//            (there as a state machine). Groups in step: S. Chen et al., "Improving Hash Join
//            Performance through Prefetching", ICDE 2004.
#pragma once

#include <new>

#include "sm/btree/btree_node_search.h"
#include "sm/btree/btree_position.h"
#include "threads/base/unmade.h"

namespace lockstep::sm {

class KeyWalk {
public:
    static constexpr size_t kKeys = 16;     // whose misses overlap
    static constexpr size_t kKeyRoom = 48;  // bytes of a key; a longer one is not walked
    // Of a record's bytes, the lines that are prefetched.
    static constexpr size_t kRecordLines = 5;

    struct Look {
        BTree* tree;
        node::KeyView key;
        PageId leaf = kPageNone;  // kPageNone: the walk does not reach it
        uint32_t leaves_freed;
        uint32_t bytes;  // of the record
        bool for_change;
        // Set when the walk gets there.
        union {
            OptimisticPage parent;  // the level-1 node; without a page if the leaf is the root
        };
        union {
            BTree::Position pos;
        };
        Look(BTree& in, node::KeyView of, size_t record_bytes, bool change)
            : tree(&in),
              key(of),
              leaves_freed(in.leaves_freed()),
              bytes(static_cast<uint32_t>(record_bytes)),
              for_change(change) {}
        bool parent_valid() const { return parent.page == nullptr || parent.valid(); }
    };

    // Of what use the walk is: an operation is about to read the keys, or they were announced.
    enum class Use : uint8_t { now, ahead };
    explicit KeyWalk(Env& env, Use use = Use::now)
        : pool_(*env.pool), locks_(*env.locks), use_(use) {}

    // There is room, and the key is short enough.
    bool takes(Slice key) const { return size_ < kKeys && key.size() <= kKeyRoom; }
    // Prefetches the bucket of the key's lock.
    [[gnu::always_inline]] Look& add(BTree& tree, Slice key, size_t record_bytes, bool for_change);
    size_t size() const { return size_; }
    // Of the keys' locks.
    std::span<const txn::LockName> names() const { return {names_.items, size_}; }
    Look& operator[](size_t i) {
        DCHECK(i < size_);
        return looks_[i].look;
    }
    void clear() { size_ = 0; }

    // Finds the level-1 nodes and in them the leaves; asks for the leaves' lines and pages.
    // Adjacent keys share the way: the first and the last one differ in their last byte only, so
    // most of them are side by side in one leaf.
    void find_leaves();
    // Searches the leaves; asks for the records' lines. A look whose leaf changed loses it.
    void find_records();

private:
    // Memory of a look, which add() makes: a walk of few keys does not pay for all of them.
    union Room {
        Room() {}  // NOLINT(modernize-use-equals-default): that would be deleted
        Look look;
    };
    // Of the key before: its tree's root, the node above level 1 where its search ended, and the
    // child there. Keys that are walked together are often near one another. The heads between
    // which keys belong into that child were read under a look that was valid afterwards.
    struct Near {
        const BTree* tree = nullptr;
        OptimisticPage root;
        PageId child = kPageNone;
        const char* text = nullptr;  // of the key before
        // The node's prefix, its common bytes, and where the heads begin in a key.
        unsigned prefix = 0, head_at = 0;
        uint64_t common = 0, common_mask = 0;
        // Heads from `first` on, so many; none: the bounds are unknown.
        uint32_t first = 0;
        uint64_t heads = 0;

        // Does the key belong into the child, too? False may also mean that the heads do not tell.
        bool holds(const node::KeyView& key) const;
        void enter(const Page& node, unsigned slots, int slot, const node::KeyView& key);
    };
    // How the leaves of one tree are prefetched. Keys of one tree mostly stand together in a walk,
    // so its statistics are read once.
    struct LeafShape {
        const BTree* tree = nullptr;
        unsigned slots = 0;
        unsigned lines = 0;  // of the slots, if they are so few that all are prefetched; else 0
        void set(BTree& of);
    };
    // How a key's level-1 node was found.
    enum class Route : uint8_t { lost, own, shared };  // shared: with the key before

    [[gnu::always_inline]] bool find_level_one(Look& look, PageId& next, Near& near, bool share);
    [[gnu::always_inline]] bool fix_parent(Look& look, PageId id) const;
    [[gnu::always_inline]] int name_leaf(size_t i);
    void name_tied_leaves(uint32_t tied, const unsigned* slots);
    [[gnu::always_inline]] bool fix_leaf(Look& look, const BTree*& noted) const;
    void ask_for_inner(const Look& look, PageId id, unsigned share) const;
    void ask_for_leaves();
    [[gnu::always_inline]] bool ask_for_leaf(size_t i, LeafShape& shape) const;
    void read_leaves(std::span<const PageId> missing);
    bool are_adjacent() const;
    void find_leaves_singly();
    [[gnu::always_inline]] bool find_record(Look& look, const BTree*& noted) const;
    [[gnu::always_inline]] static void find_next_record(Look& look, const Look& before);
    static void ask_for_record(const Look& look);
    void find_adjacent_records();
    void find_records_ahead();

    BufferPool& pool_;
    txn::LockManager& locks_;
    const Use use_;
    size_t size_ = 0;
    bool adjacent_ = false;  // see find_leaves()
    Unmade<txn::LockName, kKeys> names_;
    Room looks_[kKeys];
    unsigned shares_[kKeys];  // where in the leaf the search will end, see node::share_behind()
    char text_[kKeys][kKeyRoom + 16];
};

inline KeyWalk::Look& KeyWalk::add(BTree& tree, Slice key, size_t record_bytes, bool for_change) {
    DCHECK(takes(key));
    char* const text = text_[size_];
    node::put_key(text, key);
    const node::KeyView view(text, key.size());
    const size_t bytes = std::min(record_bytes, kRecordLines * kCacheLineBytes);
    const txn::LockName name = view.lock_name(tree.id());
    new (&names_.items[size_]) txn::LockName(name);
    locks_.prefetch(name);
    return *new (&looks_[size_++].look) Look(tree, view, bytes, for_change);
}

}  // namespace lockstep::sm
