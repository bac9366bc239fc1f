// btree_cursor_snapshot.cc - how a snapshot's cursor goes on behind the first leaf that has changed
// since its snapshot began.
#include "sm/btree/btree_cursor.h"
#include "sm/btree/btree_impl.h"

namespace lockstep::sm {

// The scan continues at the cursor's record. From now on the cursor has no leaf of its own, so it
// takes no short path.
void BTreeCursor::begin_snapshot_scan() {
    DCHECK(sees_ != nullptr && !snapshot_scan_ && !ghosts_passed_);
    snapshot_scan_ =
        std::make_unique<SnapshotScan>(tree_, *sees_, Slice(low_), Slice(high_), keys_[now_]);
    if (positioned_) snapshot_scan_->stand_at(key());
    leaf_ = kPageNone;
}

Result<bool> BTreeCursor::move_snapshot_scan(bool up) {
    DCHECK(leaf_ == kPageNone && access_ == Access::read);
    DCHECK(sees_ != nullptr && !ghosts_passed_);
    if (!TRY(up ? snapshot_scan_->next() : snapshot_scan_->prev())) return false;
    DCHECK(snapshot_scan_->key_bytes() <= kKeyBytesMax);
    key_bytes_ = static_cast<uint16_t>(snapshot_scan_->key_bytes());  // of keys_[now_]
    value_ = snapshot_scan_->value();
    positioned_ = true;
    return true;
}

}  // namespace lockstep::sm
