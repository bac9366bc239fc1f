// btree.h - B-tree index: variable-length keys in memcmp order, values inline or in overflow
// chains, key and gap locks.
//
// Concepts   Slotted pages have fence keys, prefix truncation and 4-byte key heads in the slots
//            (btree_node.h). The root's page id never changes.
//            Descents are optimistic: they hold no latch and validate versions. After two failed
//            validations the leaf is latched.
//            Deletes leave ghosts. A deleted key stays lockable and undoable until the ghost
//            cleaner removes its ghost.
//            A gap lock on key k protects the open gap between k's predecessor and k. The gap above
//            the last key has end_lock_name.
//            Every operation locks its own key's name, whether or not the key exists, before its
//            answer counts. Names are hashes, and an insert locks its key too. So the lock on that
//            name also protects "no such key", and point operations need no gap lock.
// Invariants BT-1 Keys of a node ascend strictly and lie within its fences (low <= key < high).
//            BT-2 A node's fences equal the separators around its entry in the parent; siblings'
//                 fences meet.
//            BT-3 A thread never waits for a lock while it holds a latch: it tries, releases,
//                 waits, searches again and checks again.
//            BT-4 At the moment it changes the page, an insert sees no other transaction's gap_read
//                 on the gap below its next key.
//            BT-5 No leaf is empty unless it is the root, so the next key is never more than one
//                 sibling away.
//            BT-6 A remembered page number counts only while no leaf of the tree has been freed
//                 since (leaves_freed()).
// Blocking   Every operation may park for locks, pages, latches and log space. The transaction must
//            belong to the calling thread.
// Source     Graefe, "Modern B-Tree Techniques", 2011; Mohan, ARIES/KVL and ARIES/IM; Leis et al.,
//            "Optimistic lock coupling", 2019.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sm/buffer/buffer_pool.h"
#include "sm/core/env.h"
#include "sm/core/record.h"
#include "sm/core/structure_report.h"
#include "sm/space/space_map.h"

namespace lockstep::sm {

class BTreeCursor;

class BTree {
public:
    BTree(Env& env, ObjectId id, PageId root);

    // Makes an empty tree: allocates and formats its root leaf. With `txn` this is a change whose
    // rollback frees the leaf; with null it is permanent.
    static Result<PageId> create(Env& env, ObjectId id, txn::Transaction* txn = nullptr);
    // Frees all its pages. The object's lock is held exclusively and no cursor is open.
    Result<void> destroy();

    ObjectId id() const { return id_; }
    PageId root() const { return root_; }
    txn::ObjectLock& lock() { return lock_; }
    // Its pages may belong to another object now, so the ghost cleaner skips it.
    bool destroyed() const { return destroyed_; }

    // True and the value if the key exists; false otherwise. Except at read_committed, the answer
    // holds until the transaction ends.
    Result<bool> fetch(txn::Transaction& txn, Slice key, Access access, ValueOut& out) {
        return in_uncached_team() ? fetch_in_team(txn, key, access, out)
                                  : fetch_alone(txn, key, access, out);
    }
    // The same for many keys; returns the number found.
    Result<size_t> fetch_many(txn::Transaction& txn, std::span<Lookup> rows, Access access);
    // The transaction's next operation tries `hint` first.
    void note_hint(txn::Transaction& txn, const RecordHint& hint) const;
    // Errors: duplicate_key, key_too_long, value_too_long, and those of locks and space.
    Result<void> insert(txn::Transaction& txn, Slice key, Slice value);
    // Inserts in this order; records that become neighbours in a leaf are one change. After an
    // error the records before the failed one are in.
    Result<void> insert_many(txn::Transaction& txn, std::span<const NewRecord> records);
    // Replaces the whole value; false: no such key. If the length stays, only the differing byte
    // range is logged.
    Result<bool> update(txn::Transaction& txn, Slice key, Slice value);
    // Replaces bytes [offset, offset + part.size()) of the value. Error: bad_argument if they do
    // not lie within it.
    Result<bool> patch(txn::Transaction& txn, Slice key, size_t offset, Slice part);
    Result<bool> erase(txn::Transaction& txn, Slice key);

    // Bulk load into an empty tree from strictly ascending keys. Pages are filled to `fill` percent
    // (50..100) and logged whole. `next` gives one pair at a time, false at the end. The caller
    // holds the object's X lock. Pages that a crash leaves unreachable are on the drop list.
    Result<void> bulk_load(txn::Transaction& txn,
                           std::move_only_function<bool(Slice& key, Slice& value)> next,
                           uint32_t fill);

    // Rollback, called by undo_record() through log_kinds' table. Payloads as logged.
    Result<void> undo_insert(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_insert_many(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_update(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_erase(txn::Transaction& txn, const txn::LogRecordView& record);

    Result<void> undo_bulk(txn::Transaction& txn, const txn::LogRecordView& record);

    // Removes unlocked ghosts from the leaf that holds `key`, and merges the leaf with a neighbour
    // if both fit. For the cleaner.
    struct Cleaned {
        uint32_t removed = 0;
        uint32_t left = 0;  // ghosts that stay for now
    };
    Result<Cleaned> clean_leaf(Slice key);
    // Frees the overflow chain `chain` that begins at `first`, unless the record of `key` refers to
    // it or is locked. False: locked, try again later.
    Result<bool> clean_chain(Slice key, PageId first, uint64_t chain);

    using Report = StructureReport;
    // Checks every invariant; the tree must be quiet.
    Result<Report> verify();

    struct Stats {
        std::atomic<uint64_t> splits{0}, merges{0}, restarts{0}, latched_descents{0},
            ghosts_removed{0}, ghosts{0};
        // Slots of the level-1 node that a team saw last: how much of the next one to prefetch.
        std::atomic<uint32_t> inner_slots{256};
        // What descents in teams found missing in the CPU's caches: nothing, the leaves, or the
        // leaves and their latch words. A hint.
        enum class Uncached : uint8_t { nothing, leaves, leaves_and_words };
        std::atomic<Uncached> uncached{Uncached::nothing};
    };
    Stats& stats() { return stats_; }
    // Counts leaves that became free; it grows while the page is still latched. BT-6: a page number
    // remembered from before is not used again. The pool may read an old copy of that page, which
    // looks like a leaf of this tree.
    uint32_t leaves_freed() const { return leaves_freed_.load(std::memory_order_acquire); }

    struct Ops;      // the tree's own files only: btree_impl.h
    struct Descent;  // btree_descent.h

private:
    friend class BTreeCursor;
    [[gnu::noinline]] Result<size_t> insert_run(txn::Transaction& txn,
                                                std::span<const NewRecord> records);
    [[gnu::cold, gnu::noinline]] Result<size_t> fetch_each(txn::Transaction& txn,
                                                           std::span<Lookup> rows, Access access);
    [[gnu::noinline]] Result<size_t> fetch_group(txn::Transaction& txn, std::span<Lookup> rows,
                                                 Access access);
    // The thread runs CTX points, and the tree does not stay in the caches.
    bool in_uncached_team() const {
        return threads::worker_local.points &&
               stats_.uncached.load(std::memory_order_relaxed) != Stats::Uncached::nothing;
    }
    // Variables live at a CTX point lie on the stack. A fetch without points has a frame of its
    // own, so it does not pay for them.
    [[gnu::noinline]] Result<bool> fetch_alone(txn::Transaction& txn, Slice key, Access access,
                                               ValueOut& out);
    [[gnu::noinline]] Result<bool> fetch_in_team(txn::Transaction& txn, Slice key, Access access,
                                                 ValueOut& out);
    [[gnu::noinline]] Result<bool> fetch_specially(txn::Transaction& txn, Slice key, ValueOut& out);

    Env& env_;
    const ObjectId id_;
    const PageId root_;
    txn::ObjectLock lock_;
    bool destroyed_ = false;  // under the ghost cleaner's turn
    Stats stats_;
    std::atomic<uint32_t> leaves_freed_{0};
};

// Walks keys in order, in both directions, under the transaction's isolation. It survives splits,
// merges and changes by its own transaction: it remembers its key and searches again if its leaf
// has changed.
class BTreeCursor {
public:
    // Range [low, high); an empty high means up to the end. `access` is the lock taken on each key.
    BTreeCursor(BTree& tree, txn::Transaction& txn, Slice low, Slice high, Access access);
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
    struct Ops;
    void assert_state() const {
        DCHECK(now_ <= 1 && key_bytes_ <= kKeyBytesMax && leaves_to_look_ != 0);
        DCHECK(bounded_ == !high_.empty());
        DCHECK(!gives_back_ || access_ == Access::read);
        DCHECK((page_ == nullptr) == (word_ == nullptr));
        DCHECK(leaf_ == kPageNone || (positioned_ && page_ != nullptr));
        DCHECK(!ghosts_passed_);  // only while a step is made
        DCHECK(!positioned_ || !bounded_ || key() < Slice(high_));
    }
    [[gnu::cold, gnu::noinline]] void look_ahead(Slice at, bool up);  // btree_ahead.cc
    void leave_leaf(Slice at, bool up) {
        if (--leaves_to_look_ == 0) [[unlikely]]
            look_ahead(at, up);
    }

    BTree& tree_;
    txn::Transaction& txn_;
    std::string low_, high_, large_value_, last_record_;
    Slice value_;  // in inline_value_ or large_value_
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
    txn::LockMode mode_;        // of the lock on each key
    bool gives_back_ = false;   // read_committed: read locks are not kept,
    bool held_before_ = false;  // unless the candidate's was held before
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
    // Leaves to leave until the next check for read-ahead; not 0.
    uint16_t leaves_to_look_ = 2;
    // Leaves to read ahead at the next check; 0: none were missing.
    uint16_t ahead_window_ = 0;
    char keys_[2][kKeyBytesMax + 16];  // with sixteen zeros behind the key
    char inline_value_[2048];
};

}  // namespace lockstep::sm
