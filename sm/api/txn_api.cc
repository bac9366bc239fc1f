// txn_api.cc - the public transaction handle: misuse checks, commit, rollback, savepoints.
#include <lockstep/txn.h>

#include <utility>

#include "sm/api/operation.h"
#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/change/savepoints.h"
#include "sm/core/txn_local.h"
#include "sm/engine/engine.h"
#include "sm/engine/log_room.h"
#include "sm/needs/needs.h"
#include "sm/observe/txn_watch.h"
#include "sm/recovery/recovery.h"
#include "sm/services/ghost_cleaner.h"
#include "sm/services/prepared_txns.h"
#include "sm/services/snapshots.h"
#include "threads/base/error_detail.h"

namespace lockstep {

using sm::TxnAccess;

namespace sm {

Error TxnAccess::why_not(const Txn& txn) {
    const txn::Transaction* t = txn.txn_;
    // The store may be closed by now, and its engine freed.
    if (!t) return fail(ErrorCode::txn_ended, "transaction").error();
    if (txn.engine_->forked()) return Engine::refuse_child().error();
    if (txn.generation_ != t->generation) return fail(ErrorCode::txn_ended, "transaction").error();
    if (!is_own(*t)) return fail(ErrorCode::wrong_thread, "transaction", t->id.value).error();
    if (t->ended_outside()) return ended_outside(*t).error();
    return fail(ErrorCode::txn_aborting, "transaction", t->id.value).error();
}

txn::Transaction* TxnAccess::after_wait(const Txn& txn, bool wait) {
    txn::Transaction* t = txn.txn_;
    if (!t || txn.generation_ != t->generation || !is_own(*t)) return nullptr;
    if (t->heed != txn::Heed::log_scarce) return nullptr;
    t->heed = txn::Heed::nothing;
    DCHECK(!t->must_abort() && t->reaper == nullptr && threads::current()->latch_depth == 0);
    if (wait) wait_to_go_on(*txn.engine_, *t);
    return usable(txn);
}

txn::Transaction* admit_after_wait(const Txn& txn, const Engine* engine, const void* object,
                                   bool wait) {
    if (!object || TxnAccess::usable(txn)) return nullptr;  // the object or the store is wrong
    txn::Transaction* t = TxnAccess::after_wait(txn, wait);
    return t && &TxnAccess::engine(txn) == engine ? t : nullptr;
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

// The reason explains these errors, and run() does not repeat the transaction because of them.
// Errors of the disk and of the caller say more.
void note_ended(const txn::Transaction& txn, Error& error) {
    DCHECK(txn.ended_outside() && error.code != ErrorCode::none);
    switch (error.code) {
        case ErrorCode::cancelled:
        case ErrorCode::txn_aborting:
        case ErrorCode::deadlock:
        case ErrorCode::self_deadlock:
        case ErrorCode::lock_timeout:
        case ErrorCode::log_full: error = ended_outside(txn).error(); return;
        default: return;
    }
}

void note_error(txn::Transaction& txn, Error& error) {
    DCHECK(error.code != ErrorCode::none);
    if (txn.ended_outside()) return note_ended(txn, error);
    switch (error.code) {
        // Refused before anything was changed: the transaction may go on.
        case ErrorCode::duplicate_key:
        case ErrorCode::key_function_missing:
        case ErrorCode::index_mismatch:
        case ErrorCode::key_too_long:
        case ErrorCode::value_too_long:
        case ErrorCode::bad_argument:
        case ErrorCode::no_such_record:
        case ErrorCode::no_such_object:
        case ErrorCode::already_exists:
        case ErrorCode::wrong_kind:
        case ErrorCode::read_only:
        case ErrorCode::unsupported:
        case ErrorCode::lock_refused: return;
        default:
            if (!txn.must_abort()) txn.abort_cause = error.code;
            txn.heed = txn::Heed::failed;
    }
}

Retry retry_of(const txn::Transaction& txn) {
    const bool victim = txn.heed == txn::Heed::failed && txn.abort_cause == ErrorCode::deadlock;
    return txn::LockManager::retry_of(txn.locks, victim);
}

std::unexpected<Error> refuse_inside_call(const Txn& txn) {
    DCHECK(TxnAccess::inside_call(txn));
    auto error = fail(ErrorCode::bad_argument, "transaction", txn.id().value);
    set_error_detail(error.error(), "transaction " + std::to_string(txn.id().value) +
                                        " is inside a call (bulk_load(), Heap::scan() or "
                                        "create_index()) that has called this function: end it, or "
                                        "roll it back, when that call has returned");
    return error;
}

// The result is made in its last place.
[[gnu::always_inline]] static inline Result<Lsn> commit(Engine& engine, txn::Transaction& txn) {
    operation_boundary(OpKind::commit, ObjectId{});
    DCHECK(txn.state == txn::TxnState::active && TxnAccess::is_own(txn));
    DeferredActions deferred(txn);
    deferred.before_commit();
    const uint64_t records = txn.locks.locks_held + 1;
    forget_local(engine, txn);
    Result<Lsn> point = engine.txns->commit(txn);
    if (!point) [[unlikely]]
        return point;
    ApiCounters::add(engine.counters[threads::worker_index()].commits);
    deferred.run_committed(*point);
    if (engine.ghosts->needs_help()) [[unlikely]]
        engine.ghosts->help();
    threads::worker_local.teams->note_work(records);
    return point;
}

}  // namespace sm

Txn::Txn(sm::Engine* engine, txn::Transaction* txn, uint64_t generation)
    : engine_(engine), txn_(txn), generation_(generation) {}

Txn::Txn(Txn&& other) noexcept
    : engine_(other.engine_),
      txn_(std::exchange(other.txn_, nullptr)),
      generation_(other.generation_) {}

// Only the transaction's own thread ends it. A handle that this thread has left to others may
// outlast close(), which has rolled the transaction back and freed it.
Txn::~Txn() {
    if (txn_ == nullptr) [[likely]]
        return;
    if (engine_->counted_by_thread() && live()) (void)abort();
}

bool Txn::live() const { return txn_ && generation_ == txn_->generation; }
Retry Txn::retry() const { return live() ? sm::retry_of(*txn_) : Retry{}; }
TxnId Txn::id() const { return live() ? txn_->id : kTxnNone; }

Result<Lsn> Txn::commit() {
    txn::Transaction* t = TxnAccess::usable(*this);
    if (!t) [[unlikely]]
        t = TxnAccess::after_wait(*this, false);
    if (!t) return std::unexpected(TxnAccess::why_not(*this));
    if (TxnAccess::inside_call(*t)) [[unlikely]]
        return sm::refuse_inside_call(*this);
    txn_ = nullptr;
    return sm::commit(*engine_, *t);
}

// A reaper has rolled it back, or is about to finish.
Result<void> Txn::abort_undone() {
    DCHECK(txn_->must_abort() && TxnAccess::is_own(*txn_));
    while (txn_->state != txn::TxnState::undone)
        threads::sleep_until(threads::now() + kMillisecond);
    DCHECK(txn_->locks.locks_held == 0 && txn_->undo.bytes == 0);
    sm::forget_local(*engine_, *txn_);
    engine_->txns->finish_abort(*std::exchange(txn_, nullptr), true);
    if (engine_->failed()) return engine_->log->refused();
    return {};
}

[[gnu::cold]] static std::unexpected<Error> schema_changed(TxnId id) {
    DCHECK(id.value != 0);
    auto error =
        fail(ErrorCode::unsupported, "prepare of a transaction that changed the schema", id.value);
    set_error_detail(error.error(),
                     "it has created, dropped or bulk-loaded an index or heap, and what must "
                     "follow its end would be lost with this process; commit() it alone, or make "
                     "such changes in a transaction of their own before");
    return error;
}

Result<Vote> Txn::prepare(Slice gid) {
    txn::Transaction* t = TxnAccess::usable(*this);
    if (!t) t = TxnAccess::after_wait(*this, false);
    if (!t) return std::unexpected(TxnAccess::why_not(*this));
    if (TxnAccess::inside_call(*t)) return sm::refuse_inside_call(*this);
    if (gid.empty() || gid.size() > kGidBytesMax)
        return fail(ErrorCode::bad_argument, "bytes of a gid, and the most that it may have",
                    gid.size(), kGidBytesMax);
    if (t->first_lsn.load(std::memory_order_relaxed) == 0) {
        // What it has read, others may commit on the strength of its vote.
        t->durability = Durability::durable;
        TRY(commit());
        return Vote::read_only;
    }
    if (sm::has_actions(*t)) return schema_changed(t->id);
    sm::operation_boundary(sm::OpKind::commit, ObjectId{});
    sm::forget_places(*engine_, *t);
    // Once it is prepared, another thread may end it at any moment.
    sm::Savepoints* const savepoints = std::exchange(sm::local_of(*t).savepoints, nullptr);
    const auto done = engine_->prepared->prepare(*t, gid);
    const bool goes_on = !done && t->state == txn::TxnState::active;
    if (goes_on) sm::local_of(*t).savepoints = savepoints;
    else sm::free_savepoints(savepoints);
    if (!goes_on) txn_ = nullptr;
    if (!done) return std::unexpected(done.error());
    return Vote::prepared;
}

Result<void> Txn::abort() {
    if (!live()) return fail(ErrorCode::txn_ended, "transaction");
    if (!TxnAccess::is_own(*txn_)) return std::unexpected(TxnAccess::why_not(*this));
    if (TxnAccess::inside_call(*txn_)) return sm::refuse_inside_call(*this);
    if (txn_->reaper != nullptr) return abort_undone();
    DCHECK(txn_->state != txn::TxnState::free && threads::current()->latch_depth == 0);
    sm::forget_local(*engine_, *txn_);
    sm::DeferredActions deferred(*txn_);
    auto undone = sm::rollback(*engine_, *txn_, kLsnNone);
    // After a failed rollback the store has failed or a page is unreadable: the log still names the
    // loser, restart finishes it.
    if (!undone) engine_->report(0, "rollback failed: " + undone.error().text());
    engine_->txns->finish_abort(*std::exchange(txn_, nullptr), undone.has_value());
    auto& counters = engine_->counters[threads::worker_index()];
    sm::ApiCounters::add(counters.aborts);
    deferred.run_rolled_back();
    return undone;
}

void Txn::will_need(std::span<const Need> needs) {
    if (txn::Transaction* t = TxnAccess::usable(*this)) sm::walk_ahead(*engine_, *t, needs);
}

bool Txn::walks_needs() const { return threads::worker_local.needs; }

Result<Savepoint> Txn::savepoint() {
    txn::Transaction* t = TxnAccess::usable(*this);
    if (!t) t = TxnAccess::after_wait(*this, false);
    if (!t) return std::unexpected(TxnAccess::why_not(*this));
    return sm::take_savepoint(*t);
}

Result<void> Txn::rollback_to(const Savepoint& savepoint) {
    txn::Transaction* t = TxnAccess::usable(*this);
    if (!t) t = TxnAccess::after_wait(*this, false);
    if (!t) return std::unexpected(TxnAccess::why_not(*this));
    if (TxnAccess::inside_call(*this)) return sm::refuse_inside_call(*this);
    const std::optional<sm::RollbackPoint> point = sm::find_savepoint(*t, savepoint);
    if (!point)
        return fail(ErrorCode::bad_argument, "savepoint rolled back, or of another transaction",
                    savepoint.number);
    TRY(sm::finish(*t, [&] { return sm::rollback(*engine_, *t, point->lsn); }));
    DCHECK(t->state == txn::TxnState::active && t->last_lsn >= point->lsn);
    sm::drop_later(*t, *point);
    sm::undo_at_end(*t, *point);
    return {};
}

}  // namespace lockstep
