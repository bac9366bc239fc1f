// btree_fetch.cc - point reads.
//
// Concepts   The lock on the key's name protects the answer, whether or not the key exists. So "no
//            such key" needs no gap lock, and a search under the lock needs no repetition after a
//            wait. A read that fails validation is repeated; the lock stays.
//            The descent to the leaf may come before the lock. Its result counts only if the leaf's
//            version is unchanged after the record was read under the lock. Then it equals a search
//            made under the lock. So the lock's bucket is loaded during the descent, and the record
//            while the lock is taken.
//            At read_committed a read takes no lock where the lock table shows no writer (LM-9).
#include "sm/btree/btree_descent.h"
#include "sm/btree/overflow.h"
#include "sm/core/lock_wait.h"
#include "threads/base/hints.h"
#include "threads/base/sim_point.h"
#include "threads/steps/ctx.h"

namespace lockstep::sm {

using namespace node;

namespace {

// Bytes of a record that are fetched: most have fewer.
constexpr size_t kRecordAhead = 192;

// The record's first lines, of `bytes` at most. Its length is in the record: not to be read now.
inline void prefetch_record(const BTree::Position& pos, size_t bytes) {
    const char* const at = chars(*pos.at.page) + slots(*pos.at.page)[pos.slot].at;
    prefetch_line(at);
    for (size_t line = kCacheLineBytes; line < std::min(bytes, kRecordAhead);
         line += kCacheLineBytes)
        prefetch_line(at + line);
}

// Special cases: a snapshot, no lock to be kept, or an invalid key.
inline bool is_special(const txn::Transaction& txn, Slice key, Access access) {
    const txn::IsolationRules rules = txn::rules_of(txn.isolation);
    return key.size() > kKeyBytesMax ||
           (!rules.keeps_reads && (access == Access::read || rules.by_snapshot));
}

// The key's lock is held, so the record cannot change; its page can. The caller's look at the leaf,
// if it had one, did not help.
Result<bool> read_record(BTree& tree, BufferPool& pool, txn::Transaction& txn, const SearchKey& key,
                         ValueOut& out) {
    DCHECK(threads::current()->latch_depth == 0);
    SharedPage hold;
    for (unsigned tries = 0;; ++tries) {
        BTree::Position pos;
        if (tries < kOptimisticTries) [[likely]] {
            TRY(tree.locate(txn, key, false, pos));
        } else {
            TRY(tree.backoff(tries, tree.root()));
            if (!TRY(tree.latch_leaf_shared(key, BTree::Side::covering, pos, hold))) continue;
            const Found f = search(*pos.at.page, key);
            pos.slot = f.slot;
            pos.found = f.exact;
        }
        const Copied copied = copy_record(pos, out);
        if (copied == Copied::changed) continue;
        if (copied == Copied::large) [[unlikely]] {
            const OverflowRef ref = overflow_ref(value(*pos.at.page, pos.slot));
            if (!pos.valid()) continue;
            hold.release();
            TRY(read_overflow(pool, tree.id(), ref, out));
            return true;
        }
        tree.remember(txn, pos.id, pos.slot, pos.leaves_freed);
        return copied == Copied::found;
    }
}

// The same with a look at the leaf to begin with, if there is one: mostly it suffices.
[[gnu::always_inline]] inline Result<bool> read_record_at(BTree& tree, BufferPool& pool,
                                                          txn::Transaction& txn,
                                                          const SearchKey& key,
                                                          const BTree::Position& pos, bool located,
                                                          ValueOut& out) {
    DCHECK(threads::current()->latch_depth == 0);
    const Copied copied = located ? copy_record(pos, out) : Copied::changed;
    if (copied != Copied::found && copied != Copied::absent) [[unlikely]]
        return read_record(tree, pool, txn, key, out);
    tree.remember(txn, pos.id, pos.slot, pos.leaves_freed);
    return copied == Copied::found;
}

}  // namespace

Result<bool> BTree::read_locked(txn::Transaction& txn, const SearchKey& key, ValueOut& out) {
    return read_record(*this, *env_.pool, txn, key, out);
}

// The first half of a fetch in a team without a lock: finds the leaf and loads the record. False:
// the leaf was not found yet.
inline Result<bool> BTree::locate_in_team(txn::Transaction& txn, const SearchKey& key,
                                          txn::LockName name, Position& pos) {
    Expect expected;
    if (!Descent::locate_ahead<true>(*this, txn, key, name, pos, expected)) return false;
    if (expected != Expect::uncached || !pos.found) return true;
    if (threads::worker_local.prefetch) prefetch_record(pos, kRecordAhead);
    CTX(record);
    return revalidate(key, pos);
}

// The same for a key that is to be locked, while the record is being loaded. False: the leaf was
// not found yet.
inline Result<bool> BTree::lock_in_team(txn::Transaction& txn, const SearchKey& key,
                                        txn::LockName name, txn::LockMode mode, Position& pos) {
    Expect expected;
    const bool located = Descent::locate_ahead<true>(*this, txn, key, name, pos, expected);
    const bool uncached = located && expected == Expect::uncached && pos.found;
    if (located && threads::worker_local.prefetch) {
        if (uncached) prefetch_record(pos, kRecordAhead);
        if (mode != txn::LockMode::S) env_.pool->prefetch_for_change(pos.at);
    }
    TRY(lock_key(txn, key, name, mode));
    if (!uncached) return located;
    CTX(record);
    return revalidate(key, pos);
}

Result<bool> BTree::fetch_specially(txn::Transaction& txn, Slice key, Access access,
                                    ValueOut& out) {
    return txn::rules_of(txn.isolation).by_snapshot ? fetch_snapshot(txn, key, access, out)
                                                    : fetch_committed(txn, key, out);
}

// A read at read_committed, without a lock on the key (LM-9). The look at the lock table comes
// between two looks at the leaf's version, so it cannot be made before the leaf is found.
Result<bool> BTree::fetch_committed(txn::Transaction& txn, Slice key, ValueOut& out) {
    if (key.size() > kKeyBytesMax) return key_too_long(key.size());
    txn::LockManager& locks = *env_.locks;
    const SearchKey wanted(key);
    const txn::LockName name = wanted.lock_name(id_);
    TRY(locks.lock_object(txn.locks, lock_, txn::LockMode::IS));
    if (!threads::worker_local.points) locks.prefetch(name);
    for (unsigned tries = 0; tries < kOptimisticTries; ++tries) {
        SIM_POINT();
        Position pos;
        if (threads::worker_local.points) {
            if (!TRY(locate_in_team(txn, wanted, name, pos))) continue;
        } else {
            TRY(locate(txn, wanted, false, pos));
            if (pos.found) prefetch_record(pos, out.fixed ? out.capacity : kRecordAhead);
        }
        SIM_POINT();
        if (!locks.only_committed(txn.locks, name)) break;
        SIM_POINT();
        const Copied copied = copy_record(pos, out);
        // What a large value consists of may be freed: it needs the lock.
        if (copied == Copied::large) [[unlikely]]
            break;
        if (copied == Copied::changed) [[unlikely]]
            continue;
        remember(txn, pos.id, pos.slot, pos.leaves_freed);
        return copied == Copied::found;
    }
    return fetch_briefly_locked(txn, wanted, name, out);
}

// The same with a lock that is released behind the read, unless it was held before.
Result<bool> BTree::fetch_briefly_locked(txn::Transaction& txn, const SearchKey& key,
                                         txn::LockName name, ValueOut& out) {
    const bool held_before = txn::covers(env_.locks->held(txn.locks, name), txn::LockMode::S);
    TRY(lock_key(txn, key, name, txn::LockMode::S));
    Result<bool> found = read_locked(txn, key, out);
    if (!held_before) env_.locks->unlock(txn.locks, name, txn::LockMode::S);
    return found;
}

Result<bool> BTree::fetch_alone(txn::Transaction& txn, Slice key, Access access, ValueOut& out) {
    if (is_special(txn, key, access)) [[unlikely]]
        return fetch_specially(txn, key, access, out);
    // Before the lock: what was just written is read late.
    const SearchKey wanted(key);
    const txn::LockName name = wanted.lock_name(id_);
    BTree::Position pos;
    Expect expected;
    const bool located = Descent::locate_ahead<false>(*this, txn, wanted, name, pos, expected);
    if (pos.found) {
        prefetch_record(pos, out.fixed ? out.capacity : kRecordAhead);
        if (access != Access::read) env_.pool->prefetch_for_change(pos.at);
    }
    TRY(lock_key(txn, wanted, name, mode_of(access)));
    return read_record_at(*this, *env_.pool, txn, wanted, pos, located, out);
}

Result<bool> BTree::fetch_in_team(txn::Transaction& txn, Slice key, Access access, ValueOut& out) {
    if (is_special(txn, key, access)) [[unlikely]]
        return fetch_specially(txn, key, access, out);
    const SearchKey wanted(key);
    BTree::Position pos;
    const bool located =
        TRY(lock_in_team(txn, wanted, wanted.lock_name(id_), mode_of(access), pos));
    return read_record_at(*this, *env_.pool, txn, wanted, pos, located, out);
}

}  // namespace lockstep::sm
