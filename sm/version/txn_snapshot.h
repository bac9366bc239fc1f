// txn_snapshot.h - the snapshot that a transaction holds: how its end lets it go.
//
// Concepts   The snapshots' service opens a snapshot and leaves it in the transaction's TxnLocal.
//            Whoever ends the transaction closes it here.
// Blocking   Spin lock. Nothing parks.
#pragma once

#include "sm/core/env.h"
#include "sm/core/txn_local.h"
#include "sm/version/version_table.h"

namespace lockstep::sm {

[[gnu::cold, gnu::noinline]] void close_open_snapshot(VersionTable& versions,
                                                      txn::Transaction& txn);

// The transaction is about to end. Does nothing for those without a snapshot.
inline void close_snapshot(const Env& env, txn::Transaction& txn) {
    if (local_of(txn).snapshot != nullptr) [[unlikely]]
        close_open_snapshot(*env.versions, txn);
}

// The transaction has been rolled back from outside, and its thread will close the snapshot later:
// nothing stays for it.
inline void expel_snapshot(const Env& env, txn::Transaction& txn) {
    if (Snapshot* const snapshot = local_of(txn).snapshot)
        env.versions->snapshots().expel(*snapshot);
}

}  // namespace lockstep::sm
