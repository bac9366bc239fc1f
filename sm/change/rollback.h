// rollback.h - undoing a transaction's changes, whole or back to a savepoint; and transactions that
// the engine runs for itself.
//
// Invariants RC-2 (recovery.h) Undo follows prev. A compensation record sends it to its undo-next,
//                 so nothing is undone twice.
// Blocking   Everything parks: locks, pages, log.
// Source     C. Mohan et al., "ARIES", 1992.
#pragma once

#include <functional>

#include "sm/core/env.h"

namespace lockstep::sm {

// Undoes the transaction's records back to `to` (exclusive; kLsnNone = all). Runs on the
// transaction's thread; parks; needs no new log space. Errors: store_failed, io_error, corrupt_*. A
// complete rollback that fails stops the store (the log is failed): the next restart finishes it.
Result<void> rollback(Env& env, txn::Transaction& txn, Lsn to);

// Undoes what an operation has logged above `to` before it failed with `error`, and returns that
// error. Returns the rollback's if it fails, too: the transaction can then only end (note_error()).
std::unexpected<Error> undo_operation(Env& env, txn::Transaction& txn, Lsn to, const Error& error);

// Undoes the records of `txn` above `to`, newest first; returns how many. For rollback() and
// restart.
Result<uint64_t> undo_chain(Env& env, txn::Transaction& txn, Lsn to);

// Runs `body` as a lazy transaction of its own: committed if it succeeds, rolled back otherwise.
// `body` begins no other, and waits for no lock that a caller may keep (TT-2).
Result<void> run_system_txn(Env& env,
                            std::move_only_function<Result<void>(txn::Transaction&)> body);

}  // namespace lockstep::sm
