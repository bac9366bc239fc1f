// txn_api.cc - the public transaction handle: misuse checks, commit, rollback, savepoints.
#include <lockstep/txn.h>

#include <utility>

#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/recovery/recovery.h"
#include "sm/store/engine.h"
#include "sm/store/operation.h"
#include "threads/base/mutants.h"

namespace lockstep {

using sm::TxnAccess;

namespace sm {

Error TxnAccess::why_not(const Txn& txn) {
    if (txn.engine_ && txn.engine_->forked()) return Engine::refuse_child().error();
    const txn::Transaction* t = txn.txn_;
    if (!t || txn.generation_ != t->generation)
        return fail(ErrorCode::txn_ended, "transaction").error();
    if (!is_own(*t)) return fail(ErrorCode::wrong_thread, "transaction", t->id.value).error();
    return fail(ErrorCode::txn_aborting, "transaction", t->id.value).error();
}

std::unexpected<Error> refused(const Txn& txn, const Engine* engine, const void* object) {
    if (!object) return fail(ErrorCode::no_such_object, "empty handle");
    const txn::Transaction* t = TxnAccess::usable(txn);
    if (!t) return std::unexpected(TxnAccess::why_not(txn));
    if (&TxnAccess::engine(txn) != engine)
        return fail(ErrorCode::bad_argument, "transaction of another store", t->id.value);
    return fail(ErrorCode::read_only,
                engine->options.read_only ? "store opened read-only" : "transaction", t->id.value);
}

void note_error(txn::Transaction& txn, const Error& error) {
    DCHECK(error.code != ErrorCode::none);
    switch (error.code) {
        // Refused before anything was changed: the transaction may go on.
        case ErrorCode::duplicate_key:
        case ErrorCode::key_too_long:
        case ErrorCode::value_too_long:
        case ErrorCode::bad_argument:
        case ErrorCode::no_such_record:
        case ErrorCode::no_such_object:
        case ErrorCode::already_exists:
        case ErrorCode::wrong_kind:
        case ErrorCode::read_only:
        case ErrorCode::unsupported: return;
        default:
            if (!txn.must_abort) txn.abort_cause = error.code;
            txn.must_abort = !MUTANT(failed_goes_on);
    }
}

}  // namespace sm

Txn::Txn(sm::Engine* engine, txn::Transaction* txn, uint64_t generation)
    : engine_(engine), txn_(txn), generation_(generation) {}

Txn::Txn(Txn&& other) noexcept
    : engine_(other.engine_),
      txn_(std::exchange(other.txn_, nullptr)),
      generation_(other.generation_) {}

Txn::~Txn() {
    if (live()) (void)abort();
}

bool Txn::live() const { return txn_ && generation_ == txn_->generation; }
TxnId Txn::id() const { return live() ? txn_->id : kTxnNone; }

Result<Lsn> Txn::commit() {
    txn::Transaction* t = TxnAccess::usable(*this);
    if (!t) return std::unexpected(TxnAccess::why_not(*this));
    sm::operation_boundary(sm::OpKind::commit, ObjectId{});
    DCHECK(t->state == txn::TxnState::active);
    sm::DeferredActions deferred(*t);
    deferred.before_commit();
    const uint64_t records = t->locks.locks_held + 1;
    auto point = engine_->txns->commit(*t);
    txn_ = nullptr;
    if (point) {
        auto& counters = engine_->counters[threads::worker_index()];
        sm::ApiCounters::add(counters.commits);
        deferred.run(true);
        threads::worker_local.teams->note_work(records);
    }
    return point;
}

Result<void> Txn::abort() {
    if (!live()) return fail(ErrorCode::txn_ended, "transaction");
    if (!TxnAccess::is_own(*txn_)) return std::unexpected(TxnAccess::why_not(*this));
    DCHECK(txn_->state != txn::TxnState::free && threads::current()->latch_depth == 0);
    sm::DeferredActions deferred(*txn_);
    auto undone = sm::rollback(*engine_, *txn_, kLsnNone);
    // After a failed rollback the store has failed or a page is unreadable: the log still names the
    // loser, restart finishes it.
    if (!undone) engine_->report(0, "rollback failed: " + undone.error().text());
    engine_->txns->finish_abort(*std::exchange(txn_, nullptr), undone.has_value());
    auto& counters = engine_->counters[threads::worker_index()];
    sm::ApiCounters::add(counters.aborts);
    deferred.run(false);
    return undone;
}

Result<Savepoint> Txn::savepoint() {
    txn::Transaction* t = TxnAccess::usable(*this);
    if (!t) return std::unexpected(TxnAccess::why_not(*this));
    return Savepoint{.lsn = t->last_lsn, .number = ++t->savepoints};
}

Result<void> Txn::rollback_to(const Savepoint& savepoint) {
    txn::Transaction* t = TxnAccess::usable(*this);
    if (!t) return std::unexpected(TxnAccess::why_not(*this));
    if (savepoint.number == 0 || savepoint.number > t->savepoints || savepoint.lsn > t->last_lsn)
        return fail(ErrorCode::bad_argument, "savepoint of another transaction", savepoint.number);
    TRY(sm::finish(*t, [&] { return sm::rollback(*engine_, *t, savepoint.lsn); }));
    DCHECK(t->state == txn::TxnState::active && t->last_lsn >= savepoint.lsn);
    sm::undo_at_end(*t, savepoint);
    return {};
}

}  // namespace lockstep
