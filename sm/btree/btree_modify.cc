// btree_modify.cc - reading, changing and logging one record in one operation.
//
// Concepts   As in btree_fetch.cc the descent comes before the lock. What was found counts only if
//            the leaf's version is unchanged when its latch is taken. Between the two, the
//            application's function changes a copy of the value, and no latch is held.
//            Exceptions go the way of a read and a patch() under the lock: a leaf that changes, a
//            large value, an index with an Upkeep.
// Blocking   Parks for the lock, pages and latches.
#include "sm/btree/btree_descent.h"
#include "sm/btree/btree_patch.h"
#include "sm/core/lock_wait.h"
#include "sm/core/upkeep.h"
#include "threads/base/hints.h"
#include "threads/steps/ctx.h"

namespace lockstep::sm {

using namespace node;

namespace {

// Bytes of a record that are fetched before its length is known.
constexpr size_t kRecordAhead = 192;

inline void prefetch_record(const BTree::Position& pos, size_t bytes) {
    const char* const at = chars(*pos.at.page) + slots(*pos.at.page)[pos.slot].at;
    if (bytes == 0) return;
    prefetch_line(at);
    for (size_t line = kCacheLineBytes; line < kRecordAhead; line += kCacheLineBytes)
        if (line < bytes) prefetch_line(at + line);
}

struct Altered {
    size_t offset = 0;
    Slice part;  // in the caller's buffer
};
// Has the application alter what was read. It may do nothing with the transaction meanwhile. If it
// waits, another thread may end the transaction (between_calls.h): nothing has been changed yet.
// That it has not ended is checked, because the change would belong to no transaction, or to
// another one.
[[gnu::always_inline]] inline Result<Altered> alter(const txn::Transaction& txn,
                                                    const ValueOut& out, BTree::Change change) {
    DCHECK(threads::current()->latch_depth == 0);
    const TxnId id = txn.id;
    const size_t seen = std::min(out.bytes, out.capacity);
    const ByteRange range = change({out.fixed, seen});
    if (txn.id != id || txn.state != txn::TxnState::active) [[unlikely]]
        return ended_meanwhile(txn, id, "transaction that ended inside modify()");
    if (range.offset > seen || range.bytes > seen - range.offset) [[unlikely]]
        return fail(ErrorCode::bad_argument, "range that modify() has altered", range.offset, seen);
    return Altered{range.offset,
                   {reinterpret_cast<const char*>(out.fixed) + range.offset, range.bytes}};
}

}  // namespace

// Of a transaction that was ended from outside, note_error() makes the reason of this.
std::unexpected<Error> ended_meanwhile(const txn::Transaction& txn, TxnId id, const char* what) {
    DCHECK(txn.id != id || txn.state != txn::TxnState::active);
    const bool outside = txn.id == id && txn.ended_outside();
    return fail(outside ? ErrorCode::txn_aborting : ErrorCode::bad_argument, what, id.value);
}

// The record is loaded while the lock's bucket is, as in a fetch. False: not found yet.
Result<bool> BTree::find_and_lock_in_team(txn::Transaction& txn, const SearchKey& key,
                                          txn::LockName name, Position& pos) {
    Expect expected;
    const bool located = Descent::locate_ahead<true>(*this, txn, key, name, pos, expected);
    const bool uncached = located && expected == Expect::uncached && pos.found;
    if (located && threads::worker_local.prefetch) {
        if (uncached) prefetch_record(pos, kRecordAhead);
        env_.pool->prefetch_for_change(pos.at);
    }
    TRY(lock_key(txn, key, name, txn::LockMode::X));
    if (!uncached) return located;
    CTX(record);
    return revalidate(key, pos);
}

Result<bool> BTree::modify(txn::Transaction& txn, Slice key, ValueOut& out, Change change) {
    DCHECK(out.text == nullptr && (out.fixed != nullptr || out.capacity == 0));
    if (!writable(txn, key.size(), 0)) [[unlikely]] {
        TRY(check_write(txn, key.size(), 0));
    }
    const SearchKey wanted(key);
    const txn::LockName name = wanted.lock_name(id_);
    Position pos;
    bool located;
    if (in_uncached_team(txn)) {
        located = TRY(find_and_lock_in_team(txn, wanted, name, pos));
    } else {
        env_.locks->prefetch(name);
        // Errors without a lock are ignored: the index may have been dropped (CA-2).
        located = locate(txn, wanted, false, pos).has_value();
        if (pos.found) {
            prefetch_record(pos, out.capacity);
            env_.pool->prefetch_for_change(pos.at);
        }
        TRY(lock_key(txn, wanted, name, txn::LockMode::X));
    }
    if (Upkeep* upkeep = upkeep_for(txn)) [[unlikely]]
        return modify_slowly(txn, wanted, out, change, upkeep);
    if (!located || !pos.found || (slots(*pos.at.page)[pos.slot].bits & (kGhost | kOverflow)) != 0)
        [[unlikely]]
        return modify_slowly(txn, wanted, out, change, nullptr);
    const Slice now = value(*pos.at.page, pos.slot);
    out.bytes = now.size();
    copy_bytes(reinterpret_cast<char*>(out.fixed), now.substr(0, out.capacity));
    if (!pos.valid()) [[unlikely]]
        return modify_slowly(txn, wanted, out, change, nullptr);

    const Altered altered = TRY(alter(txn, out, change));
    if (altered.part.empty()) return true;
    Target t;
    if (!env_.pool->upgrade(pos.at, pos.id, t.page)) [[unlikely]]
        return patch_locked(txn, wanted, altered.offset, altered.part);
    t.id = pos.id;
    t.slot = pos.slot;
    t.found = true;
    t.name = name.value;
    TRY(overwrite(txn, t, wanted.slice(), altered.offset, altered.part));
    t.page.release();
    remember(txn, pos.id, pos.slot, pos.leaves_freed);
    return true;
}

// The key's lock is held.
Result<bool> BTree::modify_slowly(txn::Transaction& txn, const SearchKey& key, ValueOut& out,
                                  Change change, Upkeep* upkeep) {
    // A secondary index refuses, before the application is asked.
    if (upkeep != nullptr && upkeep->secondary() != nullptr)
        return upkeep->patch(txn, key.slice(), 0, {});
    if (!TRY(read_locked(txn, key, out))) return false;
    const Altered altered = TRY(alter(txn, out, change));
    if (altered.part.empty()) return true;
    return upkeep != nullptr ? upkeep->patch(txn, key.slice(), altered.offset, altered.part)
                             : patch_locked(txn, key, altered.offset, altered.part);
}

}  // namespace lockstep::sm
