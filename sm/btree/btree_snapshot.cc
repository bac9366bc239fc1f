// btree_snapshot.cc - reads of snapshot transactions: point reads, scans, the state of one record.
//
// Concepts   A point read copies the record optimistically, then looks for versions, then validates
//            the leaf (VT-1). If the leaf has not changed since the snapshot began, there is
//            nothing to look for. While the index is not dropped its pages are its own: that is
//            checked before the answer counts.
#include "sm/btree/btree_snapshot.h"

#include <algorithm>
#include <cstring>

#include "sm/btree/btree_descent.h"
#include "sm/btree/btree_records.h"
#include "sm/btree/overflow.h"
#include "sm/version/version_table.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm {

using namespace node;
using Look = VersionTable::Look;

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
            is_quiet(snapshot, page)
                ? Look::page
                : env_.versions->look(snapshot, name,
                                      pos.found ? record_in(page, pos.slot) : RecordState{},
                                      &version);
        if (!pos.valid()) continue;
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

SnapshotScan::SnapshotScan(BTree& tree, const Snapshot& snapshot, Slice low, Slice high, char* key)
    : tree_(tree), snapshot_(snapshot), low_(low), high_(high), key_(key) {}

// The range to copy: the scan's and the leaf's on that side of `key`, as far as one look at the
// erased keys goes.
void SnapshotScan::set_range(const Page& page, const Slice* key, BTree::Side side) {
    Leaf& leaf = *fresh_;
    const bool forward = side == BTree::Side::covering && key != nullptr;
    Slice low = std::max(node::low(page), Slice(low_));
    if (forward) low = std::max(low, *key);
    leaf.low.assign(low);
    const auto end_at = [&](Slice high) {
        if (!leaf.infinite && Slice(leaf.high) <= high) return;
        leaf.infinite = false;
        leaf.high.assign(high);
    };
    leaf.infinite = true;
    leaf.high.clear();
    if (!high_infinite(page)) end_at(node::high(page));
    if (!high_.empty()) end_at(high_);
    if (!forward && key != nullptr) end_at(*key);
    erased_.begin.clear();
    const ErasedKeys& erased = tree_.env().versions->erased();
    if (is_quiet(snapshot_, page) || !erased.any()) return;
    const Slice high(leaf.high);
    erased.find(tree_.id(), leaf.low, leaf.infinite ? nullptr : &high,
                forward ? ErasedKeys::From::low : ErasedKeys::From::high, erased_);
    if (erased_.all) return;
    if (forward) {
        leaf.infinite = false;
        leaf.high.assign(erased_.key(erased_.begin.size() - 1)).push_back('\0');
    } else {
        leaf.low.assign(erased_.key(0));
    }
}

// Adds the record if the snapshot sees one. `slot`: where the page has it, or below zero. False:
// what the snapshot sees cannot be told yet.
bool SnapshotScan::take_record(const RecordName& name, const Page& page, int slot) {
    Leaf& leaf = *fresh_;
    const Look look = tree_.env().versions->look(
        snapshot_, name, slot >= 0 ? record_in(page, static_cast<unsigned>(slot)) : RecordState{},
        &version_);
    if (look == Look::again) return false;
    if (look == Look::version) {
        if (!version_.live) return true;
        leaf.rows.push_back({static_cast<uint32_t>(leaf.text.size()),
                             static_cast<uint16_t>(name.key.size()),
                             static_cast<uint16_t>(version_.bytes.size()), true,
                             (version_.bits & kRecordOverflow) != 0});
        leaf.text.append(name.key).append(version_.bytes);
    } else if (slot >= 0) {
        take_slot(page, static_cast<unsigned>(slot));
    }
    return true;
}

// The snapshot sees the record as the page has it.
inline void SnapshotScan::take_slot(const Page& page, unsigned slot) {
    const unsigned bits = slots(page)[slot].bits;
    if (bits & kGhost) return;
    fresh_->rows.push_back({slot, 0, 0, false, (bits & kOverflow) != 0});
}

void SnapshotScan::take_quiet(const Page& page, unsigned first, unsigned last) {
    DCHECK(is_quiet(snapshot_, page) && last <= count(page));
    for (unsigned slot = first; slot < last; ++slot) take_slot(page, slot);
}

// Neighbours mostly share the bytes that name their run, so there is one look for many.
bool SnapshotScan::may_be_in_run(Slice key) {
    // Keys of one byte have the bytes of the empty key before their last one.
    if (key.empty()) return false;
    const Slice prefix = key.substr(0, key.size() - !key.empty());
    if (!run_prefix_ || *run_prefix_ != prefix) {
        run_prefix_.emplace(prefix);
        run_there_ = tree_.env().versions->may_have_run(tree_.id(), key);
    }
    return run_there_;
}

// Some may have versions. The table's lines are asked for a few records ahead.
bool SnapshotScan::take_changed(const Page& page, unsigned first, unsigned last) {
    constexpr unsigned kAhead = 8;
    const VersionTable& versions = *tree_.env().versions;
    struct {
        uint64_t hash;
        bool in_run;
    } ahead[kAhead];
    run_prefix_.reset();
    const bool runs = versions.may_have_runs(tree_.id());
    const auto hash = [&](unsigned slot) {
        const Slice key = full_key(page, slot, key_buffer_, sizeof key_buffer_);
        auto& at = ahead[slot % kAhead];
        at = {name_of_key(tree_.id(), key).hash, runs && may_be_in_run(key)};
        versions.prefetch(at.hash);
    };
    for (unsigned slot = first; slot < std::min(first + kAhead, last); ++slot) hash(slot);
    size_t next = 0;
    const auto take_erased_below = [&](const Slice* bound) {
        for (; next < erased_.begin.size() && (!bound || erased_.key(next) < *bound); ++next)
            if (!take_record(name_of_key(tree_.id(), erased_.key(next)), page, -1)) return false;
        return true;
    };
    for (unsigned slot = first; slot < last; ++slot) {
        const auto [now, in_run] = ahead[slot % kAhead];
        if (slot + kAhead < last) hash(slot + kAhead);
        if (erased_.begin.empty() && !in_run && !versions.may_have(now)) {
            take_slot(page, slot);
            continue;
        }
        const Slice key = full_key(page, slot, key_buffer_, sizeof key_buffer_);
        DCHECK(node::covers(page, key) && name_of_key(tree_.id(), key).hash == now);
        if (!take_erased_below(&key)) return false;
        if (next < erased_.begin.size() && erased_.key(next) == key) ++next;  // it is back
        if (!take_record({tree_.id(), key, now}, page, static_cast<int>(slot))) return false;
    }
    return take_erased_below(nullptr);
}

// Copies a latched leaf into fresh_, and lists the records that the snapshot sees in the order of
// their keys. False: one of them cannot be told yet.
Result<bool> SnapshotScan::take(const Page& page, const Slice* key, BTree::Side side) {
    DCHECK(is_leaf(page) && page.header.object == tree_.id().value);
    Leaf& leaf = *fresh_;
    newest_ = std::max(newest_, Lsn{page.header.lsn});
    leaf.rows.clear();
    leaf.rows.reserve(count(page));
    leaf.text.clear();
    leaf.sibling.id = kPageNone;
    set_range(page, key, side);
    if (!leaf.infinite && leaf.low >= leaf.high) return true;
    std::memcpy(static_cast<void*>(&leaf.page), &page, kPageBytes);
    const unsigned first = node::low(page) == leaf.low ? 0 : search(page, SearchKey(leaf.low)).slot;
    const bool whole = leaf.infinite || (!high_infinite(page) && node::high(page) == leaf.high);
    const unsigned last = whole ? count(page) : search(page, SearchKey(leaf.high)).slot;
    DCHECK(first <= last && last <= count(page));
    if (whole && !leaf.infinite && (high_.empty() || Slice(leaf.high) < Slice(high_))) {
        leaf.sibling.page = tree_.env().pool->resident(right(page));
        if (leaf.sibling.page != nullptr) leaf.sibling.id = right(page);
        leaf.lines = (kPageLines + last - first) / (last - first + 1);
    }
    if (!is_quiet(snapshot_, page)) return take_changed(page, first, last);
    take_quiet(page, first, last);
    return true;
}

// The sibling, if it is the leaf that covers `key`. On any doubt, or an error, the caller descends
// instead. BT-6, before the pool reads anything and behind the latch.
bool SnapshotScan::latch_sibling(const Sibling& sibling, Slice key, SharedPage& hold) const {
    const auto still_there = [&] { return tree_.leaves_freed() == sibling.leaves_freed; };
    if (sibling.id == kPageNone || !still_there()) return false;
    Result<SharedPage> fixed = tree_.env().pool->fix_shared(sibling.id);
    if (!fixed || !still_there() || !is_node_of(**fixed, tree_.id(), 0) ||
        !covers(**fixed, SearchKey(key)))
        return false;
    hold = std::move(*fixed);
    return true;
}

Result<void> SnapshotScan::load(const Slice* key, BTree::Side side, const Sibling& beside) {
    TRY(tree_.history().check(snapshot_, tree_.lock()));
    if (!fresh_) fresh_ = std::make_unique_for_overwrite<Leaf>();
    const Result<void> done = load_leaf(key, side, beside);
    // Pages that are not the tree's own any more tell less than that.
    TRY(tree_.history().check(snapshot_, tree_.lock()));
    return done;
}

// By a descent; with null the last leaf. False: it changed meanwhile.
Result<bool> SnapshotScan::latch_leaf(const Slice* key, BTree::Side side, SharedPage& hold) {
    BTree::Position pos;
    if (key != nullptr)
        return TRY(tree_.latch_leaf_shared(SearchKey(*key), side, pos, hold)) && hold;
    TRY(tree_.descend_last(pos));
    hold = TRY(tree_.env().pool->fix_shared(pos.id));
    return is_node_of(*hold, tree_.id(), 0) && high_infinite(*hold);
}

Result<void> SnapshotScan::load_leaf(const Slice* key, BTree::Side side, const Sibling& beside) {
    DCHECK(threads::current()->latch_depth == 0);
    if (tree_.history().empty_to(snapshot_)) {
        newest_ = kLsnMax;
        fresh_->rows.clear();
        fresh_->low.clear();
        fresh_->infinite = true;
        fresh_->sibling.id = kPageNone;
        return {};
    }
    for (unsigned tries = 0;; ++tries) {
        TRY(tree_.backoff(tries, tree_.root()));
        SharedPage hold;
        fresh_->sibling.leaves_freed = tree_.leaves_freed();
        const bool there = tries == 0 && key != nullptr && latch_sibling(beside, *key, hold);
        if (!there && !TRY(latch_leaf(key, side, hold))) continue;
        if (TRY(take(*hold, key, side))) return {};
        hold.release();
        threads::yield();
        tries = 0;  // not a sign of damage, however long it takes
    }
}

Result<bool> SnapshotScan::stand_on(size_t row) {
    const Leaf& leaf = *leaf_;
    DCHECK(row < leaf.rows.size());
    row_ = row;
    const Row& at = leaf.rows[row];
    if (at.in_text) copy_bytes(key_, Slice(leaf.text).substr(at.at, at.key_bytes));
    key_bytes_ = at.in_text ? at.key_bytes : full_key(leaf.page, at.at, key_, kKeyBytesMax).size();
    value_ = value_at(row);
    DCHECK(Slice(key_, key_bytes_) >= Slice(leaf.low));
    DCHECK(leaf.infinite || Slice(key_, key_bytes_) < Slice(leaf.high));
    DCHECK(Slice(key_, key_bytes_) >= Slice(low_));
    DCHECK(high_.empty() || Slice(key_, key_bytes_) < Slice(high_));
    begun_ = true;
    if (!at.overflow) return true;
    TRY(read_chain(row, large_));
    value_ = large_;
    return true;
}

Slice SnapshotScan::value_at(size_t row) const {
    DCHECK(row < leaf_->rows.size());
    const Row& at = leaf_->rows[row];
    return at.in_text ? Slice(leaf_->text).substr(at.at + at.key_bytes, at.value_bytes)
                      : node::value(leaf_->page, at.at);
}

Result<void> SnapshotScan::read_chain(size_t row, std::string& out) {
    const Slice value = value_at(row);
    DCHECK(leaf_->rows[row].overflow && value.size() >= sizeof(OverflowRef));
    const Result<void> read =
        read_overflow(*tree_.env().pool, tree_.id(), overflow_ref(value), out);
    // The chain stays while the record has a version. Only then the answer counts, or the error.
    TRY(tree_.history().check(snapshot_, tree_.lock()));
    return read;
}

Result<bool> SnapshotScan::stand_in_fresh(size_t row) {
    std::swap(leaf_, fresh_);
    return stand_on(row);
}

// In a part of a leaf that has no other key.
void SnapshotScan::stand_at(Slice key) {
    DCHECK(!begun_ && key >= Slice(low_) && (high_.empty() || key < Slice(high_)));
    leaf_ = std::make_unique_for_overwrite<Leaf>();
    leaf_->low.assign(key);
    leaf_->high.assign(key).push_back('\0');
    begun_ = true;
}

Result<bool> SnapshotScan::next() {
    if (begun_ && row_ + 1 < leaf_->rows.size()) {
        ask_for_sibling(row_);
        return stand_on(row_ + 1);
    }
    if (!TRY(next_leaf())) return false;
    return stand_on(0);
}

Result<bool> SnapshotScan::next_leaf() {
    if (begun_ && leaf_->infinite) return false;
    Sibling beside = begun_ ? leaf_->sibling : Sibling{};
    const Leaf* left = begun_ ? leaf_.get() : nullptr;
    for (std::string bound = begun_ ? leaf_->high : low_;; bound = left->high) {
        if (!high_.empty() && bound >= high_) return false;
        const Slice at = bound;
        if (left != nullptr && ahead_.due(beside.id != kPageNone)) [[unlikely]]
            ahead_.look(tree_, left->low, true, low_, high_);
        TRY(load(&at, BTree::Side::covering, beside));
        beside = fresh_->sibling;
        left = fresh_.get();
        if (!fresh_->rows.empty()) break;
        if (fresh_->infinite) return false;
        DCHECK(Slice(fresh_->high) > at);  // it moves on
    }
    std::swap(leaf_, fresh_);
    begun_ = true;
    row_ = leaf_->rows.size() - 1;  // for next(): none of it is left
    return true;
}

Result<bool> SnapshotScan::prev() {
    if (begun_ && row_ > 0) return stand_on(row_ - 1);
    bool last = !begun_ && high_.empty(), left = begun_;
    for (std::string bound = begun_ ? leaf_->low : high_;; bound = fresh_->low, last = false) {
        if (!last && (bound.empty() || bound <= low_)) return false;
        const Slice at = bound;
        if (left && ahead_.due()) [[unlikely]]
            ahead_.look(tree_, at, false, low_, high_);
        left = true;
        TRY(load(last ? nullptr : &at, BTree::Side::below, {}));
        if (!fresh_->rows.empty()) return stand_in_fresh(fresh_->rows.size() - 1);
        DCHECK(last || Slice(fresh_->low) < at);  // it moves on
    }
}

}  // namespace lockstep::sm
