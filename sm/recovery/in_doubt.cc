// in_doubt.cc - from the prepare records in the log to transactions that hold their locks.
#include "sm/recovery/in_doubt.h"

#include <algorithm>
#include <set>

#include "sm/core/cleanup.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "txn/prepare_record.h"

namespace lockstep::sm {

namespace {

// Empty: its last record is no prepare record. The records of one prepare follow each other in the
// transaction's chain.
Result<txn::Prepared> prepared_at(RestartEnv& env, const Unended& of) {
    txn::Prepared prepared;
    std::string buffer;
    txn::LogRecordView record = TRY(env.log->read(of.last, buffer));
    const auto kind = static_cast<uint16_t>(txn::TxnLogKind::prepare_locks);
    if (!txn::is_prepare(record)) return prepared;
    for (;;) {
        if (record.header->txn != of.id.value || record.header->prev >= record.lsn.value)
            return fail(ErrorCode::corrupt_log, "prepare record", record.lsn.value, of.id.value);
        TRY(txn::read_prepare(record, prepared));
        const Lsn before{record.header->prev};
        if (before == kLsnNone)
            return fail(ErrorCode::corrupt_log, "prepare record", record.lsn.value, of.id.value);
        record = TRY(env.log->read(before, buffer));
        if (record.header->kind != kind) return prepared;
    }
}

[[gnu::cold]] std::unexpected<Error> not_locked(const Unended& of) {
    return fail(ErrorCode::corrupt_log, "locks of a prepared transaction", of.last.value,
                of.id.value);
}

// ID-2.
txn::LockMode mode_in_doubt(txn::LockMode prepared) {
    using enum txn::LockMode;
    if ((prepared & (U | X)) != U) return prepared;
    return txn::without(prepared, U) | S;
}

Result<void> take_locks(RestartEnv& env, const Unended& of, const txn::LockList& locks,
                        txn::LockOwner& owner) {
    for (const auto& [object, mode] : locks.objects) {
        txn::ObjectLock* const lock = env.objects ? env.objects->lock_by_id(object) : nullptr;
        if (lock == nullptr || !TRY(env.locks->try_lock_all(owner, *lock, mode_in_doubt(mode))))
            return not_locked(of);
    }
    for (const auto& [name, mode] : locks.names)
        if (!TRY(env.locks->try_lock(owner, name, mode_in_doubt(mode)))) return not_locked(of);
    return {};
}

}  // namespace

Result<std::vector<InDoubt>> adopt_in_doubt(RestartEnv& env, std::vector<Unended>& unended) {
    std::vector<InDoubt> found;
    std::set<std::string> gids;
    std::vector<Unended> losers;
    for (const Unended& of : unended) {
        const txn::Prepared prepared = TRY(prepared_at(env, of));
        if (prepared.gid.empty()) {
            losers.push_back(of);
            continue;
        }
        if (!gids.insert(prepared.gid).second)
            return fail(ErrorCode::corrupt_log, "two transactions in doubt with one gid",
                        of.last.value, of.id.value);
        // One slot at least is left for rollbacks and for the store itself.
        if (found.size() + 1 >= env.options.transactions_max) {
            auto error = fail(ErrorCode::too_many, "transactions in doubt", found.size() + 1);
            set_error_detail(error.error(),
                             "more transactions are in doubt than option transactions_max allows: "
                             "open the store with a larger value, and commit or roll them back");
            return error;
        }
        txn::Transaction* const txn =
            TRY(env.txns->adopt_prepared(of.id, of.first, of.last, prepared.undo_bytes));
        DCHECK(txn->last_lsn == of.last && txn->state == txn::TxnState::prepared);  // ID-1
        TRY(take_locks(env, of, prepared.locks, txn->locks));
        found.push_back({txn, prepared.gid, prepared.time, prepared.locks.size()});
    }
    DCHECK(found.size() + losers.size() == unended.size());
    unended.swap(losers);
    return found;
}

}  // namespace lockstep::sm
