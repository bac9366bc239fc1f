// secondary_upkeep.cc - changes of a record together with those of its entries.
//
// Concepts   The entries before and after are computed first, which may fail and changes nothing.
//            Then the record changes, then the entries that differ. If a step fails, the statement
//            is rolled back to where it began.
//            Each change of a tree is an operation of its own: its thread crosses the boundary and
//            joins the team of that operation (threads/steps/steps.h).
#include "sm/secondary/secondary_upkeep.h"

#include <algorithm>

#include "sm/change/deferred.h"
#include "sm/change/rollback.h"
#include "sm/core/operation_boundary.h"
#include "sm/secondary/key_call.h"
#include "sm/secondary/secondary_key.h"

namespace lockstep::sm {

Result<std::vector<Secondary*>> PrimaryUpkeep::seen(txn::Transaction& txn) const {
    std::vector<Secondary*> seen;
    for (Secondary* s = first.load(std::memory_order_acquire); s != nullptr; s = s->next)
        if (TRY(all_.sees(txn, *s))) seen.push_back(s);
    return seen;
}

// Which secondaries must be kept up. The record's lock is held (SI-4).
Result<std::vector<PrimaryUpkeep::Due>> PrimaryUpkeep::due(txn::Transaction& txn) const {
    DCHECK(threads::current()->latch_depth == 0);
    std::vector<Due> due;
    for (Secondary* secondary : TRY(seen(txn))) {
        auto function = secondary->function();
        if (function == nullptr) return function_missing(*secondary);  // SI-5
        if (function != nullptr) due.push_back({secondary, std::move(function), {}, {}});
    }
    return due;
}

// Takes X on the record, so the value stays. False: there is no such record.
Result<bool> PrimaryUpkeep::old_value(txn::Transaction& txn, Slice key, std::string& value) const {
    DCHECK(!txn.read_only && key.size() <= kKeyBytesMax);
    ValueOut out{.text = &value};
    return primary_.fetch(txn, key, Access::write, out);
}

// In order of entry, so that statements with several entries seldom meet in a deadlock.
Result<void> PrimaryUpkeep::change_entries(txn::Transaction& txn, const Due& due, Slice key) {
    const Secondary& s = *due.secondary;
    s.assert_state();
    DCHECK(due.function != nullptr);
    DCHECK(std::ranges::is_sorted(due.out) && std::ranges::is_sorted(due.in));
    const KeptUp kept(txn, s.tree.id());
    for (const std::string& entry : due.out) {
        operation_boundary(OpKind::erase, s.tree.id());
        if (!TRY(s.tree.erase(txn, entry)))
            return record_error(ErrorCode::index_mismatch, s, key,
                                "lacks an entry of the record, because its key function gave "
                                "another key before; drop and create the secondary index");
    }
    for (const std::string& entry : due.in) {
        DCHECK(entry.size() <= kKeyBytesMax);
        DCHECK(split_entry(s.unique, entry, entry_value(s.unique, key))->primary_key == key);
        operation_boundary(OpKind::insert, s.tree.id());
        const Result<void> done = s.tree.insert(txn, entry, entry_value(s.unique, key));
        if (!done && done.error().code == ErrorCode::duplicate_key)
            return entry_taken(s, key, entry);
        if (!done) return done;
    }
    return {};
}

// `before` and `after`: the record's value, null if it is not there. `change` changes the primary.
template <class Change>
Result<bool> PrimaryUpkeep::keep(txn::Transaction& txn, Slice key, std::vector<Due>& due,
                                 const Slice* before, const Slice* after, Change change) {
    DCHECK(before != nullptr || after != nullptr);
    DCHECK(local_of(txn).kept_up != primary_.id());  // UP-2
    TRY(require_outside_key_function());             // KC-1
    for (Due& d : due) {
        std::vector<std::string> out, in;
        DCHECK(&d.secondary->primary == &primary_ && d.out.empty() && d.in.empty());
        if (before) out = TRY(entries_of(*d.secondary, *d.function, key, *before));
        if (after) in = TRY(entries_of(*d.secondary, *d.function, key, *after));
        std::ranges::set_difference(out, in, std::back_inserter(d.out));
        std::ranges::set_difference(in, out, std::back_inserter(d.in));
    }
    const RollbackPoint begin = rollback_point(txn);
    const auto statement = [&]() -> Result<bool> {
        {
            const KeptUp kept(txn, primary_.id());
            if (!TRY(change())) return false;
        }
        for (const Due& d : due) TRY(change_entries(txn, d, key));
        return true;
    };
    Result<bool> done = statement();
    if (done.has_value() || txn.last_lsn == begin.lsn) return done;
    TRY(rollback(env_, txn, begin.lsn));  // SI-2
    DCHECK(txn.state == txn::TxnState::active);
    undo_at_end(txn, begin);
    return done;
}

Result<void> PrimaryUpkeep::insert(txn::Transaction& txn, Slice key, Slice value) {
    std::vector<Due> due = TRY(this->due(txn));
    const auto change = [&]() -> Result<bool> {
        TRY(primary_.insert(txn, key, value));
        return true;
    };
    TRY(keep(txn, key, due, nullptr, &value, change));
    return {};
}

Result<bool> PrimaryUpkeep::update(txn::Transaction& txn, Slice key, Slice value) {
    std::vector<Due> due = TRY(this->due(txn));
    std::string old;
    if (!TRY(old_value(txn, key, old))) return false;
    const Slice before = old;
    return keep(txn, key, due, &before, &value, [&] { return primary_.update(txn, key, value); });
}

Result<bool> PrimaryUpkeep::patch(txn::Transaction& txn, Slice key, size_t offset, Slice part) {
    std::vector<Due> due = TRY(this->due(txn));
    std::string old;
    if (!TRY(old_value(txn, key, old))) return false;
    std::string fresh = old;
    // Otherwise the primary refuses the patch.
    if (offset <= old.size() && part.size() <= old.size() - offset)
        fresh.replace(offset, part.size(), part);
    const Slice before = old, after = fresh;
    return keep(txn, key, due, &before, &after,
                [&] { return primary_.patch(txn, key, offset, part); });
}

Result<bool> PrimaryUpkeep::erase(txn::Transaction& txn, Slice key) {
    std::vector<Due> due = TRY(this->due(txn));
    std::string old;
    if (!TRY(old_value(txn, key, old))) return false;
    const Slice before = old;
    return keep(txn, key, due, &before, nullptr, [&] { return primary_.erase(txn, key); });
}

namespace {

[[gnu::cold]] std::unexpected<Error> refuse() {
    return fail(ErrorCode::bad_argument,
                "change of a secondary index, which the store keeps up; change its primary");
}

}  // namespace

Result<void> EntryUpkeep::insert(txn::Transaction&, Slice, Slice) { return refuse(); }
Result<bool> EntryUpkeep::update(txn::Transaction&, Slice, Slice) { return refuse(); }
Result<bool> EntryUpkeep::patch(txn::Transaction&, Slice, size_t, Slice) { return refuse(); }
Result<bool> EntryUpkeep::erase(txn::Transaction&, Slice) { return refuse(); }

}  // namespace lockstep::sm
