// btree.h - B-tree index: variable-length keys in memcmp order, values inline or in overflow
// chains, key and gap locks.
//
// Concepts   Slotted pages with fence keys, prefix truncation and 4-byte key heads in the slots
//            (btree_node.h). The root's page id never changes. Descents are optimistic: no latch,
//            versions validated; after two failed validations the leaf is latched. Deletes leave
//            ghosts, so a deleted key stays lockable and undoable until the ghost cleaner removes
//            it. A gap lock on key k protects the open gap between k's predecessor and k; the gap
//            above the last key has end_lock_name. Every operation locks its own key's name before
//            it searches, whether or not the key exists: names are hashes, and an insert locks its
//            key too. So "no such key" is protected by the lock on that very name and needs no gap
//            lock.
// Invariants BT-1 Keys of a node are strictly ascending and lie within its fences (low <= key <
// high).
//            BT-2 A node's fences equal the separators around its entry in the parent; siblings'
//            fences meet.
//            BT-3 A lock is never waited for while a latch is held: try, release, wait, search
//            again, check again.
//            BT-4 An insert sees its next key's gap free of others' gap_read at the moment it
//            changes the page.
//            BT-5 No leaf is empty unless it is the root, so the next key is never more than one
//            sibling away.
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

    // Makes an empty tree: allocates and formats its root leaf, as a change of `txn` whose rollback
    // frees it, or for good (null).
    static Result<PageId> create(Env& env, ObjectId id, txn::Transaction* txn = nullptr);
    // Frees all its pages (the store's lock is held exclusively and no cursor is open).
    Result<void> destroy();

    ObjectId id() const { return id_; }
    PageId root() const { return root_; }
    txn::ObjectLock& lock() { return lock_; }
    // Its pages may be somebody else's: the ghost cleaner keeps away.
    bool destroyed() const { return destroyed_; }

    // True and the value if the key exists; false otherwise. Either stays true until the
    // transaction ends (except at read_committed).
    Result<bool> fetch(txn::Transaction& txn, Slice key, Access access, ValueOut& out) {
        return in_uncached_team() ? fetch_in_team(txn, key, access, out)
                                  : fetch_alone(txn, key, access, out);
    }
    // The same for many keys; the number found.
    Result<size_t> fetch_many(txn::Transaction& txn, std::span<Lookup> rows, Access access);
    // The transaction's next operation looks there first.
    void note_hint(txn::Transaction& txn, const RecordHint& hint) const;
    // Errors: duplicate_key, key_too_long, value_too_long, and those of locks and space.
    Result<void> insert(txn::Transaction& txn, Slice key, Slice value);
    // One after the other; those that come to stand side by side go in together. After an error the
    // ones in front of the bad one are in.
    Result<void> insert_many(txn::Transaction& txn, std::span<const NewRecord> records);
    // Replace the whole value; false: no such key. Only the differing byte range is logged when the
    // length stays.
    Result<bool> update(txn::Transaction& txn, Slice key, Slice value);
    // Replace bytes [offset, offset + part.size()) of the value, which must lie within it
    // (bad_argument otherwise).
    Result<bool> patch(txn::Transaction& txn, Slice key, size_t offset, Slice part);
    Result<bool> erase(txn::Transaction& txn, Slice key);

    // Bulk load into an empty tree from strictly ascending keys: pages are built full (fill in
    // percent, 50..100) and logged whole. `next` gives one pair at a time, false at the end. The
    // caller holds the store's X lock. Pages that a crash leaves in the air are on the drop list.
    Result<void> bulk_load(txn::Transaction& txn,
                           std::move_only_function<bool(Slice& key, Slice& value)> next,
                           uint32_t fill);

    // Rollback, called by undo_record through log_kinds' table. Payloads as logged.
    Result<void> undo_insert(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_insert_many(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_update(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_erase(txn::Transaction& txn, const txn::LogRecordView& record);

    Result<void> undo_bulk(txn::Transaction& txn, const txn::LogRecordView& record);

    // Removes ghosts nobody has locked from the leaf that holds `key`, and merges it with a
    // neighbour if both fit. For the cleaner.
    struct Cleaned {
        uint32_t removed = 0;
        uint32_t left = 0;  // ghosts that stay for now
    };
    Result<Cleaned> clean_leaf(Slice key);
    // Frees the overflow chain `chain` that began at `first` unless the record of `key` refers to
    // it or is locked. False: locked, try again later.
    Result<bool> clean_chain(Slice key, PageId first, uint64_t chain);

    using Report = StructureReport;
    // Checks every invariant; the tree must be quiet.
    Result<Report> verify();

    struct Stats {
        std::atomic<uint64_t> splits{0}, merges{0}, restarts{0}, latched_descents{0},
            ghosts_removed{0}, ghosts{0};
        // Of the level-1 node that a team saw last: how much of the next to prefetch.
        std::atomic<uint32_t> inner_slots{256};
        // What descents in teams found to be missing from the CPU's caches: nothing, the leaves, or
        // the leaves and the latch words that lead to them. A hint.
        enum class Uncached : uint8_t { nothing, leaves, leaves_and_words };
        std::atomic<Uncached> uncached{Uncached::nothing};
    };
    Stats& stats() { return stats_; }
    // Goes up, with the page still latched, whenever a page that was a leaf becomes free. BT-6: a
    // page number remembered from before is not looked at again: the page may be read back from the
    // volume as it was long ago, and pass for a leaf of this tree.
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
    // There are points to pass, and the tree does not stay in the caches: something to wait for.
    bool in_uncached_team() const {
        return threads::worker_local.points &&
               stats_.uncached.load(std::memory_order_relaxed) != Stats::Uncached::nothing;
    }
    // What is live at a CTX point is on the stack: a fetch without points has a frame of its own,
    // not to pay for that.
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

// Walks keys in order, either way, under the transaction's isolation. Survives splits, merges and
// changes by its own transaction: it remembers the key it stands on and searches again if its leaf
// has changed.
class BTreeCursor {
public:
    // A range [low, high) or, with high empty, up to the end; `access` is the lock taken on each
    // key.
    BTreeCursor(BTree& tree, txn::Transaction& txn, Slice low, Slice high, Access access);
    // Next or previous record; false at the range's end. First call of next() gives the smallest,
    // of prev() the largest key of the range. Both may be mixed; after false the cursor stays where
    // it was last.
    Result<bool> next();
    Result<bool> prev();
    // Replaces bytes [offset, offset + part.size()) of the current record's value; false: it is
    // there no more. Errors as BTree::patch().
    Result<bool> patch(size_t offset, Slice part);
    // Of the current record; valid until the cursor moves. The value is copied out of the page
    // (overflow included).
    Slice key() const { return {keys_[now_], key_bytes_}; }
    Slice value() const { return value_; }

private:
    struct Ops;
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
    // The whole leaf_ lies below high_: no need to compare.
    bool inside_ = false;
    // The key is a ghost's; last_record_ is where the cursor stood before, if was_positioned_.
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
    // The leaf in its frame, and its word: while the version is snapshot_'s, all that was seen.
    const Page* page_ = nullptr;
    const threads::LatchWord* word_ = nullptr;  // of it is still true
    uint64_t snapshot_ = 0;                     // the leaf's word then
    uint32_t leaves_freed_ = 0;                 // before leaf_ was found
    uint16_t slot_ = 0;
    uint16_t key_bytes_ = 0;
    // Leaves to be left behind until the next look for read-ahead; not 0.
    uint16_t leaves_to_look_ = 2;
    // Leaves to ask for ahead at the next look; 0: none were missing.
    uint16_t ahead_window_ = 0;
    char keys_[2][kKeyBytesMax + 16];  // with sixteen zeros behind the key
    char inline_value_[2048];
};

}  // namespace lockstep::sm
