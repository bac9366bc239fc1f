// btree_snapshot.cc - reads of snapshot transactions: point reads, scans, the state of one record.
//
// Concepts   A point read copies the record optimistically, then looks for versions, then validates
//            the leaf (VT-1). If the leaf has not changed since the snapshot began, there is
//            nothing to look for. While the index is not dropped its pages are its own: that is
//            checked before the answer counts.
#include "sm/btree/btree_snapshot.h"

#include <algorithm>

#include "sm/btree/btree_descent.h"
#include "sm/btree/btree_records.h"
#include "sm/btree/overflow.h"
#include "sm/version/version_table.h"
#include "threads/base/mutants.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm {

using namespace node;
using Look = VersionTable::Look;

namespace {

// Everything on the page is as the snapshot sees it.
bool is_quiet(const Snapshot& snapshot, const Page& page) {
    return page.header.lsn <= snapshot.quiet.value;
}

}  // namespace

Result<bool> BTree::read_snapshot(txn::Transaction& txn, const Snapshot& snapshot,
                                  const SearchKey& key, ValueOut& out) {
    if (history_.empty_to(snapshot)) return false;
    DCHECK(threads::current()->latch_depth == 0);
    const RecordName name = name_of_key(id_, key);
    Position pos;
    SharedPage hold;
    RecordCopy version;
    for (unsigned tries = 0;; ++tries) {
        if (tries < kOptimisticTries) {
            TRY(locate(txn, key, false, pos));
        } else {
            TRY(backoff(tries, root_));
            if (!TRY(latch_leaf_shared(key, Side::covering, pos, hold))) continue;
            const Found f = search(*pos.at.page, key);
            pos.slot = f.slot;
            pos.found = f.exact;
        }
        const Page& page = *pos.at.page;
        bool there = pos.found && !ghost(page, pos.slot);
        bool chained = there && overflow(page, pos.slot);
        OverflowRef ref{};
        if (chained) ref = overflow_ref(value(page, pos.slot));
        else if (there) copy_out(value(page, pos.slot), out);
        const Look look =
            is_quiet(snapshot, page) ? Look::page : env_.versions->look(snapshot, name, version);
        if (!pos.valid() && !MUTANT(snapshot_unvalidated)) continue;
        if (look == Look::again) {
            hold.release();
            threads::yield();
            tries = 0;  // not a sign of damage, however long it takes
            continue;
        }
        hold.release();
        if (look == Look::version) {
            there = version.live;
            chained = there && (version.bits & kRecordOverflow);
            if (chained) ref = overflow_ref(version.bytes);
            else if (there) copy_out(version.bytes, out);
        } else {
            remember(txn, pos.id, pos.slot, pos.leaves_freed);
        }
        if (chained) TRY(read_overflow(*env_.pool, id_, ref, out));
        return there;
    }
}

Result<bool> BTree::fetch_snapshot(txn::Transaction& txn, Slice key, Access access, ValueOut& out) {
    if (key.size() > kKeyBytesMax) return key_too_long(key.size());
    if (access != Access::read) return fail(ErrorCode::read_only, "transaction", txn.id.value);
    DCHECK(local_of(txn).snapshot != nullptr);
    const Snapshot& snapshot = *local_of(txn).snapshot;
    DCHECK(txn.read_only && txn.locks.locks_held == 0);
    TRY(history_.check(snapshot, lock_));
    const Result<bool> found = read_snapshot(txn, snapshot, key, out);
    TRY(history_.check(snapshot, lock_));
    return found;
}

Result<void> BTree::see_record(Slice key, FunctionRef<void(const RecordState& state)> see) {
    Target t;
    TRY(latch_leaf(key, t));
    see(t.found ? record_in(*t.page, t.slot) : RecordState{});
    return {};
}

SnapshotScan::SnapshotScan(BTree& tree, const Snapshot& snapshot, Slice low, Slice high)
    : tree_(tree), snapshot_(snapshot), low_(low), high_(high) {}

// Copies the records of a latched leaf into fresh_. False: one of them cannot be told yet.
Result<bool> SnapshotScan::take(const Page& page) {
    Leaf& leaf = fresh_;
    DCHECK(is_leaf(page) && page.header.object == tree_.id().value);
    leaf.rows.clear();
    leaf.text.clear();
    leaf.low.assign(node::low(page));
    leaf.infinite = high_infinite(page);
    leaf.high.assign(leaf.infinite ? Slice{} : node::high(page));
    const bool quiet = is_quiet(snapshot_, page);
    const VersionTable* const versions = tree_.env().versions;
    char buffer[2 * kKeyBytesMax];
    RecordCopy version;
    for (unsigned slot = 0; slot < count(page); ++slot) {
        const Slice key = full_key(page, slot, buffer, sizeof buffer);
        DCHECK(node::covers(page, key));
        DCHECK(leaf.rows.empty() || leaf.key(leaf.rows.back()) < key);  // BT-1
        RecordState state = record_in(page, slot);
        if (!quiet) {
            const Look look = versions->look(snapshot_, name_of_key(tree_.id(), key), version);
            if (look == Look::again) return false;
            if (look == Look::version) state = version.state();
        }
        if (!state.live && !MUTANT(snapshot_sees_ghosts)) continue;
        leaf.rows.push_back(
            {static_cast<uint32_t>(leaf.text.size()), static_cast<uint32_t>(key.size()),
             static_cast<uint32_t>(state.bytes.size()), (state.bits & kRecordOverflow) != 0});
        leaf.text.append(key).append(state.bytes);
    }
    return true;
}

Result<void> SnapshotScan::load(const Slice* key, BTree::Side side) {
    TRY(tree_.history().check(snapshot_, tree_.lock()));
    const Result<void> done = load_leaf(key, side);
    // Pages that are not the tree's own any more tell less than that.
    TRY(tree_.history().check(snapshot_, tree_.lock()));
    return done;
}

Result<void> SnapshotScan::load_leaf(const Slice* key, BTree::Side side) {
    BufferPool& pool = *tree_.env().pool;
    DCHECK(threads::current()->latch_depth == 0);
    if (tree_.history().empty_to(snapshot_)) {
        fresh_ = Leaf();
        fresh_.infinite = true;
        return {};
    }
    for (unsigned tries = 0;; ++tries) {
        TRY(tree_.backoff(tries, tree_.root()));
        BTree::Position pos;
        SharedPage hold;
        if (key != nullptr) {
            const SearchKey wanted(*key);
            if (!TRY(tree_.latch_leaf_shared(wanted, side, pos, hold)) || !hold) continue;
        } else {
            TRY(tree_.descend_last(pos));
            const PageId id = pos.id;
            hold = TRY(pool.fix_shared(id));
            if (!is_node_of(*hold, tree_.id(), 0) || !high_infinite(*hold)) continue;
        }
        if (TRY(take(*hold))) return {};
        hold.release();
        threads::yield();
        tries = 0;  // not a sign of damage, however long it takes
    }
}

Result<bool> SnapshotScan::stand_on(ptrdiff_t row) {
    DCHECK(row >= 0 && row < static_cast<ptrdiff_t>(leaf_.rows.size()));
    row_ = row;
    const Row& at = leaf_.rows[static_cast<size_t>(row)];
    DCHECK(leaf_.key(at) >= Slice(low_) && (high_.empty() || leaf_.key(at) < Slice(high_)));
    key_ = leaf_.key(at);
    value_ = leaf_.value(at);
    begun_ = true;
    if (!at.overflow) return true;
    DCHECK(value_.size() == sizeof(OverflowRef));
    TRY(read_overflow(*tree_.env().pool, tree_.id(), overflow_ref(value_), large_));
    // The chain stays while the record has a version; the answer counts only if it still has.
    TRY(tree_.history().check(snapshot_, tree_.lock()));
    value_ = large_;
    return true;
}

Result<bool> SnapshotScan::next() {
    if (begun_ && row_ + 1 < static_cast<ptrdiff_t>(leaf_.rows.size())) {
        const Slice key = leaf_.key(leaf_.rows[static_cast<size_t>(row_ + 1)]);
        if (!high_.empty() && key >= Slice(high_)) return false;
        return stand_on(row_ + 1);
    }
    DCHECK(!begun_ || row_ + 1 == static_cast<ptrdiff_t>(leaf_.rows.size()));
    std::string bound = begun_ ? leaf_.high : low_;
    if (begun_ && leaf_.infinite) return false;
    for (;;) {
        if (begun_ && !high_.empty() && bound >= high_) return false;
        const Slice at = bound;
        TRY(load(&at, BTree::Side::covering));
        const auto first = std::ranges::find_if(
            fresh_.rows, [&](const Row& row) { return fresh_.key(row) >= at; });
        if (first != fresh_.rows.end()) {
            if (!high_.empty() && fresh_.key(*first) >= Slice(high_)) return false;
            const ptrdiff_t row = first - fresh_.rows.begin();
            std::swap(leaf_, fresh_);
            return stand_on(row);
        }
        if (fresh_.infinite || (!high_.empty() && fresh_.high >= high_)) return false;
        bound = fresh_.high;
    }
}

Result<bool> SnapshotScan::prev() {
    if (begun_ && row_ > 0) {
        if (leaf_.key(leaf_.rows[static_cast<size_t>(row_ - 1)]) < Slice(low_)) return false;
        return stand_on(row_ - 1);
    }
    DCHECK(!begun_ || row_ == 0);
    std::string bound = begun_ ? leaf_.low : high_;
    bool last = !begun_ && high_.empty();
    if (begun_ && bound.empty()) return false;
    for (;;) {
        if (!last && (bound.empty() || bound <= low_)) return false;
        const Slice at = bound;
        TRY(load(last ? nullptr : &at, BTree::Side::below));
        ptrdiff_t row = static_cast<ptrdiff_t>(fresh_.rows.size()) - 1;
        while (!last && row >= 0 && fresh_.key(fresh_.rows[static_cast<size_t>(row)]) >= at) --row;
        if (row >= 0) {
            if (fresh_.key(fresh_.rows[static_cast<size_t>(row)]) < Slice(low_)) return false;
            std::swap(leaf_, fresh_);
            return stand_on(row);
        }
        bound = fresh_.low;
        last = false;
    }
}

}  // namespace lockstep::sm
