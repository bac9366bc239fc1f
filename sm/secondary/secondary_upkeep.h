// secondary_upkeep.h - what changes of primaries and of secondary indexes go through.
#pragma once

#include "sm/secondary/secondary.h"

namespace lockstep::sm {

// Changes a record of a primary and its entries in the primary's secondaries (SI-2).
class PrimaryUpkeep final : public Upkeep {
public:
    PrimaryUpkeep(const Secondaries& all, Env& env, BTree& primary)
        : all_(all), env_(env), primary_(primary) {}

    Result<void> insert(txn::Transaction& txn, Slice key, Slice value) override;
    Result<bool> update(txn::Transaction& txn, Slice key, Slice value) override;
    Result<bool> patch(txn::Transaction& txn, Slice key, size_t offset, Slice part) override;
    Result<bool> erase(txn::Transaction& txn, Slice key) override;

    // Those that `txn` must keep up, after SI-4. Parks.
    Result<std::vector<Secondary*>> seen(txn::Transaction& txn) const;
    // All secondaries that ever were, newest first. Grows under SI-3 only.
    std::atomic<Secondary*> first{nullptr};

private:
    // A secondary that is to be kept up, and entries to take out and to put in.
    struct Due {
        Secondary* secondary;
        std::shared_ptr<const KeyFunction> function;
        std::vector<std::string> out, in;
    };
    Result<std::vector<Due>> due(txn::Transaction& txn) const;
    Result<bool> old_value(txn::Transaction& txn, Slice key, std::string& value) const;
    static Result<void> change_entries(txn::Transaction& txn, const Due& due, Slice key);
    template <class Change>
    Result<bool> keep(txn::Transaction& txn, Slice key, std::vector<Due>& due, const Slice* before,
                      const Slice* after, Change change);

    const Secondaries& all_;
    Env& env_;
    BTree& primary_;
};

// Refuses changes of a secondary index by the application.
class EntryUpkeep final : public Upkeep {
public:
    explicit EntryUpkeep(Secondary& secondary) : secondary_(secondary) {}
    Result<void> insert(txn::Transaction& txn, Slice key, Slice value) override;
    Result<bool> update(txn::Transaction& txn, Slice key, Slice value) override;
    Result<bool> patch(txn::Transaction& txn, Slice key, size_t offset, Slice part) override;
    Result<bool> erase(txn::Transaction& txn, Slice key) override;
    Secondary* secondary() const override { return &secondary_; }

private:
    Secondary& secondary_;
};

}  // namespace lockstep::sm
