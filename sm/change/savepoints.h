// savepoints.h - the savepoints that a transaction can be rolled back to.
//
// Concepts   A savepoint is a plain value in the application's hands. So the transaction keeps a
//            list of those that are valid: taken by it, and not rolled back.
// Invariants VS-1 The list is in the order of the numbers. Numbers are not used twice, and LSNs do
//                 not fall. [checked: take_savepoint()]
// Blocking   Nothing here parks.
#pragma once

#include <utility>

#include "sm/core/txn_local.h"

namespace lockstep::sm {

txn::Savepoint take_savepoint(txn::Transaction& txn);
bool is_valid(const txn::Transaction& txn, const txn::Savepoint& savepoint);
// The transaction has been rolled back to it: later ones are not valid any more.
void drop_later(txn::Transaction& txn, const txn::Savepoint& savepoint);
[[gnu::cold, gnu::noinline]] void free_savepoints(Savepoints* savepoints);  // may be null
// Call it before the transaction object is free again (TL-3).
inline void forget_savepoints(txn::Transaction& txn) {
    if (local_of(txn).savepoints != nullptr) [[unlikely]]
        free_savepoints(std::exchange(local_of(txn).savepoints, nullptr));
}

}  // namespace lockstep::sm
