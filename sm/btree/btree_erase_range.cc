// btree_erase_range.cc - erasing all records of a range: those of a leaf are one change of it.
//
// Concepts   A visit latches the leaf that covers the place, and tries the locks of its keys in the
//            range. What it gets becomes ghosts by one log record. A name that is refused ends the
//            visit before it: the next one begins there behind the wait (BT-3). At serializable the
//            gap behind the visit's last key is locked before the latch is released. So nothing can
//            come into the range behind the walk.
//            Keys are locked, ghosts included, because their deleter may still roll back.
//            Records with large values, and all records while the index has an Upkeep, are erased
//            one by one, behind the visit.
//            Undo gives the ghosts of one leaf their records back by one compensation. How many
//            leaves hold them by then is not known, so log space is reserved as if each were alone.
#include <algorithm>
#include <vector>

#include "sm/btree/btree_impl.h"
#include "sm/change/rollback.h"
#include "sm/core/cleanup.h"
#include "sm/core/lock_wait.h"

namespace lockstep::sm {

using namespace node;
using txn::LockMode;

namespace {

constexpr uint32_t kUndoBytes = 128;  // a compensation record without its key

class RangeEraser {
public:
    RangeEraser(BTree& tree, txn::Transaction& txn, Slice low, Slice high)
        : tree_(tree), env_(tree.env()), txn_(txn), at_(low), high_(high) {
        DCHECK(high.empty() || low < high);
        if (!protects_gaps()) return;
        local_of(txn).gap_reader = txn.id;
        mode_ = mode_ | LockMode::gap_read;
    }
    // The number of records.
    Result<size_t> erase();

private:
    // changed: nothing is known of what lies behind the leaf.
    enum class Gap : uint8_t { locked, refused, changed };

    bool protects_gaps() const { return txn::rules_of(txn_.isolation).locks_gaps; }
    Result<void> visit(unsigned tries);
    unsigned end_in(const Page& leaf) const;
    size_t lock_keys(const Page& leaf, unsigned first, unsigned end);
    void choose(const Page& leaf, unsigned first, unsigned end);
    Result<void> log(BTree::Target& t);
    Result<Gap> lock_gap(const Page& leaf, unsigned end);
    Result<void> erase_alone();
    Result<void> wait();

    BTree& tree_;
    Env& env_;
    txn::Transaction& txn_;
    std::string at_;  // what lies below it is done
    const std::string high_;
    LockMode mode_ = LockMode::X;
    bool done_ = false;
    size_t erased_ = 0;
    // Of the present visit.
    std::vector<txn::LockName> names_;
    std::vector<uint16_t> slots_;     // that become ghosts
    std::vector<std::string> alone_;  // keys of records that are erased one by one
    std::string payload_;
    Refused refused_{tree_.lock(), {}, LockMode::none};  // if it has a name: to be waited for
};

// The first slot behind the range.
unsigned RangeEraser::end_in(const Page& leaf) const {
    DCHECK(is_leaf(leaf) && leaf.header.object == tree_.id().value);
    if (high_.empty() || (!high_infinite(leaf) && high(leaf) <= Slice(high_))) return count(leaf);
    return search(leaf, Slice(high_)).slot;
}

// How many keys from `first` on are locked.
size_t RangeEraser::lock_keys(const Page& leaf, unsigned first, unsigned end) {
    DCHECK(first <= end && end <= count(leaf) && threads::current()->latch_depth == 1);
    names_.clear();
    char buffer[2 * kKeyBytesMax];
    for (unsigned slot = first; slot < end; ++slot)
        names_.push_back(
            txn::key_lock_name(tree_.id(), full_key(leaf, slot, buffer, sizeof buffer)));
    if (names_.empty()) return 0;
    return env_.locks->try_lock_records(txn_.locks, tree_.lock(), names_, mode_);
}

void RangeEraser::choose(const Page& leaf, unsigned first, unsigned end) {
    DCHECK(slots_.empty() && alone_.empty() && end <= count(leaf));
    const bool kept_up = tree_.upkeep() != nullptr;  // behind the locks (UP-1)
    for (unsigned slot = first; slot < end; ++slot) {
        if (ghost(leaf, slot)) continue;
        if (kept_up || overflow(leaf, slot)) [[unlikely]]
            alone_.push_back(full_key(leaf, slot));
        else slots_.push_back(static_cast<uint16_t>(slot));
    }
}

Result<void> RangeEraser::log(BTree::Target& t) {
    t.assert_state();
    DCHECK(!slots_.empty() && slots_.back() < count(*t.page));
    uint32_t undo = 0;
    for (const uint16_t slot : slots_)
        undo += kUndoBytes + header(*t.page).prefix +
                static_cast<uint32_t>(suffix(*t.page, slot).size());
    TRY(tree_.log_set_ghosts(txn_, t, slots_, true, ChangeRole::forward, LogKind::btree_erase_many,
                             kLsnNone, undo));
    erased_ += slots_.size();
    return {};
}

// Below the first key behind the range's part in this leaf. It may stand in the next leaf.
Result<RangeEraser::Gap> RangeEraser::lock_gap(const Page& leaf, unsigned end) {
    DCHECK(end <= count(leaf) && covers(mode_, LockMode::gap_read));
    BTree::NextKey next;
    if (!TRY(tree_.next_key(leaf, end, nullptr, next))) return Gap::changed;
    if (!env_.locks->try_lock_record(txn_.locks, tree_.lock(), next.name, LockMode::gap_read)) {
        refused_.name = next.name;
        refused_.mode = LockMode::gap_read;
        return Gap::refused;
    }
    return next.valid() ? Gap::locked : Gap::changed;
}

// Latches are free while it waits, so the next visit looks at the same place again: what was erased
// there is a ghost.
Result<void> RangeEraser::visit(unsigned tries) {
    TRY(tree_.backoff(tries, tree_.root()));
    BTree::Target t;
    TRY(tree_.latch_for(txn_, SearchKey(at_), true, t));
    const Page& leaf = *t.page;
    const unsigned first = t.slot, end = std::max(first, end_in(leaf));
    const unsigned locked = static_cast<unsigned>(lock_keys(leaf, first, end));
    DCHECK(first + locked <= end && refused_.name == txn::LockName{});
    choose(leaf, first, first + locked);
    if (!slots_.empty()) TRY(log(t));
    if (first + locked < end) {
        at_ = full_key(leaf, first + locked);
        refused_.name = names_[locked];
        refused_.mode = mode_;
        return {};
    }
    if (protects_gaps() && TRY(lock_gap(leaf, end)) != Gap::locked) return {};
    done_ =
        end < count(leaf) || high_infinite(leaf) || (!high_.empty() && high(leaf) >= Slice(high_));
    if (done_) return {};
    DCHECK(high(leaf) > Slice(at_));  // it moves on
    at_.assign(high(leaf));
    return {};
}

Result<void> RangeEraser::erase_alone() {
    DCHECK(threads::current()->latch_depth == 0);
    for (const std::string& key : alone_) erased_ += TRY(tree_.erase(txn_, key));
    alone_.clear();
    return {};
}

Result<void> RangeEraser::wait() {
    DCHECK(threads::current()->latch_depth == 0 && !done_);  // BT-3
    Refused refused = refused_;
    refused_.name = {};
    txn::LockManager& locks = *env_.locks;
    if (refused.mode != LockMode::gap_read) return wait_for_key(locks, txn_.locks, refused, at_);
    if (refused.name == txn::end_lock_name(tree_.id()))
        return wait_for_end(locks, txn_.locks, refused);
    return wait_for_gap(locks, txn_.locks, refused, at_);
}

Result<size_t> RangeEraser::erase() {
    TRY(env_.locks->lock_object(txn_.locks, tree_.lock(), LockMode::IX));  // CA-2
    // Else each record has a lock, until there are enough for the whole index.
    if (at_.empty() && high_.empty())
        (void)TRY(env_.locks->try_lock_object(txn_.locks, tree_.lock(), LockMode::X));
    for (unsigned tries = 0; !done_;) {
        const std::string before = at_;
        slots_.clear();
        TRY(visit(tries));
        TRY(erase_alone());
        const bool waits = refused_.name != txn::LockName{};
        if (waits) TRY(wait());
        tries = waits || at_ != before ? 0 : tries + 1;
    }
    return erased_;
}

}  // namespace

Result<size_t> BTree::erase_range(txn::Transaction& txn, Slice low, Slice high) {
    const size_t longer = std::max(low.size(), high.size());
    if (!writable(txn, longer, 0)) [[unlikely]]
        TRY(check_write(txn, longer, 0));
    if (!high.empty() && low >= high) return size_t{0};
    const Lsn before = txn.last_lsn;
    const Result<size_t> erased = RangeEraser(*this, txn, low, high).erase();
    if (!erased) return undo_operation(env_, txn, before, erased.error());
    return erased;
}

Result<void> BTree::log_set_ghosts(txn::Transaction& txn, Target& t,
                                   std::span<const uint16_t> which, bool are_ghosts,
                                   ChangeRole role, LogKind kind, Lsn undo_next,
                                   uint32_t undo_bytes) {
    DCHECK(t.page->header.object == id_.value && !which.empty());
    DCHECK(std::ranges::is_sorted(which) && which.back() < count(*t.page));
    DCHECK((role == ChangeRole::compensation) == (undo_bytes == 0));
    DCHECK(role == ChangeRole::compensation || (are_ghosts && kind == LogKind::btree_erase_many));
    const Page& page = *t.page;
    const Slice shared = prefix(page);
    std::string rows;
    rows.reserve(which.size() * 24);
    for (const uint16_t slot : which) {
        const Slice rest = suffix(page, slot);
        const payload::GhostRow row{slot, static_cast<uint16_t>(rest.size())};
        rows.append(payload::bytes_of(row)).append(rest);
    }
    const payload::SetGhosts head{static_cast<uint16_t>(which.size()), are_ghosts,
                                  static_cast<uint16_t>(shared.size()), 0};
    // The prefix lies in the page, which the action does not move.
    ChangePart part{&t.page,
                    PageAction::btree_set_ghosts,
                    0,
                    {payload::bytes_of(head), shared, rows, {}},
                    undo_bytes};
    TRY(change_pages(env_, &txn, role, kind, id_, {&part, 1}, undo_next));
    if (are_ghosts && env_.ghost_notes) env_.ghost_notes->note_leaf(id_, full_key(page, which[0]));
    return {};
}

}  // namespace lockstep::sm
