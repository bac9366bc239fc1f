// attempt_schema.cc - objects that one thread makes, fills and drops on its own.
#include <fmt/format.h>

#include "tests/sim/attempt.h"

namespace lockstep::sim {

// A handle if the object exists for this transaction.
Result<std::optional<Index>> Attempt::private_index(const std::string& name) {
    const auto made = objects_.find(name);
    if (made != objects_.end())
        return made->second ? std::optional<Index>(handles_[name]) : std::nullopt;
    if (!work_.ledger().model().contains(name)) return std::nullopt;
    return TRY(host_->index(name));
}

Result<void> Attempt::on_schema(Txn& txn, const Op& op) {
    const std::string name = fmt::format("own{}.{}", thread_, op.object);
    const std::optional<Index> index = TRY(private_index(name));
    switch (op.kind) {
        case OpKind::create: {
            auto created = host_->create_index(txn, name);
            if (created && index) unexpected("create", name + " was made twice");
            if (!created && created.error().code == ErrorCode::already_exists &&
                (index || objects_.contains(name)))
                return {};
            handles_[name] = TRY(created);
            objects_[name] = true;
            own_.erase(name);
            changes_.push_back({Change::create_index, name, {}, {}});
            shared_.report.add(Count::objects_made);
            return {};
        }
        case OpKind::drop: {
            const Result<void> dropped = host_->drop(txn, name);
            if (!index && !dropped && dropped.error().code == ErrorCode::no_such_object) return {};
            if (!index && dropped) unexpected("drop", name + " does not exist");
            TRY(dropped);
            objects_[name] = false;
            handles_.erase(name);
            own_.erase(name);
            changes_.push_back({Change::drop, name, {}, {}});
            return {};
        }
        case OpKind::bulk_load: return index ? bulk_load(txn, name, op) : Result<void>{};
        default: return index ? fill(txn, name, op) : Result<void>{};
    }
}

// Only an empty index takes it; what was there, and whether it is empty, the model and this
// transaction's own rows say.
Result<void> Attempt::bulk_load(Txn& txn, const std::string& name, const Op& op) {
    const Index index = *TRY(private_index(name));
    bool empty = true;
    if (const auto before = work_.ledger().model().find(name);
        before != work_.ledger().model().end() && !objects_.contains(name))
        empty = before->second.rows.empty();
    if (const auto touched = own_.find(name); touched != own_.end())
        empty = empty && touched->second.rows.empty();
    uint32_t n = 0;
    std::string key, value;
    std::vector<std::pair<std::string, Value>> rows;
    const Result<void> loaded = host_->bulk_load(txn, index, [&](Slice& k, Slice& v) {
        if (n == op.span) return false;
        key = work_.key_text(n++ * 3);
        value = new_value(op.size);
        rows.emplace_back(key, value_of(value));
        k = key;
        v = value;
        return true;
    });
    if (!loaded && loaded.error().code == ErrorCode::bad_argument &&
        !(empty && objects_.contains(name) && !own_.contains(name)))
        return {};
    if (loaded && !empty) unexpected("bulk load", name + " was not empty");
    TRY(loaded);
    shared_.report.add(Count::bulk_loads);
    for (auto& [k, v] : rows) wrote(name, k, std::move(v));
    return {};
}

Result<void> Attempt::fill(Txn& txn, const std::string& name, const Op& op) {
    const Index index = *TRY(private_index(name));
    for (uint32_t n = 0; n < op.span; ++n) {
        const std::string key = work_.key_text(n * 2), value = new_value(op.size);
        TRY(index.put(txn, key, value));
        wrote(name, key, value_of(value));
    }
    // Over the records that are there, unless it exists.
    return shared_.config.secondary ? host_.make_secondary(txn, name, index) : Result<void>{};
}

}  // namespace lockstep::sim
