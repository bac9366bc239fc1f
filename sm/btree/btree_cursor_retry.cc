// btree_cursor_retry.cc - what a cursor does behind a vain try: it waits, counts the try, and finds
// its place and its record again.
#include "sm/btree/btree_cursor.h"
#include "sm/btree/btree_impl.h"
#include "sm/core/lock_wait.h"

namespace lockstep::sm {

using namespace node;

// The leaf changed while the candidate was locked or waited for. At read_committed the lock would
// stay until the end of the transaction, so it is released, but not before the next try: on a hot
// record each try would have to wait again.
void BTreeCursor::keep_for_next_try(txn::LockName name) {
    DCHECK(kept_ == txn::LockName{});
    if (std::exchange(to_unlock_, false)) kept_ = name;
}

// Waits for the lock on a key that lock() refused.
Result<void> BTreeCursor::wait(txn::LockName name, txn::LockMode mode, Slice key) {
    DCHECK(name.value != 0 && mode != txn::LockMode::none);
    waited_ = true;
    return wait_for_key(*tree_.env().locks, txn_.locks, {tree_.lock(), name, mode}, key);
}

Result<void> BTreeCursor::wait_above(txn::LockName name) {
    txn::LockManager& locks = *tree_.env().locks;
    const Refused refused{tree_.lock(), name, txn::LockMode::gap_read};
    waited_ = true;
    return bounded_ ? wait_for_gap(locks, txn_.locks, refused, high_)
                    : wait_for_end(locks, txn_.locks, refused);
}

// The cursor's leaf has changed, as it does when the transaction updates what it scans. Is it still
// the right one? Then `pos` stands behind the current key.
bool BTreeCursor::find_again(Position& pos) {
    if (leaf_ == kPageNone || !tree_.env().pool->try_fix_optimistic(leaf_, pos.at)) return false;
    // BT-6.
    if (tree_.leaves_freed() != leaves_freed_) return false;
    const Page& page = *pos.at.page;
    const SearchKey wanted(key());
    pos.id = leaf_;
    pos.slot = slot_;
    pos.found = is_node_of(page, tree_.id(), 0) && pos.slot < count(page) &&
                key_equals(page, pos.slot, wanted);
    if (!pos.found) {
        if (!tree_.is_node_for(page, 0, wanted)) return false;
        pos.slot = find(page, wanted, pos.found);
    }
    pos.slot += pos.found;
    return true;
}

// The number of tries so far. Only failed looks are a sign of a damaged page: after a wait for a
// lock, the count begins anew.
Result<unsigned> BTreeCursor::try_again(unsigned tries) {
    const bool waited = std::exchange(waited_, false);
    tries = waited ? kOptimisticTries : tries + 1;
    TRY(tree_.backoff(tries, leaf_));
    return tries;
}

// The cursor stays on its record. But at read_committed the record is locked.
Result<void> BTreeCursor::read_again() {
    DCHECK(positioned_ && !ghosts_passed_ && !snapshot_scan_);
    ValueOut out{.text = &large_value_};
    const std::string key(this->key());
    if (!TRY(tree_.fetch(txn_, key, access_, out))) large_value_.clear();
    value_ = large_value_;
    return {};
}

void BTreeCursor::leave_record() {
    if (std::exchange(ghosts_passed_, true)) return;
    was_positioned_ = positioned_;
    last_record_.assign(key());
}

}  // namespace lockstep::sm
