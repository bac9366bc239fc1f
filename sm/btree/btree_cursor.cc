// btree_cursor.cc - ordered scans under the transaction's isolation, in both directions.
//
// Concepts   Each step finds a candidate optimistically, validates, locks the candidate's name,
//            copies, validates again.
//            Forward at serializable, the lock on the candidate includes the gap below it. The
//            leaves between the old and the new place are validated after the lock, so the gap was
//            empty when it became protected.
//            Backward, the gap below the current key is protected before the step reads it. Only
//            the first step locks the gap above the largest key.
//            Ghosts are locked like records, because their deleter may still roll back, and then
//            skipped.
// Blocking   A step waits for a lock with no latch held. It then searches again from its current
//            key.
#include "sm/btree/btree_impl.h"
#include "sm/btree/overflow.h"
#include "threads/base/mutants.h"

namespace lockstep::sm {

using namespace node;
using txn::covers;
using txn::Isolation;
using txn::LockMode;
using TreeOps = BTree::Ops;

BTreeCursor::BTreeCursor(BTree& tree, txn::Transaction& txn, Slice low, Slice high, Access access)
    : tree_(tree),
      txn_(txn),
      low_(low),
      high_(high),
      high_head_(key_head8(high.data(), high.size())),
      bounded_(!high.empty()),
      access_(access) {
    static_assert(sizeof inline_value_ >= kInlineMax);
    mode_ = TreeOps::mode_of(access);
    if (txn.isolation == Isolation::serializable) {
        local_of(txn).gap_reader = txn.id;
        mode_ = mode_ | LockMode::gap_read;
    }
    gives_back_ = access == Access::read &&
                  (txn.isolation == Isolation::read_committed || MUTANT(read_lock_given_back));
}

struct BTreeCursor::Ops {
    using Position = BTree::Ops::Position;
    using Side = BTree::Ops::Side;

    static bool serializable(const BTreeCursor& c) {
        return c.txn_.isolation == Isolation::serializable;
    }
    static Result<void> lock(BTreeCursor& c, txn::LockName name, LockMode mode) {
        return c.tree_.env_.locks->lock_record(c.txn_.locks, c.tree_.lock_, name, mode);
    }
    // The same for what was read under `hold`: the lock is tried under the latch and waited for
    // without it (BT-3). Releasing the latch first would let a waiting writer in before every
    // validation, and the scan would make no progress.
    static Result<void> lock(BTreeCursor& c, txn::LockName name, LockMode mode, SharedPage& hold) {
        if (hold) [[unlikely]] {
            if (TRY(c.tree_.env_.locks->try_lock_record(c.txn_.locks, c.tree_.lock_, name, mode)))
                return {};
            hold.release();
        }
        return lock(c, name, mode);
    }
    // The lock on a candidate. A lock that was held before is not released after it.
    static Result<void> lock_key(BTreeCursor& c, txn::LockName name, SharedPage& hold) {
        if (c.gives_back_) [[unlikely]]
            c.held_before_ = covers(c.tree_.env_.locks->held(c.txn_.locks, name), LockMode::S);
        return lock(c, name, c.mode_, hold);
    }
    static void unlock_read(BTreeCursor& c, txn::LockName name) {
        if (c.gives_back_ && !c.held_before_) [[unlikely]]
            c.tree_.env_.locks->unlock(c.txn_.locks, name, LockMode::S);
    }
    static txn::LockName name_of(const BTreeCursor& c, Slice candidate) {
        if (candidate.size() > 16) return txn::key_lock_name(c.tree_.id_, candidate);
        return txn::short_key_lock_name(c.tree_.id_, load<uint64_t>(candidate.data()),
                                        load<uint64_t>(candidate.data() + 8), candidate.size());
    }

    // Is the cursor's leaf as it was when key_ was found? Then its slot still holds key_.
    static bool same_leaf(BTreeCursor& c, Position& pos) {
        if (c.leaf_ == kPageNone) return false;
        if (!c.tree_.env_.pool->try_peek(c.leaf_, pos.at)) return false;
        if (threads::latch::version_bits(pos.at.snapshot) !=
            threads::latch::version_bits(c.snapshot_))
            return false;
        pos.id = c.leaf_;
        pos.slot = c.slot_;
        return true;
    }
    // The same for a leaf that has changed, as it does when the transaction updates what it scans:
    // is it still the right one? Then `pos` stands behind the current key.
    [[gnu::noinline]] static bool find_again(BTreeCursor& c, Position& pos) {
        if (c.leaf_ == kPageNone || !c.tree_.env_.pool->try_peek(c.leaf_, pos.at)) return false;
        // BT-6.
        if (c.tree_.leaves_freed() != c.leaves_freed_ && !MUTANT(cursor_outlives_leaf))
            return false;
        const Page& page = *pos.at.page;
        const SearchKey key(c.key());
        pos.id = c.leaf_;
        pos.slot = c.slot_;
        pos.found = page.header.object == c.tree_.id_.value && page.kind() == PageKind::btree &&
                    is_leaf(page) && pos.slot < count(page) && key_equals(page, pos.slot, key);
        if (!pos.found) {
            if (!TreeOps::is_node_for(c.tree_, page, 0, key)) return false;
            pos.slot = find(page, key, pos.found);
        }
        pos.slot += pos.found;
        return true;
    }
    // Leaf for `key` by descent; after failures with a latch, so that this look is valid. False:
    // try again.
    static Result<bool> seek(BTreeCursor& c, const SearchKey& key, Side side, unsigned tries,
                             Position& pos, SharedPage& hold) {
        if (tries < kOptimisticTries) {
            TRY(TreeOps::descend(c.tree_, key, side, 0, pos));
            return true;
        }
        return TreeOps::latch_leaf_shared(c.tree_, key, side, pos, hold);
    }
    static void copy_value(BTreeCursor& c, Slice value) {
        c.value_ = Slice(c.inline_value_, std::min(value.size(), sizeof c.inline_value_));
        copy_bytes(c.inline_value_, value.substr(0, sizeof c.inline_value_));
    }
    // Writes the key at `pos` as the candidate. False: only a torn read can look like this (BN-3).
    static bool read_key(BTreeCursor& c, const Position& pos, Slice& key) {
        const Page& page = *pos.at.page;
        const Slice a = prefix(page), b = suffix(page, pos.slot);
        if (a.size() + b.size() > kKeyBytesMax) [[unlikely]]
            return false;
        char* const begin = c.keys_[c.now_ ^ 1];
        char* const end = copy_bytes(copy_bytes(begin, a), b);
        store(end, uint64_t{0});
        store(end + 8, uint64_t{0});
        key = Slice(begin, static_cast<size_t>(end - begin));
        return true;
    }
    // Does the candidate lie at or above the range's end?
    static bool beyond(const BTreeCursor& c, Slice key) {
        const uint64_t head = __builtin_bswap64(load<uint64_t>(key.data()));
        return head != c.high_head_ ? head > c.high_head_ : key >= Slice(c.high_);
    }
    // The candidate becomes the current key. A writer's next operation will be on it, and the hint
    // saves its search.
    static void settle(BTreeCursor& c, const Position& pos, Slice key, bool leaf_changed) {
        DCHECK(!c.bounded_ || key < Slice(c.high_));
        DCHECK(pos.id != kPageNone && key.data() == c.keys_[c.now_ ^ 1]);
        c.now_ ^= 1;
        c.key_bytes_ = static_cast<uint16_t>(key.size());
        c.positioned_ = true;
        if (leaf_changed) [[unlikely]] {
            c.inside_ = !c.bounded_ ||
                        (!high_infinite(*pos.at.page) && high(*pos.at.page) <= Slice(c.high_));
            c.leaf_ = pos.id;
            c.leaves_freed_ = pos.leaves_freed;
        }
        c.page_ = pos.at.page;
        c.word_ = pos.at.word;
        c.snapshot_ = pos.at.snapshot;
        c.slot_ = static_cast<uint16_t>(pos.slot);
        if (c.access_ != Access::read)
            TreeOps::remember(c.tree_, c.txn_, pos.id, pos.slot, c.leaves_freed_);
    }

    enum class Step : uint8_t { record, ghost, end, again };
    static Result<bool> step_inside(BTreeCursor& c);
    static Result<bool> enter_leaf(BTreeCursor& c, unsigned tries, Position& pos, SharedPage& hold);
    static Result<Step> next_leaf(BTreeCursor& c, Position& pos, OptimisticPage& before,
                                  SharedPage& hold);
    static Result<Step> forward(BTreeCursor& c, unsigned tries);
    static Result<Step> backward(BTreeCursor& c, unsigned tries);
    static Result<Step> take(BTreeCursor& c, Position& pos, const OptimisticPage* before, Slice key,
                             bool leaf_changed, SharedPage& hold);
    static Result<Step> first_backward(BTreeCursor& c, Position& pos, SharedPage& hold);
    [[gnu::cold, gnu::noinline]] static Result<Step> take_overflow(BTreeCursor& c,
                                                                   const OverflowRef& ref,
                                                                   txn::LockName name);

    [[gnu::cold, gnu::noinline]] static Result<Step> revalidate(const BTreeCursor& c,
                                                                unsigned tries) {
        TRY(TreeOps::backoff(c.tree_, tries, c.leaf_));
        return Step::again;
    }
    template <Result<Step> (*step)(BTreeCursor&, unsigned)>
    static Result<bool> move(BTreeCursor& c) {
        for (unsigned tries = 0;;) {
            switch (TRY(step(c, tries))) {
                case Step::record: return true;
                case Step::end: return false;
                case Step::ghost: return move_over_ghosts<step>(c);
                case Step::again: TRY(revalidate(c, ++tries));
            }
        }
    }
    // The cursor stands on a ghost. If the range ends without a further record it goes back to the
    // record it came from.
    template <Result<Step> (*step)(BTreeCursor&, unsigned)>
    [[gnu::noinline]] static Result<bool> move_over_ghosts(BTreeCursor& c) {
        Step last = Step::ghost;
        for (unsigned tries = 0; last == Step::ghost || last == Step::again;) {
            Result<Step> next = step(c, tries);
            tries = next && *next == Step::again ? tries + 1 : 0;
            if (tries > 0) next = revalidate(c, tries);
            if (!next) {
                c.ghosts_passed_ = false;
                return std::unexpected(next.error());
            }
            last = *next;
        }
        c.ghosts_passed_ = false;
        if (last == Step::record) return true;
        c.positioned_ = c.was_positioned_;
        copy_bytes(c.keys_[c.now_], c.last_record_);
        c.key_bytes_ = static_cast<uint16_t>(c.last_record_.size());
        c.leaf_ = kPageNone;
        return false;
    }
    [[gnu::noinline]] static void leave_record(BTreeCursor& c) {
        if (std::exchange(c.ghosts_passed_, true)) return;
        c.was_positioned_ = c.positioned_;
        c.last_record_.assign(c.key());
    }
};

// Locks the candidate at `pos`, copies it, and makes it the current place. `before`: the leaf the
// cursor comes from, if another.
[[gnu::always_inline]] inline Result<BTreeCursor::Ops::Step> BTreeCursor::Ops::take(
    BTreeCursor& c, Position& pos, const OptimisticPage* before, Slice key, bool leaf_changed,
    SharedPage& hold) {
    const txn::LockName name = name_of(c, key);
    TRY(lock_key(c, name, hold));
    const Page& page = *pos.at.page;
    const bool is_ghost = ghost(page, pos.slot), is_overflow = overflow(page, pos.slot);
    OverflowRef ref{};
    if (is_overflow) [[unlikely]]
        ref = overflow_ref(node::value(page, pos.slot));
    else if (!is_ghost) copy_value(c, node::value(page, pos.slot));
    // The lock stays: it was asked for a key that was there.
    if (!pos.at.valid() || (before && !before->valid())) [[unlikely]]
        return Step::again;
    if (is_ghost) [[unlikely]]
        leave_record(c);
    settle(c, pos, key, leaf_changed);
    hold.release();
    if (is_overflow && !is_ghost) [[unlikely]]
        return take_overflow(c, ref, name);
    unlock_read(c, name);
    return is_ghost && !MUTANT(cursor_sees_ghosts) ? Step::ghost : Step::record;
}

Result<BTreeCursor::Ops::Step> BTreeCursor::Ops::take_overflow(BTreeCursor& c,
                                                               const OverflowRef& ref,
                                                               txn::LockName name) {
    TRY(read_overflow(*c.tree_.env_.pool, c.tree_.id_, ref, c.large_value_));
    c.value_ = c.large_value_;
    unlock_read(c, name);
    return Step::record;
}

// The leaf of the next key, and its slot there if it is not the next leaf's first. False: try
// again.
[[gnu::noinline]] Result<bool> BTreeCursor::Ops::enter_leaf(BTreeCursor& c, unsigned tries,
                                                            Position& pos, SharedPage& hold) {
    if (c.positioned_ && tries < kOptimisticTries && find_again(c, pos)) return true;
    const SearchKey from(c.positioned_ ? c.key() : Slice(c.low_));
    if (!TRY(seek(c, from, Side::covering, tries, pos, hold))) return false;
    bool exact;
    pos.slot = find(*pos.at.page, from, exact);
    pos.slot += exact && c.positioned_;
    return true;
}

// From the end of a leaf to the begin of the next; `before` is the one that was left. Step::record:
// there is one.
[[gnu::noinline]] Result<BTreeCursor::Ops::Step> BTreeCursor::Ops::next_leaf(BTreeCursor& c,
                                                                             Position& pos,
                                                                             OptimisticPage& before,
                                                                             SharedPage& hold) {
    const PageId next = right(*pos.at.page);
    if (!pos.at.valid()) return Step::again;
    if (next == kPageNone) {
        if (serializable(c) && !MUTANT(scan_end_unprotected))
            TRY(lock(c, txn::end_lock_name(c.tree_.id_), LockMode::gap_read, hold));
        return pos.at.valid() ? Step::end : Step::again;
    }
    before = pos.at;
    if (!hold) c.leave_leaf(c.positioned_ ? c.key() : Slice(c.low_), true);
    Result<OptimisticPage> seen_page = c.tree_.env_.pool->fix_optimistic(next);
    if (!before.valid()) return Step::again;
    if (!seen_page) return std::unexpected(seen_page.error());
    pos.at = *seen_page;
    pos.id = next;
    pos.slot = 0;
    // BT-5: only a torn read can look like this.
    return count(*pos.at.page) != 0 ? Step::record : Step::again;
}

[[gnu::always_inline]] inline Result<BTreeCursor::Ops::Step> BTreeCursor::Ops::forward(
    BTreeCursor& c, unsigned tries) {
    Position pos;
    SharedPage hold;
    OptimisticPage before;
    pos.leaves_freed = c.tree_.leaves_freed();
    bool changed = !(c.positioned_ && tries < kOptimisticTries && same_leaf(c, pos));
    if (!changed) [[likely]]
        ++pos.slot;
    else if (!TRY(enter_leaf(c, tries, pos, hold))) return Step::again;
    if (pos.slot >= count(*pos.at.page)) [[unlikely]] {
        const Step step = TRY(next_leaf(c, pos, before, hold));
        if (step != Step::record) return step;
        changed = true;
    }
    Slice key;
    if (!read_key(c, pos, key) || !pos.at.valid()) [[unlikely]]
        return Step::again;
    if (c.bounded_ && (changed || !c.inside_) && beyond(c, key)) [[unlikely]] {
        if (serializable(c) && !MUTANT(scan_bound_unprotected))
            TRY(lock(c, name_of(c, key), LockMode::gap_read, hold));
        return pos.at.valid() && (!before.page || before.valid()) ? Step::end : Step::again;
    }
    return take(c, pos, before.page ? &before : nullptr, key, changed, hold);
}

// Protects the gap above the place where a backward scan begins: up to the next key, in this leaf
// or the next.
Result<BTreeCursor::Ops::Step> BTreeCursor::Ops::first_backward(BTreeCursor& c, Position& pos,
                                                                SharedPage& hold) {
    TreeOps::NextKey above;
    if (!TRY(TreeOps::next_key(c.tree_, *pos.at.page, pos.slot, &pos.at, above)) || !pos.at.valid())
        return Step::again;
    TRY(lock(c, above.name, LockMode::gap_read, hold));
    if (!pos.at.valid() || !above.valid()) return Step::again;
    c.gap_above_locked_ = true;
    return Step::record;
}

Result<BTreeCursor::Ops::Step> BTreeCursor::Ops::backward(BTreeCursor& c, unsigned tries) {
    Position pos;
    SharedPage hold;
    pos.leaves_freed = c.tree_.leaves_freed();
    char fence[kKeyBytesMax];
    const bool same = c.positioned_ && tries < kOptimisticTries && same_leaf(c, pos);
    bool infinite = !c.positioned_ && !c.bounded_;
    Slice bound = c.positioned_ ? c.key() : Slice(c.high_);
    for (bool first_leaf = true;; first_leaf = false) {
        if (!same || !first_leaf) {
            if (infinite) TRY(TreeOps::descend_last(c.tree_, pos));
            else if (!TRY(seek(c, bound, Side::below, tries, pos, hold))) return Step::again;
            pos.slot = infinite ? count(*pos.at.page) : search(*pos.at.page, bound).slot;
        }
        if (pos.slot > 0) break;
        // Nothing below the bound here: go on to the left of this leaf.
        const Slice low_fence = low(*pos.at.page);
        const size_t n = std::min(low_fence.size(), sizeof fence);
        std::memcpy(fence, low_fence.data(), n);
        if (!pos.at.valid()) return Step::again;
        hold.release();
        if (n == 0) break;
        bound = Slice(fence, n);
        infinite = false;
        c.leave_leaf(bound, false);
    }
    if (!c.positioned_ && serializable(c) && !c.gap_above_locked_ &&
        !MUTANT(backward_gap_unprotected)) {
        if (TRY(first_backward(c, pos, hold)) == Step::again) return Step::again;
    }
    if (pos.slot == 0) return pos.at.valid() ? Step::end : Step::again;
    --pos.slot;
    Slice key;
    if (!read_key(c, pos, key) || !pos.at.valid()) [[unlikely]]
        return Step::again;
    if (key < Slice(c.low_)) return Step::end;
    return take(c, pos, nullptr, key, !same || pos.id != c.leaf_, hold);
}

// The common step: to a record in the range, in a leaf that has not changed since the last step. It
// needs only the lock. False: the general step decides; a lock that was taken stays held.
[[gnu::always_inline]] inline Result<bool> BTreeCursor::Ops::step_inside(BTreeCursor& c) {
    if (!c.positioned_ || c.leaf_ == kPageNone || c.gives_back_) [[unlikely]]
        return false;
    const OptimisticPage at{c.page_, c.word_, c.snapshot_};
    if (!at.valid()) [[unlikely]]
        return false;
    const Page& page = *at.page;
    const unsigned slot = c.slot_ + 1u;
    Position pos;
    pos.at = at;
    pos.id = c.leaf_;
    pos.slot = slot;
    Slice key;
    if (slot >= count(page) || !read_key(c, pos, key) || !at.valid()) [[unlikely]]
        return false;
    if (c.bounded_ && !c.inside_ && beyond(c, key)) [[unlikely]]
        return false;
    TRY(lock(c, name_of(c, key), c.mode_));
    if (slots(page)[slot].bits & (kGhost | kOverflow)) [[unlikely]]
        return false;
    copy_value(c, node::value(page, slot));
    if (!at.valid()) [[unlikely]]
        return false;
    DCHECK(c.key() < key && (!c.bounded_ || key < Slice(c.high_)));  // BT-1
    c.now_ ^= 1;
    c.key_bytes_ = static_cast<uint16_t>(key.size());
    c.slot_ = static_cast<uint16_t>(slot);
    if (c.access_ != Access::read)
        TreeOps::remember(c.tree_, c.txn_, c.leaf_, slot, c.leaves_freed_);
    return true;
}

Result<bool> BTreeCursor::next() {
    assert_state();
    if (TRY(Ops::step_inside(*this))) [[likely]]
        return true;
    return Ops::move<&Ops::forward>(*this);
}
Result<bool> BTreeCursor::prev() {
    assert_state();
    return Ops::move<&Ops::backward>(*this);
}

}  // namespace lockstep::sm
