// secondary_verify.cc - does a secondary index have exactly the entries of its primary's records?
//
// Concepts   One pass over the entries: each must have a record, and be among that record's
//            entries. One pass over the records: each of their entries must be there. Reads go
//            through a transaction of its own at read_committed, so no lock stays. A record that
//            another transaction has changed ends the check soon, whatever lock_timeout is.
#include "sm/btree/btree_leaf_walk.h"
#include "sm/btree/btree_node.h"
#include "sm/change/rollback.h"
#include "sm/core/env.h"
#include "sm/core/lock_error.h"
#include "sm/secondary/secondary.h"
#include "sm/secondary/secondary_key.h"

#include <algorithm>

namespace lockstep::sm {
namespace {

constexpr size_t kFaultsMax = 100;
constexpr Nanos kLockWaitMax = kSecond;

struct Check {
    Env& env;
    const Secondary& s;
    const KeyFunction* function;  // may be null
    txn::Transaction& txn;
    std::vector<std::string>& faults;
    size_t found = 0;

    void fault(const std::string& text) {
        if (++found <= kFaultsMax) faults.push_back(s.name + ": " + text);
    }
    static Result<bool> fetch(txn::Transaction& txn, BTree& tree, Slice key, std::string& value) {
        ValueOut out{.text = &value};
        return tree.fetch(txn, key, Access::read, out);
    }
    Result<void> entry(Slice key) {
        DCHECK(threads::current()->latch_depth == 0);
        std::string value;
        if (!TRY(fetch(txn, s.tree, key, value))) return {};
        const auto parts = split_entry(s.unique, key, value);
        if (!parts) return fault("entry " + printable(key) + " is none"), Result<void>{};
        std::string record;
        if (!TRY(fetch(txn, s.primary, parts->primary_key, record))) {
            fault("SI-1: entry " + printable(parts->secondary_key) + " has no record " +
                  printable(parts->primary_key));
            return {};
        }
        if (function == nullptr) return {};
        const auto right = entries_of(s, *function, parts->primary_key, record);
        if (!right || !std::ranges::binary_search(*right, key))
            fault("SI-1: entry " + printable(parts->secondary_key) + " is not one of record " +
                  printable(parts->primary_key));
        return {};
    }
    Result<void> record(Slice key) {
        DCHECK(function != nullptr && threads::current()->latch_depth == 0);
        std::string value, owner;
        if (!TRY(fetch(txn, s.primary, key, value))) return {};
        const auto right = entries_of(s, *function, key, value);
        if (!right)
            return fault("record " + printable(key) + ": " + right.error().text()), Result<void>{};
        DCHECK(std::ranges::is_sorted(*right));
        for (const std::string& entry : *right) {
            const bool there = TRY(fetch(txn, s.tree, entry, owner));
            if (!there || Slice(owner) != entry_value(s.unique, key))
                fault("SI-1: record " + printable(key) + " lacks its entry " + printable(entry));
        }
        return {};
    }
    // The key of each live record, with no latch held.
    template <class Each>
    Result<void> scan(BTree& tree, Each each) {
        const auto leaf = std::make_unique<Page>();  // stacks are small
        LeafWalk walk(*env.pool, tree);
        while (TRY(walk.next(*leaf)))
            for (unsigned slot = 0; slot < node::count(*leaf); ++slot)
                if (!node::ghost(*leaf, slot)) TRY(each(node::full_key(*leaf, slot)));
        return {};
    }
};

}  // namespace

Result<void> verify_secondary(Env& env, const Secondary& secondary,
                              std::vector<std::string>& faults) {
    const auto function = secondary.function();
    if (function == nullptr)
        env.report(2, "verify: secondary index " + printable(secondary.name) +
                          " has no key function; only its entries are checked");
    return run_system_txn(env, [&](txn::Transaction& txn) -> Result<void> {
        txn.isolation = txn::Isolation::read_committed;
        txn.locks.timeout = std::min(txn.locks.timeout, kLockWaitMax);
        DCHECK(txn.locks.timeout > 0 && txn.locks.locks_held == 0);
        Check check{env, secondary, function.get(), txn, faults};
        TRY(check.scan(secondary.tree, [&](Slice key) { return check.entry(key); }));
        if (function == nullptr) return {};
        return check.scan(secondary.primary, [&](Slice key) { return check.record(key); });
    });
}

}  // namespace lockstep::sm
