// btree_cursor_retry.cc - what a cursor does behind a vain try: it counts the try, and finds its
// place and its record again.
#include "sm/btree/btree_cursor.h"
#include "sm/btree/btree_impl.h"
#include "sm/core/lock_wait.h"

namespace lockstep::sm {

using namespace node;

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

// The cursor stays on its record, also for a step that was refused a lock and may be made again.
Result<BTreeCursor::Step> BTreeCursor::stay(Result<Step> made, bool overwritten) {
    DCHECK(!made.has_value() || *made == Step::end || *made == Step::unquiet);
    unlock_kept();
    if (overwritten && positioned_ && (made || made.error().code == ErrorCode::lock_refused))
        TRY(read_again());
    // Nothing was locked, so the index may have been dropped before: an end is none then.
    if (made && *made == Step::end && !positioned_ && sees_ == nullptr) {
        const NeverWaits never(txn_.locks, never_waits());
        TRY(tree_.env().locks->lock_object(txn_.locks, tree_.lock(), txn::LockMode::IS));
    }
    return made;
}

// But at read_committed the record is not locked, and may be gone, or locked by now.
Result<void> BTreeCursor::read_again() {
    DCHECK(positioned_ && !ghosts_passed_ && !snapshot_scan_);
    ValueOut out{.text = &large_value_};
    const std::string key(this->key());
    const NeverWaits never(txn_.locks, never_waits());
    const Result<bool> found = tree_.fetch(txn_, key, access_, out);
    if (!found.has_value() && found.error().code != ErrorCode::lock_refused)
        return std::unexpected(found.error());
    if (!found.has_value() || !*found) large_value_.clear();
    value_ = large_value_;
    return {};
}

void BTreeCursor::leave_record() {
    if (std::exchange(ghosts_passed_, true)) return;
    was_positioned_ = positioned_;
    last_record_.assign(key());
}

}  // namespace lockstep::sm
