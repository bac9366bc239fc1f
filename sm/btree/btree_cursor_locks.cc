// btree_cursor_locks.cc - the locks of a cursor beside the plain one on a candidate: looks, brief
// locks, and waits.
#include "sm/btree/btree_cursor.h"
#include "sm/btree/btree_impl.h"
#include "sm/btree/overflow.h"
#include "sm/core/lock_wait.h"

namespace lockstep::sm {

using txn::covers;
using txn::LockMode;

Result<bool> BTreeCursor::look_at_key(txn::LockName name, SharedPage& hold) {
    to_unlock_ = kept_ == name;
    if (to_unlock_) [[unlikely]] {
        kept_ = {};
        return true;
    }
    unlock_kept();
    if (!intended_) {
        txn::LockManager& locks = *tree_.env().locks;
        if (!hold || !TRY(locks.try_lock_object(txn_.locks, tree_.lock(), LockMode::IS))) {
            hold.release();
            TRY(locks.lock_object(txn_.locks, tree_.lock(), LockMode::IS));
        }
        intended_ = true;
    }
    if (tree_.env().locks->only_committed(txn_.locks, name)) return true;
    return lock_briefly(name, hold);
}
// A lock that was held before is not released after the read.
bool BTreeCursor::lock_briefly(txn::LockName name, SharedPage& hold) {
    to_unlock_ = !covers(tree_.env().locks->held(txn_.locks, name), LockMode::S);
    return lock(name, mode_, hold);
}
void BTreeCursor::unlock_kept() {
    if (kept_ == txn::LockName{}) return;
    tree_.env().locks->unlock(txn_.locks, std::exchange(kept_, {}), LockMode::S);
}

Result<BTreeCursor::Step> BTreeCursor::take_overflow(const OverflowRef& ref, txn::LockName name) {
    TRY(read_overflow(*tree_.env().pool, tree_.id(), ref, large_value_));
    value_ = large_value_;
    unlock_read(name);
    return Step::record;
}

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
    const Refused refused{tree_.lock(), name, LockMode::gap_read};
    waited_ = true;
    return bounded_ ? wait_for_gap(locks, txn_.locks, refused, high_)
                    : wait_for_end(locks, txn_.locks, refused);
}

}  // namespace lockstep::sm
