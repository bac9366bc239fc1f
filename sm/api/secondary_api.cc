// secondary_api.cc - the public calls of secondary indexes: create, attach, read through them.
#include <lockstep/secondary.h>

#include <utility>

#include <lockstep/store.h>
#include "sm/api/operation.h"
#include "sm/catalog/catalog.h"
#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/needs/index_access.h"
#include "sm/secondary/secondary.h"
#include "sm/secondary/secondary_key.h"
#include "threads/thread/between_calls.h"

namespace lockstep {

namespace sm {

const Secondary* IndexAccess::secondary(const Txn& txn, const Index& index) {
    if (!admit(txn, index.engine_, index.tree_, false)) return nullptr;
    const Upkeep* const upkeep = index.tree_->upkeep();
    return upkeep ? upkeep->secondary() : nullptr;
}

SecondaryCursor IndexAccess::scan(Txn& txn, const Index& entries, const Secondary* s, Slice low,
                                  Slice high, Access access) {
    return {txn,
            entries,
            s ? make(entries.engine_, &s->primary) : Index(),
            s,
            entries.scan(txn, low, high, access),
            access};
}

namespace {

constexpr uint64_t kBuildBytesMin = 1ull << 20, kBuildBytesMax = 1ull << 40;

Result<void> check(const SecondaryOptions& options, Engine& engine) {
    BTree* const primary = IndexAccess::tree(options.of);
    if (primary == nullptr || IndexAccess::engine(options.of) != &engine)
        return fail(ErrorCode::bad_argument,
                    "SecondaryOptions::of; it must be an index of this store");
    if (engine.catalog->secondaries().find(primary->id()) != nullptr)
        return fail(ErrorCode::bad_argument, "SecondaryOptions::of; it is a secondary index itself",
                    primary->id().value);
    if (options.key == nullptr)
        return fail(ErrorCode::bad_argument, "SecondaryOptions::key; it is empty");
    if (options.build_bytes < kBuildBytesMin || options.build_bytes > kBuildBytesMax)
        return fail(ErrorCode::bad_argument,
                    "SecondaryOptions::build_bytes; allowed are 1 MB to 1 TB, not",
                    options.build_bytes);
    return {};
}

// After an error nothing of the statement is left.
template <class Statement>
Result<void> whole(Engine& engine, txn::Transaction& txn, Statement statement) {
    DCHECK(txn.state == txn::TxnState::active && !txn.read_only);
    const RollbackPoint begin = rollback_point(txn);
    const Result<void> done = statement();
    DCHECK(txn.last_lsn >= begin.lsn && txn.savepoints >= begin.number);
    if (done) return {};
    TRY(rollback(engine, txn, begin.lsn));
    DCHECK(txn.state == txn::TxnState::active);
    undo_at_end(txn, begin);
    return done;
}

Result<BTree*> make(Engine& engine, txn::Transaction& txn, std::string_view name,
                    const SecondaryOptions& options, bool open) {
    // The build calls `progress`, and waits for its crew as an application waits.
    const CallsBack inside(txn);
    TRY(check(options, engine));
    Secondary* secondary = nullptr;
    TRY(whole(engine, txn, [&]() -> Result<void> {
        bool made = false;
        BTree& primary = *IndexAccess::tree(options.of);
        secondary =
            TRY(engine.catalog->make_secondary(txn, name, primary, options.unique, open, made));
        secondary->attach(options.key);
        if (!made) return {};
        return build_secondary(engine, txn, *secondary, options.build_bytes, options.progress);
    }));
    DCHECK(secondary->function() != nullptr);
    secondary->assert_state();
    return &secondary->tree;
}

}  // namespace
}  // namespace sm

Result<Index> Store::create_index(Txn& txn, std::string_view name,
                                  const SecondaryOptions& options) {
    txn::Transaction* t = TRY(sm::schema_txn(engine_.get(), txn));
    return Index(engine_.get(),
                 TRY(sm::finish(*t, [&] { return sm::make(*engine_, *t, name, options, false); })));
}

Result<Index> Store::open_or_create_index(Txn& txn, std::string_view name,
                                          const SecondaryOptions& options) {
    txn::Transaction* t = TRY(sm::schema_txn(engine_.get(), txn));
    return Index(engine_.get(),
                 TRY(sm::finish(*t, [&] { return sm::make(*engine_, *t, name, options, true); })));
}

Result<void> Store::attach_key(std::string_view name, KeyFunction key) {
    const sm::Call call(engine_.get());
    if (!call) return sm::Call::closed();
    if (engine_->forked()) return engine_->refuse_child();
    if (key == nullptr) return fail(ErrorCode::bad_argument, "empty key function");
    TRY(engine_->catalog->secondary(name))->attach(std::move(key));
    return {};
}

Result<void> sm::load_index(Engine& engine, txn::Transaction& txn, BTree& tree,
                            FunctionRef<bool(Slice& key, Slice& value)> next,
                            uint32_t fill_percent) {
    Secondaries& all = engine.catalog->secondaries();
    if (all.find(tree.id()) != nullptr)
        return fail(ErrorCode::bad_argument,
                    "bulk load of a secondary index, which the store keeps up", tree.id().value);
    const std::vector<Secondary*> seen = TRY(all.seen_of(txn, tree));
    if (seen.empty()) return tree.bulk_load(txn, next, fill_percent);
    for (const Secondary* secondary : seen)
        if (secondary->function() == nullptr) return function_missing(*secondary);
    return whole(engine, txn, [&]() -> Result<void> {
        TRY(tree.bulk_load(txn, next, fill_percent));
        for (Secondary* secondary : seen)
            TRY(build_secondary(engine, txn, *secondary, SecondaryOptions().build_bytes, {}));
        return {};
    });
}

// An entry of a serializable or repeatable-read transaction stays locked, so its record cannot
// lose the secondary key. At read_committed the lock of the scan has gone: it is taken again, the
// entry is read again, and the record is read before the lock goes. Meanwhile a key of a unique
// index may have become that of another record.
Result<bool> SecondaryCursor::read_record() {
    sm::BTree& tree = *sm::IndexAccess::tree(entries_);
    auto parts = sm::split_entry(secondary_->unique, cursor_.key(), cursor_.value());
    if (!parts) return tree.damaged(tree.root());
    // Another thread may have ended the transaction since the step.
    txn::Transaction* t = sm::TxnAccess::usable(*txn_);
    if (!t) t = sm::TxnAccess::after_wait(*txn_, false);
    if (!t) return std::unexpected(sm::TxnAccess::why_not(*txn_));
    DCHECK(secondary_ != nullptr);
    DCHECK(&secondary_->tree == &tree && &secondary_->primary == sm::IndexAccess::tree(primary_));
    const bool again = txn::rules_of(t->isolation).gives_back;
    txn::LockManager& locks = *secondary_->env.locks;
    const txn::LockName name = txn::key_lock_name(tree.id(), cursor_.key());
    const bool held = again && txn::covers(locks.held(t->locks, name), txn::LockMode::S);
    bool there = true;
    if (again) {
        TRY(sm::finish(
            *t, [&] { return locks.lock_record(t->locks, tree.lock(), name, txn::LockMode::S); }));
        std::string value;
        there = TRY(entries_.get(*txn_, cursor_.key(), value));
        if (there) parts = sm::split_entry(secondary_->unique, cursor_.key(), value);
        if (!parts) return tree.damaged(tree.root());
    }
    const Result<bool> found =
        there ? primary_.get(*txn_, parts->primary_key, value_, access_) : false;
    if (again && !held) locks.unlock(t->locks, name, txn::LockMode::S);
    if (!TRY(found) && there)
        return sm::record_error(ErrorCode::index_mismatch, *secondary_, parts->primary_key,
                                "has an entry without a record; drop and create it");
    secondary_key_ = std::move(parts->secondary_key);
    key_ = std::move(parts->primary_key);
    return there;
}

Result<bool> SecondaryCursor::step(bool forward) {
    for (;;) {
        const bool moved = LOCKSTEP_TRY(forward ? cursor_.next() : cursor_.prev());
        if (secondary_ == nullptr)
            return fail(ErrorCode::bad_argument, "index that is not secondary",
                        entries_.id().value);
        if (!moved) {
            secondary_key_.clear(), key_.clear(), value_.clear();
            return false;
        }
        // Otherwise the entry has gone since the step.
        if (LOCKSTEP_TRY(read_record())) return true;
    }
}

Result<bool> SecondaryCursor::next() { return step(true); }
Result<bool> SecondaryCursor::prev() { return step(false); }

SecondaryCursor scan_by(Txn& txn, Index secondary, Slice low, Slice high, Access access) {
    const sm::Secondary* const s = sm::IndexAccess::secondary(txn, secondary);
    const auto bound = [unique = s != nullptr && s->unique](Slice key) {
        return key.empty() ? std::string() : sm::least_entry(unique, key);
    };
    return sm::IndexAccess::scan(txn, secondary, s, bound(low), bound(high), access);
}

SecondaryCursor find_by(Txn& txn, Index secondary, Slice key, Access access) {
    const sm::Secondary* const s = sm::IndexAccess::secondary(txn, secondary);
    const bool unique = s != nullptr && s->unique;
    return sm::IndexAccess::scan(txn, secondary, s, sm::least_entry(unique, key),
                                 sm::entry_above(unique, key), access);
}

Result<bool> get_by(Txn& txn, Index secondary, Slice key, SecondaryRecord& record, Access access) {
    SecondaryCursor cursor = find_by(txn, secondary, key, access);
    if (!LOCKSTEP_TRY(cursor.next())) return false;
    record.key = cursor.key();
    record.value = cursor.value();
    return true;
}

}  // namespace lockstep
