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
            const NeverWaits never(txn_.locks, never_waits());
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

// What cannot be passed over is the gap below the key: at serializable it is part of the range.
Result<bool> BTreeCursor::wait(txn::LockName name, Slice key) {
    DCHECK(name.value != 0 && mode_ != LockMode::none && sees_ == nullptr);
    waited_ = true;
    txn::LockManager& locks = *tree_.env().locks;
    const NeverWaits never(txn_.locks, never_waits());
    const Result<void> locked = wait_for_key(locks, txn_.locks, {tree_.lock(), name, mode_}, key);
    if (locked) return true;
    if (if_locked_ != IfLocked::skip || locked.error().code != ErrorCode::lock_refused ||
        (serializable() && !lock(name, LockMode::gap_read)))
        return std::unexpected(locked.error());
    to_unlock_ = false;
    return false;
}

Result<void> BTreeCursor::wait_for_gap_below(txn::LockName name, const Slice* key) {
    txn::LockManager& locks = *tree_.env().locks;
    const Refused refused{tree_.lock(), name, LockMode::gap_read};
    DCHECK(serializable() && name.value != 0);
    DCHECK(threads::current()->latch_depth == 0);  // BT-3
    const NeverWaits never(txn_.locks, never_waits());
    waited_ = true;
    return key != nullptr ? wait_for_gap(locks, txn_.locks, refused, *key)
                          : wait_for_end(locks, txn_.locks, refused);
}

}  // namespace lockstep::sm
