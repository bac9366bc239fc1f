// deferred.h - what a transaction leaves until its outcome is certain: actions, and chains of
// overflow pages that it no longer refers to.
#pragma once

#include <functional>
#include <utility>

#include "sm/change/savepoints.h"
#include "sm/core/cleanup.h"
#include "sm/core/txn_local.h"
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
// Are there such actions?
bool has_actions(const txn::Transaction& txn);

// If the transaction commits, `notes` get the chain, locks already released. Chains come in the
// order of their changes.
void release_at_end(txn::Transaction& txn, GhostNotes& notes, ReleasedChain chain);
// A rollback has undone all changes after `to`: their chains have their references again.
void keep_released(txn::Transaction& txn, Lsn to);

// Takes them out of the transaction before its object is freed; run() does what they ask for.
class DeferredActions {
public:
    explicit DeferredActions(txn::Transaction& txn)
        : list_(static_cast<List*>(std::exchange(local_of(txn).deferred, nullptr))) {}
    ~DeferredActions() {
        if (list_) [[unlikely]]
            drop();
    }
    // The transaction goes on, or ends elsewhere: it has them again.
    void give_back(txn::Transaction& txn);
    DeferredActions(const DeferredActions&) = delete;
    DeferredActions& operator=(const DeferredActions&) = delete;
    void before_commit() {
        if (list_) [[unlikely]]
            run_before_commit();
    }
    // `committed`: the end of its commit record.
    void run_committed(Lsn committed) {
        if (list_) [[unlikely]]
            run_behind_commit(committed);
    }
    void run_rolled_back();

private:
    struct List;
    [[gnu::cold, gnu::noinline]] void drop();
    void run_before_commit();
    void run_behind_commit(Lsn committed);
    static List& list_of(txn::Transaction& txn);
    void run(bool committed);
    friend void at_end(txn::Transaction&, AtEnd, BeforeCommit);
    friend void undo_at_end(txn::Transaction&, const RollbackPoint&);
    friend bool has_actions(const txn::Transaction&);
    friend void release_at_end(txn::Transaction&, GhostNotes&, ReleasedChain);
    friend void keep_released(txn::Transaction&, Lsn);
    List* list_;
};

}  // namespace lockstep::sm
