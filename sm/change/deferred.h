// deferred.h - actions of a transaction that must wait until its outcome is certain.
#pragma once

#include <functional>

#include "sm/change/savepoints.h"
#include "txn/transaction.h"

namespace lockstep::sm {

// Runs on the transaction's thread after commit (true) or rollback (false), in order of
// registration, locks already released.
using AtEnd = std::move_only_function<void(bool committed)>;
// Runs before that, if the transaction commits: when nothing can prevent the commit any more and
// the locks are still held.
using BeforeCommit = std::move_only_function<void()>;
void at_end(txn::Transaction& txn, AtEnd action, BeforeCommit before = {});
// A rollback to a point has undone later changes. The actions registered since then run with
// false, whatever the transaction's end. They run no earlier, because the transaction still holds
// its locks.
void undo_at_end(txn::Transaction& txn, const RollbackPoint& point);

// Takes the actions out of the transaction before its object is freed; run() calls them.
class DeferredActions {
public:
    explicit DeferredActions(txn::Transaction& txn);
    ~DeferredActions();
    DeferredActions(const DeferredActions&) = delete;
    DeferredActions& operator=(const DeferredActions&) = delete;
    void before_commit() {
        if (list_) [[unlikely]]
            run_before_commit();
    }
    void run(bool committed);

private:
    struct List;
    void run_before_commit();
    friend void at_end(txn::Transaction&, AtEnd, BeforeCommit);
    friend void undo_at_end(txn::Transaction&, const RollbackPoint&);
    List* list_;
};

}  // namespace lockstep::sm
