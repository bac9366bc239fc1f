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

#include <lockstep/function_ref.h>
#include "sm/buffer/buffer_pool.h"
#include "sm/core/env.h"
#include "sm/core/record.h"
#include "sm/core/structure_report.h"
#include "sm/space/space_map.h"
#include "sm/version/object_history.h"
#include "sm/version/record_state.h"

namespace lockstep::sm {

namespace node {
class KeyView;
class SearchKey;
}  // namespace node
struct LeafHint;
class Crew;
class Upkeep;
enum class ChangeRole : uint8_t;
enum class LogKind : uint16_t;

// The error of a key, or of a scan's bound, that has more than kKeyBytesMax bytes.
[[gnu::cold, gnu::noinline]] std::unexpected<Error> key_too_long(size_t bytes);

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
    ObjectHistory& history() { return history_; }
    const ObjectHistory& history() const { return history_; }
    // Its pages may belong to another object now, so the ghost cleaner skips it.
    bool destroyed() const { return destroyed_; }

    // From now on each change goes through `upkeep`, which must outlive the tree. Null: no longer.
    // The caller holds S on the object or more, or is alone (UP-1).
    void set_upkeep(Upkeep* upkeep) { upkeep_.store(upkeep, std::memory_order_release); }
    Upkeep* upkeep() const { return upkeep_.load(std::memory_order_acquire); }

    // True and the value if the key exists; false otherwise. Except at read_committed, the answer
    // holds until the transaction ends.
    Result<bool> fetch(txn::Transaction& txn, Slice key, Access access, ValueOut& out) {
        return in_uncached_team(txn) ? fetch_in_team(txn, key, access, out)
                                     : fetch_alone(txn, key, access, out);
    }
    // The same for many keys; returns the number found.
    Result<size_t> fetch_many(txn::Transaction& txn, std::span<Lookup> rows, Access access);
    // A read outside of transactions, if the pages are in memory and no change is open (LM-9).
    // unsure: nothing is known, and `out` may be anything. `seen`: how far the log must be durable
    // so that no crash takes back what was read. Any kernel thread; takes no lock, never parks.
    enum class FreeLook : uint8_t { unsure, absent, found };
    FreeLook look(Slice key, ValueOut& out, Lsn& seen) const;
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
    // Reads the value into `out` (fixed) as for a change, has `change` alter it there, and logs
    // what differs. False: no such key. Error: bad_argument if the altered range does not lie
    // within what was read.
    using Change = FunctionRef<ByteRange(std::span<std::byte> value)>;
    Result<bool> modify(txn::Transaction& txn, Slice key, ValueOut& out, Change change);
    // The same for many keys, in this order; the number found. `change` also gets the row's number.
    using ChangeMany = FunctionRef<ByteRange(size_t row, std::span<std::byte> value)>;
    Result<size_t> modify_many(txn::Transaction& txn, std::span<Lookup> rows, ChangeMany change);
    Result<bool> erase(txn::Transaction& txn, Slice key);
    // Erases the records of [low, high), or to the end if `high` is empty; their number. Those of a
    // leaf are one change. After an error nothing of it is left.
    Result<size_t> erase_range(txn::Transaction& txn, Slice low, Slice high);

    // Bulk load into an empty tree from strictly ascending keys. Pages are filled to `fill` percent
    // (50..100) and logged whole. `next` gives one pair at a time, false at the end. The caller
    // holds the object's X lock. Pages that a crash leaves unreachable are on the drop list.
    // No record, no ghost, and no erased record that a snapshot may see?
    Result<bool> is_empty() const;
    bool is_empty_root(const Page& root) const;
    Result<void> bulk_load(txn::Transaction& txn,
                           std::move_only_function<bool(Slice& key, Slice& value)> next,
                           uint32_t fill);

    // Rollback, called by undo_record() through log_kinds' table. Payloads as logged.
    Result<void> undo_insert(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_insert_many(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_update(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_update_many(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_erase(txn::Transaction& txn, const txn::LogRecordView& record);
    Result<void> undo_erase_many(txn::Transaction& txn, const txn::LogRecordView& record);

    Result<void> undo_bulk(txn::Transaction& txn, const txn::LogRecordView& record);

    // Removes unlocked ghosts from the leaf that holds `key`, and merges the leaf with a neighbour
    // if both fit. For the cleaner. `owned_chains`: also ghosts that own chains (overflow.h), whose
    // chains go first; one thread at a time.
    struct Cleaned {
        uint32_t removed = 0;
        uint32_t left = 0;  // ghosts that stay for now
        // They are unlocked, but no neighbour has room for the leaf (BT-5).
        bool stuck = false;
    };
    Result<Cleaned> clean_leaf(Slice key, bool owned_chains = true);
    // The leaf that holds `key`, and the smallest key of the next leaf; empty if there is no next.
    struct LeafGhosts {
        unsigned ghosts = 0;
        std::string next;
    };
    Result<LeafGhosts> leaf_ghosts(Slice key);

    // The record of `key` as its leaf has it, with the leaf latched; for versions.
    Result<void> see_record(Slice key, FunctionRef<void(const RecordState& state)> see);

    using Report = StructureReport;
    // Checks every invariant; the tree must be quiet.
    // On the calling thread, or on the crew's.
    Result<Report> verify(Crew* crew = nullptr);

    struct Stats {
        std::atomic<uint64_t> splits{0}, merges{0}, restarts{0}, latched_descents{0},
            ghosts_removed{0}, ghosts{0};
        // Slots of the level-1 node that a team saw last: how much of the next one to prefetch.
        std::atomic<uint32_t> inner_slots{256};
        // The same of leaves.
        std::atomic<uint32_t> leaf_slots{64};
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

    // Pages of a load that failed or was undone may be left: its entry stays on the drop list, so
    // that the next open frees them.
    void keep_load_listed() {
        DCHECK(id_.value != 0);
        load_stays_listed_.store(true, std::memory_order_relaxed);
    }
    bool load_stays_listed() const { return load_stays_listed_.load(std::memory_order_relaxed); }

    // --- For the tree's own files; btree_impl.h defines the types.
    // Of a key in a leaf: read optimistically, or with the leaf latched.
    struct Position;
    struct Target;
    struct NextKey;
    struct Descent;
    // The node that covers a key, or the node with the largest keys below it.
    enum class Side : uint8_t { covering, below };
    enum class GapCheck : uint8_t { clear, changed, wait_above, wait_own };
    using SearchKey = node::SearchKey;

    // btree_search.cc. The node of `level` on the descent to `key`; not validated. In a lower tree
    // the root, with its own level.
    Result<void> descend(const SearchKey& key, Side side, unsigned level, Position& out);
    // The rightmost leaf.
    Result<void> descend_last(Position& out);
    // The leaf that covers `key`, searched; through the transaction's hint if that looks promising.
    Result<void> locate(txn::Transaction& txn, const SearchKey& key, bool hint_first,
                        Position& out);
    // Whether the transaction has announced records.
    static bool has_places(const txn::Transaction& txn);
    // The announced place of `key`, or null.
    const LeafHint* place_of(txn::Transaction& txn, txn::LockName key) const;
    // The leaf and slot of `key` as that place tells, if it counts (BT-6). Not validated.
    bool take_place(const LeafHint& place, const node::KeyView& key, Position& out);
    // Both.
    [[gnu::noinline]] bool try_place(txn::Transaction& txn, const node::KeyView& key,
                                     Position& out);
    // Stores the leaf as the transaction's hint.
    void remember(txn::Transaction& txn, PageId leaf, unsigned slot, uint32_t leaves_freed) const;
    // After a switch: reads a fresh version of a searched leaf, and searches it again if it has
    // changed (LA-3). A page that others keep changing then costs a second search, never a starved
    // reader. False: the page is no longer the leaf for `key`.
    [[gnu::noinline]] bool revalidate(const SearchKey& key, Position& pos);
    // After failed validations: waits for a shared latch on the leaf that covers `key` (or lies
    // below it), so that the next read is valid.
    [[gnu::cold, gnu::noinline]] Result<bool> latch_leaf_shared(const SearchKey& key, Side side,
                                                                Position& out, SharedPage& hold);
    // The leaf that covers `key`, exclusively latched and searched; the leaf of `ahead` if that
    // position is still valid.
    Result<void> latch_for(txn::Transaction& txn, const SearchKey& key, bool hint_first,
                           Target& out, const Position* ahead = nullptr);
    // Called after `tries` failed tries in a row. Each failed try means a concurrent writer. After
    // kSpinRetries: sleeps 1 ms, in case the writer's kernel thread was preempted. After
    // kRetriesMax (about 2 s): corrupt_page, since the page's fences must be wrong.
    [[gnu::cold, gnu::noinline]] Result<void> backoff(unsigned tries, PageId page) const;
    [[gnu::cold, gnu::noinline]] std::unexpected<Error> damaged(PageId page) const;
    [[gnu::cold, gnu::noinline]] Result<bool> latch_pessimistic(const SearchKey& key, Target& out);
    // The same without a transaction.
    Result<void> latch_leaf(const SearchKey& key, Target& out);
    // Exclusively latches the inner node of `level` above `key`. False: the tree is not that high.
    Result<bool> latch_parent(const SearchKey& key, unsigned level, Target& out);
    bool is_node_for(const Page& page, unsigned level, const SearchKey& key) const;
    // Lock name of the key that follows slot `slot` - 1 of a leaf. If that key stands in the right
    // sibling, `out` keeps the sibling's snapshot. False: what was read changed meanwhile. `at` is
    // the leaf's snapshot if it is not latched; the caller validates it once more at the end.
    Result<bool> next_key(const Page& leaf, unsigned slot, const OptimisticPage* at, NextKey& out);

    // btree_fetch.cc. Reads a record whose name is locked.
    [[gnu::noinline]] Result<bool> read_locked(txn::Transaction& txn, const SearchKey& key,
                                               ValueOut& out);

    // Changes of one record; the target stays latched. Replaces value[offset, +old_bytes).
    Result<void> log_replace(txn::Transaction& txn, Target& t, Slice key, unsigned offset,
                             unsigned old_bytes, Slice fresh, uint16_t flags, ChangeRole role,
                             LogKind kind, Lsn undo_next);
    // Overwrites bytes of the target's record, which is there and not in a chain.
    Result<void> overwrite(txn::Transaction& txn, Target& t, Slice key, size_t offset, Slice part);
    // patch() under the key's lock. btree_update.cc
    Result<bool> patch_locked(txn::Transaction& txn, const SearchKey& key, size_t offset,
                              Slice part);
    Result<void> log_set_ghost(txn::Transaction& txn, Target& t, Slice key, bool ghost,
                               ChangeRole role, LogKind kind, Lsn undo_next);
    // The same for records of several slots, ascending. `undo_bytes`: as ChangePart has it.
    Result<void> log_set_ghosts(txn::Transaction& txn, Target& t, std::span<const uint16_t> which,
                                bool are_ghosts, ChangeRole role, LogKind kind, Lsn undo_next,
                                uint32_t undo_bytes);
    Result<bool> erase_large(txn::Transaction& txn, Target& t, Slice key);
    // May a key be put in front of the target's slot?
    Result<GapCheck> check_gap(txn::LockManager& locks, txn::Transaction& txn, const Target& t,
                               txn::LockName name, NextKey& next);
    // Waits for what check_gap() found in the way of inserting `key`. `next`: name of the next key.
    // Locks the key; parks if it must wait, so no latch is held. In btree_impl.h.
    Result<void> lock_key(txn::Transaction& txn, const node::SearchKey& key, txn::LockName name,
                          txn::LockMode mode);
    [[gnu::cold, gnu::noinline]] Result<void> wait_for_gap(txn::Transaction& txn, GapCheck gap,
                                                           txn::LockName name, txn::LockName next,
                                                           const SearchKey& key);
    Result<void> insert_record(txn::Transaction& txn, txn::LockName name, const SearchKey& key,
                               Slice value, bool overflow, const Position* ahead = nullptr);
    // Whole new value over that of an existing live record. `flags` of payload::ReplaceFlags.
    // False: the leaf had to be split, and `t` is empty.
    Result<bool> replace_value(txn::Transaction& txn, Target& t, Slice key, Slice fresh,
                               uint16_t flags);
    void note_ghost(const Page& leaf, Slice key);

    // btree_split.cc. Makes room for `extra` bytes in the node of `level` that covers `key`; no
    // latch is held.
    Result<void> split(Slice key, unsigned level, size_t extra);
    // btree_merge.cc. Removes unlocked ghosts without chains from the leaf of `key`. False: there
    // was no such ghost.
    Result<bool> remove_leaf_ghosts(Slice key);
    Result<void> merge(Slice key, unsigned level);
    Env& env() { return env_; }

private:
    [[gnu::noinline]] Result<size_t> insert_run(txn::Transaction& txn,
                                                std::span<const NewRecord> records);
    [[gnu::cold, gnu::noinline]] Result<size_t> fetch_each(txn::Transaction& txn,
                                                           std::span<Lookup> rows, Access access);
    // `committed`: without locks, as at read_committed. `seen`, if not null: becomes the look at
    // its leaf in which each row was read; stays as it is for rows that were read alone.
    [[gnu::noinline]] Result<size_t> fetch_group_snapshot(txn::Transaction& txn,
                                                          std::span<Lookup> rows, Access access);
    [[gnu::noinline]] Result<size_t> fetch_group(txn::Transaction& txn, std::span<Lookup> rows,
                                                 Access access, bool committed,
                                                 OptimisticPage* seen = nullptr);
    // The thread runs CTX points, and the tree does not stay in the caches.
    bool in_uncached_team(const txn::Transaction& txn) const {
        return threads::worker_local.points &&
               stats_.uncached.load(std::memory_order_relaxed) != Stats::Uncached::nothing &&
               !has_places(txn);
    }
    // btree_snapshot.cc
    [[gnu::noinline]] Result<bool> fetch_snapshot(txn::Transaction& txn, Slice key, Access access,
                                                  ValueOut& out);
    Result<bool> read_snapshot(txn::Transaction& txn, const Snapshot& snapshot,
                               const SearchKey& key, ValueOut& out);
    // Variables live at a CTX point lie on the stack. A fetch without points has a frame of its
    // own, so it does not pay for them.
    [[gnu::noinline]] Result<bool> fetch_alone(txn::Transaction& txn, Slice key, Access access,
                                               ValueOut& out);
    [[gnu::noinline]] Result<bool> fetch_in_team(txn::Transaction& txn, Slice key, Access access,
                                                 ValueOut& out);
    [[gnu::noinline]] Result<bool> fetch_specially(txn::Transaction& txn, Slice key, Access access,
                                                   ValueOut& out);
    [[gnu::noinline]] Result<bool> fetch_committed(txn::Transaction& txn, Slice key, ValueOut& out);
    [[gnu::cold, gnu::noinline]] Result<bool> fetch_briefly_locked(txn::Transaction& txn,
                                                                   const SearchKey& key,
                                                                   txn::LockName name,
                                                                   ValueOut& out);
    [[gnu::always_inline]] Result<bool> locate_in_team(txn::Transaction& txn, const SearchKey& key,
                                                       txn::LockName name, Position& pos);
    [[gnu::always_inline]] Result<bool> lock_in_team(txn::Transaction& txn, const SearchKey& key,
                                                     txn::LockName name, txn::LockMode mode,
                                                     Position& pos);
    // btree_modify.cc
    [[gnu::noinline]] Result<bool> find_and_lock_in_team(txn::Transaction& txn,
                                                         const SearchKey& key, txn::LockName name,
                                                         Position& pos);
    [[gnu::noinline]] Result<bool> modify_slowly(txn::Transaction& txn, const SearchKey& key,
                                                 ValueOut& out, Change change, Upkeep* upkeep);
    // btree_modify_many.cc
    [[gnu::noinline]] Result<size_t> modify_group(txn::Transaction& txn, std::span<Lookup> rows,
                                                  size_t first, ChangeMany change);
    [[gnu::cold, gnu::noinline]] Result<size_t> modify_each(txn::Transaction& txn,
                                                            std::span<Lookup> rows, size_t first,
                                                            ChangeMany change);
    // The upkeep to hand a change of `txn` over to, which holds the key's lock (UP-1). Null: none,
    // or it is the upkeep's own change.
    Upkeep* upkeep_for(txn::Transaction& txn) const {
        return upkeep_.load(std::memory_order_acquire) == nullptr ? nullptr : ask_upkeep(txn);
    }
    [[gnu::cold, gnu::noinline]] Upkeep* ask_upkeep(txn::Transaction& txn) const;
    // True: the root is of `level` and has room already.
    Result<bool> grow(unsigned level, size_t extra);
    Result<void> shrink_root();

    Env& env_;
    const ObjectId id_;
    const PageId root_;
    // Beside what every operation reads anyway. See upkeep.h.
    std::atomic<Upkeep*> upkeep_{nullptr};
    txn::ObjectLock lock_;
    bool destroyed_ = false;  // under the ghost cleaner's turn
    ObjectHistory history_;
    Stats stats_;
    std::atomic<uint32_t> leaves_freed_{0};
    std::atomic<bool> load_stays_listed_{false};  // see keep_load_listed()
};

}  // namespace lockstep::sm
