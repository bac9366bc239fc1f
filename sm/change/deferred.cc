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
    std::vector<ReleasedChain> chains;
    GhostNotes* notes = nullptr;  // for the chains

    void assert_state() const {  // of the newest entry: entries are in order of age
        DCHECK(entries.empty() || entries.back().action);
        DCHECK(entries.size() < 2 ||
               entries[entries.size() - 2].savepoints <= entries.back().savepoints);
    }
};

DeferredActions::List& DeferredActions::list_of(txn::Transaction& txn) {
    DCHECK(txn.state != txn::TxnState::free);
    if (!local_of(txn).deferred) local_of(txn).deferred = new List;
    return *static_cast<List*>(local_of(txn).deferred);
}

void at_end(txn::Transaction& txn, AtEnd action, BeforeCommit before) {
    DCHECK(action);
    DeferredActions::list_of(txn).entries.push_back(
        {std::move(action), std::move(before), txn.savepoints});
}

void undo_at_end(txn::Transaction& txn, const RollbackPoint& point) {
    DCHECK(point.number <= txn.savepoints);
    if (!local_of(txn).deferred) return;
    for (auto& entry : static_cast<DeferredActions::List*>(local_of(txn).deferred)->entries)
        if (entry.savepoints >= point.number) entry.undone = true;
}

bool has_actions(const txn::Transaction& txn) {
    const auto* const list = static_cast<const DeferredActions::List*>(local_of(txn).deferred);
    return list != nullptr && !list->entries.empty();
}

void release_at_end(txn::Transaction& txn, GhostNotes& notes, ReleasedChain chain) {
    DeferredActions::List& list = DeferredActions::list_of(txn);
    DCHECK(!chain.ref.empty() && chain.removed != kLsnNone);
    DCHECK(list.chains.empty() || list.chains.back().removed < chain.removed);
    DCHECK(list.notes == nullptr || list.notes == &notes);
    list.notes = &notes;
    list.chains.push_back(std::move(chain));
}

void keep_released(txn::Transaction& txn, Lsn to) {
    DCHECK(to <= txn.last_lsn);
    auto* const list = static_cast<DeferredActions::List*>(local_of(txn).deferred);
    if (list == nullptr) return;
    while (!list->chains.empty() && list->chains.back().removed > to) list->chains.pop_back();
}

void DeferredActions::drop() {
    DCHECK(list_ != nullptr);
    delete list_;
}

void DeferredActions::give_back(txn::Transaction& txn) {
    DCHECK(local_of(txn).deferred == nullptr);
    local_of(txn).deferred = std::exchange(list_, nullptr);
}

void DeferredActions::run_before_commit() {
    list_->assert_state();
    for (auto& entry : list_->entries)
        if (entry.before && !entry.undone) entry.before();
}

void DeferredActions::run_behind_commit(Lsn committed) {
    DCHECK(list_ != nullptr && (committed != kLsnNone || list_->chains.empty()));
    run(true);
    if (!list_->chains.empty()) list_->notes->release(std::move(list_->chains), committed);
}

void DeferredActions::run_rolled_back() {
    if (list_) run(false);
}

void DeferredActions::run(bool committed) {
    list_->assert_state();
    DCHECK(committed || list_->chains.empty() || list_->notes != nullptr);
    for (auto& entry : list_->entries) entry.action(committed && !entry.undone);
    list_->entries.clear();
}

}  // namespace lockstep::sm
