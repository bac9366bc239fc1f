// prepared_txns.cc - both phases of two-phase commit.
#include "sm/store/prepared_txns.h"

#include <algorithm>

#include "sm/change/rollback.h"
#include "sm/core/lock_error.h"
#include "sm/store/engine.h"
#include "threads/base/error_detail.h"
#include "threads/base/mutants.h"
#include "threads/base/wall_clock.h"
#include "threads/sync/completion.h"
#include "threads/thread/between_calls.h"

namespace lockstep::sm {

namespace {

constexpr Nanos kLookPause = 1 * kMillisecond;

[[gnu::cold]] std::unexpected<Error> gid_error(ErrorCode code, const char* what, Slice gid,
                                               const std::string& remedy) {
    auto error = fail(code, what);
    set_error_detail(error.error(), "gid " + printable(gid, kGidBytesMax) + ": " + remedy);
    return error;
}

}  // namespace

void PreparedTxns::adopt(const std::vector<InDoubt>& found) {
    const SpinGuard guard(lock_);
    for (const InDoubt& of : found) {
        [[maybe_unused]] const auto [at, fresh] =
            entries_.try_emplace(of.gid, Entry{.state = State::in_doubt,
                                               .id = of.txn->id,
                                               .slot = of.txn->slot,
                                               .worker = of.txn->shard,
                                               .prepared = of.prepared,
                                               .locks = of.locks});
        DCHECK(fresh);  // PT-1
    }
}

// Half of the slots stay for transactions that can end by themselves.
Result<void> PreparedTxns::add(const txn::Transaction& txn, Slice gid, Nanos now) {
    const size_t most = std::max<size_t>(1, engine_.options.transactions_max / 2);
    const Entry entry{.state = State::preparing,
                      .id = txn.id,
                      .slot = txn.slot,
                      .worker = txn.shard,
                      .prepared = now,
                      .locks = txn.locks.locks_held + txn.locks.intents_used};
    bool known = false, full = false;
    {
        const SpinGuard guard(lock_);
        known = entries_.contains(gid) && !MUTANT(gid_taken_twice);
        full = entries_.size() >= most;
        if (!known && !full) entries_.insert_or_assign(std::string(gid), entry);
    }
    if (known)
        return gid_error(ErrorCode::already_exists, "prepared transaction", gid,
                         "a transaction of this store is prepared under that name; choose another");
    if (full)
        return gid_error(ErrorCode::too_many, "prepared transactions", gid,
                         "half of option transactions_max are in doubt already; commit or roll "
                         "some of them back");
    return {};
}

Result<void> PreparedTxns::prepare(txn::Transaction& txn, Slice gid) {
    DCHECK(txn.runs_here() && txn.first_lsn.load() != 0);
    const Nanos now = wall_now(engine_.runtime->clock());
    TRY(add(txn, gid, now));
    auto done = engine_.txns->prepare(txn, gid, now);
    if (!done && txn.state == txn::TxnState::active) {
        remove(gid);  // nothing happened
        return done;
    }
    put_back(gid);
    return done;
}

void PreparedTxns::put_back(Slice gid) {
    const SpinGuard guard(lock_);
    const auto at = entries_.find(gid);
    DCHECK(at != entries_.end() && at->second.state != State::in_doubt);
    at->second.state = State::in_doubt;
}

void PreparedTxns::remove(Slice gid) {
    const SpinGuard guard(lock_);
    const auto at = entries_.find(gid);
    DCHECK(at != entries_.end() && at->second.state != State::in_doubt);
    entries_.erase(at);
}

// True: the caller ends it. Otherwise `busy` if another thread prepares or ends it.
bool PreparedTxns::take(Slice gid, Entry& entry, bool& busy) {
    const SpinGuard guard(lock_);
    const auto at = entries_.find(gid);
    busy = at != entries_.end() && at->second.state != State::in_doubt;
    if (at == entries_.end() || busy) return false;
    at->second.state = State::ending;
    entry = at->second;
    return true;
}

Result<bool> PreparedTxns::end(Slice gid, Decision decision) {
    if (engine_.on_own_thread()) return end_here(gid, decision);
    bool found = false;
    TRY(engine_.run_and_wait([&]() -> Result<void> {
        found = TRY(end_here(gid, decision));
        return {};
    }));
    return found;
}

Result<bool> PreparedTxns::end_here(Slice gid, Decision decision) {
    DCHECK(engine_.on_own_thread());
    Entry entry;
    for (bool busy = false; !take(gid, entry, busy);) {
        if (!busy || MUTANT(second_call_ahead)) return false;
        const threads::BetweenCalls waits;
        threads::sleep_until(threads::now() + kLookPause);  // PT-2
    }
    // The thread is not between two calls now: it owns the transaction while it ends it.
    Result<void> done;
    if (entry.worker == threads::worker_index()) {
        done = finish(entry, decision);
    } else {
        threads::Completion ended;
        const auto started =
            engine_.start_thread(static_cast<int>(entry.worker), "end prepared", [&] {
                done = finish(entry, decision);
                ended.set();
            });
        if (!started) {
            put_back(gid);
            return std::unexpected(started.error());
        }
        const threads::BetweenCalls waits;
        engine_.wait_for(ended);
    }
    if (!done && done.error().code == ErrorCode::store_closed) put_back(gid);
    else remove(gid);
    if (!done) return std::unexpected(done.error());
    return true;
}

Result<void> PreparedTxns::finish(const Entry& entry, Decision decision) {
    DCHECK(threads::worker_index() == entry.worker);
    txn::Transaction& txn = engine_.txns->at(entry.slot);
    CHECK(txn.id == entry.id && txn.state == txn::TxnState::prepared);
    TRY(engine_.txns->attach(txn));
    ApiCounters& counters = engine_.counters[threads::worker_index()];
    if (decision == Decision::commit) {
        TRY(engine_.txns->commit(txn));
        ApiCounters::add(counters.commits);
        return {};
    }
    const auto undone = rollback(engine_, txn, kLsnNone);
    if (!undone) engine_.report(0, "rollback failed: " + undone.error().text());
    engine_.txns->finish_abort(txn, undone.has_value());
    ApiCounters::add(counters.aborts);
    return undone;
}

std::vector<PreparedInfo> PreparedTxns::list() const {
    const Nanos now = wall_now(engine_.runtime->clock());
    std::vector<PreparedInfo> all;
    {
        const SpinGuard guard(lock_);
        for (const auto& [gid, entry] : entries_)
            if (entry.state != State::preparing)
                all.push_back({.gid = gid,
                               .id = entry.id,
                               .age = now > entry.prepared ? now - entry.prepared : 0,
                               .locks = entry.locks});
    }
    std::ranges::stable_sort(all, std::ranges::greater(), &PreparedInfo::age);
    return all;
}

std::string PreparedTxns::gid_of(TxnId id) const {
    const SpinGuard guard(lock_);
    for (const auto& [gid, entry] : entries_)
        if (entry.id == id) return gid;
    return {};
}

bool PreparedTxns::any() const {
    const SpinGuard guard(lock_);
    return !entries_.empty();
}

}  // namespace lockstep::sm
