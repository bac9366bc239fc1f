// attempt_shared.cc - names that all threads make, load, read and drop. The lock on a name puts all
// that into the serial order.
#include <fmt/format.h>

#include "tests/sim/attempt.h"
#include "tests/sim/entries.h"
#include "tests/sim/plan_shared.h"

namespace lockstep::sim {

void Attempt::named(const std::string& name, bool exists) {
    shared_.digest.add(210, exists, thread_);
    if (const auto own = objects_.find(name); own != objects_.end()) {
        if (own->second != exists)
            unexpected("name", fmt::format("{} {}", name, exists ? "exists" : "does not exist"));
        return;
    }
    Observation observation{
        .of = Observation::Of::name, .object = name, .low = {}, .high = {}, .seen = {}, .own = {}};
    if (exists) observation.seen.emplace(std::string(), nullptr);
    reads_.push_back(std::move(observation));
}

void Attempt::made(const std::string& name) {
    named(name, false);
    objects_[name] = true;
    own_.erase(name);
    changes_.push_back({Change::create_index, name, {}, {}});
    shared_.report.add(Count::names_made);
}

// Whether a snapshot sees a name that is dropped meanwhile is open: the object may be gone.
Result<std::optional<Index>> Attempt::shared_index(Txn& txn, const std::string& name) {
    const auto found = host_->index(txn, name);
    const bool missing = !found && found.error().code == ErrorCode::no_such_object;
    if (!found && !missing) return std::unexpected(found.error());
    if (!missing || !is_snapshot()) named(name, !missing);
    if (!missing) opened_[name] = found->id();
    return missing ? std::nullopt : std::optional<Index>(*found);
}

Result<void> Attempt::on_shared(Txn& txn, const Op& op) {
    const std::string name = fmt::format("shared{}", op.object % kSharedNames);
    if (op.kind == OpKind::shared_create) return make_shared(txn, name, op);
    if (op.kind == OpKind::shared_drop) return drop_shared(txn, name);
    const std::optional<Index> index = TRY(shared_index(txn, name));
    if (!index) return {};
    if (op.kind == OpKind::shared_load) return load_shared(txn, name, *index, op);
    if (op.kind != OpKind::shared_read) return change_shared(txn, name, *index, op);
    const Result<void> done = read_shared(txn, name, *index);
    const bool gone = !done && done.error().code == ErrorCode::no_such_object;
    return gone && is_snapshot() ? Result<void>{} : done;
}

// In half of the cases open_or_create_index(). Then the object's number tells whether it is new:
// list() may not have it yet when the creator has just released its locks.
Result<void> Attempt::make_shared(Txn& txn, const std::string& name, const Op& op) {
    const bool open = op.key % 2 == 0;
    const auto index =
        open ? host_->open_or_create_index(txn, name) : host_->create_index(txn, name);
    if (!open && !index && index.error().code == ErrorCode::already_exists)
        return named(name, true), Result<void>{};
    TRY(index);
    const bool opened = work_.knows_object(index->id());
    if (opened && !open) unexpected("create", name + " has the number of an earlier object");
    if (opened) named(name, true);
    else made(name);
    return op.key % 3 == 0 ? host_.make_secondary(txn, name, *index) : Result<void>{};
}

Result<void> Attempt::drop_shared(Txn& txn, const std::string& name) {
    const Result<void> dropped = host_->drop(txn, name);
    const bool missing = !dropped && dropped.error().code == ErrorCode::no_such_object;
    if (!missing) TRY(dropped);
    named(name, !missing);
    if (missing) return {};
    objects_[name] = false;
    own_.erase(name);
    changes_.push_back({Change::drop, name, {}, {}});
    shared_.report.add(Count::names_dropped);
    return {};
}

// A load that succeeds has found nothing. One that is refused may have found erased records.
Result<void> Attempt::load_shared(Txn& txn, const std::string& name, const Index& index,
                                  const Op& op) {
    const uint64_t began = work_.ledger().now();
    const bool untouched = objects_.contains(name) && !own_.contains(name);
    uint32_t n = 0;
    std::string key, value;
    std::vector<std::pair<std::string, Value>> rows;
    const Result<void> loaded = host_->bulk_load(txn, index, [&](Slice& k, Slice& v) {
        if (n == op.span) return false;
        key = work_.key_text(n++ * 2 + op.key % 2);
        value = new_value(op.size);
        rows.emplace_back(key, value_of(value));
        k = key;
        v = value;
        return true;
    });
    if (!loaded && loaded.error().code == ErrorCode::bad_argument && !untouched) return {};
    TRY(loaded);
    read_range(name, "", "", {}, began);
    shared_.report.add(Count::shared_loads);
    for (auto& [k, v] : rows) wrote(name, k, std::move(v));
    return {};
}

Result<void> Attempt::change_shared(Txn& txn, const std::string& name, const Index& index,
                                    const Op& op) {
    for (uint32_t n = 0; n < op.span; ++n) {
        const std::string key = work_.key_text(op.key + n);
        if (op.kind == OpKind::shared_erase) {
            const bool there = TRY(index.erase(txn, key));
            existed(name, key, there);
            if (there) wrote(name, key, nullptr);
            continue;
        }
        const std::string value = new_value(op.size);
        TRY(index.put(txn, key, value));
        wrote(name, key, value_of(value));
    }
    // Over the records that are there, unless it exists.
    return op.key % 7 == 0 ? host_.make_secondary(txn, name, index) : Result<void>{};
}

// The records must be those of the model, and the entries those of the records.
Result<void> Attempt::read_shared(Txn& txn, const std::string& name, const Index& index) {
    const uint64_t began = work_.ledger().now();
    Cursor cursor = index.scan(txn);
    Rows rows, expected;
    while (TRY(cursor.next()))
        rows.emplace(std::string(cursor.key()), value_of(std::string(cursor.value())));
    const auto by = host_->index(txn, "by." + name);
    const bool has_by = by.has_value();
    if (!by && by.error().code != ErrorCode::no_such_object) return std::unexpected(by.error());
    if (has_by) {
        for (const auto& [key, value] : rows) add_entries(expected, key, value, "", "");
        const Rows entries = TRY(walk_entries(txn, *by, "", "", number_ % 6));
        shared_.report.add(Count::entry_ranges_checked);
        const std::string fault =
            difference({{name, {.rows = expected}}}, {{name, {.rows = entries}}});
        if (!fault.empty()) unexpected("entries of a shared name", fault);
    }
    read_range(name, "", "", std::move(rows), began);
    return {};
}

}  // namespace lockstep::sim
