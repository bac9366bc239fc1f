// snapshot_set.cc - opening and closing snapshots.
//
// Why a version is never freed too early (SN-1). Opening stores a lower bound of S into oldest_ and
// the upper bound into newest_, and only then reads the log's end, all sequentially consistent. A
// thread that frees the version of a committed transaction reads these bounds after the commit
// record got its place. If it misses the stores, the log's end is read later and lies above that
// record: the snapshot sees the transaction and does not need the version.
#include "sm/version/snapshot_set.h"

#include "threads/runtime/runtime.h"
#include "txn/log/log.h"

namespace lockstep::sm {

void SnapshotSet::add(Snapshot& snapshot, const txn::Log& log) {
    const SpinGuard guard(lock_);
    DCHECK(!snapshot.listed_ && !snapshot.too_old.load());
    if (first_ == nullptr) oldest_.store(log.tail().value);
    newest_.store(kLsnMax.value);
    snapshot.sees = log.tail();
    snapshot.older_ = last_;
    snapshot.younger_ = nullptr;
    (last_ != nullptr ? last_->younger_ : first_) = &snapshot;
    last_ = &snapshot;
    snapshot.listed_ = true;
    newest_.store(snapshot.sees.value);
    DCHECK(oldest_.load() <= snapshot.sees.value);                                 // SN-1
    DCHECK(snapshot.older_ == nullptr || snapshot.older_->sees <= snapshot.sees);  // SN-2
    open_.fetch_add(1, std::memory_order_relaxed);
}

void SnapshotSet::unlink(Snapshot& snapshot) {
    DCHECK(lock_.is_held() && snapshot.listed_);
    (snapshot.older_ != nullptr ? snapshot.older_->younger_ : first_) = snapshot.younger_;
    (snapshot.younger_ != nullptr ? snapshot.younger_->older_ : last_) = snapshot.older_;
    snapshot.listed_ = false;
    oldest_.store(first_ != nullptr ? first_->sees.value : kLsnMax.value);
    newest_.store(last_ != nullptr ? last_->sees.value : 0);
    DCHECK((first_ == nullptr) == (last_ == nullptr));
    DCHECK(open_.load() > 0);
    open_.fetch_sub(1, std::memory_order_relaxed);
    DCHECK((open_.load() == 0) == (first_ == nullptr));
}

void SnapshotSet::remove(Snapshot& snapshot) {
    const SpinGuard guard(lock_);
    DCHECK(snapshot.listed_ || snapshot.too_old.load());  // else it was never added
    if (snapshot.listed_) unlink(snapshot);
}

// Under lock_.
void SnapshotSet::expel_listed(Snapshot& snapshot) {
    DCHECK(snapshot.listed_ && !snapshot.too_old.load());
    // Before oldest_ moves: a reader that misses a version finds this set.
    snapshot.too_old.store(true);
    unlink(snapshot);
}

bool SnapshotSet::expel_oldest() {
    const SpinGuard guard(lock_);
    if (first_ == nullptr) return false;
    DCHECK(first_->older_ == nullptr);
    expel_listed(*first_);
    return true;
}

void SnapshotSet::expel(Snapshot& snapshot) {
    const SpinGuard guard(lock_);
    if (snapshot.listed_) expel_listed(snapshot);
}

bool SnapshotSet::between(const txn::Outcome* first, const txn::Outcome& second) const {
    // newest_ is read last: SN-1 holds for both.
    if (second.committed_below(oldest()) == txn::Outcome::Below::yes) return false;
    if (first == nullptr) return true;
    const Lsn newest{newest_.load()};
    // Every open snapshot fails to see `first` already.
    return newest == kLsnMax || first->committed_below(newest) != txn::Outcome::Below::no;
}

const char* SnapshotSet::verify() const {
    const SpinGuard guard(lock_);
    uint64_t n = 0;
    for (const Snapshot* at = first_; at != nullptr; at = at->younger_, ++n) {
        if (!at->listed_ || at->too_old.load()) return "an expelled snapshot is listed";
        if (at->older_ != nullptr && at->older_->sees > at->sees) return "SN-2";
    }
    if (n != open_.load()) return "open snapshots are miscounted";
    if (oldest_.load() != (first_ != nullptr ? first_->sees.value : kLsnMax.value)) return "SN-1";
    return "";
}

Nanos SnapshotSet::oldest_began() const {
    const SpinGuard guard(lock_);
    return first_ != nullptr ? first_->began : 0;
}

}  // namespace lockstep::sm
