// deferred.h - what a transaction does after its end: things that must not happen before the outcome is certain.
#pragma once

#include <functional>

#include "txn/transaction.h"

namespace lockstep::sm {

// Runs on the transaction's thread after commit (true) or rollback (false), in order of registration, locks already released.
using AtEnd = std::move_only_function<void(bool committed)>;
void at_end(txn::Transaction& txn, AtEnd action);

// Takes the actions out of the transaction before its object is freed; run() calls them.
class DeferredActions {
public:
    explicit DeferredActions(txn::Transaction& txn);
    ~DeferredActions();
    DeferredActions(const DeferredActions&) = delete;
    DeferredActions& operator=(const DeferredActions&) = delete;
    void run(bool committed);

private:
    struct List;
    friend void at_end(txn::Transaction&, AtEnd);
    List* list_;
};

}  // namespace lockstep::sm
