// deferred.cc - the list hangs on Transaction::upper and exists only for the few transactions that need it.
#include "sm/deferred.h"

#include <utility>
#include <vector>

namespace lockstep::sm {

struct DeferredActions::List {
    std::vector<AtEnd> actions;
};

void at_end(txn::Transaction& txn, AtEnd action) {
    if (!txn.upper) txn.upper = new DeferredActions::List;
    static_cast<DeferredActions::List*>(txn.upper)->actions.push_back(std::move(action));
}

DeferredActions::DeferredActions(txn::Transaction& txn) : list_(static_cast<List*>(std::exchange(txn.upper, nullptr))) {}

DeferredActions::~DeferredActions() { delete list_; }

void DeferredActions::run(bool committed) {
    if (!list_) return;
    for (auto& action : list_->actions) action(committed);
    list_->actions.clear();
}

}  // namespace lockstep::sm
