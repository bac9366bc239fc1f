// txn_watch.cc - lists live transactions, and ends them from outside.
#include "sm/observe/txn_watch.h"

#include <algorithm>
#include <string>

#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/core/lock_error.h"
#include "sm/host/host.h"
#include "sm/needs/needs.h"
#include "sm/services/prepared_txns.h"
#include "sm/version/txn_snapshot.h"
#include "threads/base/error_detail.h"
#include "threads/thread/between_calls.h"

namespace lockstep {

const char* transaction_state_name(TransactionState state) {
    switch (state) {
        case TransactionState::idle: return "idle";
        case TransactionState::running: return "running";
        case TransactionState::lock_wait: return "lock_wait";
        case TransactionState::rolling_back: return "rolling_back";
        case TransactionState::committing: return "committing";
        case TransactionState::ended: return "ended";
        case TransactionState::prepared: return "prepared";
    }
    return "unknown";
}

namespace sm {

namespace {

constexpr Nanos kLookPause = 1 * kMillisecond, kReapPauseMax = 100 * kMillisecond;

std::string text_of(TxnId id) { return "transaction " + std::to_string(id.value); }

constexpr Nanos kAskPause = 20 * kMillisecond;
constexpr size_t kBlockersMax = 32;

// What the transaction does, or `free` if it has ended; on the worker that it began on. The slot
// may serve a transaction of another worker by now. begin() writes id and worker before the state,
// so they belong to the state that was read. Everything else then belongs to this worker.
txn::TxnState state_of(txn::Transaction& txn, TxnId id) {
    const txn::TxnState state = std::atomic_ref(txn.state).load(std::memory_order_acquire);
    const bool same =
        std::atomic_ref(txn.id.value).load(std::memory_order_relaxed) == id.value &&
        std::atomic_ref(txn.shard).load(std::memory_order_relaxed) == threads::worker_index();
    return same ? state : txn::TxnState::free;
}
bool is_gone(txn::Transaction& txn, TxnId id) {
    const txn::TxnState state = state_of(txn, id);
    return state != txn::TxnState::active && state != txn::TxnState::aborting;
}
// Its thread has ended and its Thread object may serve another one.
bool thread_gone(const txn::Transaction& txn) {
    return txn.thread->id != txn.thread_id || txn.thread->stack == nullptr;
}
bool is_idle(const txn::Transaction& txn) { return thread_gone(txn) || txn.thread->between_calls; }

}  // namespace

TxnWatch::TxnWatch(Host& host, const PreparedTxns& prepared) : engine_(host), prepared_(prepared) {}

uint64_t TxnWatch::pinned(const Seen& seen) const {
    const uint64_t tail = engine_.log->tail().value;
    return seen.first == kLsnNone || tail < seen.first.value ? 0 : tail - seen.first.value;
}

// On the worker of the transaction.
TransactionInfo TxnWatch::describe(const Seen& seen) const {
    const txn::Transaction& txn = engine_.txns->at(seen.slot);
    DCHECK(txn.id == seen.id && txn.state != txn::TxnState::free);
    DCHECK(threads::current() != nullptr && threads::worker_index() == seen.worker);
    const Nanos now = threads::now();
    TransactionInfo info{.id = seen.id,
                         .age = now > seen.began ? now - seen.began : 0,
                         .thread = txn.thread_id,
                         .worker = seen.worker,
                         .state = TransactionState::running,
                         .read_only = txn.read_only,
                         .internal = seen.internal,
                         .marked = txn.ended_outside(),
                         .locks = txn.locks.locks_held,
                         .log_bytes = txn.locks.work,
                         .undo_bytes = txn.undo.bytes,
                         .log_pinned_bytes = pinned(seen)};
    if (txn.state == txn::TxnState::undone) {
        DCHECK(info.locks == 0 && info.undo_bytes == 0 && txn.reaper != nullptr);
        info.state = TransactionState::ended;
    } else if (txn.state == txn::TxnState::prepared) {
        info.state = TransactionState::prepared;
        info.gid = prepared_.gid_of(txn.id);
        return info;
    } else if (txn.state == txn::TxnState::aborting) {
        info.state = TransactionState::rolling_back;
    } else if (txn.state == txn::TxnState::committed) {
        info.state = TransactionState::committing;
    } else if (is_idle(txn)) {
        info.state = TransactionState::idle;
    }
    // Last: text_of() may park, and the transaction may end meanwhile.
    if (const auto wait = engine_.locks->wait_of(txn.locks)) {
        info.state = TransactionState::lock_wait;
        info.waited = wait->waited;
        const uint32_t named = std::min(wait->holders, txn::LockManager::Wait::kHoldersMax);
        info.waits_for_transactions.assign(wait->holder, wait->holder + named);
        info.waits_for = engine_.locks->text_of(*wait);
    }
    return info;
}

std::vector<TransactionInfo> TxnWatch::list() {
    const threads::BetweenCalls waits;
    return collect([this](uint32_t worker, threads::ThreadFn report) {
        return engine_.start_thread(static_cast<int>(worker), "list transactions",
                                    std::move(report));
    });
}

// The application's threads are refused by now.
std::vector<TransactionInfo> TxnWatch::list_while_closing() {
    DCHECK(engine_.closing() && threads::current() == nullptr);
    return collect([this](uint32_t worker, threads::ThreadFn report) -> Result<void> {
        TRY(engine_.runtime->spawn(worker, "list transactions", std::move(report)));
        return {};
    });
}

template <class Start>
std::vector<TransactionInfo> TxnWatch::collect(Start start) {
    DCHECK(engine_.txns != nullptr && engine_.runtime->workers() > 0);
    std::vector<TransactionInfo> all;
    for (uint32_t worker = 0; worker < engine_.runtime->workers(); ++worker) {
        threads::Completion done;
        const auto report = [&, worker] {
            for (const Seen& seen : engine_.txns->seen())
                if (seen.worker == worker &&
                    state_of(engine_.txns->at(seen.slot), seen.id) != txn::TxnState::free)
                    all.push_back(describe(seen));
            done.set();
        };
        if (!start(worker, report)) break;
        engine_.wait_for(done);
    }
    // Each is of one worker: none is reported twice.
    DCHECK(std::ranges::none_of(all, [](const auto& info) { return info.id == kTxnNone; }));
    std::ranges::sort(all, {}, [](const TransactionInfo& info) { return info.id.value; });
    return all;
}

Result<void> TxnWatch::end(TxnId id, txn::Heed why) {
    DCHECK(why == txn::Heed::by_operator || why == txn::Heed::cancelled);
    const threads::BetweenCalls waits;
    for (const Seen& seen : engine_.txns->seen()) {
        if (seen.id != id || seen.state == txn::TxnState::committed ||
            seen.state == txn::TxnState::undone)
            continue;
        if (seen.internal)
            return fail(ErrorCode::bad_argument, "transaction of the store itself", id.value);
        if (seen.state == txn::TxnState::prepared)
            return fail(ErrorCode::bad_argument,
                        "prepared transaction: commit or roll it back by its gid", id.value);
        threads::Completion marked;
        TRY(send_reaper(seen, {.why = why}, &marked));
        engine_.wait_for(marked);
        return {};
    }
    return fail(ErrorCode::txn_ended, "transaction", id.value);
}

Result<void> TxnWatch::send_reaper(const Seen& whom, Order order, threads::Completion* marked) {
    DCHECK(whom.id != kTxnNone && !whom.internal && order.why > txn::Heed::failed);
    DCHECK(whom.worker < engine_.runtime->workers());
    {
        const SpinGuard guard(lock_);
        if (const auto at = reaper_of(whom.id); at != reapers_.end()) {
            if (!order.idle_only) at->next = order;
            if (marked) marked->set();  // it has the mark, or gets it in that reaper's next turn
            return {};
        }
        reapers_.push_back({whom.id});
    }
    auto started = engine_.start_thread(static_cast<int>(whom.worker), "end transaction",
                                        [this, whom, order, marked] { reap(whom, order, marked); });
    if (!started) forget_reaper(whom.id);
    return started;
}

std::vector<TxnWatch::Reaper>::iterator TxnWatch::reaper_of(TxnId id) {
    DCHECK(lock_.is_held() && id != kTxnNone);
    return std::ranges::find(reapers_, id, &Reaper::id);
}

void TxnWatch::forget_reaper(TxnId id) {
    const SpinGuard guard(lock_);
    DCHECK(reaper_of(id) != reapers_.end());
    reapers_.erase(reaper_of(id));
}

// False: there is no other order than the one that the reaper gives up, and none can come.
bool TxnWatch::next_order(TxnId id, Order& order) {
    DCHECK(order.idle_only);
    const SpinGuard guard(lock_);
    const auto at = reaper_of(id);
    DCHECK(at != reapers_.end());
    const std::optional<Order> next = at->next;
    if (next) order = *next;
    else reapers_.erase(at);
    return next.has_value();
}

// Stays until the transaction has ended: a thread that was inside an operation may become idle
// later, and an operation may wait for one more lock.
void TxnWatch::reap(const Seen& whom, Order order, threads::Completion* marked) {
    txn::Transaction& txn = engine_.txns->at(whom.slot);
    DCHECK(threads::worker_index() == whom.worker);  // TW-1
    for (Nanos pause = kLookPause; !is_gone(txn, whom.id);
         pause = std::min(2 * pause, kReapPauseMax)) {
        if (order.idle_only && !txn.ended_outside() &&
            (!is_idle(txn) || txn.last_lsn != whom.last) && !next_order(whom.id, order))
            return;
        if (mark(txn, order)) {
            if (txn.locks.waiting.load() != nullptr) engine_.locks->cancel(txn.locks);
            else if (is_idle(txn) && !engine_.failed()) roll_back(txn);
        }
        if (marked) std::exchange(marked, nullptr)->set();
        if (engine_.failed()) break;  // its own thread may find out; the next open rolls it back
        if (!is_gone(txn, whom.id)) threads::sleep_until(threads::now() + pause);
    }
    if (marked) marked->set();
    forget_reaper(whom.id);
}

// The same as one pass of a reaper. Not of the store's own: the call that runs one ends it.
template <class Which>
void TxnWatch::cancel_here(Which which) {
    for (const Seen& seen : engine_.txns->seen()) {
        txn::Transaction& txn = engine_.txns->at(seen.slot);
        if (seen.worker != threads::worker_index() || is_gone(txn, seen.id)) continue;  // TW-1
        if (txn.internal || engine_.failed() || !which(txn)) continue;
        {
            const SpinGuard guard(lock_);
            if (reaper_of(seen.id) != reapers_.end()) continue;
            reapers_.push_back({seen.id});
        }
        if (mark(txn, {.why = txn::Heed::cancelled})) {
            DCHECK(txn.heed >= txn::Heed::by_operator);
            if (txn.locks.waiting.load() != nullptr) engine_.locks->cancel(txn.locks);
            else if (is_idle(txn)) roll_back(txn);
        }
        forget_reaper(seen.id);
    }
}

void TxnWatch::cancel_thread(uint64_t thread) {
    DCHECK(threads::current() != nullptr && threads::current()->id != thread);
    cancel_here([thread](const txn::Transaction& txn) { return txn.thread_id == thread; });
}

void TxnWatch::end_orphans_while_closing() {
    DCHECK(engine_.closing() && threads::current() == nullptr);
    const auto is_orphan = [this](const txn::Transaction& txn) {
        if (txn.reaper != nullptr || !thread_gone(txn)) return false;
        engine_.report(1, text_of(txn.id) + " was left open by its thread and is rolled back");
        return true;
    };
    for (uint32_t worker = 0; worker < engine_.runtime->workers(); ++worker) {
        threads::Completion done;
        const auto end = [&] {
            cancel_here(is_orphan);
            done.set();
        };
        if (!engine_.runtime->spawn(worker, "end orphans", end)) return;
        engine_.wait_for(done);
    }
}

// False while its own thread rolls back, perhaps only to a savepoint.
bool TxnWatch::mark(txn::Transaction& txn, const Order& order) {
    if (txn.state != txn::TxnState::active || txn.internal) return false;
    DCHECK(txn.reaper == nullptr && txn.id != kTxnNone);  // TW-2
    if (!txn.ended_outside()) {
        txn.heed = order.why;
        txn.ended_number = order.number;
        const char* reason = order.why == txn::Heed::by_operator ? " is ended by an operator"
                             : order.why == txn::Heed::too_old
                                 ? " is ended: older than transaction_age_max"
                                 : " is ended: it pins the log, and others wait for space";
        // An application cancels as it likes. The others are for its operator to know.
        if (order.why != txn::Heed::cancelled) engine_.report(1, text_of(txn.id) + reason);
    }
    DCHECK(txn.must_abort() && txn.ended_outside());
    return true;
}

void TxnWatch::roll_back(txn::Transaction& txn) {
    DCHECK(txn.state == txn::TxnState::active && txn.reaper == nullptr && !txn.internal);
    const bool orphan = thread_gone(txn);
    // The Thread object of one that has ended may be the reaper's own by now.
    DCHECK((orphan || txn.thread != threads::current()) && txn.must_abort());
    DCHECK(txn.locks.waiting.load() == nullptr);
    txn.reaper = threads::current();
    if (orphan) forget_local(engine_, txn);  // no thread is left to end it
    else expel_snapshot(engine_, txn);
    DeferredActions deferred(txn);
    const auto undone = rollback(engine_, txn, kLsnNone);
    if (!undone) engine_.report(0, "rollback failed: " + undone.error().text());
    engine_.txns->finish_undone(txn, undone.has_value());
    DCHECK(txn.state == txn::TxnState::undone && txn.locks.locks_held == 0);
    ApiCounters::add(engine_.counters[threads::worker_index()].aborts);
    deferred.run_rolled_back();
    if (orphan) engine_.txns->finish_abort(txn, undone.has_value());
}

TxnWatch::Seen TxnWatch::oldest() {
    const Nanos now = threads::now();
    {
        const SpinGuard guard(lock_);
        if (looked_ != 0 && now < looked_ + kLookPause) return oldest_;
        looked_ = now;
    }
    Seen oldest{};
    const std::vector<Seen> all = engine_.txns->seen();
    for (const Seen& seen : all)
        if (seen.first != kLsnNone && seen.state != txn::TxnState::committed &&
            (oldest.id == kTxnNone || seen.first < oldest.first))
            oldest = seen;
    DCHECK((oldest.id == kTxnNone) == (oldest.first == kLsnNone));
    std::vector<TxnId> blockers;
    if (oldest.waits) blockers = blockers_of(oldest, all);
    const SpinGuard guard(lock_);
    blockers_.swap(blockers);
    return oldest_ = oldest;
}

std::vector<TxnId> TxnWatch::blockers_of(const Seen& oldest, const std::vector<Seen>& all) const {
    DCHECK(oldest.id != kTxnNone && oldest.waits && oldest.first != kLsnNone);
    std::vector<TxnId> found{oldest.id};
    for (size_t i = 0; i < found.size() && found.size() < kBlockersMax; ++i) {
        const auto at = std::ranges::find(all, found[i], &Seen::id);
        if (at == all.end() || !at->waits) continue;
        const auto wait = engine_.locks->wait_of(engine_.txns->at(at->slot).locks);
        if (!wait) continue;
        for (const TxnId holder : wait->holder)
            if (holder != kTxnNone && std::ranges::find(found, holder) == found.end())
                found.push_back(holder);
    }
    DCHECK(!found.empty() && found.size() < kBlockersMax + 3);
    return found;
}

bool TxnWatch::blocks_oldest(TxnId id) {
    DCHECK(id != kTxnNone);
    const SpinGuard guard(lock_);
    return std::ranges::find(blockers_, id) != blockers_.end();
}

void TxnWatch::warn() {
    txn::Log& log = *engine_.log;
    // Most calls end here: who pins half of the log cannot do so in less.
    if (log.used_bytes() < log.capacity_bytes() / 2) return;
    const Seen seen = oldest();
    if (seen.id == kTxnNone || pinned(seen) < log.capacity_bytes() / 2) return;
    if (warned_.exchange(seen.id.value) == seen.id.value) return;
    const Nanos now = threads::now();
    const std::string gid = prepared_.gid_of(seen.id);
    engine_.report(
        1, text_of(seen.id) +
               (gid.empty() ? "" : ", prepared as " + printable(gid, kGidBytesMax) + ",") +
               " pins " + std::to_string(pinned(seen)) + " bytes of the log, of log_bytes " +
               std::to_string(log.capacity_bytes()) + "; it began " +
               std::to_string((now - std::min(now, seen.began)) / kMillisecond) + " ms ago");
}

void TxnWatch::warn_of_limit() {
    const uint32_t waiting = engine_.txns->waiting();
    if (waiting == 0) {
        limit_wait_ = {};
        return;
    }
    uint64_t ended = 0;
    for (uint32_t w = 0; w < engine_.runtime->workers(); ++w)
        ended += engine_.counters[w].commits.load(std::memory_order_relaxed) +
                 engine_.counters[w].aborts.load(std::memory_order_relaxed);
    const Nanos now = threads::now();
    if (limit_wait_.since == 0 || limit_wait_.ended != ended) {
        limit_wait_ = {.since = now, .ended = ended};
        return;
    }
    DCHECK(now >= limit_wait_.since);
    if (limit_wait_.told || now - limit_wait_.since < kSecond) return;
    limit_wait_.told = true;
    engine_.report(1, "begin waits (" + std::to_string(waiting) + " callers) because " +
                          std::to_string(engine_.options.transactions_max) +
                          " transactions are active, the most that option transactions_max "
                          "allows, and none has ended for 1 s; end transactions that are left "
                          "open (Store::transactions() lists them), or raise the option");
}

std::string TxnWatch::describe_in_doubt(const Seen& seen) const {
    DCHECK(seen.state == txn::TxnState::prepared);
    std::string gid = prepared_.gid_of(seen.id);
    if (gid.empty()) return gid;
    return text_of(seen.id) + ", in doubt as " + printable(gid, kGidBytesMax) + ", pins " +
           std::to_string(pinned(seen)) + " bytes of the log, of log_bytes " +
           std::to_string(engine_.log->capacity_bytes()) +
           "; end it (Store::commit_prepared(), rollback_prepared()), or raise option log_bytes";
}

// By the same rule as the checkpointer: one that is waited for must be due. The log's start may lie
// below the first record that a restart needs: after an open, and while a hold keeps it.
bool TxnWatch::checkpoint_helps(const Seen& oldest) const {
    const txn::Log& log = *engine_.log;
    const uint64_t upto = oldest.id == kTxnNone ? log.tail().value : oldest.first.value;
    const uint64_t start = engine_.first_record.load();
    return upto > start + log.capacity_bytes() / 16 || log.wants_start(Lsn{start}, Lsn{upto});
}

void TxnWatch::relieve_log(const Seen& oldest, Nanos in_vain, Nanos unchanged) {
    DCHECK(oldest.id == kTxnNone || oldest.first != kLsnNone);
    DCHECK(unchanged <= in_vain);
    if (in_vain < kPatience) return;
    warn();
    // Only its coordinator, or an operator in its place, may end one in doubt.
    if (oldest.id == kTxnNone || oldest.internal || oldest.state == txn::TxnState::prepared) return;
    const uint64_t bytes = pinned(oldest);
    const bool slow = in_vain >= slow_max();
    if (!slow && unchanged < (bytes >= engine_.log->capacity_bytes() / 2 ? kPatience : kIdleMax))
        return;
    {
        const Nanos now = threads::now();
        const SpinGuard guard(lock_);
        if (asked_ != 0 && now < asked_ + kAskPause) return;
        asked_ = now;
    }
    (void)send_reaper(oldest, {.why = txn::Heed::pins_log, .number = bytes, .idle_only = !slow},
                      nullptr);
}

Nanos TxnWatch::slow_max() const {
    static_assert(kIdleMax < 5 * kSecond);
    return 5 * kSecond + engine_.log->safe_bytes() / kSlowBytesPerMicro * 1000;
}

void TxnWatch::end_old() {
    DCHECK(engine_.options.transaction_age_max.has_value());
    const Nanos now = threads::now(), limit = engine_.options.transaction_age_max.value_or(kNever);
    for (const Seen& seen : engine_.txns->seen())
        if (!seen.internal && seen.state == txn::TxnState::active && now > seen.began &&
            now - seen.began > limit)
            (void)send_reaper(seen, {.why = txn::Heed::too_old, .number = now - seen.began},
                              nullptr);
}

Result<void> TxnWatch::start() {
    if (!engine_.options.transaction_age_max) return {};
    const Nanos limit = *engine_.options.transaction_age_max;
    DCHECK(stopped_ == nullptr);
    stop_ = std::make_unique<threads::Event>();
    stopped_ = std::make_unique<threads::Completion>();
    const Nanos pause = std::clamp(limit / 8, kMillisecond, kSecond);
    auto started = engine_.runtime->spawn(0, "transaction watch", [this, pause] {
        while (!stop_->wait_until(threads::now() + pause, threads::ParkReason::sleep)) {
            end_old();
            warn();
        }
        stopped_->set();
    });
    if (started) return {};
    stopped_.reset();
    return std::unexpected(started.error());
}

void TxnWatch::stop() {
    if (!stopped_) return;
    DCHECK(stop_ != nullptr);
    stop_->set();
    stopped_->wait();
    stopped_.reset();
}

std::unexpected<Error> ended_outside(const txn::Transaction& txn) {
    DCHECK(txn.ended_outside());
    const uint64_t id = txn.id.value, number = txn.ended_number;
    if (txn.heed == txn::Heed::cancelled) return fail(ErrorCode::cancelled, "transaction", id);
    if (txn.heed == txn::Heed::by_operator)
        return fail(ErrorCode::ended_by_operator, "transaction", id);
    const bool old = txn.heed == txn::Heed::too_old;
    auto error = old ? fail(ErrorCode::transaction_too_old, "transaction", id, number)
                     : fail(ErrorCode::log_full, "transaction pins the log", id, number);
    set_error_detail(
        error.error(),
        old ? text_of(txn.id) + " was " + std::to_string(number / kMillisecond) +
                  " ms old; end it earlier, or raise option transaction_age_max"
            : text_of(txn.id) + " pinned " + std::to_string(number) +
                  " bytes of the log while others waited for space; end it earlier, or raise "
                  "option log_bytes");
    return error;
}

}  // namespace sm
}  // namespace lockstep
