// btree_update.cc - replacing a value, whole or in part; logs only what differs.
#include "sm/btree/btree_cursor.h"
#include "sm/btree/btree_impl.h"
#include "sm/btree/btree_patch.h"
#include "sm/btree/overflow.h"
#include "sm/change/rollback.h"
#include "sm/core/cleanup.h"
#include "sm/core/lock_wait.h"
#include "sm/core/upkeep.h"
#include "threads/base/error_detail.h"

namespace lockstep::sm {

using namespace node;

namespace {

bool splice_fits(const Page& page, size_t old_bytes, size_t new_bytes) {
    return new_bytes <= old_bytes || new_bytes - old_bytes <= free_bytes(page);
}

// The whole current value of the target's record; an overflow value is read with the latch released
// (the key's X lock keeps it).
Result<std::string> whole_value(Env& env, ObjectId object, BTree::Target& t) {
    DCHECK(t.found);
    const Slice here = value(*t.page, t.slot);
    if (!overflow(*t.page, t.slot)) return std::string(here);
    const OverflowRef ref = overflow_ref(here);
    t.page.release();
    std::string text;
    TRY(read_overflow(*env.pool, object, ref, text));
    return text;
}

// Logs that the target's value changes from `before`, a piece of it at `offset`, to `after`.
[[gnu::always_inline]] inline Result<void> log_bytes(Env& env, ObjectId object,
                                                     txn::Transaction& txn, BTree::Target& t,
                                                     Slice key, unsigned offset, Slice before,
                                                     Slice after, uint16_t flags, ChangeRole role,
                                                     LogKind kind, Lsn undo_next) {
    t.assert_state();
    DCHECK(key_equals(*t.page, t.slot, SearchKey(key)) && t.page->header.object == object.value);
    DCHECK(before.data() == value(*t.page, t.slot).data() + offset);
    DCHECK(splice_fits(*t.page, before.size(), after.size()));
    const payload::Replace head{
        static_cast<uint16_t>(t.slot),        flags,
        static_cast<uint16_t>(key.size()),    static_cast<uint16_t>(offset),
        static_cast<uint16_t>(before.size()), static_cast<uint16_t>(after.size())};
    ChangePart part{&t.page, PageAction::btree_replace,
                    0,       {payload::bytes_of(head), key, before, after},
                    0,       t.name};
    TRY(change_pages(env, &txn, role, kind, object, {&part, 1}, undo_next));
    return {};
}

[[gnu::cold, gnu::noinline]] std::unexpected<Error> refuse_patch(size_t offset, size_t bytes,
                                                                 size_t value_bytes) {
    DCHECK(offset > value_bytes || bytes > value_bytes - offset);
    auto error = fail(ErrorCode::bad_argument, "patch", offset, value_bytes);
    set_error_detail(error.error(), "offset " + std::to_string(offset) + " and length " +
                                        std::to_string(bytes) + ", of a value of length " +
                                        std::to_string(value_bytes) +
                                        ": a patch does not make a value longer");
    return error;
}

// Old or new value in an overflow chain. The key is locked.
[[gnu::cold, gnu::noinline]] Result<bool> update_large(Env& env, BTree& tree, txn::Transaction& txn,
                                                       Slice key, Slice fresh) {
    DCHECK(fresh.size() <= kValueBytesMax && threads::current()->latch_depth == 0);
    const bool to_chain = too_large(key.size(), fresh.size());
    std::string ref;
    const Lsn before = txn.last_lsn;
    if (to_chain) ref = TRY(write_overflow(env, &txn, tree.id(), fresh));
    const auto change = [&]() -> Result<bool> {
        for (unsigned rooms = 0; rooms <= kRoomTriesMax; ++rooms) {
            BTree::Target t;
            TRY(tree.latch_for(txn, key, true, t));
            if (!t.found || ghost(*t.page, t.slot)) return false;
            const bool was_chain = overflow(*t.page, t.slot);
            const std::string old(was_chain ? value(*t.page, t.slot) : Slice{});
            const uint16_t flags = static_cast<uint16_t>((was_chain ? payload::kOldOverflow : 0) |
                                                         (to_chain ? payload::kNewOverflow : 0));
            if (!TRY(tree.replace_value(txn, t, key, to_chain ? Slice(ref) : fresh, flags)))
                continue;
            t.page.release();
            if (was_chain) TRY(release_overflow(env, txn, tree.id(), old));
            return true;
        }
        return tree.damaged(tree.root());
    };
    Result<bool> done = change();
    if (!done.has_value()) return undo_operation(env, txn, before, done.error());
    if (!*done) TRY(rollback(env, txn, before));
    return done;
}

}  // namespace

Result<void> BTree::log_replace(txn::Transaction& txn, Target& t, Slice key, unsigned offset,
                                unsigned old_bytes, Slice fresh, uint16_t flags, ChangeRole role,
                                LogKind kind, Lsn undo_next) {
    DCHECK(offset + old_bytes <= value(*t.page, t.slot).size());
    return log_bytes(env_, id_, txn, t, key, offset,
                     value(*t.page, t.slot).substr(offset, old_bytes), fresh, flags, role, kind,
                     undo_next);
}

Result<void> BTree::overwrite(txn::Transaction& txn, Target& t, Slice key, size_t offset,
                              Slice part) {
    t.assert_state();
    DCHECK(!ghost(*t.page, t.slot) && !overflow(*t.page, t.slot));
    const Slice old = value(*t.page, t.slot);
    if (offset > old.size() || part.size() > old.size() - offset) [[unlikely]]
        return refuse_patch(offset, part.size(), old.size());
    const Difference d = difference(old, offset, part);
    if (d.after.empty()) return {};
    return log_bytes(env_, id_, txn, t, key, static_cast<unsigned>(d.offset), d.before, d.after, 0,
                     ChangeRole::forward, LogKind::btree_update, kLsnNone);
}

Result<bool> BTree::replace_value(txn::Transaction& txn, Target& t, Slice key, Slice fresh,
                                  uint16_t flags) {
    const Slice old = value(*t.page, t.slot);
    if (!splice_fits(*t.page, old.size(), fresh.size())) [[unlikely]] {
        const size_t extra = fresh.size() - old.size();
        t.page.release();
        TRY(split(key, 0, extra));
        return false;
    }
    // A reference and a value have nothing in common, and a reader of the log needs all of the
    // value.
    if (flags != 0) {
        TRY(log_replace(txn, t, key, 0, static_cast<unsigned>(old.size()), fresh,
                        static_cast<uint16_t>(flags | payload::kWhole), ChangeRole::forward,
                        LogKind::btree_update, kLsnNone));
        return true;
    }
    const size_t shorter = std::min(old.size(), fresh.size());
    const size_t front = equal_front(old.data(), fresh.data(), shorter);
    if (front == old.size() && front == fresh.size()) return true;
    const size_t back =
        equal_back(old.data() + old.size(), fresh.data() + fresh.size(), shorter - front);
    DCHECK(front + back <= shorter);
    TRY(log_replace(txn, t, key, static_cast<unsigned>(front),
                    static_cast<unsigned>(old.size() - front - back),
                    fresh.substr(front, fresh.size() - front - back), 0, ChangeRole::forward,
                    LogKind::btree_update, kLsnNone));
    return true;
}

Result<bool> BTree::update(txn::Transaction& txn, Slice key, Slice value) {
    if (!writable(txn, key.size(), value.size())) [[unlikely]] {
        TRY(check_write(txn, key.size(), value.size()));
    }
    const SearchKey wanted(key);
    TRY(lock_key(txn, wanted, wanted.lock_name(id_), txn::LockMode::X));
    if (Upkeep* upkeep = upkeep_for(txn)) [[unlikely]]
        return upkeep->update(txn, key, value);
    if (too_large(key.size(), value.size())) [[unlikely]]
        return update_large(env_, *this, txn, key, value);
    for (unsigned rooms = 0; rooms <= kRoomTriesMax; ++rooms) {
        BTree::Target t;
        TRY(latch_for(txn, wanted, true, t));
        if (!t.found || ghost(*t.page, t.slot)) return false;
        if (overflow(*t.page, t.slot)) [[unlikely]] {
            t.page.release();
            return update_large(env_, *this, txn, key, value);
        }
        if (TRY(replace_value(txn, t, key, value, 0))) [[likely]]
            return true;
    }
    return damaged(root_);
}

Result<bool> BTree::patch(txn::Transaction& txn, Slice key, size_t offset, Slice part) {
    if (!writable(txn, key.size(), part.size())) [[unlikely]] {
        TRY(check_write(txn, key.size(), part.size()));
    }
    const SearchKey wanted(key);
    TRY(lock_key(txn, wanted, wanted.lock_name(id_), txn::LockMode::X));
    if (Upkeep* upkeep = upkeep_for(txn)) [[unlikely]]
        return upkeep->patch(txn, key, offset, part);
    return patch_locked(txn, wanted, offset, part);
}

Result<bool> BTree::patch_locked(txn::Transaction& txn, const SearchKey& key, size_t offset,
                                 Slice part) {
    BTree::Target t;
    TRY(latch_for(txn, key, true, t));
    if (!t.found || ghost(*t.page, t.slot)) return false;
    if (overflow(*t.page, t.slot)) [[unlikely]] {
        std::string text = TRY(whole_value(env_, id_, t));
        if (offset > text.size() || part.size() > text.size() - offset)
            return refuse_patch(offset, part.size(), text.size());
        text.replace(offset, part.size(), part);
        return update_large(env_, *this, txn, key.slice(), text);
    }
    TRY(overwrite(txn, t, key.slice(), offset, part));
    return true;
}

// The leaf is as it was when the record was read: no lock, no search, and the cursor goes on from
// its own change.
Result<bool> BTreeCursor::patch(size_t offset, Slice part) {
    assert_state();
    if (sees_ != nullptr) [[unlikely]]
        return fail(ErrorCode::read_only, "transaction", txn_.id.value);
    if (!positioned_) return false;
    BTree::Target t;
    // The record's lock is held, so the upkeep stays (UP-1).
    const bool mine = access_ == Access::write && leaf_ != kPageNone &&
                      writable(txn_, key_bytes_, part.size()) && tree_.upkeep() == nullptr;
    bool there = mine && tree_.env().pool->upgrade({page_, word_, snapshot_}, leaf_, t.page) &&
                 !(slots(*t.page)[slot_].bits & (kGhost | kOverflow));
    if (there) [[likely]] {
        t.slot = slot_;
        TRY(tree_.overwrite(txn_, t, key(), offset, part));
        snapshot_ = threads::latch::next_version(
            threads::latch::with_state(word_->load(std::memory_order_relaxed), 0));
        t.page.release();
    } else {
        t.page.release();
        there = TRY(tree_.patch(txn_, key(), offset, part));
    }
    if (there && offset + part.size() <= value_.size())
        copy_bytes(const_cast<char*>(value_.data()) + offset, part);
    return there;
}

}  // namespace lockstep::sm
