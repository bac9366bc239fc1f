// attempt.h - one transaction of the record workload: runs its plan, checks and notes its answers.
//
// Concepts   The transaction's own changes (`own_`) are compared at once. Reads of other
//            transactions' data become observations for the ledger. A savepoint keeps a copy of the
//            changes and of own_. A read before a partial rollback stays valid, because its locks
//            stay.
#pragma once

#include "tests/sim/records.h"

namespace lockstep::sim {

class Attempt {
public:
    Attempt(Records& work, Host& host, const TxnPlan& plan, uint32_t thread);
    // True: it failed, and a repetition may succeed.
    bool run();

private:
    struct Saved {
        Savepoint point;
        Changes changes;
        Content own;
        std::map<std::string, bool> objects;
    };

    bool serializable() const { return plan_.isolation == Isolation::serializable; }
    bool is_snapshot() const { return plan_.isolation == Isolation::snapshot; }
    bool live();  // from begin() to the end; returns as run()
    bool end(Txn& txn, const Result<void>& done);
    bool log_is_scarce() const;
    void commit(Txn& txn);
    void prepare(Txn& txn);
    void vote_read_only(Txn& txn);
    void refused(Txn& txn, const char* call, const Error& error);
    // The key of its marker row.
    Result<std::string> leave_marker(Txn& txn);
    // True for errors that a fault may cause, or the end from outside.
    bool may_fail(ErrorCode code) const;
    void abort(Txn& txn, bool checked);
    void use_after_end(Txn& txn);
    Result<void> operations(Txn& txn);
    // Some of it is wrong: other keys and objects, keys that are too long.
    void announce(Txn& txn, std::span<const Op> ops);
    Result<void> operation(Txn& txn, const Op& op);
    Result<void> on_index(Txn& txn, const Op& op);
    Result<void> on_heap(Txn& txn, const Op& op);
    Result<void> on_schema(Txn& txn, const Op& op);
    Result<void> erase_range(Txn& txn, const Op& op, const Index& index, const std::string& object);
    Result<void> modify(Txn& txn, const Op& op, const Index& index, const std::string& object);
    Result<void> insert_many(Txn& txn, const Op& op, const Index& index, const std::string& object);
    Result<void> look_up_many(Txn& txn, const Op& op, const Index& index,
                              const std::string& object);
    Result<void> scan(Txn& txn, const Op& op);
    Result<void> scan_heap(Txn& txn, const Op& op);
    Result<void> bulk_load(Txn& txn, const std::string& name, const Op& op);
    Result<void> fill(Txn& txn, const std::string& name, const Op& op);
    Result<std::optional<Index>> private_index(const std::string& name);
    Result<void> misuse(Txn& txn, const Op& op);
    Result<void> by_secondary(Txn& txn, const Op& op);
    Result<void> get_by_secondary(Txn& txn, Index by, const std::string& object,
                                  const std::string& key);
    // Walks all entries with `low` <= secondary key < `high`.
    Result<Rows> walk_entries(Txn& txn, Index by, const std::string& low, const std::string& high,
                              uint32_t walk);
    Result<void> on_shared(Txn& txn, const Op& op);
    Result<std::optional<Index>> shared_index(Txn& txn, const std::string& name);
    Result<void> make_shared(Txn& txn, const std::string& name, const Op& op);
    Result<void> drop_shared(Txn& txn, const std::string& name);
    Result<void> load_shared(Txn& txn, const std::string& name, const Index& index, const Op& op);
    Result<void> change_shared(Txn& txn, const std::string& name, const Index& index, const Op& op);
    Result<void> read_shared(Txn& txn, const std::string& name, const Index& index);
    // An answer told whether an object of this name exists.
    void named(const std::string& name, bool exists);
    void made(const std::string& name);
    // Entries [low, high) of the secondary index of `object`, all of them.
    void read_entries(const std::string& object, const std::string& low, const std::string& high,
                      Rows entries);
    Result<void> save(Txn& txn);
    Result<void> rollback(Txn& txn, const Op& op);

    // The row as this transaction left it; nullopt if it has not touched the row.
    std::optional<Value> own(const std::string& object, const std::string& key) const;
    void wrote(const std::string& object, const std::string& key, Value value);
    // A point read returned `value`.
    void read(const std::string& object, const std::string& key, const Value& value,
              uint64_t began);
    // A range read gave `rows`, everything in [low, high).
    void read_range(const std::string& object, const std::string& low, const std::string& high,
                    Rows rows, uint64_t began);
    // An answer told only whether the row exists.
    void existed(const std::string& object, const std::string& key, bool exists);
    void note(Observation observation, uint64_t began);
    // It has the locks of all that it changed, and of what it may rely on at its end.
    void check_rights(const Txn& txn);
    void unexpected(const char* what, const std::string& detail);
    std::string new_value(uint32_t size);

    Records& work_;
    Shared& shared_;
    Host& host_;
    const TxnPlan& plan_;
    const uint32_t thread_;
    const uint64_t number_;
    const std::string who_;
    Changes changes_;
    Content own_;  // rows touched; null: erased
    std::vector<Observation> reads_;
    // Commits that it read from below serializable.
    std::vector<size_t> read_from_;
    // Private objects that it made (true) or dropped (false).
    std::map<std::string, bool> objects_;
    std::map<std::string, Index> handles_;    // of objects that it made
    std::map<std::string, ObjectId> opened_;  // shared objects, as it found them last
    std::vector<Saved> saved_;
    uint32_t values_ = 0;
    const Op* current_ = nullptr;
    Lsn sees_{};  // of a snapshot
    TxnId id_{};
};

}  // namespace lockstep::sim
