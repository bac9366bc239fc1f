// savepoints.h - the points that a transaction can be rolled back to: an application's savepoints,
// and the beginnings of statements.
//
// Concepts   A savepoint is a plain value in the application's hands. So the transaction keeps a
//            list of those that are valid: taken by it, and not rolled back. A statement keeps its
//            own point. Savepoints with no change between them share an entry of 16 bytes, so the
//            list takes less than the log that the transaction has written.
// Invariants VS-1 The list is in the order of the numbers. Numbers are not used twice, and LSNs do
//                 not fall. [checked: take_savepoint()]
// Blocking   Nothing here parks.
#pragma once

#include <optional>
#include <utility>

#include "sm/core/txn_local.h"

namespace lockstep::sm {

struct RollbackPoint {
    Lsn lsn{};            // the transaction's last record at that time
    uint32_t number = 0;  // of this point within the transaction, from 1
};
// The present state.
inline RollbackPoint rollback_point(txn::Transaction& txn) {
    return {.lsn = txn.last_lsn, .number = ++txn.savepoints};
}

// Error: too_many.
Result<txn::Savepoint> take_savepoint(txn::Transaction& txn);
// Memory of the list's entries.
size_t savepoint_bytes(const txn::Transaction& txn);
// The point of a valid savepoint.
std::optional<RollbackPoint> find_savepoint(const txn::Transaction& txn,
                                            const txn::Savepoint& savepoint);
// The transaction has been rolled back to that point: savepoints behind it are not valid any more.
void drop_later(txn::Transaction& txn, const RollbackPoint& point);
[[gnu::cold, gnu::noinline]] void free_savepoints(Savepoints* savepoints);  // may be null
// Call it before the transaction object is free again (TL-3).
inline void forget_savepoints(txn::Transaction& txn) {
    if (local_of(txn).savepoints != nullptr) [[unlikely]]
        free_savepoints(std::exchange(local_of(txn).savepoints, nullptr));
}

}  // namespace lockstep::sm
