// rollback.cc - walks a transaction's records backwards and undoes them: abort, rollback to a
// savepoint, losers of a restart.
//
// Invariants RC-2 (recovery.h) Every undone record leaves a compensation record whose `prev` names
//                 the record before the undone one. A later walk, in this run or after a crash,
//                 meets the compensation first and skips what it compensates. A record of many
//                 inserts leaves one compensation for each. All but the last name that record
//                 again, whose undo skips what is undone (btree_undo.cc).
#include "sm/change/rollback.h"

#include <atomic>
#include <string_view>

#include "sm/buffer/buffer_pool.h"
#include "sm/change/deferred.h"
#include "sm/change/log_kinds.h"
#include "sm/core/txn_local.h"

namespace lockstep::sm {

Result<uint64_t> undo_chain(Env& env, txn::Transaction& txn, Lsn to) {
    std::string buffer;
    uint64_t undone = 0;
    DCHECK(txn.state == txn::TxnState::aborting && txn.runs_here());
    for (Lsn at = txn.last_lsn; at > to;) {
        const txn::LogRecordView record = TRY(env.log->read(at, buffer));
        if (record.header->txn != txn.id.value || record.header->prev >= at.value)
            return fail(ErrorCode::corrupt_log, "chain of a transaction's records", at.value,
                        txn.id.value);
        txn.undo_next = Lsn{record.header->prev};
        if (record.header->flags & txn::kLogUndoable) {
            TRY(undo_record(env, txn, record));
            DCHECK(txn.last_lsn > at);  // RC-2: a compensation
            ++undone;
        }
        DCHECK(txn.undo_next < at);  // it ends
        at = txn.undo_next;
    }
    return undone;
}

namespace {

// A rollback reads log records and pages; their errors name the object.
[[gnu::cold]] StoreFailure cause_of(const Env& env, const Error& error) {
    DCHECK(error.code != ErrorCode::none);
    const std::string_view object = error.what != nullptr ? error.what : "";
    if (object == "data page")
        return {.what = "read of data file", .file = env.pool->data_path(), .cause = error};
    if (object == "write of data page")
        return {.what = "write of data file", .file = env.pool->data_path(), .cause = error};
    if (object == "log segment" || object == "log record")
        return {.what = "read of log segment",
                .file = env.log->segment_path(Lsn{error.a}),
                .cause = error};
    return {.what = "rollback", .file = {}, .cause = error};
}

}  // namespace

Result<void> rollback(Env& env, txn::Transaction& txn, Lsn to) {
    DCHECK(txn.state != txn::TxnState::free && to <= txn.last_lsn);
    // Others look at it meanwhile (TransactionTable::seen()).
    const std::atomic_ref noted(txn.state);
    const txn::TxnState state = txn.state;
    noted.store(txn::TxnState::aborting, std::memory_order_relaxed);
    auto undone = undo_chain(env, txn, to);
    if (undone) {
        // After a savepoint's rollback it goes on, also if the savepoint was at its beginning.
        noted.store(state, std::memory_order_relaxed);
        keep_released(txn, to);
        return {};
    }
    if (to == kLsnNone) {
        // Half undone and its locks about to go: nothing that follows may become durable. The next
        // restart finishes the rollback.
        env.log->fail_store(cause_of(env, undone.error()));
        env.report(0, "rollback failed, store stops: " + undone.error().text());
    } else {
        noted.store(state, std::memory_order_relaxed);
    }
    return std::unexpected(undone.error());
}

std::unexpected<Error> undo_operation(Env& env, txn::Transaction& txn, Lsn to, const Error& error) {
    DCHECK(error.code != ErrorCode::none);
    const Result<void> undone = rollback(env, txn, to);
    return std::unexpected(undone ? error : undone.error());
}

Result<void> run_system_txn(Env& env,
                            std::move_only_function<Result<void>(txn::Transaction&)> body) {
    const txn::TxnOptions lazy{.durability = txn::Durability::lazy};
    txn::Transaction* txn = TRY(env.txns->begin_system(lazy));
    std::atomic_ref(txn->internal).store(true, std::memory_order_relaxed);
    auto done = body(*txn);
    std::atomic_ref(txn->internal).store(false, std::memory_order_relaxed);
    DCHECK(local_of(*txn).deferred == nullptr);
    if (done) {
        TRY(env.txns->commit(*txn));
        return {};
    }
    const auto undone = rollback(env, *txn, kLsnNone);
    env.txns->finish_abort(*txn, undone.has_value());
    return done;
}

}  // namespace lockstep::sm
