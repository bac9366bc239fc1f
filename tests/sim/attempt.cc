// attempt.cc - the life of one transaction: operations in the planned order, then its end;
// bookkeeping of what it did and saw.
#include "tests/sim/attempt.h"

#include <fmt/format.h>

#include <algorithm>

#include "sm/api/operation.h"
#include "sm/engine/engine.h"
#include "txn/log/log.h"

namespace lockstep::sim {

Attempt::Attempt(Records& work, Host& host, const TxnPlan& plan, uint32_t thread)
    : work_(work),
      shared_(work.shared()),
      host_(host),
      plan_(plan),
      thread_(thread),
      number_(work.next_number()),
      who_(fmt::format("transaction {} of thread {}", number_, thread)) {}

bool Attempt::run() {
    shared_.report.add(Count::transactions);
    shared_.liveness.begun(thread_, host_.clock().now());
    const bool repeat = live();
    if (shared_.liveness.ended(thread_)) shared_.report.add(Count::ended_in_time);
    return repeat;
}

bool Attempt::live() {
    auto begun = host_->begin({.isolation = plan_.isolation,
                               .durability = plan_.durability,
                               .read_only = plan_.read_only});
    if (!begun) {
        const ErrorCode code = begun.error().code;
        const bool too_old = is_snapshot() && code == ErrorCode::snapshot_too_old;
        shared_.report.add(too_old ? Count::snapshots_too_old : Count::failed);
        if (!too_old && (!shared_.failures_allowed || !is_failure_of_environment(code)))
            unexpected("begin", begun.error().text());
        return false;
    }
    Txn txn = std::move(*begun);
    id_ = txn.id();
    // One that has been ended already reads nothing.
    if (const auto* live = sm::TxnAccess::usable(txn); live != nullptr && is_snapshot())
        sees_ = live->sees;
    return end(txn, operations(txn));
}

Result<void> Attempt::operations(Txn& txn) {
    for (const Op& op : plan_.ops) {
        current_ = &op;
        // Every other transaction announces what it will do, all of it or from here on.
        if (number_ % 2 == 0 && (&op == plan_.ops.data() || op.size % 5 == 0))
            announce(txn,
                     std::span(plan_.ops).subspan(static_cast<size_t>(&op - plan_.ops.data())));
        const Result<void> done = operation(txn, op);
        shared_.digest.add(100 + static_cast<uint64_t>(op.kind), host_.clock().now(), thread_,
                           number_, done ? 0 : static_cast<uint64_t>(done.error().code));
        if (!done || shared_.report.failed()) return done;
    }
    return {};
}

bool Attempt::end(Txn& txn, const Result<void>& done) {
    if (shared_.report.failed()) {
        if (txn.live()) (void)txn.abort();
        return false;
    }
    if (done) {
        check_rights(txn);
        if (plan_.ending == Ending::commit) commit(txn);
        else if (plan_.ending == Ending::prepare) prepare(txn);
        else abort(txn, true);
        return false;
    }
    const ErrorCode code = done.error().code;
    const bool repeat = code == ErrorCode::deadlock || code == ErrorCode::lock_timeout;
    const bool too_old = code == ErrorCode::snapshot_too_old;
    if (code == ErrorCode::deadlock) shared_.report.add(Count::deadlocks);
    else if (code == ErrorCode::lock_timeout) shared_.report.add(Count::timeouts);
    else shared_.report.add(too_old ? Count::snapshots_too_old : Count::failed);
    if (!repeat && !too_old && !may_fail(code))
        unexpected(
            fmt::format("operation {}", current_ ? static_cast<int>(current_->kind) : -1).c_str(),
            done.error().text());
    abort(txn, repeat);
    return repeat;
}

// A log of a few megabytes may be too short for the active transactions. A transaction that asks
// for more space is then refused and may roll back.
bool Attempt::log_is_scarce() const {
    const txn::Log& log = *host_.engine().log;
    return log.used_bytes() + log.undo_reserved_bytes() > log.capacity_bytes() / 2;
}

bool Attempt::may_fail(ErrorCode code) const {
    return (code == ErrorCode::ended_by_operator && work_.was_ended(id_)) ||
           (code == ErrorCode::log_full && log_is_scarce()) ||
           (shared_.failures_allowed && is_failure_of_environment(code));
}

// The marker goes in with the last operation, so that its presence says that nothing before it is
// missing.
Result<std::string> Attempt::leave_marker(Txn& txn) {
    const std::string marker = work_.next_marker();
    const Index index = TRY(host_->index(kMarkers));
    TRY(index.insert(txn, marker, std::to_string(number_)));
    changes_.push_back({Change::row, kMarkers, marker, value_of(std::to_string(number_))});
    return marker;
}

void Attempt::commit(Txn& txn) {
    std::string marker;
    if (!changes_.empty()) {
        auto marked = leave_marker(txn);
        if (!marked) return (void)end(txn, std::unexpected(marked.error()));
        marker = std::move(*marked);
    }
    const bool durable = plan_.durability == Durability::durable;
    if (is_snapshot()) {
        if (!host_.engine().failed()) work_.ledger().check_snapshot(sees_, reads_, who_);
        reads_.clear();
    }
    const size_t number =
        work_.ledger().commit_called(marker, changes_, reads_, read_from_, durable, who_);
    auto point = txn.commit();
    if (!point && point.error().code == ErrorCode::ended_by_operator)
        work_.ledger().commit_refused(number);
    else work_.ledger().commit_returned(number, point);
    shared_.digest.add(200, host_.clock().now(), thread_, number_, point ? point->value : 1);
    if (!point) return refused(txn, "commit", point.error());
    shared_.report.add(Count::committed);
    shared_.report.add(Count::hoards, plan_.hoard);
    if (!durable && plan_.wait && *point != kLsnNone) {
        const Result<void> waited = host_->wait_durable(*point);
        if (waited) work_.ledger().became_durable(number);
        else if (!shared_.failures_allowed) unexpected("wait_durable", waited.error().text());
    }
    use_after_end(txn);
}

// `checked`: all that it read was protected by locks that are still held.
void Attempt::abort(Txn& txn, bool checked) {
    if (checked && !host_.engine().failed() && !work_.was_ended(id_)) {
        if (is_snapshot()) work_.ledger().check_snapshot(sees_, reads_, who_);
        else work_.ledger().abort_called(reads_, who_);
    }
    shared_.report.add(Count::aborted);
    if (plan_.ending == Ending::drop) {
        Txn dropped = std::move(txn);  // the destructor rolls back
        return;
    }
    const Result<void> done = txn.abort();
    shared_.digest.add(201, host_.clock().now(), thread_, number_, done ? 0 : 1);
    // No reason not to roll back.
    const bool full = shared_.config.profile == FaultProfile::log_full;
    if (!done &&
        (full || !shared_.failures_allowed || !is_failure_of_environment(done.error().code)))
        unexpected("abort", done.error().text());
}

void Attempt::use_after_end(Txn& txn) {
    if (number_ % 16 != 0) return;
    shared_.report.add(Count::misuse);
    auto index = host_->index(kMarkers);
    if (!index) return;
    const Result<void> put = index->put(txn, "x", "y");
    if (put || put.error().code != ErrorCode::txn_ended)
        unexpected("put after commit", put ? "was accepted" : put.error().text());
}

Result<void> Attempt::save(Txn& txn) {
    saved_.push_back({TRY(txn.savepoint()), changes_, own_, objects_});
    return {};
}

// To any of the savepoints; later ones are gone.
Result<void> Attempt::rollback(Txn& txn, const Op& op) {
    if (saved_.empty()) return {};
    saved_.resize(1 + op.key % saved_.size());
    TRY(txn.rollback_to(saved_.back().point));
    changes_ = saved_.back().changes;
    own_ = saved_.back().own;
    objects_ = saved_.back().objects;
    std::erase_if(handles_, [&](const auto& made) {
        return !objects_.contains(made.first) || !objects_[made.first];
    });
    return {};
}

std::optional<Value> Attempt::own(const std::string& object, const std::string& key) const {
    const auto touched = own_.find(object);
    if (touched == own_.end()) return std::nullopt;
    const auto row = touched->second.rows.find(key);
    return row == touched->second.rows.end() ? std::nullopt : std::optional<Value>(row->second);
}

void Attempt::wrote(const std::string& object, const std::string& key, Value value) {
    own_[object].rows[key] = value;
    changes_.push_back({Change::row, object, key, std::move(value)});
}

void Attempt::note(Observation observation, uint64_t began) {
    // Nobody else has rows in an object that it has made or dropped itself.
    if (work_.uses_shared_names() && objects_.contains(observation.object)) {
        if (!observation.seen.empty())
            unexpected("read", fmt::format("{}[{}] has come from nowhere", observation.object,
                                           show(observation.seen.begin()->first)));
        return;
    }
    if (serializable() || is_snapshot() || observation.existence_only)
        reads_.push_back(std::move(observation));
    else if (!host_.engine().failed())
        work_.ledger().check_weak(observation, began, who_, read_from_);
}

void Attempt::read(const std::string& object, const std::string& key, const Value& value,
                   uint64_t began) {
    shared_.digest.add(value ? hash_of(*value) : 0, 0, thread_);
    if (const auto mine = own(object, key)) {
        if (!same(*mine, value))
            unexpected("read", fmt::format("{}[{}] is {}, it had itself made it {}", object,
                                           show(key), show(value), show(*mine)));
        return;
    }
    Observation observation{.object = object, .low = key, .high = {}, .seen = {}, .own = {}};
    if (value) observation.seen.emplace(key, value);
    note(std::move(observation), began);
}

// Its own rows are compared and taken out.
void Attempt::read_range(const std::string& object, const std::string& low, const std::string& high,
                         Rows rows, uint64_t began) {
    for (const auto& [key, value] : rows)
        shared_.digest.add(hash_of(key), hash_of(*value), thread_);
    Observation observation{.object = object,
                            .low = low,
                            .high = high,
                            .point = false,
                            .seen = std::move(rows),
                            .own = {}};
    if (const auto touched = own_.find(object); touched != own_.end()) {
        for (const auto& [key, value] : touched->second.rows) {
            if (key < low || (!high.empty() && key >= high)) continue;
            const auto seen = observation.seen.find(key);
            const Value now = seen == observation.seen.end() ? nullptr : seen->second;
            if (!same(now, value))
                unexpected("scan", fmt::format("{}[{}] is {}, it had itself made it {}", object,
                                               show(key), show(now), show(value)));
            if (seen != observation.seen.end()) observation.seen.erase(seen);
            observation.own.push_back(key);
        }
    }
    note(std::move(observation), began);
}

// The row is locked exclusively to the end of the transaction, at every level of isolation.
void Attempt::existed(const std::string& object, const std::string& key, bool exists) {
    if (const auto mine = own(object, key)) {
        if ((*mine != nullptr) != exists)
            unexpected("answer", fmt::format("{}[{}] {}", object, show(key),
                                             exists ? "exists" : "does not exist"));
        return;
    }
    Observation observation{
        .object = object, .low = key, .high = {}, .existence_only = true, .seen = {}, .own = {}};
    if (exists) observation.seen.emplace(key, nullptr);
    note(std::move(observation), 0);
}

void Attempt::unexpected(const char* what, const std::string& detail) {
    shared_.report.fail(fmt::format("{}: {}: {}", who_, what, detail));
}

std::string Attempt::new_value(uint32_t size) {
    std::string value = fmt::format("t{}.{}:", number_, ++values_);
    if (size > 2000) shared_.report.add(Count::large_values);
    if (size < 3 && shared_.config.variety.short_odds > 0) return value.substr(value.size() - size);
    while (value.size() < size) value += static_cast<char>('a' + (number_ + value.size() * 7) % 26);
    return value;
}

}  // namespace lockstep::sim
