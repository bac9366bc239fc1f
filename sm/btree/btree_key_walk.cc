// btree_key_walk.cc - the steps of a walk.
#include "sm/btree/btree_key_walk.h"

#include "sm/btree/btree_impl.h"
#include "threads/base/hints.h"
#include "threads/base/mutants.h"

namespace lockstep::sm {

using namespace node;

namespace {

// A node's slots up to this many lines are prefetched whole.
constexpr unsigned kFewLines = 5;
// Of a larger node: around the place where the search is expected to end.
constexpr unsigned kGuessAhead = 64, kGuessAheadInner = 256;

inline void prefetch_bytes(const char* from, const char* to) {
    for (from -= reinterpret_cast<uintptr_t>(from) % kCacheLineBytes; from < to;
         from += kCacheLineBytes)
        prefetch_line(from);
}

// What a search in a node of `count` slots touches: the header, the first and the last slot, and
// the slots around `share` of the whole.
inline void prefetch_node(const Page& page, unsigned count, unsigned share, unsigned around) {
    const char* const at = chars(page);
    const unsigned end = std::min<unsigned>(kSlotsAt + count * unsigned{sizeof(Slot)}, kPageBytes);
    if (share == kShareUnknown || end <= kFewLines * kCacheLineBytes)
        return prefetch_bytes(at, at + std::min<unsigned>(end, 2 * kFewLines * kCacheLineBytes));
    prefetch_bytes(at, at + kSlotsAt + sizeof(Slot));
    const unsigned guess = kSlotsAt + (end - kSlotsAt) * share / kShareWhole;
    prefetch_bytes(at + guess - std::min(around, guess), at + std::min(guess + around, end));
    prefetch_line(at + end - sizeof(Slot));
}

inline void note_slots(std::atomic<uint32_t>& seen, unsigned slots) {
    const unsigned before = seen.load(std::memory_order_relaxed);
    if (slots > before || 2 * slots < before) seen.store(slots, std::memory_order_relaxed);
}

}  // namespace

KeyWalk::Look& KeyWalk::add(BTree& tree, Slice key, size_t record_bytes, bool for_change) {
    DCHECK(takes(key));
    char* const text = text_[size_];
    txn::LockName& name = names_[size_];
    Look& look = looks_[size_++];
    put_key(text, key);
    look.tree = &tree;
    look.key = KeyView(text, key.size());
    name = look.key.lock_name(tree.id());
    look.leaf = kPageNone;
    look.leaves_freed = tree.leaves_freed();
    look.bytes = static_cast<uint32_t>(std::min(record_bytes, kRecordLines * kCacheLineBytes));
    look.for_change = for_change;
    locks_.prefetch(name);
    return look;
}

// Does the level-1 node of the look before cover this key too? It does if the key is not below that
// look's key and is below the node's end.
bool KeyWalk::share_parent(const Look& before, Look& look) const {
    if (before.tree != look.tree || before.leaf == kPageNone || before.parent.page == nullptr)
        return false;
    const uint64_t a = __builtin_bswap64(before.key.eight(0)),
                   b = __builtin_bswap64(look.key.eight(0));
    if (a > b || (a == b && before.key.slice() > look.key.slice())) return false;
    const Page& page = *before.parent.page;
    if (!high_infinite(page) && compare_fence(look.key, high(page), page) >= 0) return false;
    look.parent = before.parent;
    return true;
}

void KeyWalk::ask_for_inner(const Look& look, PageId id, unsigned share) const {
    DCHECK(look.tree != nullptr && (share == kShareUnknown || share <= kShareWhole));
    if (const Page* page = pool_.resident(id))
        prefetch_node(*page, look.tree->stats().inner_slots.load(std::memory_order_relaxed), share,
                      kGuessAheadInner);
}

// Walks to the node above level 1, which the caches mostly have, and asks for the level-1 node.
// False: a node is not in memory, or changes. look.parent is that node, or the level-1 node if that
// is the root.
bool KeyWalk::find_level_one(Look& look) {
    DCHECK(&look >= looks_ && &look < looks_ + size_ && look.leaf == kPageNone);
    const BTree& tree = *look.tree;
    OptimisticPage& at = look.parent;
    PageId& next = level_one_[static_cast<size_t>(&look - looks_)];
    next = kPageNone;
    if (!pool_.try_fix_optimistic(tree.root(), at) || at.page->header.object != tree.id().value)
        return false;
    for (;;) {
        const Page& page = *at.page;
        const unsigned level = page.header.level;
        if (level == 1) return true;
        if (level == 0) {  // the root is the leaf
            look.leaf = tree.root();
            at.page = nullptr;
            return false;
        }
        const int slot = child_slot(page, look.key);
        next = child_at(page, slot);
        if (level == 2) {
            const unsigned share = share_behind(page, slot, look.key);
            if (!at.valid()) return false;
            ask_for_inner(look, next, share);
            return true;
        }
        OptimisticPage child;
        const bool here = pool_.try_fix_optimistic(next, child);
        if (!at.valid() || !here) [[unlikely]]
            return false;
        at = child;
    }
}

void KeyWalk::find_leaves() {
    DCHECK(size_ <= kKeys && threads::current()->latch_depth == 0);
    bool found[kKeys];
    for (size_t i = 0; i < size_; ++i) found[i] = find_level_one(looks_[i]);
    for (size_t i = 0; i < size_; ++i) {
        if (!found[i]) continue;
        Look& look = looks_[i];
        if (const PageId id = level_one_[i];
            id != kPageNone && !share_parent(looks_[i - (i > 0)], look)) {
            OptimisticPage child;
            const bool here = pool_.try_fix_optimistic(id, child);
            // KW-1.
            if (!look.parent.valid() || !here || !is_node_of(*child.page, look.tree->id(), 1))
                [[unlikely]]
                continue;
            look.parent = child;
        }
        DCHECK(look.parent.page != nullptr && look.parent.word != nullptr);
        const Page& page = *look.parent.page;
        const int slot = child_slot(page, look.key);
        look.leaf = child_at(page, slot);
        shares_[i] = share_behind(page, slot, look.key);
        note_slots(look.tree->stats().inner_slots, count(page));
        prefetch_line(pool_.word_address(look.leaf));
    }
    ask_for_leaves();
}

void KeyWalk::ask_for_leaves() {
    PageId missing[kKeys];
    size_t n = 0;
    for (size_t i = 0; i < size_; ++i) {
        const Look& look = looks_[i];
        if (look.leaf == kPageNone) [[unlikely]]
            continue;
        if (const Page* page = pool_.resident(look.leaf)) [[likely]] {
            prefetch_node(*page, look.tree->stats().leaf_slots.load(std::memory_order_relaxed),
                          look.parent.page != nullptr ? shares_[i] : kShareUnknown, kGuessAhead);
            // The fences: a place ahead is checked by them (BT-6).
            if (use_ == Use::ahead) prefetch_line(chars(*page) + kPageBytes - kCacheLineBytes);
        } else if (look.parent_valid()) {  // KW-1
            missing[n++] = look.leaf;
        }
    }
    // A page that is needed now is not read with a read-ahead's low priority if it is the only one.
    if (n > (use_ == Use::now || MUTANT(lone_need_not_read) ? 1 : 0)) [[unlikely]]
        pool_.read_ahead({missing, n});
}

void KeyWalk::find_records() {
    for (size_t i = 0; i < size_; ++i) {
        Look& look = looks_[i];
        if (look.leaf == kPageNone) [[unlikely]]
            continue;
        BTree::Position& pos = look.pos;
        pos.id = look.leaf;
        pos.leaves_freed = look.leaves_freed;
        if (!pool_.try_fix_optimistic(look.leaf, pos.at) || !look.parent_valid() ||
            !is_node_of(*pos.at.page, look.tree->id(), 0)) [[unlikely]] {
            look.leaf = kPageNone;
            continue;
        }
        const Page& page = *pos.at.page;
        DCHECK(look.bytes <= kRecordLines * kCacheLineBytes);
        pos.slot = find(page, look.key, pos.found);
        note_slots(look.tree->stats().leaf_slots, count(page));
        if (look.for_change) {
            pool_.prefetch_for_change(pos.at);
            prefetch_line(low(page).data());
        }
        if (!pos.found) continue;
        // Its length is in the record: not to be read now.
        const char* const at = chars(page) + slots(page)[pos.slot].at;
        for (size_t line = 0; line <= look.bytes; line += kCacheLineBytes) prefetch_line(at + line);
    }
}

}  // namespace lockstep::sm
