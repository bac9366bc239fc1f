// btree_key_walk.cc - the steps of a walk.
#include "sm/btree/btree_key_walk.h"

#include <bit>

#include "sm/btree/btree_descent.h"
#include "threads/base/hints.h"

namespace lockstep::sm {

using namespace node;

namespace {

// A node's slots up to this many lines are prefetched whole.
constexpr unsigned kFewLines = 5;
// Of a larger node: around the place where the search is expected to end.
constexpr unsigned kKeyGuessAhead = 64, kKeyGuessAheadInner = 256;

inline void prefetch_bytes(const char* from, const char* to) {
    for (from -= reinterpret_cast<uintptr_t>(from) % kCacheLineBytes; from < to;
         from += kCacheLineBytes)
        prefetch_line(from);
}
// The same for `lines` from `at` on, at most six; without a loop.
[[gnu::always_inline]] inline void prefetch_few(const char* at, size_t lines) {
    DCHECK(lines <= 6);
    switch (lines) {
        default: prefetch_line(at + 5 * kCacheLineBytes); [[fallthrough]];
        case 5: prefetch_line(at + 4 * kCacheLineBytes); [[fallthrough]];
        case 4: prefetch_line(at + 3 * kCacheLineBytes); [[fallthrough]];
        case 3: prefetch_line(at + 2 * kCacheLineBytes); [[fallthrough]];
        case 2: prefetch_line(at + kCacheLineBytes); [[fallthrough]];
        case 1: prefetch_line(at); [[fallthrough]];
        case 0: break;
    }
}

inline unsigned slots_end(unsigned count) {
    return std::min<unsigned>(kSlotsAt + count * unsigned{sizeof(Slot)}, kPageBytes);
}
inline bool has_few_lines(unsigned count) {
    return slots_end(count) <= kFewLines * kCacheLineBytes;
}
inline unsigned lines_of(unsigned bytes) {
    return static_cast<unsigned>((bytes + kCacheLineBytes - 1) / kCacheLineBytes);
}

// What a search in a node of `count` slots touches: the header, the first and the last slot, and
// the slots around `share` of the whole.
[[gnu::always_inline]] inline void prefetch_node(const Page& page, unsigned count, unsigned share,
                                                 unsigned around) {
    const char* const at = chars(page);
    const unsigned end = slots_end(count);
    if (has_few_lines(count)) return prefetch_few(at, lines_of(end));
    if (share == kShareUnknown)
        return prefetch_bytes(at, at + std::min<unsigned>(end, 2 * kFewLines * kCacheLineBytes));
    static_assert(kSlotsAt == kCacheLineBytes);
    prefetch_few(at, 2);
    const unsigned guess = kSlotsAt + (end - kSlotsAt) * share / kShareWhole;
    prefetch_bytes(at + guess - std::min(around, guess), at + std::min(guess + around, end));
    prefetch_line(at + end - sizeof(Slot));
}

// Does the key lie between the keys of `slot` and of the next one? It may lie outside of the node's
// fences. False may also mean that it lies at the node's end, or that the common bytes do not tell.
inline bool between_slots(const Page& p, int slot, const KeyView& key) {
    const NodeHeader& h = header(p);
    const Slice shared = prefix(p);
    const size_t cut = shared.size();
    if (key.size() < cut || !same_bytes(shared.data(), key.data(), cut)) return false;
    const unsigned skip = h.common_bytes & 7u, other = 56 - 8 * skip;
    const auto low = static_cast<unsigned>(slot), high = low + 1;
    if (slot < 0 || high >= count(p)) return false;
    if ((key.eight(cut) ^ load<uint64_t>(h.common)) << other << 8) return false;
    const uint32_t head = __builtin_bswap32(key.four(cut + skip));
    const uint32_t below = slots(p)[low].head, above = slots(p)[high].head;
    if (below < head && head < above) return true;
    if (below > head || head > above) return false;
    const KeyTail tail(key, cut, skip + 4);
    return (below < head || tail.order(p, low) <= 0) && (head < above || tail.order(p, high) > 0);
}

// Do the keys have equal bytes but for the last one?
inline bool same_but_end(const KeyView& a, const KeyView& b) {
    const size_t bytes = a.size();
    return bytes > 1 && bytes == b.size() && same_bytes(a.data(), b.data(), bytes - 1);
}
inline uint8_t end_of(const KeyView& key) {
    return static_cast<uint8_t>(key.data()[key.size() - 1]);
}
// `low` and `high` have equal bytes but for the last one.
inline bool is_between(const KeyView& key, const KeyView& low, const KeyView& high) {
    DCHECK(same_but_end(low, high));
    return same_but_end(key, low) && end_of(low) <= end_of(key) && end_of(key) <= end_of(high);
}

// The keys that search_ties() reads first.
void ask_for_ties(const Page& page, unsigned slot) {
    const Slot* const all = slots(page);
    const unsigned end = std::min(count(page), slot + kTiesNear);
    for (unsigned i = slot; i < end && all[i].head == all[slot].head; ++i)
        prefetch_line(chars(page) + all[i].at);
}

}  // namespace

void KeyWalk::ask_for_inner(const Look& look, PageId id, unsigned share) const {
    DCHECK(look.tree != nullptr && (share == kShareUnknown || share <= kShareWhole));
    if (const Page* page = pool_.resident(id))
        prefetch_node(*page, look.tree->stats().inner_slots.load(std::memory_order_relaxed), share,
                      kKeyGuessAheadInner);
}

// Notes where the search for `key` ended: in the child behind `slot`, or in first_child if -1.
// The first and the last child are also bounded by the node's fences. Those are not compared, so
// such a child gets no bounds, except in a root, whose fences are infinite.
inline void KeyWalk::Near::enter(const Page& node, unsigned slots, int slot, const KeyView& key) {
    DCHECK(slot >= -1 && slot < static_cast<int>(kSlotsMax) && slots <= kSlotsMax);
    const NodeHeader& h = header(node);
    const auto above = static_cast<unsigned>(slot + 1);
    const bool lowest = slot < 0, highest = above >= slots, is_root = &node == root.page;
    const unsigned skip = h.common_bytes & 7u;
    text = key.data();
    prefix = h.prefix;
    head_at = prefix + skip;
    common = load<uint64_t>(h.common);
    common_mask = (uint64_t{1} << 8 * skip) - 1;
    const Slot* const all = node::slots(node);
    const uint64_t from = lowest ? 0 : uint64_t{all[slot].head} + 1,
                   to_head = highest ? uint64_t{1} << 32 : all[above].head;
    first = static_cast<uint32_t>(from);
    const bool bounded = (is_root || (!lowest && !highest)) && prefix <= key.size();
    heads = bounded && to_head > from ? to_head - from : 0;
    DCHECK(heads <= uint64_t{1} << 32);
}

inline bool KeyWalk::Near::holds(const KeyView& key) const {
    DCHECK(head_at - prefix <= 7 && (heads == 0 || text != nullptr));
    if (prefix != 0 && (key.size() < prefix || !same_bytes(key.data(), text, prefix))) return false;
    if ((key.eight(prefix) ^ common) & common_mask) return false;
    return __builtin_bswap32(key.four(head_at)) - first < heads;
}

inline void KeyWalk::LeafShape::set(BTree& of) {
    tree = &of;
    slots = of.stats().leaf_slots.load(std::memory_order_relaxed);
    lines = has_few_lines(slots) ? lines_of(slots_end(slots)) : 0;
    DCHECK(lines <= kFewLines);
}

// Walks to the node above level 1, which the caches mostly have, and asks for the level-1 node,
// whose number becomes `next`. False: a node is not in memory, or changes. look.parent is that
// node, or the level-1 node if that is the root; then `next` is kPageNone.
// `share`: further keys may belong into the same child.
inline bool KeyWalk::find_level_one(Look& look, PageId& next, Near& near, bool share) {
    DCHECK(look.leaf == kPageNone);
    const BTree& tree = *look.tree;
    next = kPageNone;
    if (near.tree != &tree) {
        near.child = kPageNone;
        near.prefix = near.head_at = 0;
        if (!pool_.try_fix_optimistic(tree.root(), near.root) ||
            near.root.page->header.object != tree.id().value) [[unlikely]]
            return false;
    }
    near.heads = 0;
    OptimisticPage at = near.root;
    for (unsigned level = at.page->header.level; level != 1; --level) {
        if (level == 0) [[unlikely]] {  // the root is the leaf
            look.leaf = tree.root();
            look.parent = {};
            return false;
        }
        const Page& page = *at.page;
        const int slot = child_slot(page, look.key);
        next = child_at(page, slot);
        if (level == 2) {
            // Few nodes stay in the caches, and the key before has asked for this one.
            const unsigned n = count(page);
            const bool ask = next != near.child && n > BTree::Descent::kCachedInner;
            const unsigned part = ask ? share_behind(page, slot, look.key) : 0;
            near.child = next;
            if (share) near.enter(page, n, slot, look.key);
            if (!at.valid()) [[unlikely]]
                return false;
            if (ask) ask_for_inner(look, next, part);
            break;
        }
        OptimisticPage child;
        const bool here = pool_.try_fix_optimistic(next, child);
        if (!at.valid() || !here) [[unlikely]]
            return false;
        at = child;
    }
    near.tree = &tree;
    look.parent = at;
    return true;
}

// From the node above to the level-1 node `id`; look.parent becomes that.
inline bool KeyWalk::fix_parent(Look& look, PageId id) const {
    DCHECK(id != kPageNone);
    OptimisticPage child;
    const bool here = pool_.try_fix_optimistic(id, child);
    if (!look.parent.valid() || !here) [[unlikely]]  // KW-1
        return false;
    look.parent = child;
    return is_node_of(*child.page, look.tree->id(), 1);
}

// The leaf of a key whose level-1 node is found. Returns its slot there.
inline int KeyWalk::name_leaf(size_t i) {
    Look& look = looks_[i].look;
    DCHECK(look.parent.page != nullptr && look.parent.word != nullptr);
    const Page& page = *look.parent.page;
    const int slot = child_slot(page, look.key);
    look.leaf = child_at(page, slot);
    shares_[i] = share_behind(page, slot, look.key);
    BTree::Descent::note_slots(look.tree->stats().inner_slots, count(page));
    return slot;
}

// The leaves of the looks in `tied`, whose heads are at these slots of their level-1 nodes.
[[gnu::noinline]] void KeyWalk::name_tied_leaves(uint32_t tied, const unsigned* slots) {
    DCHECK(tied != 0 && tied >> size_ == 0);
    for (; tied != 0; tied &= tied - 1) {
        const auto i = static_cast<size_t>(std::countr_zero(tied));
        Look& look = looks_[i].look;
        const Page& page = *look.parent.page;
        bool exact;
        const unsigned found = find_tail(page, look.key, slots[i], exact);
        const int slot = static_cast<int>(found) - !exact;
        look.leaf = child_at(page, slot);
        shares_[i] = share_behind(page, slot, look.key);
        prefetch_line(pool_.word_address(look.leaf));
    }
}

bool KeyWalk::are_adjacent() const {
    if (size_ < 2) return false;
    const Look &first = looks_[0].look, &last = looks_[size_ - 1].look;
    return first.tree == last.tree && same_but_end(first.key, last.key);
}

void KeyWalk::find_leaves() {
    DCHECK(size_ <= kKeys && threads::current()->latch_depth == 0);
    adjacent_ = are_adjacent();
    if (adjacent_ || size_ == 1) return find_leaves_singly();
    Route routes[kKeys];
    PageId level_one[kKeys];
    Near near;
    for (size_t i = 0; i < size_; ++i) {
        Look& look = looks_[i].look;
        if (near.tree == look.tree && near.holds(look.key)) {
            routes[i] = Route::shared;
            continue;
        }
        const bool share = i + 1 < size_ && looks_[i + 1].look.tree == look.tree;
        if (find_level_one(look, level_one[i], near, share)) [[likely]] {
            routes[i] = Route::own;
        } else {
            routes[i] = Route::lost;
            near.tree = nullptr;  // the next key does not share a descent that fails
        }
    }
    const Look* before = nullptr;  // the last one, if it is at its level-1 node
    const char* numbers[kKeys];    // where that of the leaf stands; null: there is none yet
    unsigned heads[kKeys];         // slots of the tied ones
    uint32_t tied = 0;
    LeafShape shape;
    for (size_t i = 0; i < size_; ++i) {
        Look& look = looks_[i].look;
        numbers[i] = nullptr;
        if (routes[i] == Route::shared) [[likely]] {
            if (before == nullptr) [[unlikely]]
                continue;
            look.parent = before->parent;
        } else {
            before = nullptr;
            if (routes[i] == Route::lost ||
                (level_one[i] != kPageNone && !fix_parent(look, level_one[i]))) [[unlikely]]
                continue;
            BTree::Descent::note_slots(look.tree->stats().inner_slots, count(*look.parent.page));
        }
        before = &look;
        if (shape.tree != look.tree) shape.set(*look.tree);
        const Page& page = *look.parent.page;
        const unsigned n = count(page);
        uint32_t head;
        bool equal;
        const unsigned behind = find_head(page, n, look.key, head, equal);
        if (equal) [[unlikely]] {
            ask_for_ties(page, behind);
            heads[i] = behind;
            tied |= 1u << i;
            continue;
        }
        const int slot = static_cast<int>(behind) - 1;
        shares_[i] = shape.lines != 0 ? kShareUnknown : share_between(page, n, slot, head);
        numbers[i] = child_address(page, slot);
        prefetch_line(numbers[i]);
    }
    for (size_t i = 0; i < size_; ++i) {
        if (numbers[i] == nullptr) continue;
        PageId& leaf = looks_[i].look.leaf;
        leaf = PageId{load<uint32_t>(numbers[i])};
        prefetch_line(pool_.word_address(leaf));
    }
    if (tied != 0) name_tied_leaves(tied, heads);
    ask_for_leaves();
}

// Few leaves, or one: there are no misses to overlap.
[[gnu::noinline]] void KeyWalk::find_leaves_singly() {
    Near near;
    PageId missing[kKeys];
    size_t n = 0;
    const Look* before = nullptr;
    const KeyView& last = looks_[size_ - 1].look.key;
    int slot = -1;            // of its leaf in its level-1 node
    bool holds_last = false;  // the last key belongs into that leaf, too
    LeafShape shape;
    for (size_t i = 0; i < size_; ++i) {
        Look& look = looks_[i].look;
        if (before != nullptr && before->tree == look.tree &&
            ((holds_last && is_between(look.key, before->key, last)) ||
             between_slots(*before->parent.page, slot, look.key))) {
            look.parent = before->parent;
            look.leaf = before->leaf;
            continue;
        }
        before = nullptr;
        PageId node;
        if (!find_level_one(look, node, near, false) ||
            (node != kPageNone && !fix_parent(look, node))) [[unlikely]] {
            near.tree = nullptr;
            continue;
        }
        slot = name_leaf(i);
        if (!ask_for_leaf(i, shape)) [[unlikely]]
            missing[n++] = look.leaf;
        before = &look;
        holds_last = adjacent_ && same_but_end(look.key, last) &&
                     between_slots(*look.parent.page, slot, last);
    }
    read_leaves({missing, n});
}

// False: the leaf must be read.
inline bool KeyWalk::ask_for_leaf(size_t i, LeafShape& shape) const {
    const Look& look = looks_[i].look;
    if (shape.tree != look.tree) shape.set(*look.tree);
    const Page* const page = pool_.resident(look.leaf);
    if (page == nullptr) [[unlikely]]
        return !look.parent_valid();  // KW-1
    if (shape.lines != 0) prefetch_few(chars(*page), shape.lines);
    else
        prefetch_node(*page, shape.slots, look.parent.page != nullptr ? shares_[i] : kShareUnknown,
                      kKeyGuessAhead);
    // The fences: a place ahead is checked by them (BT-6).
    if (use_ == Use::ahead) prefetch_line(chars(*page) + kPageBytes - kCacheLineBytes);
    return true;
}

void KeyWalk::read_leaves(std::span<const PageId> missing) {
    // A page that is needed now is not read with a read-ahead's low priority if it is the only one.
    if (missing.size() > (use_ == Use::now ? 1 : 0)) [[unlikely]]
        pool_.read_ahead(missing);
}

void KeyWalk::ask_for_leaves() {
    PageId missing[kKeys];
    size_t n = 0;
    LeafShape shape;
    for (size_t i = 0; i < size_; ++i) {
        const PageId leaf = looks_[i].look.leaf;
        if (leaf != kPageNone && !ask_for_leaf(i, shape)) [[unlikely]]
            missing[n++] = leaf;
    }
    read_leaves({missing, n});
}

// Fixes the leaf, and asks for what a change of it touches. False: the look has lost it. `noted`:
// the tree whose statistics have the last leaf's slots.
inline bool KeyWalk::fix_leaf(Look& look, const BTree*& noted) const {
    BTree::Position& pos = look.pos;
    pos.id = look.leaf;
    pos.leaves_freed = look.leaves_freed;
    if (!pool_.try_fix_optimistic(look.leaf, pos.at) || !look.parent_valid() ||
        !is_node_of(*pos.at.page, look.tree->id(), 0)) [[unlikely]] {
        look.leaf = kPageNone;
        return false;
    }
    const Page& page = *pos.at.page;
    if (noted != look.tree) {
        BTree::Descent::note_slots(look.tree->stats().leaf_slots, count(page));
        noted = look.tree;
    }
    if (look.for_change) {
        pool_.prefetch_for_change(pos.at);
        prefetch_line(low(page).data());
    }
    return true;
}

inline bool KeyWalk::find_record(Look& look, const BTree*& noted) const {
    if (!fix_leaf(look, noted)) [[unlikely]]
        return false;
    bool found;  // both results stay in registers
    look.pos.slot = find(*look.pos.at.page, look.key, found);
    look.pos.found = found;
    return true;
}

// `before`: a look at the same leaf, which the same look at the level-1 node has named.
inline void KeyWalk::find_next_record(Look& look, const Look& before) {
    DCHECK(look.leaf == before.leaf && look.parent.snapshot == before.parent.snapshot);
    BTree::Position& pos = look.pos;
    pos = before.pos;
    pos.leaves_freed = look.leaves_freed;
    const Page& page = *pos.at.page;
    pos.slot += pos.found;
    pos.found = pos.slot < count(page) && key_equals(page, pos.slot, look.key);
    if (!pos.found) pos.slot = find(page, look.key, pos.found);
}

inline void KeyWalk::ask_for_record(const Look& look) {
    DCHECK(look.bytes <= kRecordLines * kCacheLineBytes);
    if (!look.pos.found) return;
    // Its length is in the record: not to be read now.
    const Page& page = *look.pos.at.page;
    prefetch_few(chars(page) + slots(page)[look.pos.slot].at, look.bytes / kCacheLineBytes + 1);
}

void KeyWalk::find_records() {
    if (adjacent_) return find_adjacent_records();
    if (use_ == Use::ahead && size_ > 1) return find_records_ahead();
    const BTree* noted = nullptr;
    for (size_t i = 0; i < size_; ++i) {
        Look& look = looks_[i].look;
        if (look.leaf == kPageNone || !find_record(look, noted)) [[unlikely]]
            continue;
        ask_for_record(look);
    }
}

// Asks for records before their keys are compared: most heads are those of one key. For an
// operation's own walk a second pass gained nothing.
[[gnu::noinline]] void KeyWalk::find_records_ahead() {
    bool tied[kKeys];
    const BTree* noted = nullptr;
    for (size_t i = 0; i < size_; ++i) {
        Look& look = looks_[i].look;
        tied[i] = false;
        if (look.leaf == kPageNone || !fix_leaf(look, noted)) [[unlikely]]
            continue;
        // Until the second pass, pos.found says that the slot's head is that of the key.
        look.pos.slot = find_head(*look.pos.at.page, look.key, look.pos.found);
        tied[i] = look.pos.found && ties(*look.pos.at.page, look.pos.slot);
        if (tied[i]) ask_for_ties(*look.pos.at.page, look.pos.slot);
        else ask_for_record(look);
    }
    for (size_t i = 0; i < size_; ++i) {
        Look& look = looks_[i].look;
        if (look.leaf == kPageNone || !look.pos.found) continue;
        look.pos.slot = find_tail(*look.pos.at.page, look.key, look.pos.slot, look.pos.found);
        if (tied[i]) ask_for_record(look);
    }
}

[[gnu::noinline]] void KeyWalk::find_adjacent_records() {
    const Look* before = nullptr;  // the last one, if its leaf is as it was
    const BTree* noted = nullptr;
    for (size_t i = 0; i < size_; ++i) {
        Look& look = looks_[i].look;
        const bool same = before != nullptr && before->leaf == look.leaf &&
                          before->parent.page == look.parent.page &&
                          before->parent.snapshot == look.parent.snapshot;
        if (same) find_next_record(look, *before);
        else if (look.leaf == kPageNone || !find_record(look, noted)) [[unlikely]] {
            before = nullptr;
            continue;
        }
        before = &look;
        ask_for_record(look);
    }
}

}  // namespace lockstep::sm
