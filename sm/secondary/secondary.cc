// secondary.cc - the table of secondary indexes, who sees which, and the errors of records.
#include "sm/secondary/secondary.h"

#include <algorithm>

#include "sm/change/deferred.h"
#include "sm/core/cleanup.h"
#include "sm/core/env.h"
#include "sm/core/lock_error.h"
#include "sm/secondary/key_call.h"
#include "sm/secondary/secondary_key.h"
#include "sm/secondary/secondary_upkeep.h"
#include "threads/base/error_detail.h"

namespace lockstep::sm {

Secondary::Secondary(Env& store, BTree& own, BTree& of, std::string_view text, bool is_unique)
    : env(store),
      tree(own),
      primary(of),
      name(text),
      unique(is_unique),
      refusal(std::make_unique<EntryUpkeep>(*this)) {}
Secondary::~Secondary() = default;

void Secondary::attach(KeyFunction key) {
    DCHECK(key != nullptr);
    auto fresh = std::make_shared<const KeyFunction>(std::move(key));
    SpinGuard guard(lock);
    attached.swap(fresh);
}

std::unexpected<Error> record_error(ErrorCode code, const Secondary& secondary, Slice primary_key,
                                    const std::string& text) {
    Error error = fail(code, "secondary index", secondary.tree.id().value).error();
    set_error_detail(error, "secondary index " + printable(secondary.name) + " of " +
                                object_text(secondary.env.objects, secondary.primary.id()) + " " +
                                text +
                                (primary_key.empty() ? "" : "; record " + printable(primary_key)));
    return std::unexpected(error);
}

std::unexpected<Error> entry_too_long(const Secondary& secondary, Slice primary_key, size_t bytes) {
    DCHECK(bytes > kKeyBytesMax);
    auto refused =
        record_error(ErrorCode::key_too_long, secondary, primary_key,
                     "cannot hold the record: its entry has " + std::to_string(bytes) +
                         " bytes, at most " + std::to_string(kKeyBytesMax) + " are allowed");
    refused.error().b = bytes;
    return refused;
}

std::unexpected<Error> entry_taken(const Secondary& secondary, Slice primary_key,
                                   Slice secondary_key) {
    DCHECK(secondary.unique);
    return record_error(
        ErrorCode::duplicate_key, secondary, primary_key,
        "is unique and has another record of key " + printable(secondary_key) + " already");
}

std::unexpected<Error> function_missing(const Secondary& secondary) {
    return record_error(ErrorCode::key_function_missing, secondary, {},
                        "has no key function: call Store::attach_key() or "
                        "Store::open_or_create_index() after each open");
}

Result<std::vector<std::string>> entries_of(const Secondary& secondary, const KeyFunction& function,
                                            Slice key, Slice value) {
    DCHECK(function != nullptr && key.size() <= kKeyBytesMax);
    DCHECK(threads::current() == nullptr || threads::current()->latch_depth == 0);
    SecondaryKeys keys;
    {
        const KeyCall inside;
        function(key, value, keys);
    }
    std::vector<std::string> entries;
    entries.reserve(keys.size());
    for (size_t n = 0; n < keys.size(); ++n) {
        entries.push_back(entry_of(secondary.unique, keys[n], key));
        if (entries.back().size() > kKeyBytesMax)
            return entry_too_long(secondary, key, entries.back().size());
    }
    std::ranges::sort(entries);
    entries.erase(std::ranges::unique(entries).begin(), entries.end());
    DCHECK(entries.size() <= keys.size());
    return entries;
}

Secondaries::Secondaries(Env& env) : env_(env) {}
Secondaries::~Secondaries() = default;

Secondary& Secondaries::add(BTree& tree, BTree& primary, std::string_view name, bool unique,
                            bool live) {
    DCHECK(tree.id() != primary.id() && !name.empty());
    DCHECK(primary.upkeep() == nullptr || primary.upkeep()->secondary() == nullptr);
    auto fresh = std::make_unique<Secondary>(env_, tree, primary, name, unique);
    auto upkeep = std::make_unique<PrimaryUpkeep>(*this, env_, primary);
    SpinGuard guard(lock_);
    auto& known = all_[tree.id().value];
    if (known == nullptr) {
        auto& up = primaries_[primary.id().value];
        if (up == nullptr) up = std::move(upkeep);
        known = std::move(fresh);
        known->next = up->first.load(std::memory_order_relaxed);
        up->first.store(known.get(), std::memory_order_release);
        tree.set_upkeep(known->refusal.get());
        primary.set_upkeep(up.get());
    }
    known->live.store(live, std::memory_order_release);
    known->assert_state();
    DCHECK(&known->tree == &tree && &known->primary == &primary && known->unique == unique);
    return *known;
}

void Secondaries::forget_live() {
    SpinGuard guard(lock_);
    for (auto& [id, secondary] : all_) secondary->live.store(false, std::memory_order_release);
}

Secondary* Secondaries::find(ObjectId id) const {
    SpinGuard guard(lock_);
    const auto it = all_.find(id.value);
    return it == all_.end() ? nullptr : it->second.get();
}

const PrimaryUpkeep* Secondaries::upkeep_of(const BTree& primary) const {
    SpinGuard guard(lock_);
    const auto it = primaries_.find(primary.id().value);
    return it == primaries_.end() ? nullptr : it->second.get();
}

std::vector<Secondary*> Secondaries::of(const BTree& primary) const {
    std::vector<Secondary*> found;
    const PrimaryUpkeep* const upkeep = upkeep_of(primary);
    for (Secondary* s = upkeep ? upkeep->first.load(std::memory_order_acquire) : nullptr; s;
         s = s->next)
        if (s->live.load(std::memory_order_acquire)) found.push_back(s);
    return found;
}

Result<std::vector<Secondary*>> Secondaries::seen_of(txn::Transaction& txn,
                                                     const BTree& primary) const {
    const PrimaryUpkeep* const upkeep = upkeep_of(primary);
    DCHECK(upkeep == nullptr || upkeep == primary.upkeep());
    if (upkeep == nullptr) return std::vector<Secondary*>();
    return upkeep->seen(txn);
}

// SI-4: the catalog knows what a rollback to a savepoint has taken away or brought back.
Result<bool> Secondaries::sees(txn::Transaction& txn, const Secondary& secondary) const {
    secondary.assert_state();
    DCHECK(txn.id != kTxnNone && threads::current()->latch_depth == 0);
    if (secondary.changer.load(std::memory_order_acquire) != txn.id.value)
        return secondary.live.load(std::memory_order_acquire);
    return env_.objects->has(txn, secondary.name, secondary.tree.id());
}

Result<void> Secondaries::lock_primary(Env& env, txn::Transaction& txn, BTree& primary) {
    return env.locks->lock_object(txn.locks, primary.lock(), txn::LockMode::S);
}

Result<void> Secondaries::change(txn::Transaction& txn, Secondary& secondary, bool made) {
    secondary.assert_state();
    TRY(lock_primary(env_, txn, secondary.primary));
    secondary.changer.store(txn.id.value, std::memory_order_release);
    // Its successor may have begun to change it: the locks have gone.
    const auto ended = [&secondary, id = txn.id.value](bool) {
        uint64_t own = id;
        secondary.changer.compare_exchange_strong(own, 0);
    };
    at_end(txn, ended,
           [&secondary, made] { secondary.live.store(made, std::memory_order_release); });
    return {};
}

}  // namespace lockstep::sm
