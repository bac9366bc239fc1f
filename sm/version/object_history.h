// object_history.h - since when an index or heap, and its bulk load, can be seen by snapshots.
//
// Concepts   Creating an object and bulk-loading it leave no version of any record. The object
//            keeps the outcome of the transaction that did so. A snapshot that does not see that
//            transaction finds no object, or an empty one.
// Blocking   Parks for the moment in which that transaction appends its commit record.
#pragma once

#include <atomic>
#include <vector>

#include <lockstep/result.h>
#include "sm/version/snapshot_set.h"
#include "txn/lock/lock_owner.h"
#include "txn/transaction.h"

namespace lockstep::sm {

class ObjectHistory {
public:
    ObjectHistory() = default;
    ~ObjectHistory();
    ObjectHistory(const ObjectHistory&) = delete;
    ObjectHistory& operator=(const ObjectHistory&) = delete;

    // By `txn`, before others can find the object or what was loaded.
    Result<void> made_by(txn::Transaction& txn) { return note(made_, txn); }
    Result<void> loaded_by(txn::Transaction& txn) { return note(loaded_, txn); }

    // May the snapshot read the object? Before it reads, and again before an answer counts: while
    // the object is not dropped, its pages are its own. Errors: no_such_object, snapshot_too_old.
    Result<void> check(const Snapshot& snapshot, const txn::ObjectLock& lock) const;
    // All its records come from a bulk load that the snapshot does not see, or are newer: to the
    // snapshot it is empty.
    bool empty_to(const Snapshot& snapshot) const;

private:
    Result<void> note(std::atomic<txn::Outcome*>& at, txn::Transaction& txn);
    static bool sees(const Snapshot& snapshot, const txn::Outcome& outcome);

    std::atomic<txn::Outcome*> made_{nullptr}, loaded_{nullptr};
    std::vector<txn::Outcome*> earlier_;  // what stood there; by a thread that holds the object's X
};

}  // namespace lockstep::sm
