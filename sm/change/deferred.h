// deferred.h - what a transaction does after its end: things that must not happen before the
// outcome is certain.
#pragma once

#include <functional>

#include "txn/transaction.h"

namespace lockstep::sm {

// Runs on the transaction's thread after commit (true) or rollback (false), in order of
// registration, locks already released.
using AtEnd = std::move_only_function<void(bool committed)>;
// Runs before that, if the transaction is about to commit: when nothing can prevent it any more and
// the locks are still held.
using BeforeCommit = std::move_only_function<void()>;
void at_end(txn::Transaction& txn, AtEnd action, BeforeCommit before = {});
// A rollback to a savepoint has undone what was done after it: the actions registered since will
// hear "rolled back", whatever the end. They run no earlier, because the transaction still holds
// its locks.
void undo_at_end(txn::Transaction& txn, const txn::Savepoint& savepoint);

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
    friend void undo_at_end(txn::Transaction&, const txn::Savepoint&);
    List* list_;
};

}  // namespace lockstep::sm
