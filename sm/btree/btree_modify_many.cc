// btree_modify_many.cc - reading, changing and logging many records: one log record for a group.
//
// Concepts   A group is a run of ascending keys. First all its records are locked and read as by
//            get_many() (btree_many.cc). Then the application changes the copies, with no latch
//            held. Last the leaves are latched, and one record with a part for each leaf logs what
//            differs.
//            Leaves are latched only at once and as they were seen: who fails to get one goes the
//            way of patch() afterwards. So latches never wait, and their order means nothing.
//            Undo logs one compensation for each row (btree_undo.cc); the log space for them is
//            reserved before.
// Blocking   Parks for locks, pages and log space; latches are held for the last only.
#include <lockstep/index.h>
#include "sm/btree/btree_impl.h"
#include "sm/btree/btree_key_order.h"
#include "sm/btree/btree_key_walk.h"
#include "sm/btree/btree_patch.h"
#include "sm/core/upkeep.h"
#include "threads/base/limits.h"
#include "threads/base/unmade.h"

namespace lockstep::sm {

using namespace node;

namespace {

constexpr size_t kWalked = KeyWalk::kKeys;  // rows; also the parts of a record
constexpr size_t kLogBytes = 2048;          // of payload in one record
static_assert(kLogBytes < kPageBytes);

// The longest run of ascending keys at the front.
size_t ascending_run(std::span<const Lookup> rows) {
    const size_t most = std::min<size_t>(rows.size(), limits::modify_group());
    size_t n = 1;
    while (n < most && key_below(rows[n - 1].key, rows[n].key)) ++n;
    return n;
}

// Is the row's key in the slot where it was seen? The leaf may be unlatched.
inline bool stands_at_hint(const Page& leaf, const Lookup& row) {
    return row.hint.slot < count(leaf) &&
           key_equals(leaf, row.hint.slot, KeyView(row.key.data(), row.key.size()));
}

// Changes of rows in the making: leaves that are latched, and the payload of their parts.
class Changes {
public:
    Changes(BTree& tree, Env& env, txn::Transaction& txn) : tree_(tree), env_(env), txn_(txn) {}
    ~Changes() { release(); }
    Changes(const Changes&) = delete;
    Changes& operator=(const Changes&) = delete;

    // Adds the row's change; logs what was added before if there is no more space. `seen`: the look
    // at the leaf in which the row was read, if there was one. False: the row must be changed
    // alone.
    Result<bool> add(const Lookup& row, const OptimisticPage& seen, const ByteRange& range);
    // Logs and makes the changes, and releases the leaves.
    Result<void> log();

private:
    // A leaf and its part, made when the leaf is latched: few rows do not pay for all.
    union Room {
        Room() {}   // NOLINT(modernize-use-equals-default): that would be deleted
        ~Room() {}  // NOLINT(modernize-use-equals-default)
        ExclusivePage page;
    };
    bool latch(const Lookup& row, const OptimisticPage& seen);
    [[gnu::cold, gnu::noinline]] bool latch_changed(const Lookup& row, ExclusivePage& page);
    void put(const Lookup& row, const Difference& d);
    void finish_part();
    void release();
    ExclusivePage& last_page() { return pages_[parts_ - 1].page; }

    BTree& tree_;
    Env& env_;
    txn::Transaction& txn_;
    size_t parts_ = 0;
    // Of the last part, until finish_part().
    PageId leaf_ = kPageNone;
    uint16_t rows_ = 0;
    uint32_t undo_bytes_ = 0;
    char* begin_ = bytes_;
    char* end_ = bytes_;
    Room pages_[kWalked];
    Unmade<Slice, kWalked> payloads_;
    uint32_t undo_[kWalked];
    char bytes_[kLogBytes];
};

void Changes::release() {
    for (; parts_ != 0; --parts_) last_page().~ExclusivePage();
}

// The leaf has changed since the row was read; or the row was read alone.
bool Changes::latch_changed(const Lookup& row, ExclusivePage& page) {
    OptimisticPage at;
    if (!env_.pool->try_fix_optimistic(row.hint.page, at) ||
        tree_.leaves_freed() != row.hint.leaves_freed)  // BT-6
        return false;
    return is_node_of(*at.page, tree_.id(), 0) && stands_at_hint(*at.page, row) &&
           env_.pool->upgrade(at, row.hint.page, page);
}

// The row's leaf becomes the last part if the row is still where it was seen.
bool Changes::latch(const Lookup& row, const OptimisticPage& seen) {
    DCHECK(parts_ < kWalked);
    ExclusivePage& page = *new (&pages_[parts_].page) ExclusivePage;
    if (seen.page == nullptr || !env_.pool->upgrade(seen, row.hint.page, page)) [[unlikely]]
        if (!latch_changed(row, page)) return false;
    finish_part();
    ++parts_;
    leaf_ = row.hint.page;
    rows_ = 0;
    undo_bytes_ = 0;
    begin_ = end_;
    end_ += sizeof(payload::ReplaceMany);
    return true;
}

void Changes::finish_part() {
    if (parts_ == 0) return;
    store(begin_, payload::ReplaceMany{rows_, 0});
    new (&payloads_.items[parts_ - 1]) Slice(begin_, static_cast<size_t>(end_ - begin_));
    undo_[parts_ - 1] = undo_bytes_;
}

// At the end of the last part.
void Changes::put(const Lookup& row, const Difference& d) {
    // A compensation record without the key and the bytes, which this record has as well.
    constexpr uint32_t kUndoBytes =
        sizeof(txn::LogRecordHeader) + sizeof(PartHeader) + sizeof(payload::Replace) + 8;
    ++rows_;
    store(end_, payload::ReplaceRow{row.hint.slot, static_cast<uint16_t>(row.key.size()),
                                    static_cast<uint16_t>(d.offset),
                                    static_cast<uint16_t>(d.after.size())});
    char* const end = copy_bytes(end_ + sizeof(payload::ReplaceRow), row.key);
    end_ = copy_bytes(copy_bytes(end, d.before), d.after);
    DCHECK(end_ <= bytes_ + kLogBytes);
    undo_bytes_ += kUndoBytes;
}

Result<bool> Changes::add(const Lookup& row, const OptimisticPage& seen, const ByteRange& range) {
    const size_t most = sizeof(payload::ReplaceMany) + sizeof(payload::ReplaceRow) +
                        row.key.size() + 2 * range.bytes;
    if (most > kLogBytes) [[unlikely]]
        return false;
    const bool same_leaf = parts_ != 0 && row.hint.page == leaf_;
    if (static_cast<size_t>(bytes_ + kLogBytes - end_) < most || (parts_ == kWalked && !same_leaf))
        [[unlikely]] {
        TRY(log());
        return add(row, seen, range);
    }
    // A leaf that is held already may have changed since the row was read, too.
    if (same_leaf ? !stands_at_hint(*last_page(), row) : !latch(row, seen)) [[unlikely]]
        return false;
    const Page& page = *last_page();
    if (slots(page)[row.hint.slot].bits & (kGhost | kOverflow)) [[unlikely]]
        return false;
    const Slice now = value(page, row.hint.slot);
    DCHECK(now.size() == row.bytes);  // its lock is held
    const Slice part(reinterpret_cast<const char*>(row.buffer.data()) + range.offset, range.bytes);
    const Difference d = difference(now, range.offset, part);
    if (!d.after.empty()) put(row, d);
    return true;
}

Result<void> Changes::log() {
    finish_part();
    Unmade<ChangePart, kWalked> parts;
    size_t n = 0;
    for (size_t i = 0; i < parts_; ++i) {
        const Slice payload = payloads_.items[i];
        // A leaf in which nothing differs.
        if (payload.size() == sizeof(payload::ReplaceMany)) [[unlikely]]
            continue;
        new (&parts.items[n++])
            ChangePart{&pages_[i].page, PageAction::btree_replace_many, 0, {payload}, undo_[i]};
    }
    if (n != 0) {
        TRY(change_pages(env_, &txn_, ChangeRole::forward, LogKind::btree_update_many, tree_.id(),
                         {parts.items, n}));
    }
    release();
    end_ = bytes_;
    return {};
}

}  // namespace

Result<size_t> BTree::modify_many(txn::Transaction& txn, std::span<Lookup> rows,
                                  ChangeMany change) {
    if (!writable(txn, 0, 0)) [[unlikely]] {
        TRY(check_write(txn, 0, 0));
    }
    size_t found = 0;
    for (size_t first = 0; first < rows.size();) {
        const size_t n = ascending_run(rows.subspan(first));
        const std::span<Lookup> group = rows.subspan(first, n);
        found += TRY(n == 1 ? modify_each(txn, group, first, change)
                            : modify_group(txn, group, first, change));
        first += n;
    }
    return found;
}

Result<size_t> BTree::modify_each(txn::Transaction& txn, std::span<Lookup> rows, size_t first,
                                  ChangeMany change) {
    size_t found = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
        Lookup& row = rows[i];
        ValueOut out{.fixed = row.buffer.data(), .capacity = row.buffer.size()};
        const auto change_this = [&](std::span<std::byte> value) {
            return change(first + i, value);
        };
        row.found = TRY(modify(txn, row.key, out, change_this));
        row.bytes = out.bytes;
        const LeafHint& hint = hint_of(txn, id_);
        row.hint = {hint.page, hint.slot, hint.leaves_freed};
        found += row.found;
    }
    return found;
}

Result<size_t> BTree::modify_group(txn::Transaction& txn, std::span<Lookup> rows, size_t first,
                                   ChangeMany change) {
    DCHECK(rows.size() <= kWalked && threads::current()->latch_depth == 0);
    Unmade<OptimisticPage, kWalked> seen;
    const size_t found = TRY(fetch_group(txn, rows, Access::write, false, seen.items));
    // Since the locks were asked for (UP-1).
    if (upkeep_for(txn) != nullptr) [[unlikely]]
        return modify_each(txn, rows, first, change);
    const TxnId id = txn.id;
    Unmade<ByteRange, kWalked> made;
    ByteRange* const ranges = made.items;
    for (size_t i = 0; i < rows.size(); ++i) {
        new (&ranges[i]) ByteRange;
        if (!rows[i].found) continue;
        const size_t seen = std::min(rows[i].bytes, rows[i].buffer.size());
        const ByteRange range = change(first + i, rows[i].buffer.first(seen));
        if (txn.id != id || txn.state != txn::TxnState::active) [[unlikely]]
            return ended_meanwhile(txn, id, "transaction that ended inside modify_many()");
        if (range.offset > seen || range.bytes > seen - range.offset) [[unlikely]]
            return fail(ErrorCode::bad_argument, "range that modify_many() has altered",
                        range.offset, seen);
        ranges[i] = range;
    }
    uint32_t alone = 0;  // rows that are not where they were seen
    {
        Changes changes(*this, env_, txn);
        for (size_t i = 0; i < rows.size(); ++i)
            if (ranges[i].bytes != 0 && !TRY(changes.add(rows[i], seen.items[i], ranges[i])))
                [[unlikely]]
                alone |= 1u << i;
        TRY(changes.log());
    }
    for (; alone != 0; alone &= alone - 1) {
        const auto i = static_cast<size_t>(std::countr_zero(alone));
        const Slice part(reinterpret_cast<const char*>(rows[i].buffer.data()) + ranges[i].offset,
                         ranges[i].bytes);
        TRY(patch_locked(txn, rows[i].key, ranges[i].offset, part));
    }
    return found;
}

}  // namespace lockstep::sm
