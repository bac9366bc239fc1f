// btree_merge.cc - removing unlocked ghosts, merging neighbours, lowering the root.
//
// Concepts   A ghost may be removed when its name is not locked, checked with its leaf latched.
//            Then its deleter has ended, and no scan protects its gap. A transaction with a lock on
//            the whole index takes no record locks. ObjectLock::strong shows it, and then nothing
//            is removed and no leaf is merged. A scan that read the leaf before and locks the name
//            later fails its validation. The commit note of its name is kept for all (LM-8).
//            A ghost may own its overflow chain (overflow.h). Then the chain is freed before the
//            ghost. So a crash in between leaves a ghost without its chain, never a chain without a
//            ghost. Only clean_leaf() does that; merges leave such ghosts alone.
// Invariants BT-5 (btree.h) The last record of a leaf that is not the root is only removed together
//                 with the leaf. [checked: verify()]
#include <algorithm>

#include "sm/btree/btree_impl.h"
#include "sm/btree/overflow.h"
#include "sm/core/cleanup.h"
#include "sm/version/version_table.h"

namespace lockstep::sm {

using namespace node;
using txn::LockMode;

namespace {

constexpr size_t kUsable = kPageBytes - kSlotsAt;
constexpr size_t kMergeLimit = kUsable * 7 / 10, kSmall = kUsable * 3 / 10;
static_assert(2 * kSmall < kMergeLimit);  // two small neighbours can merge

size_t used_bytes(const Page& page) {
    DCHECK(free_bytes(page) <= kUsable);
    return kUsable - free_bytes(page);
}

using Slots = std::vector<uint16_t>;
using Chains = std::vector<OverflowRef>;

bool contains(const Chains& chains, const OverflowRef& ref) {
    return std::ranges::any_of(
        chains, [&](const OverflowRef& c) { return c.first == ref.first && c.chain == ref.chain; });
}

// The flag first: behind it the table is emptied by another worker, once no thread is between the
// flag and its version (SH-2).
bool has_version(const Env& env, ObjectId object, Slice key) {
    return env.keeps_versions.load(std::memory_order_acquire) && env.versions != nullptr &&
           env.versions->has(name_of_key(object, key));
}

// Unlocked ghosts of a latched leaf; at most `limit`. Chains of their own that are not `freed` are
// returned in `chains`.
Slots removable_ghosts(Env& env, BTree& tree, const Page& leaf, size_t limit,
                       const Chains& freed = {}, Chains* chains = nullptr) {
    Slots out;
    if (header(leaf).ghosts == 0 || tree.lock().strong.load(std::memory_order_acquire) != 0)
        return out;
    char buffer[2 * kKeyBytesMax];
    // They stand together more often than not: mostly at the front.
    unsigned unseen = header(leaf).ghosts;
    for (unsigned i = 0; i < count(leaf) && unseen != 0 && out.size() < limit; ++i) {
        if (!ghost(leaf, i)) continue;
        --unseen;
        const Slice key = full_key(leaf, i, buffer, sizeof buffer);
        const txn::LockName name = txn::key_lock_name(tree.id(), key);
        // A snapshot may still see the record, and then needs the chains of its versions.
        const bool seen = has_version(env, tree.id(), key);
        if (seen && overflow(leaf, i)) continue;
        if (!env.locks->grantable(name, LockMode::X | LockMode::gap_insert)) continue;
        if (overflow(leaf, i) && is_unlisted(value(leaf, i)) &&
            !contains(freed, overflow_ref(value(leaf, i)))) {
            if (chains) chains->push_back(overflow_ref(value(leaf, i)));
            continue;
        }
        if (seen) env.versions->keep_key(name_of_key(tree.id(), key));
        // A scan that comes later finds no name to lock here.
        env.locks->keep_note(name);
        out.push_back(static_cast<uint16_t>(i));
    }
    DCHECK(out.size() <= header(leaf).ghosts);
    return out;
}

Slice slots_slice(const Slots& slots) {
    return {reinterpret_cast<const char*>(slots.data()), slots.size() * 2};
}

// Bytes that slots of `page` without `removed` need in a node with that prefix.
size_t bytes_in(const Page& page, const Slots& removed, size_t new_prefix) {
    size_t bytes = 0, next = 0;
    for (unsigned i = 0; i < count(page); ++i) {
        if (next < removed.size() && removed[next] == i) {
            ++next;
            continue;
        }
        DCHECK(header(page).prefix + suffix(page, i).size() >= new_prefix);
        bytes += kSlotCost + header(page).prefix + suffix(page, i).size() - new_prefix +
                 value(page, i).size();
    }
    DCHECK(next == removed.size());
    return bytes;
}

// The same by the page's totals (BN-1), and so without a look at each record: at most that, since a
// node of more keys has no longer prefix.
size_t least_bytes_in(const Page& page, const Slots& removed) {
    size_t bytes = used_bytes(page) - low(page).size();
    if (!high_infinite(page)) bytes -= high(page).size();
    for (const uint16_t slot : removed) bytes -= sizeof(Slot) + record_bytes(page, slot);
    DCHECK(bytes <= bytes_in(page, removed, header(page).prefix));
    return bytes;
}

struct Pair {
    ExclusivePage left, right;
    PageId right_id;
    unsigned parent_slot = 0;  // of the right one
};

// The two children of `parent` that meet at or beside the one covering `key`. False: it has only
// one. Error: corrupt_page if they are not two neighbours of the tree (BT-2).
Result<bool> latch_pair(Env& env, const BTree& tree, BTree::Target& parent, Slice key, Pair& pair) {
    const int n = static_cast<int>(count(*parent.page));
    if (n == 0) return false;
    const int at = std::min(child_slot(*parent.page, key), n - 2);
    pair.parent_slot = static_cast<unsigned>(at + 1);
    pair.right_id = child_at(*parent.page, at + 1);
    DCHECK(at >= -1 && pair.parent_slot < count(*parent.page));
    const PageId left_id = child_at(*parent.page, at);
    pair.left = TRY(env.pool->fix_exclusive(left_id));
    pair.right = TRY(env.pool->fix_exclusive(pair.right_id));
    DCHECK(parent.page->header.level > 0);
    const unsigned level = parent.page->header.level - 1u;
    if (!is_node_of(*pair.left, tree.id(), level)) return tree.damaged(left_id);
    if (!is_node_of(*pair.right, tree.id(), level) || low(*pair.right) != high(*pair.left))
        return tree.damaged(pair.right_id);
    return true;
}

// One record: left absorbs right, the parent loses the separator, the right page becomes free.
[[gnu::noinline]] Result<void> log_merge(Env& env, const BTree& tree, BTree::Target& parent,
                                         Pair& pair, const Slots& from_left,
                                         const Slots& from_right, size_t new_prefix) {
    const Page& r = *pair.right;
    DCHECK(child(*parent.page, pair.parent_slot) == pair.right_id && r.id() == pair.right_id);
    DCHECK(is_leaf(r) || (from_left.empty() && from_right.empty()));
    const bool infinite = high_infinite(r);
    const Slice high_fence = infinite ? Slice{} : high(r);
    std::string records;
    records.reserve(kPageBytes);
    RecordWriter writer{records};
    unsigned added = 0;
    // The separator comes down with the first child.
    if (!is_leaf(r)) {
        const uint32_t first = header(r).link;
        writer.add(0, low(r).substr(new_prefix), {}, payload::bytes_of(first));
        ++added;
    }
    const Shift shift = shift_of(r, new_prefix);
    size_t next = 0;
    for (unsigned i = 0; i < count(r); ++i) {
        if (next < from_right.size() && from_right[next] == i) {
            ++next;
            continue;
        }
        writer.add(slots(r)[i].bits, shift.add, suffix(r, i).substr(shift.drop), value(r, i));
        ++added;
    }
    DCHECK(next == from_right.size());
    const payload::Absorb absorb{
        static_cast<uint16_t>(from_left.size()), static_cast<uint16_t>(added),
        infinite ? kInfinite : static_cast<uint16_t>(high_fence.size()), 0, right(r).value};
    const uint16_t slot = static_cast<uint16_t>(pair.parent_slot);
    const payload::Remove remove{1, 0};
    PageReservation space = TRY(env.space->prepare_free(pair.right_id));
    ChangePart parts[4] = {
        space.part(),
        {&pair.left,
         PageAction::btree_absorb,
         0,
         {payload::bytes_of(absorb), slots_slice(from_left), high_fence, records}},
        {&parent.page,
         PageAction::btree_remove,
         0,
         {payload::bytes_of(remove), payload::bytes_of(slot), {}, {}}},
        {&pair.right, PageAction::page_free, 0, {}},
    };
    TRY(change_pages(env, nullptr, ChangeRole::system, LogKind::btree_merge, tree.id(), parts));
    return {};
}

// Removes what can be removed of the leaf's ghosts; `chains`: of those that could go if their
// chains were among `freed`. True: the leaf is small, or has no record.
Result<bool> remove_ghosts(Env& env, BTree& tree, Slice key, const Chains& freed, Chains& chains,
                           BTree::Cleaned& result) {
    BTree::Target t;
    TRY(tree.latch_leaf(key, t));
    const bool is_root = t.id == tree.root();
    const Slots found = removable_ghosts(
        env, tree, *t.page, is_root ? count(*t.page) : count(*t.page) - 1u, freed, &chains);
    DCHECK(is_root || found.empty() || found.size() < count(*t.page));  // BT-5
    if (!found.empty()) {
        const payload::Remove head{static_cast<uint16_t>(found.size()), 0};
        ChangePart part{&t.page,
                        PageAction::btree_remove,
                        0,
                        {payload::bytes_of(head), slots_slice(found), {}, {}}};
        TRY(change_pages(env, nullptr, ChangeRole::system, LogKind::btree_ghost_removal, tree.id(),
                         {&part, 1}));
    }
    result.removed += static_cast<uint32_t>(found.size());
    result.left = header(*t.page).ghosts;
    // One without records is merged away, however large its last ghost is.
    return !is_root && (used_bytes(*t.page) < kSmall || header(*t.page).ghosts == count(*t.page));
}

}  // namespace

Result<void> BTree::merge(Slice key, unsigned level) {
    Env& env = env_;
    DCHECK(threads::current()->latch_depth == 0);
    Slots from_left, from_right;
    bool parent_small = false, root_alone = false;
    {
        Target parent;
        if (!TRY(latch_parent(key, level + 1, parent))) return {};
        Pair pair;
        if (!TRY(latch_pair(env, *this, parent, key, pair))) return {};
        // Who holds the whole index may walk its pages without latches: LeafWalk, undo_bulk().
        if (lock_.strong.load(std::memory_order_acquire) != 0) return {};
        const Page &l = *pair.left, &r = *pair.right;
        if (level == 0) {
            from_left = removable_ghosts(env, *this, l, SIZE_MAX);
            from_right = removable_ghosts(env, *this, r, SIZE_MAX);
            // BT-5.
            if (from_left.size() == count(l) && from_right.size() == count(r)) from_left.pop_back();
        }
        DCHECK(parent.page->header.level == level + 1);
        const bool one_empty = from_left.size() == count(l) || from_right.size() == count(r);
        const size_t limit = one_empty ? kUsable : kMergeLimit;
        // A small node often has a neighbour that is too large.
        if (least_bytes_in(l, from_left) + least_bytes_in(r, from_right) > limit) return {};
        const size_t new_prefix =
            fence_prefix(low(l), high_infinite(r) ? Slice{} : high(r), high_infinite(r));
        const size_t left_bytes = bytes_in(l, from_left, new_prefix);
        size_t right_bytes = bytes_in(r, from_right, new_prefix);
        if (level > 0) right_bytes += kSlotCost + low(r).size() - new_prefix + sizeof(uint32_t);
        const size_t total =
            left_bytes + right_bytes + low(l).size() + (high_infinite(r) ? 0 : high(r).size());
        if (total > limit) return {};
        TRY(log_merge(env, *this, parent, pair, from_left, from_right, new_prefix));
        if (level == 0) leaves_freed_.fetch_add(1, std::memory_order_release);
        stats_.merges.fetch_add(1, std::memory_order_relaxed);
        stats_.ghosts_removed.fetch_add(from_left.size() + from_right.size(),
                                        std::memory_order_relaxed);
        parent_small = parent.id != root_ && used_bytes(*parent.page) < kSmall;
        root_alone = parent.id == root_ && count(*parent.page) == 0;
    }
    if (root_alone) return shrink_root();
    if (parent_small) return merge(key, level + 1);
    return {};
}

// A root with a single child takes over that child's content.
Result<void> BTree::shrink_root() {
    Env& env = env_;
    ExclusivePage root = TRY(env.pool->fix_exclusive(root_));
    if (root->header.level == 0 || count(*root) != 0) return {};
    const PageId child_id = first_child(*root);
    DCHECK(child_id != root_ && child_id != kPageNone);
    ExclusivePage only = TRY(env.pool->fix_exclusive(child_id));
    if (!is_node_of(*only, id_, root->header.level - 1u)) return damaged(child_id);
    std::string records;
    records.reserve(kPageBytes);
    RecordWriter{records}.add_range(*only, 0, count(*only), 0);
    const payload::Format format{root_.value,
                                 id_.value,
                                 header(*only).link,
                                 only->header.level,
                                 static_cast<uint16_t>(count(*only)),
                                 0,
                                 kInfinite};
    PageReservation space = TRY(env.space->prepare_free(child_id));
    ChangePart parts[3] = {
        space.part(),
        {&root, PageAction::btree_format, kPartFresh, {payload::bytes_of(format), {}, {}, records}},
        {&only, PageAction::page_free, 0, {}},
    };
    TRY(change_pages(env, nullptr, ChangeRole::system, LogKind::btree_merge, id_, parts));
    leaves_freed_.fetch_add(1, std::memory_order_release);
    return {};
}

// Ghosts that own chains are left to the cleaner: no other frees these, so none is freed twice.
Result<bool> BTree::remove_leaf_ghosts(Slice key) {
    BTree::Cleaned result;
    Chains chains;
    TRY(remove_ghosts(env_, *this, key, {}, chains, result));
    stats_.ghosts_removed.fetch_add(result.removed, std::memory_order_relaxed);
    return result.removed != 0;
}

Result<BTree::Cleaned> BTree::clean_leaf(Slice key, bool owned_chains) {
    Cleaned result;
    Chains chains, none;
    bool small = TRY(remove_ghosts(env_, *this, key, {}, chains, result));
    if (!owned_chains) chains.clear();
    if (!chains.empty()) {
        for (const OverflowRef& ref : chains)
            TRY(free_overflow(env_, id_, PageId{ref.first}, ref.chain));
        small = TRY(remove_ghosts(env_, *this, key, chains, none, result));
    }
    stats_.ghosts_removed.fetch_add(result.removed, std::memory_order_relaxed);
    if (small) TRY(merge(key, 0));
    if (result.left != 0) {
        BTree::Target t;
        TRY(latch_leaf(key, t));
        result.left = header(*t.page).ghosts;
        result.stuck =
            result.left != 0 &&
            removable_ghosts(env_, *this, *t.page, SIZE_MAX, chains).size() == result.left;
    }
    return result;
}

Result<BTree::LeafGhosts> BTree::leaf_ghosts(Slice key) {
    const SearchKey wanted(key);
    Position pos;
    SharedPage leaf;
    for (unsigned tries = 0; !TRY(latch_leaf_shared(wanted, Side::covering, pos, leaf)); ++tries)
        TRY(backoff(tries, root_));
    LeafGhosts found{header(*leaf).ghosts, {}};
    if (!high_infinite(*leaf)) found.next = high(*leaf);
    return found;
}

}  // namespace lockstep::sm
