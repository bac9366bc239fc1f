// deferred.cc - the list hangs on TxnLocal::deferred and exists only for the few transactions that
// need it.
#include "sm/change/deferred.h"

#include <utility>
#include <vector>

#include "sm/core/txn_local.h"

namespace lockstep::sm {

struct DeferredActions::List {
    struct Entry {
        AtEnd action;
        BeforeCommit before;
        uint32_t savepoints;  // taken by the transaction before it was registered
        bool undone = false;
    };
    std::vector<Entry> entries;

    void assert_state() const {  // of the newest entry: entries are in order of age
        DCHECK(entries.empty() || entries.back().action);
        DCHECK(entries.size() < 2 ||
               entries[entries.size() - 2].savepoints <= entries.back().savepoints);
    }
};

void at_end(txn::Transaction& txn, AtEnd action, BeforeCommit before) {
    DCHECK(txn.state != txn::TxnState::free && action);
    if (!local_of(txn).deferred) local_of(txn).deferred = new DeferredActions::List;
    static_cast<DeferredActions::List*>(local_of(txn).deferred)
        ->entries.push_back({std::move(action), std::move(before), txn.savepoints});
}

void undo_at_end(txn::Transaction& txn, const RollbackPoint& point) {
    DCHECK(point.number <= txn.savepoints);
    if (!local_of(txn).deferred) return;
    for (auto& entry : static_cast<DeferredActions::List*>(local_of(txn).deferred)->entries)
        if (entry.savepoints >= point.number) entry.undone = true;
}

DeferredActions::DeferredActions(txn::Transaction& txn)
    : list_(static_cast<List*>(std::exchange(local_of(txn).deferred, nullptr))) {}

DeferredActions::~DeferredActions() { delete list_; }

void DeferredActions::run_before_commit() {
    list_->assert_state();
    for (auto& entry : list_->entries)
        if (entry.before && !entry.undone) entry.before();
}

void DeferredActions::run(bool committed) {
    if (!list_) return;
    list_->assert_state();
    for (auto& entry : list_->entries) entry.action(committed && !entry.undone);
    list_->entries.clear();
}

}  // namespace lockstep::sm
