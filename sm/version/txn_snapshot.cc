// txn_snapshot.cc - the end of a transaction's snapshot.
#include "sm/version/txn_snapshot.h"

#include <utility>

namespace lockstep::sm {

void close_open_snapshot(VersionTable& versions, txn::Transaction& txn) {
    DCHECK(txn::rules_of(txn.isolation).by_snapshot && txn.locks.locks_held == 0);
    DCHECK(local_of(txn).snapshot->sees == txn.sees);
    Snapshot* const snapshot = std::exchange(local_of(txn).snapshot, nullptr);
    versions.snapshots().remove(*snapshot);
    delete snapshot;
}

}  // namespace lockstep::sm
