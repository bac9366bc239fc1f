// btree_cursor.h - ordered scans of a B-tree under the transaction's isolation, both ways.
//
// Concepts   The cursor remembers the key it stands on and the leaf's version. A step reads the
//            next record optimistically, validates, locks it, and copies it (btree_cursor.cc).
//            A snapshot's steps do the same without a lock, in leaves that have not changed since
//            the snapshot began (sm/version/quiet.h). From the first other leaf on, SnapshotScan
//            copies leaves with the versions of their records and the keys that have left them.
// Blocking   next(), prev() and patch() may park for locks, pages and latches. The transaction must
//            belong to the calling thread.
#pragma once

#include <string>

#include "sm/btree/btree.h"
#include "sm/btree/btree_ahead.h"
#include "sm/btree/btree_snapshot.h"
#include "sm/btree/key_copy.h"
#include "threads/base/spare_blocks.h"
#include "threads/thread/worker_local.h"
#include "txn/lock/lock_manager.h"

namespace lockstep::sm {

struct OverflowRef;

// Walks keys in order, in both directions, under the transaction's isolation. It survives splits,
// merges and changes by its own transaction: it remembers its key and searches again if its leaf
// has changed.
class BTreeCursor {
public:
    // Range [low, high); an empty high means up to the end. `access` is the lock taken on each key.
    BTreeCursor(BTree& tree, txn::Transaction& txn, Slice low, Slice high, Access access,
                IfLocked if_locked = IfLocked::wait);
    // Cursors come and go with each scan: the worker keeps their memory.
    static void* operator new(size_t bytes) {
        DCHECK(bytes <= threads::SpareBlocks::kBytes);
        return threads::SpareBlocks::take(threads::worker_local.blocks);
    }
    static void operator delete(void* cursor) {
        threads::SpareBlocks::give(threads::worker_local.blocks, cursor);
    }
    // Next or previous record; false at the range's end. The first call of next() gives the
    // smallest key of the range, of prev() the largest. Both may be mixed. After false the cursor
    // stays on its last record.
    Result<bool> next();
    Result<bool> prev();
    // Replaces bytes [offset, offset + part.size()) of the current record's value; false: the
    // record is gone. Errors as BTree::patch().
    Result<bool> patch(size_t offset, Slice part);
    // Of the current record; valid until the cursor moves. The value is copied out of the page
    // (overflow included).
    Slice key() const { return {keys_[now_], key_bytes_}; }
    Slice value() const { return value_; }

private:
    using Position = BTree::Position;
    using Side = BTree::Side;
    // unquiet: the next leaf has changed since the snapshot began.
    enum class Step : uint8_t { record, ghost, end, again, unquiet };
    // How long the lock on a record that was read stays: until the end of the transaction, or as
    // long as it is read (read_committed). none: a snapshot needs no lock.
    enum class Keeps : uint8_t { lock, moment, none };

    bool serializable() const { return txn::rules_of(txn_.isolation).locks_gaps; }
    // What the snapshot sees of the leaf may be more or less than the leaf has.
    bool unquiet(const Position& pos) const;
    // Locks.
    // False: wait() for it.
    bool lock(txn::LockName name, txn::LockMode mode) {
        return tree_.env().locks->try_lock_record(txn_.locks, tree_.lock(), name, mode);
    }
    // The same for what was read under `hold`: the lock is tried under the latch and waited for
    // without it (BT-3). Releasing the latch first would let a waiting writer in before every
    // validation, and the scan would make no progress.
    bool lock(txn::LockName name, txn::LockMode mode, SharedPage& hold) {
        if (hold) [[unlikely]] {
            if (lock(name, mode)) return true;
            hold.release();
        }
        return lock(name, mode);
    }
    Result<bool> lock_key(txn::LockName name, SharedPage& hold);
    [[gnu::noinline]] Result<bool> look_at_key(txn::LockName name, SharedPage& hold);
    [[gnu::cold, gnu::noinline]] bool lock_briefly(txn::LockName name, SharedPage& hold);
    void unlock_read(txn::LockName name) {
        if (to_unlock_) [[unlikely]]
            tree_.env().locks->unlock(txn_.locks, name, txn::LockMode::S);
    }
    [[gnu::cold, gnu::noinline]] void keep_for_next_try(txn::LockName name);
    [[gnu::noinline]] void unlock_kept();
    // Waits for the lock on a key that lock() refused. False: it is not to be waited for, and the
    // step passes the key over.
    [[gnu::cold, gnu::noinline]] Result<bool> wait(txn::LockName name, Slice key);
    // The same for gap_read on the gap below a key, at the end if there is none.
    [[gnu::cold, gnu::noinline]] Result<void> wait_for_gap_below(txn::LockName name,
                                                                 const Slice* key);
    bool never_waits() const { return if_locked_ != IfLocked::wait; }
    txn::LockName name_of(Slice candidate) const;
    // Where the next candidate is.
    bool same_leaf(Position& pos);
    [[gnu::noinline]] bool find_again(Position& pos);
    Result<bool> seek(const node::SearchKey& key, Side side, unsigned tries, Position& pos,
                      SharedPage& hold);
    [[gnu::noinline]] Result<bool> enter_leaf(unsigned tries, Position& pos, SharedPage& hold);
    [[gnu::noinline]] Result<Step> next_leaf(Position& pos, OptimisticPage& before,
                                             SharedPage& hold);
    // Hints to the CPU, for forward scans; ask_for_record() for both directions.
    void ask_for_record(const Page& page, unsigned slot) const;
    void ask_for_next(const Page& page, unsigned slot) const;
    void ask_for_leaf_behind(const Page& page) const;
    // Reading it.
    void copy_value(Slice value);
    bool read_key(const Position& pos, Slice& key);
    bool beyond(Slice key) const;
    [[gnu::always_inline]] Result<Step> take(Position& pos, const OptimisticPage* before, Slice key,
                                             bool leaf_changed, SharedPage& hold);
    [[gnu::cold, gnu::noinline]] Result<Step> take_overflow(const OverflowRef& ref,
                                                            txn::LockName name);
    void make_current(const Position& pos, Slice key, bool leaf_changed);
    // Steps; the argument counts failed tries in a row.
    [[gnu::always_inline]] Result<Step> step_inside();
    Result<Step> stop_before(Slice key, const OptimisticPage& at, SharedPage& hold);
    [[gnu::always_inline]] Result<Step> forward(unsigned tries);
    Result<Step> backward(unsigned tries);
    Result<Step> first_backward(Position& pos, bool passed, SharedPage& hold);
    [[gnu::cold, gnu::noinline]] Result<unsigned> try_again(unsigned tries);
    // A step, made until it succeeds.
    template <Result<Step> (BTreeCursor::*step)(unsigned)>
    Result<Step> move_once();
    template <Result<Step> (BTreeCursor::*step)(unsigned)>
    Result<Step> move();
    // Steps of a snapshot that are not inside the leaf of the step before.
    [[gnu::noinline]] Result<bool> move_in_snapshot(bool up);
    void begin_snapshot_scan();
    Result<bool> move_snapshot_scan(bool up);
    template <Result<Step> (BTreeCursor::*step)(unsigned)>
    [[gnu::noinline]] Result<Step> move_over_ghosts();
    [[gnu::noinline]] void leave_record();
    [[gnu::cold, gnu::noinline]] Result<Step> stay(Result<Step> made, bool overwritten);
    [[gnu::cold, gnu::noinline]] Result<void> read_again();
    void assert_state() const {
        DCHECK(now_ <= 1 && key_bytes_ <= kKeyBytesMax);
        DCHECK(bounded_ == !high_.empty());
        DCHECK(keeps_ == Keeps::lock || access_ == Access::read);
        DCHECK((keeps_ == Keeps::none) == (sees_ != nullptr));
        DCHECK(!snapshot_scan_ || leaf_ == kPageNone);
        DCHECK((page_ == nullptr) == (word_ == nullptr));
        DCHECK(leaf_ == kPageNone || (positioned_ && page_ != nullptr));
        // Only while a step is made.
        DCHECK(!ghosts_passed_ && !overwritten_ && kept_ == txn::LockName{});
        DCHECK(!positioned_ || !bounded_ || key() < Slice(high_));
    }
    void leave_leaf(Slice at, bool up) {
        if (ahead_.due()) [[unlikely]]
            ahead_.look(tree_, at, up, low_, high_);
    }

    BTree& tree_;
    txn::Transaction& txn_;
    const KeyCopy low_, high_;
    std::string large_value_, last_record_;
    const Snapshot* sees_ = nullptr;               // of a snapshot transaction
    std::unique_ptr<SnapshotScan> snapshot_scan_;  // reads from the first changed leaf on
    Slice value_;                                  // in inline_value_ or large_value_
    // First eight bytes of high_ as a number, zeros behind its end.
    uint64_t high_head_ = 0;
    bool bounded_ = false;
    bool positioned_ = false;
    // The whole leaf_ lies below high_, so no key needs a comparison.
    bool inside_ = false;
    // The current key is a ghost's. If was_positioned_, last_record_ is the record before it.
    bool ghosts_passed_ = false;
    bool was_positioned_ = false;
    // prev() has protected the gap above the largest key.
    bool gap_above_locked_ = false;
    Access access_;
    IfLocked if_locked_;
    txn::LockMode mode_;         // of the lock on each key
    Keeps keeps_ = Keeps::lock;  // what is read
    bool to_unlock_ = false;     // the candidate's lock was taken for this read alone
    bool intended_ = false;      // the index has the intention that a look needs
    bool waited_ = false;        // since the last try: for a lock
    // A try of this step has copied the candidate over the current record's value, in vain.
    bool overwritten_ = false;
    // A lock for this read alone that is held until the next try. Zero: no lock.
    txn::LockName kept_{};
    // keys_[now_] is the current key, the other one is that of the candidate.
    uint8_t now_ = 0;
    PageId leaf_ = kPageNone;  // hint: where the key was found
    // The leaf in its frame, and its latch word. While the word's version equals that of snapshot_,
    // what was read from the leaf is still true.
    const Page* page_ = nullptr;
    const threads::LatchWord* word_ = nullptr;
    uint64_t snapshot_ = 0;      // the leaf's word then
    uint32_t leaves_freed_ = 0;  // before leaf_ was found
    uint16_t slot_ = 0;
    uint16_t key_bytes_ = 0;
    uint16_t record_bytes_ = 0;  // of the last record that lay in its leaf, about
    LookAhead ahead_;
    char keys_[2][kKeyBytesMax + 16];      // with sixteen zeros behind the key
    alignas(16) char inline_value_[3008];  // as `new` would, for readers of numbers
};
static_assert(sizeof(BTreeCursor) <= threads::SpareBlocks::kBytes);

}  // namespace lockstep::sm
