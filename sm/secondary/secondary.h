// secondary.h - the secondary indexes of an open store: which there are, and how changes of their
// primaries reach them.
//
// Concepts   The catalog knows which index is secondary, and of which primary. For each it makes a
//            Secondary here. A primary with secondaries has a PrimaryUpkeep: it makes a change of a
//            record, and the changes of its entries. A secondary has an EntryUpkeep, which refuses
//            changes by the application. Both are found through BTree::upkeep().
//            Entries change by ordinary operations on the secondary's tree, so rollback and restart
//            need to know nothing of them.
// Invariants SI-1 Each live secondary has exactly the entries of its primary's records, as its
//                 transactions see them. [checked: verify_secondary()]
//            SI-2 A change of a record and those of its entries are made together or not at all.
//                 [checked: keep() rolls the statement back]
//            SI-3 While a transaction makes, fills or drops a secondary it holds S on the primary.
//                 So no other transaction has changed the primary and not ended. [checked:
//                 Secondaries::change()]
//            SI-4 Whether a change must reach a secondary is read with the record's lock held. The
//                 transaction that makes or drops the secondary asks the catalog, which knows its
//                 savepoints. All others read `live`, which changes before the locks of SI-3 go.
//            SI-5 A primary that is changed has a function for each live secondary. Without one the
//                 change fails. [checked: PrimaryUpkeep::due()]
// Blocking   The calls of Upkeep park. Secondaries takes spin locks.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/secondary.h>
#include "sm/btree/btree.h"
#include "sm/core/upkeep.h"
#include "threads/base/spin_lock.h"

namespace lockstep::sm {

class Host;
class PrimaryUpkeep;

// A secondary index. Lives until the store closes, also after it was dropped (CA-1).
struct Secondary {
    Secondary(Env& store, BTree& own, BTree& of, std::string_view text, bool is_unique);
    ~Secondary();

    Env& env;
    BTree& tree;
    BTree& primary;
    const std::string name;
    const bool unique;
    // SI-4. The transaction that made or dropped it and has not ended; 0: none.
    std::atomic<uint64_t> changer{0};
    std::atomic<bool> live{false};          // committed and not dropped
    Secondary* next = nullptr;              // of the same primary; constant once it is linked
    const std::unique_ptr<Upkeep> refusal;  // of changes by the application

    // Never null after the first attach().
    std::shared_ptr<const KeyFunction> function() const {
        SpinGuard guard(lock);
        return attached;
    }
    void attach(KeyFunction key);
    void assert_state() const {
        DCHECK(tree.id() != primary.id() && !name.empty());
        DCHECK(tree.upkeep() == refusal.get() && refusal->secondary() == this);
        DCHECK(primary.upkeep() != nullptr && primary.upkeep()->secondary() == nullptr);
        DCHECK(next == nullptr || &next->primary == &primary);
    }

    mutable SpinLock lock;
    std::shared_ptr<const KeyFunction> attached;  // under lock
};

// The error of a record: code, text with the names of secondary, primary and record.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> record_error(ErrorCode code,
                                                                 const Secondary& secondary,
                                                                 Slice primary_key,
                                                                 const std::string& text);
// The error of an entry that would be longer than a key of an index.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> entry_too_long(const Secondary& secondary,
                                                                   Slice primary_key, size_t bytes);
// The error of a unique index that has the entry of another record.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> entry_taken(const Secondary& secondary,
                                                                Slice primary_key,
                                                                Slice secondary_key);
// The error of a change without a key function (SI-5).
[[gnu::cold, gnu::noinline]] std::unexpected<Error> function_missing(const Secondary& secondary);

// The entries of a record, sorted, each once. Error: key_too_long.
Result<std::vector<std::string>> entries_of(const Secondary& secondary, const KeyFunction& function,
                                            Slice key, Slice value);

class Secondaries {
public:
    explicit Secondaries(Env& env);
    ~Secondaries();

    // The index `tree` is a secondary one of `primary`. Known already: only `live` is set.
    // Otherwise the caller holds S on the primary (SI-3), or is alone.
    Secondary& add(BTree& tree, BTree& primary, std::string_view name, bool unique, bool live);
    // None is live any more, until add() says so: the catalog is about to be read.
    void forget_live();
    // Null: the index is not secondary.
    Secondary* find(ObjectId id) const;
    // The live ones of a primary.
    std::vector<Secondary*> of(const BTree& primary) const;
    // Those that `txn` must keep up, after SI-4. Parks.
    Result<std::vector<Secondary*>> seen_of(txn::Transaction& txn, const BTree& primary) const;
    // `txn` makes (or drops) the secondary; its end decides. Locks the primary after SI-3, so it
    // parks.
    Result<void> change(txn::Transaction& txn, Secondary& secondary, bool made);
    static Result<void> lock_primary(Env& env, txn::Transaction& txn, BTree& primary);

private:
    friend class PrimaryUpkeep;
    const PrimaryUpkeep* upkeep_of(const BTree& primary) const;
    Result<bool> sees(txn::Transaction& txn, const Secondary& secondary) const;

    Env& env_;
    mutable SpinLock lock_;
    std::map<uint32_t, std::unique_ptr<Secondary>> all_;            // by ObjectId; under lock_
    std::map<uint32_t, std::unique_ptr<PrimaryUpkeep>> primaries_;  // by ObjectId; under lock_
};

// Fills an empty secondary, which `txn` has made, from the records of its primary (SI-3). Parks.
Result<void> build_secondary(Host& host, txn::Transaction& txn, Secondary& secondary,
                             uint64_t build_bytes,
                             const Function<void(const BuildProgress&)>& progress);

// Checks SI-1 for a quiet store; faults are appended as text.
Result<void> verify_secondary(Env& env, const Secondary& secondary,
                              std::vector<std::string>& faults);

}  // namespace lockstep::sm
