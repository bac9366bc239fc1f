// prepared_txns.cc - both phases of two-phase commit.
#include "sm/services/prepared_txns.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/core/lock_error.h"
#include "sm/host/host.h"
#include "threads/base/error_detail.h"
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

// A gid as it is copied under the spin lock (PT-3).
struct GidCopy {
    explicit GidCopy(Slice gid) : size(gid.size()) {
        DCHECK(size <= kGidBytesMax);
        std::copy_n(gid.data(), size, bytes);
    }
    Slice slice() const { return {bytes, size}; }

    size_t size;
    char bytes[kGidBytesMax];
};

}  // namespace

// What those in doubt have left for their end; the next open finds it out again.
PreparedTxns::~PreparedTxns() {
    DCHECK(entries_.empty() || engine_.txns != nullptr);
    for (const auto& [gid, entry] : entries_) DeferredActions(engine_.txns->at(entry.slot));
}

void PreparedTxns::adopt(const std::vector<InDoubt>& found) {
    Entries made;
    for (const InDoubt& of : found) {
        [[maybe_unused]] const auto [at, fresh] =
            made.try_emplace(of.gid, Entry{.state = State::in_doubt,
                                           .id = of.txn->id,
                                           .slot = of.txn->slot,
                                           .worker = of.txn->shard,
                                           .prepared = of.prepared,
                                           .locks = of.locks});
        DCHECK(fresh);  // PT-1
    }
    const SpinGuard guard(lock_);
    DCHECK(entries_.empty());
    entries_.swap(made);
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
    Entries made;
    made.try_emplace(std::string(gid), entry);
    auto node = made.extract(made.begin());
    bool known = false, full = false;
    {
        const SpinGuard guard(lock_);
        const auto at = entries_.find(gid);
        known = at != entries_.end();
        full = entries_.size() >= most;
        if (!known && !full) entries_.insert(std::move(node));
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
    Entries::node_type gone;  // freed behind the lock
    const SpinGuard guard(lock_);
    const auto at = entries_.find(gid);
    DCHECK(at != entries_.end() && at->second.state != State::in_doubt);
    gone = entries_.extract(at);
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
        if (!busy) return false;
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
    DeferredActions deferred(txn);
    ApiCounters& counters = engine_.counters[threads::worker_index()];
    if (decision == Decision::commit) {
        const Lsn point = TRY(engine_.txns->commit(txn));
        ApiCounters::add(counters.commits);
        deferred.run_committed(point);
        return {};
    }
    const auto undone = rollback(engine_, txn, kLsnNone);
    if (!undone) engine_.report(0, "rollback failed: " + undone.error().text());
    engine_.txns->finish_abort(txn, undone.has_value());
    ApiCounters::add(counters.aborts);
    return undone;
}

// The clock of the day may have been set back.
Nanos PreparedTxns::age_of(const Entry& entry, Nanos now) const {
    return now > entry.prepared ? now - entry.prepared : 0;
}

std::vector<PreparedInfo> PreparedTxns::list() const {
    const Nanos now = wall_now(engine_.runtime->clock());
    std::vector<std::pair<GidCopy, Entry>> found;
    for (size_t room = 0;;) {
        found.reserve(room);
        const SpinGuard guard(lock_);
        room = entries_.size();
        if (room > found.capacity()) continue;
        for (const auto& [gid, entry] : entries_)
            if (entry.state != State::preparing) found.emplace_back(GidCopy(gid), entry);
        break;
    }
    std::vector<PreparedInfo> all;
    all.reserve(found.size());
    for (const auto& [gid, entry] : found)
        all.push_back({.gid = std::string(gid.slice()),
                       .id = entry.id,
                       .age = age_of(entry, now),
                       .locks = entry.locks});
    std::ranges::stable_sort(all, std::ranges::greater(), &PreparedInfo::age);
    return all;
}

std::string PreparedTxns::gid_of(TxnId id) const {
    GidCopy found{Slice()};
    {
        const SpinGuard guard(lock_);
        const auto at = std::ranges::find_if(
            entries_, [&](const auto& named) { return named.second.id == id; });
        if (at != entries_.end()) found = GidCopy(at->first);
    }
    return std::string(found.slice());
}

PreparedTxns::Counts PreparedTxns::counts() const {
    const Nanos now = wall_now(engine_.runtime->clock());
    Counts counts;
    const SpinGuard guard(lock_);
    for (const auto& [gid, entry] : entries_) {
        if (entry.state == State::preparing) continue;
        ++counts.open;
        counts.oldest = std::max(counts.oldest, age_of(entry, now));
    }
    return counts;
}

bool PreparedTxns::any() const {
    const SpinGuard guard(lock_);
    return !entries_.empty();
}

}  // namespace lockstep::sm
