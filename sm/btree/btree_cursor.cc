// btree_cursor.cc - ordered scans under the transaction's isolation, in both directions.
//
// Concepts   Each step finds a candidate optimistically, validates, locks the candidate's name,
//            copies, validates again.
//            Forward at serializable, the lock on the candidate includes the gap below it. The
//            leaves between the old and the new place are validated after the lock, so the gap was
//            empty when it became protected.
//            Backward, the gap below the current key is protected before the step reads it. Only
//            the first step locks the gap above the largest key.
//            Before a step locks and copies its record, it asks for the lines of the next one.
//            Ghosts are locked like records, because their deleter may still roll back, and then
//            skipped.
//            A snapshot trusts a leaf that has not changed since. While the leaf's version stays,
//            that is known, so a step inside it neither asks again nor looks for versions.
// Blocking   A step waits for a lock with no latch held. It then searches again from its current
//            key.
#include "sm/btree/btree_cursor.h"

#include "sm/btree/btree_impl.h"
#include "sm/btree/overflow.h"
#include "sm/core/lock_wait.h"
#include "sm/version/quiet.h"
#include "threads/base/hints.h"

namespace lockstep::sm {

using namespace node;
using txn::LockMode;

BTreeCursor::BTreeCursor(BTree& tree, txn::Transaction& txn, Slice low, Slice high, Access access,
                         IfLocked if_locked)
    : tree_(tree),
      txn_(txn),
      low_(low),
      high_(high),
      high_head_(key_head8(high.data(), high.size())),
      bounded_(!high.empty()),
      access_(access),
      if_locked_(if_locked) {
    static_assert(sizeof inline_value_ >= kInlineMax);
    mode_ = mode_of(access);
    if (txn::rules_of(txn.isolation).by_snapshot) {
        sees_ = local_of(txn).snapshot;
        keeps_ = Keeps::none;
        return;
    }
    if (serializable()) {
        local_of(txn).gap_reader = txn.id;
        mode_ = mode_ | LockMode::gap_read;
    }
    if (access == Access::read && txn::rules_of(txn.isolation).gives_back) keeps_ = Keeps::moment;
}

// What the snapshot sees of the leaf may be more or less than the leaf has.
inline bool BTreeCursor::unquiet(const Position& pos) const {
    return sees_ != nullptr && !is_quiet(*sees_, *pos.at.page);
}

// The lock on a candidate. At read_committed it is taken only where the look finds a writer (LM-9):
// the candidate's leaf has a version already, which is validated behind the look.
inline Result<bool> BTreeCursor::lock_key(txn::LockName name, SharedPage& hold) {
    if (keeps_ != Keeps::lock) [[unlikely]]
        return keeps_ == Keeps::none || TRY(look_at_key(name, hold));
    return lock(name, mode_, hold);
}
inline txn::LockName BTreeCursor::name_of(Slice candidate) const {
    if (candidate.size() > 16) return txn::key_lock_name(tree_.id(), candidate);
    return txn::short_key_lock_name(tree_.id(), load<uint64_t>(candidate.data()),
                                    load<uint64_t>(candidate.data() + 8), candidate.size());
}

// Is the cursor's leaf as it was when key_ was found? Then its slot still holds key_.
inline bool BTreeCursor::same_leaf(Position& pos) {
    if (leaf_ == kPageNone) return false;
    if (!tree_.env().pool->try_fix_optimistic(leaf_, pos.at)) return false;
    if (threads::latch::version_bits(pos.at.snapshot) != threads::latch::version_bits(snapshot_))
        return false;
    pos.id = leaf_;
    pos.slot = slot_;
    return true;
}
// Leaf for `key` by descent; after failures with a latch, so that this look is valid. False:
// try again.
inline Result<bool> BTreeCursor::seek(const SearchKey& key, Side side, unsigned tries,
                                      Position& pos, SharedPage& hold) {
    if (tries < kOptimisticTries) {
        TRY(tree_.descend(key, side, 0, pos));
        return true;
    }
    return tree_.latch_leaf_shared(key, side, pos, hold);
}
inline void BTreeCursor::copy_value(Slice value) {
    value_ = Slice(inline_value_, std::min(value.size(), sizeof inline_value_));
    copy_bytes(inline_value_, value.substr(0, sizeof inline_value_));
    record_bytes_ = static_cast<uint16_t>(kRecordHead + key_bytes_ + value_.size());
}
// Asks for the lines of the record that the next step copies, as many as the last one had. The page
// may change, but a hint may name any address.
inline void BTreeCursor::ask_for_record(const Page& page, unsigned slot) const {
    const char* const at = chars(page) + slots(page)[slot].at;
    prefetch_line(at);
    for (size_t line = kCacheLineBytes; line < record_bytes_; line += kCacheLineBytes)
        prefetch_line(at + line);
}
inline void BTreeCursor::ask_for_next(const Page& page, unsigned slot) const {
    if (slot + 1 < count(page)) [[likely]]
        return ask_for_record(page, slot + 1);
    if (const Page* const next = tree_.env().pool->resident(right(page))) ask_for_record(*next, 0);
}
// Asks for what a step from this leaf into the next one reads first.
inline void BTreeCursor::ask_for_leaf_behind(const Page& page) const {
    const Page* const next = tree_.env().pool->resident(right(page));
    if (next == nullptr) return;
    prefetch_line(chars(*next));
    prefetch_line(chars(*next) + kSlotsAt);
}
// Writes the key at `pos` as the candidate. False: only a torn read can look like this (BN-3).
inline bool BTreeCursor::read_key(const Position& pos, Slice& key) {
    const Page& page = *pos.at.page;
    const Slice a = prefix(page), b = suffix(page, pos.slot);
    if (a.size() + b.size() > kKeyBytesMax) [[unlikely]]
        return false;
    char* const begin = keys_[now_ ^ 1];
    char* const end = copy_bytes(copy_bytes(begin, a), b);
    store(end, uint64_t{0});
    store(end + 8, uint64_t{0});
    key = Slice(begin, static_cast<size_t>(end - begin));
    return true;
}
// Does the candidate lie at or above the range's end?
inline bool BTreeCursor::beyond(Slice key) const {
    const uint64_t head = __builtin_bswap64(load<uint64_t>(key.data()));
    return head != high_head_ ? head > high_head_ : key >= Slice(high_);
}
// The candidate becomes the current key. A writer's next operation will be on it, and the hint
// saves its search.
inline void BTreeCursor::make_current(const Position& pos, Slice key, bool leaf_changed) {
    DCHECK(!bounded_ || key < Slice(high_));
    DCHECK(pos.id != kPageNone && key.data() == keys_[now_ ^ 1]);
    now_ ^= 1;
    key_bytes_ = static_cast<uint16_t>(key.size());
    positioned_ = true;
    if (leaf_changed) [[unlikely]] {
        inside_ = !bounded_ || (!high_infinite(*pos.at.page) && high(*pos.at.page) <= Slice(high_));
        leaf_ = pos.id;
        leaves_freed_ = pos.leaves_freed;
        if (inside_) ask_for_leaf_behind(*pos.at.page);
    }
    page_ = pos.at.page;
    word_ = pos.at.word;
    snapshot_ = pos.at.snapshot;
    slot_ = static_cast<uint16_t>(pos.slot);
    if (access_ != Access::read) tree_.remember(txn_, pos.id, pos.slot, leaves_freed_);
}

template <Result<BTreeCursor::Step> (BTreeCursor::*step)(unsigned)>
Result<BTreeCursor::Step> BTreeCursor::move_once() {
    waited_ = false;
    for (unsigned tries = 0;;) {
        const Result<Step> made = (this->*step)(tries);
        if (!made || *made != Step::again) return made;
        tries = TRY(try_again(tries));
    }
}
template <Result<BTreeCursor::Step> (BTreeCursor::*step)(unsigned)>
Result<BTreeCursor::Step> BTreeCursor::move() {
    const Result<Step> made = move_once<step>();
    if (made && *made == Step::ghost) return move_over_ghosts<step>();
    const bool overwritten = std::exchange(overwritten_, false);
    if (made && *made == Step::record) [[likely]]
        return made;
    return stay(made, overwritten);
}
// The cursor stands on a ghost. If the range ends without a further record it goes back to the
// record it came from.
template <Result<BTreeCursor::Step> (BTreeCursor::*step)(unsigned)>
Result<BTreeCursor::Step> BTreeCursor::move_over_ghosts() {
    Result<Step> made = Step::ghost;
    while (made && *made == Step::ghost) made = move_once<step>();
    ghosts_passed_ = false;
    const bool overwritten = std::exchange(overwritten_, false);
    if (made && *made == Step::record) return made;
    positioned_ = was_positioned_;
    copy_bytes(keys_[now_], last_record_);
    key_bytes_ = static_cast<uint16_t>(last_record_.size());
    leaf_ = kPageNone;
    return stay(made, overwritten);
}
// Locks the candidate at `pos`, copies it, and makes it the current place. `before`: the leaf the
// cursor comes from, if another.
[[gnu::always_inline]] inline Result<BTreeCursor::Step> BTreeCursor::take(
    Position& pos, const OptimisticPage* before, Slice key, bool leaf_changed, SharedPage& hold) {
    const txn::LockName name = name_of(key);
    bool passed_over = !TRY(lock_key(name, hold));
    if (passed_over) [[unlikely]]
        passed_over = !TRY(wait(name, key));
    const Page& page = *pos.at.page;
    const bool is_overflow = overflow(page, pos.slot) && !passed_over;
    OverflowRef ref{};
    if (is_overflow) [[unlikely]] {
        ref = overflow_ref(node::value(page, pos.slot));
        // Without the lock its pages may be freed.
        if (keeps_ == Keeps::moment && !to_unlock_)
            if (!lock_briefly(name, hold)) [[unlikely]]
                passed_over = !TRY(wait(name, key));
    }
    const bool is_ghost = ghost(page, pos.slot) || passed_over;
    if (!is_overflow && !is_ghost) copy_value(node::value(page, pos.slot));
    // The lock stays: it was asked for a key that was there.
    if (!pos.at.valid() || (before && !before->valid())) [[unlikely]] {
        overwritten_ = true;
        keep_for_next_try(name);
        return Step::again;
    }
    if (is_ghost) [[unlikely]]
        leave_record();
    make_current(pos, key, leaf_changed);
    hold.release();
    if (is_overflow && !is_ghost) [[unlikely]]
        return take_overflow(ref, name);
    unlock_read(name);
    return is_ghost ? Step::ghost : Step::record;
}

// The leaf of the next key, and its slot there if it is not the next leaf's first. False: try
// again.
[[gnu::noinline]] Result<bool> BTreeCursor::enter_leaf(unsigned tries, Position& pos,
                                                       SharedPage& hold) {
    if (positioned_ && tries < kOptimisticTries && find_again(pos)) return true;
    const SearchKey from(positioned_ ? key() : Slice(low_));
    if (tries == 0 && local_of(txn_).places != nullptr && tree_.try_place(txn_, from, pos))
        [[unlikely]] {
        pos.slot += pos.found && positioned_;
        return true;
    }
    if (!TRY(seek(from, Side::covering, tries, pos, hold))) return false;
    bool exact;
    pos.slot = find(*pos.at.page, from, exact);
    pos.slot += exact && positioned_;
    return true;
}

// From the end of a leaf to the begin of the next; `before` is the one that was left. Step::record:
// there is one.
[[gnu::noinline]] Result<BTreeCursor::Step> BTreeCursor::next_leaf(Position& pos,
                                                                   OptimisticPage& before,
                                                                   SharedPage& hold) {
    const PageId next = right(*pos.at.page);
    if (!pos.at.valid()) return Step::again;
    if (next == kPageNone) {
        if (serializable())
            if (const txn::LockName end = txn::end_lock_name(tree_.id());
                !lock(end, LockMode::gap_read, hold)) [[unlikely]]
                TRY(wait_for_gap_below(end, nullptr));
        return pos.at.valid() ? Step::end : Step::again;
    }
    before = pos.at;
    if (!hold) leave_leaf(positioned_ ? key() : Slice(low_), true);
    Result<OptimisticPage> seen_page = tree_.env().pool->fix_optimistic(next);
    if (!before.valid()) return Step::again;
    if (!seen_page) return std::unexpected(seen_page.error());
    pos.at = *seen_page;
    pos.id = next;
    pos.slot = 0;
    if (is_node_of(*pos.at.page, tree_.id(), 0) && count(*pos.at.page) != 0 &&  // BT-5
        low(*pos.at.page) == high(*before.page)) [[likely]]                     // BT-2
        return Step::record;
    if (pos.at.valid() && before.valid()) return tree_.damaged(next);
    return Step::again;
}

// The range ends before the candidate, which lies at `at`. At serializable, the gap below the
// candidate is part of the range.
[[gnu::noinline]] Result<BTreeCursor::Step> BTreeCursor::stop_before(Slice key,
                                                                     const OptimisticPage& at,
                                                                     SharedPage& hold) {
    DCHECK(bounded_ && beyond(key));
    if (serializable())
        if (const txn::LockName name = name_of(key); !lock(name, LockMode::gap_read, hold))
            [[unlikely]]
            TRY(wait_for_gap_below(name, &key));
    return at.valid() ? Step::end : Step::again;
}

[[gnu::always_inline]] inline Result<BTreeCursor::Step> BTreeCursor::forward(unsigned tries) {
    Position pos;
    SharedPage hold;
    OptimisticPage before;
    pos.leaves_freed = tree_.leaves_freed();
    bool changed = !(positioned_ && tries < kOptimisticTries && same_leaf(pos));
    if (!changed) [[likely]]
        ++pos.slot;
    else if (!TRY(enter_leaf(tries, pos, hold))) return Step::again;
    else if (unquiet(pos)) [[unlikely]] return Step::unquiet;
    if (pos.slot >= count(*pos.at.page)) [[unlikely]] {
        const Step step = TRY(next_leaf(pos, before, hold));
        if (step != Step::record) return step;
        if (unquiet(pos)) [[unlikely]]
            return Step::unquiet;
        changed = true;
    }
    if (changed) ask_for_next(*pos.at.page, pos.slot);
    Slice key;
    if (!read_key(pos, key) || !pos.at.valid()) [[unlikely]]
        return Step::again;
    if (bounded_ && (changed || !inside_) && beyond(key)) [[unlikely]] {
        const Step step = TRY(stop_before(key, pos.at, hold));
        return !before.page || before.valid() ? step : Step::again;
    }
    return take(pos, before.page ? &before : nullptr, key, changed, hold);
}

// Protects the gap above the place where a backward scan begins: up to the next key, in this leaf
// or the next. `passed`: leaves to the right had nothing below the bound when they were passed.
Result<BTreeCursor::Step> BTreeCursor::first_backward(Position& pos, bool passed,
                                                      SharedPage& hold) {
    BTree::NextKey above;
    if (!TRY(tree_.next_key(*pos.at.page, pos.slot, &pos.at, above)) || !pos.at.valid())
        return Step::again;
    const Slice bound(high_);
    if (!lock(above.name, LockMode::gap_read, hold)) [[unlikely]]
        TRY(wait_for_gap_below(above.name, bounded_ ? &bound : nullptr));
    // By now they may have: a key that the scan would miss, with its gap locked instead of the one
    // above it.
    if (passed && bounded_) {
        const bool here = above.sibling.page == nullptr;
        const Page& page = here ? *pos.at.page : *above.sibling.page;
        if (search(page, Slice(high_)).slot != (here ? pos.slot : 0)) return Step::again;
    }
    if (!pos.at.valid() || !above.valid()) return Step::again;
    gap_above_locked_ = true;
    return Step::record;
}

Result<BTreeCursor::Step> BTreeCursor::backward(unsigned tries) {
    Position pos;
    SharedPage hold;
    pos.leaves_freed = tree_.leaves_freed();
    char fence[kKeyBytesMax];
    const bool same = positioned_ && tries < kOptimisticTries && same_leaf(pos);
    bool infinite = !positioned_ && !bounded_, passed = false;
    Slice bound = positioned_ ? key() : Slice(high_);
    for (bool first_leaf = true;; first_leaf = false) {
        const bool sought = !infinite && (!same || !first_leaf);
        if (!same || !first_leaf) {
            if (infinite) TRY(tree_.descend_last(pos));
            else if (!TRY(seek(bound, Side::below, tries, pos, hold))) return Step::again;
            if (unquiet(pos)) [[unlikely]]
                return Step::unquiet;
            pos.slot = infinite ? count(*pos.at.page) : search(*pos.at.page, bound).slot;
        }
        if (pos.slot > 0) break;
        // Nothing below the bound here: go on to the left of this leaf.
        const Slice low_fence = low(*pos.at.page).substr(0, sizeof fence);
        const size_t n = low_fence.size();
        // What was sought below a bound begins below it; else the scan would come here for ever.
        const bool wrong = sought && n != 0 && low_fence >= bound;
        std::memcpy(fence, low_fence.data(), n);
        if (!pos.at.valid()) return Step::again;
        hold.release();
        if (wrong) [[unlikely]]
            return tree_.damaged(pos.id);
        if (n == 0) break;
        bound = Slice(fence, n);
        infinite = false;
        passed = true;
        leave_leaf(bound, false);
    }
    if (!positioned_ && serializable() && !gap_above_locked_) {
        if (TRY(first_backward(pos, passed, hold)) == Step::again) return Step::again;
    }
    if (pos.slot == 0) return pos.at.valid() ? Step::end : Step::again;
    --pos.slot;
    Slice key;
    if (!read_key(pos, key) || !pos.at.valid()) [[unlikely]]
        return Step::again;
    if (key < Slice(low_)) return Step::end;
    if (pos.slot > 0) ask_for_record(*pos.at.page, pos.slot - 1);
    return take(pos, nullptr, key, !same || pos.id != leaf_, hold);
}

// The common step: to a record in the range, or to the end of the range, in a leaf that has not
// changed since the last step. It needs only the lock. Step::again: the general step decides; a
// lock that was taken stays held.
[[gnu::always_inline]] inline Result<BTreeCursor::Step> BTreeCursor::step_inside() {
    if (!positioned_ || leaf_ == kPageNone) [[unlikely]]
        return Step::again;
    const OptimisticPage at{page_, word_, snapshot_};
    if (!at.valid()) [[unlikely]]
        return Step::again;
    const Page& page = *at.page;
    const unsigned slot = slot_ + 1u;
    Position pos;
    pos.at = at;
    pos.id = leaf_;
    pos.slot = slot;
    Slice key;
    if (slot >= count(page) || !read_key(pos, key) || !at.valid()) [[unlikely]]
        return Step::again;
    if (bounded_ && !inside_ && beyond(key)) [[unlikely]] {
        SharedPage none;
        return stop_before(key, at, none);
    }
    ask_for_next(page, slot);
    if (keeps_ != Keeps::lock) [[unlikely]] {
        if (keeps_ == Keeps::moment &&
            (!intended_ || !tree_.env().locks->only_committed(txn_.locks, name_of(key))))
            return Step::again;
    } else if (const txn::LockName name = name_of(key); !lock(name, mode_)) [[unlikely]] {
        if (!TRY(wait(name, key))) return Step::again;
    }
    if (slots(page)[slot].bits & (kGhost | kOverflow)) [[unlikely]]
        return Step::again;
    copy_value(node::value(page, slot));
    if (!at.valid()) [[unlikely]] {
        overwritten_ = true;
        return Step::again;
    }
    DCHECK(this->key() < key && (!bounded_ || key < Slice(high_)));  // BT-1
    now_ ^= 1;
    key_bytes_ = static_cast<uint16_t>(key.size());
    slot_ = static_cast<uint16_t>(slot);
    if (access_ != Access::read) tree_.remember(txn_, leaf_, slot, leaves_freed_);
    return Step::record;
}

// Pages that are not the tree's own any more tell less than its history.
Result<bool> BTreeCursor::move_in_snapshot(bool up) {
    if (snapshot_scan_) return move_snapshot_scan(up);
    const Snapshot& snapshot = *sees_;
    TRY(tree_.history().check(snapshot, tree_.lock()));
    if (tree_.history().empty_to(snapshot)) return false;
    const Result<Step> made = up ? move<&BTreeCursor::forward>() : move<&BTreeCursor::backward>();
    TRY(tree_.history().check(snapshot, tree_.lock()));
    if (!made) return std::unexpected(made.error());
    if (*made != Step::unquiet) return *made == Step::record;
    begin_snapshot_scan();
    return move_snapshot_scan(up);
}
Result<bool> BTreeCursor::next() {
    assert_state();
    const Step step = TRY(step_inside());
    if (step == Step::record) [[likely]]
        return true;
    if (step == Step::end) {
        unlock_kept();
        return false;
    }
    if (sees_ != nullptr) return move_in_snapshot(true);
    return TRY(move<&BTreeCursor::forward>()) == Step::record;
}
Result<bool> BTreeCursor::prev() {
    assert_state();
    if (sees_ != nullptr) return move_in_snapshot(false);
    return TRY(move<&BTreeCursor::backward>()) == Step::record;
}

}  // namespace lockstep::sm
