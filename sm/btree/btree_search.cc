// btree_search.cc - finding a leaf: optimistic descent, the transaction's leaf hint, latching.
//
// Invariants LA-3 (latch.h) Here: fix_optimistic() takes a page's snapshot, its bytes are read,
//                 then valid() is called, with no switch in between. A miss in fix_optimistic() of
//                 the child may park. The parent is validated afterwards, so an outdated path is
//                 given up.
#include "sm/btree/btree_descent.h"
#include "sm/core/places.h"
#include "threads/base/hints.h"
#include "threads/steps/ctx.h"

namespace lockstep::sm {

using namespace node;

namespace {

// What a search in a node may read: the header, the slots, the fences at the page's end. Reading
// the slot count from the header would be a miss. So a leaf is assumed to have nine lines of slots,
// an inner node as many slots as the last one seen.
constexpr unsigned kLeafAhead = 576, kInnerAheadMax = 4096, kGuessAhead = 256;
inline void prefetch_lines(const char* from, const char* to) {
    for (; from < to; from += kCacheLineBytes) prefetch_line(from);
}
// `share`: where among the node's keys the search will end if they are spread evenly, of
// kShareWhole; kShareUnknown: anywhere.
inline void prefetch_inner(const Page* page, unsigned slots, unsigned share) {
    const char* const at = reinterpret_cast<const char*>(page);
    const unsigned end = std::min(kSlotsAt + slots * unsigned{sizeof(Slot)}, kInnerAheadMax);
    if (share == kShareUnknown) return prefetch_lines(at, at + end);
    const unsigned guess = kSlotsAt + (end - kSlotsAt) * share / kShareWhole;
    prefetch_lines(at, at + kSlotsAt + kCacheLineBytes);
    prefetch_line(at + end - sizeof(Slot));
    prefetch_lines(at + guess - std::min(guess, kGuessAhead),
                   at + std::min(guess + kGuessAhead, end));
}

// The hint only saves time: a leaf of this tree whose fences cover the key is the right leaf,
// whatever happened since (BT-6). Fixes that leaf.
[[gnu::always_inline]] inline bool fix_hint(BufferPool& pool, const BTree& tree,
                                            const LeafHint& hint, BTree::Position& out) {
    if (!pool.try_fix_optimistic(hint.page, out.at) || tree.leaves_freed() != hint.leaves_freed)
        return false;
    out.id = hint.page;
    return is_node_of(*out.at.page, tree.id(), 0);
}
// The hint is where the transaction was last. If it is not on the key, the slot is unknown.
inline bool try_hint(BufferPool& pool, const BTree& tree, const LeafHint& hint,
                     const node::KeyView& key, BTree::Position& out) {
    if (!fix_hint(pool, tree, hint, out)) return false;
    const Page& page = *out.at.page;
    if (hint.slot < count(page) && key_equals(page, hint.slot, key)) {
        out.slot = hint.slot;
        out.found = true;
        return true;
    }
    return covers(page, key);
}
// The hint is from a walk to this key, or to a key that most likely has the same place. True: `out`
// has the key's place.
[[gnu::noinline]] bool find_by_place(BufferPool& pool, const BTree& tree, const LeafHint& place,
                                     const node::KeyView& key, BTree::Position& out) {
    if (!fix_hint(pool, tree, place, out)) return false;
    const Page& page = *out.at.page;
    unsigned slot = place.slot;
    // The walk has found the key itself.
    if (place.score == 0 && slot < count(page) && key_equals(page, slot, key)) {
        out.slot = slot;
        out.found = true;
        return true;
    }
    if (slot == kSlotUnknown || !find_near(page, key, slot, out.found)) {
        if (!covers(page, key)) return false;
        slot = find(page, key, out.found);
    }
    out.slot = slot;
    return true;
}

// Unvalidated.
txn::LockName slot_lock_name(ObjectId object, const Page& page, unsigned slot) {
    char buffer[2 * kKeyBytesMax];
    const Slice a = prefix(page), b = suffix(page, slot);
    if (a.size() + b.size() > 16) [[unlikely]]
        return txn::key_lock_name(object, full_key(page, slot, buffer, sizeof buffer));
    char* const end = bytes::copy_bytes(bytes::copy_bytes(buffer, a), b);
    bytes::store(end, uint64_t{0});
    bytes::store(end + 8, uint64_t{0});
    return txn::short_key_lock_name(object, bytes::load<uint64_t>(buffer),
                                    bytes::load<uint64_t>(buffer + 8), a.size() + b.size());
}

}  // namespace

void BTree::Descent::pass_on_for_leaf_apart(const BufferPool& pool, const Stats& stats,
                                            PageId leaf) {
    pass_on_for_leaf(pool, stats, leaf);
}
void BTree::Descent::pass_on_for_inner(BufferPool& pool, const Stats& stats, PageId node,
                                       unsigned share) {
    if (threads::worker_local.prefetch)
        if (const Page* resident = pool.resident(node))
            prefetch_inner(resident, stats.inner_slots.load(std::memory_order_relaxed), share);
    CTX(btree_inner);
}
void BTree::Descent::prefetch_leaf(const BufferPool& pool, PageId leaf) {
    const Page* page = pool.resident(leaf);
    if (page == nullptr) return;
    const char* const at = reinterpret_cast<const char*>(page);
    prefetch_line(at + kPageBytes - kCacheLineBytes);
#pragma GCC unroll 16
    for (unsigned line = 0; line < kLeafAhead; line += kCacheLineBytes) prefetch_line(at + line);
}

std::unexpected<Error> BTree::Descent::wrong_node(BufferPool& pool, ObjectId object, PageId root,
                                                  PageId id) {
    DCHECK(id != kPageNone && root != kPageNone);
    const Result<OptimisticPage> top = pool.fix_optimistic(root);
    if (!top) return std::unexpected(top.error());
    if (top->page->header.object != object.value)
        return fail(ErrorCode::no_such_object, "index", object.value);
    return fail(ErrorCode::corrupt_page, "node of an index", id.value, object.value);
}

Result<void> BTree::descend(const SearchKey& key, Side side, unsigned level, Position& out) {
    TRY(Descent::walk(*env_.pool, id_, root_, stats_, key, side, level, out));
    return {};
}

Result<void> BTree::descend_last(Position& out) {
    BufferPool& pool = *env_.pool;
    for (;;) {
        PageId id = root_;
        OptimisticPage at = TRY(pool.fix_optimistic(id));
        for (unsigned level = at.page->header.level;; --level) {
            if (level == 0) {
                out.at = at;
                out.id = id;
                if (is_node_of(*at.page, id_, 0)) return {};
                if (at.valid()) return Descent::wrong_node(pool, id_, root_, id);
                break;
            }
            const PageId next = child_at(*at.page, static_cast<int>(count(*at.page)) - 1);
            if (!at.valid()) break;
            Result<OptimisticPage> seen_page = pool.fix_optimistic(next);
            if (!at.valid()) break;
            if (!seen_page) return std::unexpected(seen_page.error());
            at = *seen_page;
            id = next;
        }
        stats_.restarts.fetch_add(1, std::memory_order_relaxed);
    }
}

bool BTree::has_places(const txn::Transaction& txn) { return local_of(txn).places != nullptr; }

const LeafHint* BTree::place_of(txn::Transaction& txn, txn::LockName key) const {
    DCHECK(local_of(txn).places != nullptr);
    Places& places = *local_of(txn).places;
    if (!places.has(id_)) return nullptr;
    const LeafHint* const place = places.find(key);
    return place != nullptr && place->object == id_ ? place : nullptr;
}

bool BTree::take_place(const LeafHint& place, const KeyView& key, Position& out) {
    if (!find_by_place(*env_.pool, *this, place, key, out)) return false;
    DCHECK(out.id == place.page);
    // The walk has not seen the leaf.
    if (place.slot == kSlotUnknown) Descent::note_slots(stats_.leaf_slots, count(*out.at.page));
    out.leaves_freed = place.leaves_freed;
    return true;
}

bool BTree::try_place(txn::Transaction& txn, const KeyView& key, Position& out) {
    const LeafHint* const place = place_of(txn, key.lock_name(id_));
    if (place == nullptr || !take_place(*place, key, out)) return false;
    ++local_of(txn).places->used;
    return true;
}

Result<void> BTree::locate(txn::Transaction& txn, const SearchKey& key, bool hint_first,
                           Position& out) {
    LeafHint& hint = hint_of(txn, id_);
    out.found = false;
    out.leaves_freed = leaves_freed();
    bool there = false;
    if (hint.object == id_ && (hint_first || hint.score != 0)) {
        if (hint.score == kScoreOfWalk) [[unlikely]] {
            if (find_by_place(*env_.pool, *this, hint, key, out)) return {};
            hint.score = 0;
        } else {
            there = try_hint(*env_.pool, *this, hint, key, out);
            if (out.found) return {};
            if (!there && hint.score > 0) --hint.score;
        }
    }
    if (const Places* const places = local_of(txn).places; !there && places != nullptr) [[unlikely]]
        if (places->has(id_) && try_place(txn, key, out)) return {};
    if (!there) TRY(Descent::walk(*env_.pool, id_, root_, stats_, key, Side::covering, 0, out));
    out.slot = find(*out.at.page, key, out.found);
    return {};
}

bool BTree::revalidate(const SearchKey& key, Position& pos) {
    const uint64_t before = pos.at.snapshot;
    Result<OptimisticPage> again = env_.pool->fix_optimistic(pos.id);
    if (!again) return false;
    pos.at = *again;
    if (threads::latch::version_bits(again->snapshot) == threads::latch::version_bits(before))
        [[likely]]
        return true;
    // BT-6.
    if (leaves_freed() != pos.leaves_freed || !is_node_for(*pos.at.page, 0, key)) return false;
    const Found f = search(*pos.at.page, key);
    pos.slot = f.slot;
    pos.found = f.exact;
    return true;
}

Result<bool> BTree::latch_leaf_shared(const SearchKey& key, Side side, Position& out,
                                      SharedPage& hold) {
    stats_.latched_descents.fetch_add(1, std::memory_order_relaxed);
    DCHECK(threads::current()->latch_depth == 0);
    hold.release();
    TRY(descend(key, side, 0, out));
    const PageId id = out.id;
    Result<SharedPage> fixed = env_.pool->fix_shared(id);
    // Changed while we waited: the caller tries again.
    if (!out.valid()) return false;
    if (!fixed) return std::unexpected(fixed.error());
    hold = std::move(*fixed);
    out.at = TRY(env_.pool->fix_optimistic(id));
    const Page& page = *out.at.page;
    const bool right_leaf =
        is_node_of(page, id_, 0) &&
        (side == Side::covering ? covers(page, key)
                                : (key.size() == 0 || key.slice() > low(page)) &&
                                      (high_infinite(page) || key.slice() <= high(page)));
    if (!right_leaf) hold.release();
    return right_leaf;
}

Result<void> BTree::latch_for(txn::Transaction& txn, const SearchKey& key, bool hint_first,
                              Target& out, const Position* ahead) {
    DCHECK(!out.page && threads::current()->latch_depth == 0);
    for (unsigned tries = 0;; ++tries) {
        Position pos;
        if (ahead != nullptr && tries == 0) [[unlikely]]
            pos = *ahead;
        else TRY(locate(txn, key, hint_first && tries == 0, pos));
        if (threads::worker_local.code_points && tries == 0) [[unlikely]] {
            CTX(located);
            if (!revalidate(key, pos)) continue;
        }
        if (env_.pool->upgrade(pos.at, pos.id, out.page)) [[likely]] {
            out.id = pos.id;
            out.leaves_freed = pos.leaves_freed;
            out.slot = pos.slot;
            out.found = pos.found;
            env_.pool->prefetch_for_change(pos.at);
            DCHECK(out.page->id() == out.id);
            return {};
        }
        if (tries >= kOptimisticTries && TRY(latch_pessimistic(key, out))) return {};
        TRY(backoff(tries, pos.id));
    }
}

std::unexpected<Error> BTree::damaged(PageId page) const {
    return fail(ErrorCode::corrupt_page, "descent of an index", page.value, id_.value);
}

Result<void> BTree::backoff(unsigned tries, PageId page) const {
    if (tries > kRetriesMax) return damaged(page);
    if (tries > kSpinRetries) threads::sleep_until(threads::now() + kRetryPause);
    return {};
}

Result<bool> BTree::latch_pessimistic(const SearchKey& key, Target& out) {
    stats_.latched_descents.fetch_add(1, std::memory_order_relaxed);
    Position pos;
    out.leaves_freed = leaves_freed();
    TRY(descend(key, Side::covering, 0, pos));
    Result<ExclusivePage> fixed = env_.pool->fix_exclusive(pos.id);
    if (!fixed) {
        // The page may have been freed meanwhile.
        if (!pos.valid()) return false;
        return std::unexpected(fixed.error());
    }
    if (!is_node_for(**fixed, 0, key)) return false;
    out.page = std::move(*fixed);
    out.id = pos.id;
    DCHECK(out.page->id() == out.id);
    const Found f = search(*out.page, key);
    out.slot = f.slot;
    out.found = f.exact;
    return true;
}

Result<void> BTree::latch_leaf(const SearchKey& key, Target& out) {
    for (unsigned tries = 0; !TRY(latch_pessimistic(key, out)); ++tries) TRY(backoff(tries, root_));
    return {};
}

Result<bool> BTree::latch_parent(const SearchKey& key, unsigned level, Target& out) {
    DCHECK(level > 0 && threads::current()->latch_depth == 0);
    for (unsigned tries = 0;; ++tries) {
        TRY(backoff(tries, root_));
        Position pos;
        TRY(descend(key, Side::covering, level, pos));
        const unsigned found_level = pos.at.page->header.level;
        if (found_level < level) {
            if (pos.valid()) return false;
            continue;
        }
        Result<ExclusivePage> fixed = env_.pool->fix_exclusive(pos.id);
        if (!fixed) {
            if (!pos.valid()) continue;
            return std::unexpected(fixed.error());
        }
        if (!is_node_for(**fixed, level, key)) continue;
        out.page = std::move(*fixed);
        out.id = pos.id;
        return true;
    }
}

Result<bool> BTree::next_key(const Page& leaf, unsigned slot, const OptimisticPage* at,
                             NextKey& out) {
    out.sibling = {};
    if (slot < count(leaf)) [[likely]] {
        out.name = slot_lock_name(id_, leaf, slot);
        return true;
    }
    const PageId next = right(leaf);
    // Before a page number read without a latch is followed.
    if (at && !at->valid()) return false;
    if (next == kPageNone) {
        out.name = txn::end_lock_name(id_);
        return true;
    }
    out.sibling = TRY(env_.pool->fix_optimistic(next));
    const Page& page = *out.sibling.page;
    if (!is_node_of(page, id_, 0) || count(page) == 0) [[unlikely]] {  // BT-5
        if (out.sibling.valid() && (!at || at->valid())) return damaged(next);
        return false;
    }
    out.name = slot_lock_name(id_, page, 0);
    return out.sibling.valid();
}

}  // namespace lockstep::sm
