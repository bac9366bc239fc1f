// lock_manager.h - strict two-phase locks on 64-bit names: grant, wait, detect deadlocks, escalate,
// release.
//
// Concepts   A LockName is a 64-bit hash of (object id, key), (object id, page) or (object id,
//            record). Two things with one hash share a lock, which costs concurrency and never
//            correctness. Buckets are cache lines with inline entries. Their number follows the
//            number of locks, also while transactions run (lock_resize.cc). An entry with one owner
//            and no waiter is *thin*: name, owner slot, mode. A second owner or a waiter makes it
//            *fat*: a lock head with a queue. A lock and its unlock cost one bucket access each.
//            Intention locks on an object (index, heap, or the whole database) are only noted in
//            the owner while no owner wants a strong lock (S SIX U X) on it: see ObjectLock.
// Invariants LM-1 Granted modes of different owners are compatible with each other (except U after
//                 S). [checked: verify()]
//            LM-2 No owner waits for a request that could be granted, outside the bucket's latch.
//                 [checked: verify()]
//            LM-3 An owner waits for at most one name. [checked: enqueue(), verify()]
//            LM-4 release_all leaves no entry of the owner. [checked: verify()]
//            LM-5 A cycle of waits exists only between its last request and the end of that
//                 request's deadlock search. [lock_deadlock.cc]
//            LM-6 A noted intention conflicts with no granted strong lock. [lock_object.cc]
//            LM-7 With owners_have_threads, LM-5 also counts an edge from an owner to the one for
//                 which its thread waits. [lock_deadlock.cc]
//            LM-8 What release_all_of_reader() returns covers every commit that held X on what the
//                 reader has locked. A commit is noted, per bucket of the table and per object,
//                 before its locks are released. [lock_names.cc]
//            LM-9 A record is committed if it was read between two looks at its page's version,
//                 both versions are equal, and only_committed() was true in between. Proof: the
//                 record did not change from the first look to the second. At the moment of
//                 only_committed() no other owner had X on its name. A writer takes X before it
//                 changes the page, and releases it after its commit record is in the log or its
//                 rollback is complete. So at that moment the record had no uncommitted change, and
//                 the reader sees the record of that moment. An owner with X on the whole object
//                 has no X on the name: the reader's intention on the object keeps it out. A reader
//                 without one looks at ObjectLock::strong, and does so after it has looked at the
//                 name: an owner may exchange its X on names for X on the object, never the other
//                 way round. [test: OneCall.ReadsSeeNoOpenChange]
//                 In terms of memory: a page read in a state that an open writer left has a
//                 version that the writer stored after its lock. The reader loads that version with
//                 acquire, so its load of the bucket's header sees the lock, or a later release.
// Blocking   lock() parks the user thread while others hold a conflicting mode; the caller must
//            hold no latch. The try_ calls never park.
// Source     Gray & Reuter ch. 8; IBM "U" locks; PostgreSQL's README of fast-path locks for the
//            idea behind ObjectLock.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/lock_policy.h>
#include <lockstep/stage_stats.h>
#include <lockstep/txn_options.h>
#include "threads/base/hints.h"
#include "threads/base/mapping_cache.h"
#include "threads/sync/event.h"
#include "threads/thread/thread.h"
#include "txn/lock/lock_array.h"
#include "txn/lock/lock_list.h"
#include "txn/lock/lock_mode.h"
#include "txn/lock/lock_owner.h"

namespace lockstep::txn {

// A thread that waits for another transaction asks this often whether the store has failed.
inline constexpr Nanos kFailureLook = kSecond;

// Waiters and holders are counted in 16 bits.
inline constexpr uint32_t kOwnersMax = UINT16_MAX;

struct LockOptions {
    // Cache-line buckets of the largest and of the smallest table; memory = 64 B << this. The table
    // follows the number of locks.
    uint32_t buckets_log2 = 16, buckets_min_log2 = 8;
    // Names released between two looks at the table's load; a power of two.
    uint32_t look_every = 2048;
    // Rounds of eight looks that must find the table too large before it shrinks.
    uint32_t quiet_rounds = 16;
    uint32_t owners_max = 4096;  // slots; at most kOwnersMax
    // Longest wait of one request; per owner in LockOwner::timeout.
    Nanos timeout = kNever;
    // Record locks of one owner in one object before it tries the object's lock; 0 = never.
    uint32_t escalate_at = 5000;
    LockStageOptions stage = {};  // order of waiters
    // Name of an object for texts, as `index "accounts"`. Called without latches, on errors only.
    std::function<std::string(ObjectId)> object_text = {};
    // A place in words, as `key "a"`; empty if its kind is unknown. Called like object_text.
    std::function<std::string(const LockPlace&)> place_text = {};
    // A transaction that no thread can end, as `prepared as "gid"`; empty for all others. Called
    // like object_text.
    std::function<std::string(TxnId)> in_doubt_text = {};
    // LockOwner::thread is the only thread that can end the owner, from its first lock to its last.
    // A wait of that thread, for whatever owner, then blocks the owner too (LM-7).
    bool owners_have_threads = false;
    // An error once the store has failed: waits then end with this error. Asked in long waits only,
    // once in kFailureLook. Empty: the store never fails.
    std::function<Result<void>()> store_state = {};
    threads::MappingCache* mappings = nullptr;  // of the table; must outlive the lock manager
};

class LockManager {
public:
    explicit LockManager(const LockOptions& options);
    ~LockManager();
    LockManager(const LockManager&) = delete;
    LockManager& operator=(const LockManager&) = delete;

    // Registers an owner. Its slot must be < owners_max and unique among registered owners. Once
    // per LockOwner, not per transaction: transactions may use it one after the other, with
    // release_all between.
    void add_owner(LockOwner& owner);
    void forget_owner(LockOwner& owner);  // after a simulated crash, whatever it holds
    // After release_all; spins while a search may look at the owner.
    void remove_owner(LockOwner& owner);

    // Prefetches the bucket of `name`, for callers with other work to do before they lock it.
    void prefetch(LockName name) const {
        prefetch_line_to_write(
            &array_.bucket(array_.shape.load(std::memory_order_relaxed), name.value));
    }

    // Grants `mode` in addition to what the owner holds. Parks on conflict. After an error the
    // owner holds what it held before. Errors: deadlock (this owner is the victim; b = id of the
    // recorded cycle, see describe_cycle), self_deadlock (another owner of this thread holds it; b
    // likewise), lock_timeout, cancelled, out_of_memory, wrong_thread (a wait is needed and the
    // caller is no user thread), lock_refused (a wait is needed and the owner never waits: a = name
    // and no text), store_failed (at most kFailureLook after the store has failed; as
    // LockOptions::store_state gives it). The first four have a = name and a text (error_detail.h),
    // in which a name is lock_name_text() of it.
    Result<void> lock(LockOwner& owner, LockName name, LockMode mode);
    // False if the request would have to wait. Error: out_of_memory only.
    Result<bool> try_lock(LockOwner& owner, LockName name, LockMode mode);
    // Waits until `mode` could be granted, and grants nothing. For an insert's intention on the gap
    // of the next key. `object` is for texts.
    Result<void> wait_until_grantable(LockOwner& owner, LockName name, LockMode mode,
                                      ObjectId object = kNoObject);
    // True if `mode` could be granted now. A hint unless the caller prevents changes otherwise.
    bool grantable(const LockOwner& owner, LockName name, LockMode mode);
    // The same for an owner that holds nothing.
    bool grantable(LockName name, LockMode mode);
    LockMode held(const LockOwner& owner, LockName name) const;
    // For a read without a lock (LM-9): false if another owner has X on `name`. The owner has an
    // intention on the name's object. If true, its seen commits include all that have released X.
    bool only_committed(LockOwner& owner, LockName name);
    // The same for a reader that is no owner, so without an intention on the object: also false if
    // an owner has or wants a strong lock on `object`, which the name belongs to. If true, `seen`
    // is what release_all_of_reader() would return (LM-8). Any kernel thread; never parks.
    bool only_committed(const ObjectLock& object, LockName name, Lsn& seen);

    // Releases rights on one name before the transaction ends: read committed after a read, or a
    // failed recheck after a wait.
    void unlock(LockOwner& owner, LockName name, LockMode rights);
    // Releases everything, and never parks. `committed`: end of the owner's commit record, which is
    // in the log but perhaps not durable; kLsnNone if it has none. It is noted for later readers of
    // what the owner held in X (LM-8).
    void release_all(LockOwner& owner, Lsn committed = kLsnNone);
    // The same for an owner that has changed nothing. Returns how far the log must be durable so
    // that no crash takes back what the owner has seen: at least the end of each commit record that
    // it may have read from. kLsnMax: not known, as for an owner that locked a whole object.
    Lsn release_all_of_reader(LockOwner& owner);
    // What `name` protects is about to vanish from its page, as a ghost does. Later readers of the
    // place lock other names. So from now on the note of `name` counts for all of them. The caller
    // holds the page's latch.
    void keep_note(LockName name);
    // From now on release_all_of_reader() returns at least `committed`: for changes that others see
    // without a lock.
    void keep_note(Lsn committed);
    // Read locks only (S, U, gap_read, IS): at commit, before the log record is durable.
    void release_shared(LockOwner& owner);

    // Locks a whole object. IS and IX are noted in the owner and cost no shared write unless a
    // strong lock exists or is wanted. S SIX U X first turn the noted intentions of all owners into
    // real requests, then queue like any lock.
    Result<void> lock_object(LockOwner& owner, ObjectLock& object, LockMode mode);
    // Never parks; false if the request would have to wait.
    Result<bool> try_lock_object(LockOwner& owner, ObjectLock& object, LockMode mode);
    // From now on an owner without rights on the object gets no_such_object when it asks for rights
    // on it or its records. Owners that have rights keep them.
    void bar_object(ObjectLock& object);
    // Bars the object and waits for X on it.
    Result<void> lock_object_to_free(LockOwner& owner, ObjectLock& object);

    // All that the owner holds. It must not wait; call it on its thread.
    LockList list(const LockOwner& owner) const;
    // Locks an object in all rights of `mode`, as list() gives them. Never parks; false if the
    // request would have to wait, and a part of the rights may be held then.
    Result<bool> try_lock_all(LockOwner& owner, ObjectLock& object, LockMode mode);

    // The call of the record operations: the intention on the record's object, then the record. One
    // bucket access when the intention is noted already, none when the object's lock covers the
    // record. Escalates: after escalate_at record locks it tries the object's lock in S or X. If
    // others hold it back, record locks continue and the number to the next attempt doubles.
    Result<void> lock_record(LockOwner& owner, ObjectLock& object, LockName name, LockMode mode);
    // Never parks. True: granted. False: lock_record() would wait, or fail, and says which. Before
    // that call the caller can say what it waits for (LockOwner::place).
    [[nodiscard]] bool try_lock_record(LockOwner& owner, ObjectLock& object, LockName name,
                                       LockMode mode);
    // The same for one name after the other, until one is refused. How many are granted.
    [[nodiscard]] size_t try_lock_records(LockOwner& owner, ObjectLock& object,
                                          std::span<const LockName> names, LockMode mode);

    // What a repetition of the owner's transaction needs. `victim`: a deadlock ended it.
    static Retry retry_of(const LockOwner& owner, bool victim);
    // The owner repeats a transaction, and holds nothing yet. Gives it the age and the level of
    // `retry`, and waits for its turn (lock_line.h). Never fails: what ends the wait early shows in
    // the owner's next call, or lets it begin at once.
    void repeat(LockOwner& owner, const Retry& retry);
    // Gives its places in lines back: its thread will not end it soon.
    void leave_lines(LockOwner& owner);

    // Wakes the owner's wait, if any, with `cancelled`. From any worker.
    void cancel(LockOwner& owner);

    // What an owner waits for: the lock, those that hold it or wait before it, and since when.
    struct Wait {
        LockMode mode = LockMode::none;
        ObjectId object = kNoObject;  // kNoObject: not known
        uint64_t name = 0;
        LockPlace place;       // what the name stands for, if the owner says so
        uint32_t holders = 0;  // those beyond kHoldersMax are counted only
        static constexpr uint32_t kHoldersMax = 3;
        TxnId holder[kHoldersMax]{};
        Nanos waited = 0;
        std::string held;  // "; held by txn 9 (X)" for each
    };
    // Empty if it does not wait. Any worker; never parks. The owner must not be removed meanwhile.
    std::optional<Wait> wait_of(const LockOwner& owner) const;
    // "S on index "i", 0x..; held by txn 9 (X)". May park; the caller holds no latch.
    std::string text_of(const Wait& wait) const;
    // A lock that was waited for in the last seconds.
    struct HotLock {
        std::string text;  // as in Wait, without the mode
        uint64_t waits = 0;
        Nanos waited = 0;
    };
    // At most `max` of them, the longest waits first. `now`: the store's time. Any kernel thread.
    std::vector<HotLock> hot_locks(size_t max, Nanos now) const;
    // How far hot_locks() looks back.
    static Nanos hot_locks_look_back(Nanos now);

    // Text of a deadlock's cycle: "txn 7 waits for X on 0x.. held by txn 9 (S); txn 9 waits ...".
    // Kept for the last 64 deadlocks.
    std::string describe_cycle(uint32_t id) const;

    // granted_at_once is updated when an owner releases its locks.
    struct Stats {
        uint64_t granted_at_once = 0, waits = 0, deadlocks = 0, timeouts = 0, escalations = 0,
                 inflations = 0, wait_nanos = 0;
    };
    Stats stats() const;
    // The lock stage: number of waits, time until the grant, length of the queues, size of groups
    // granted together, overtaking.
    StageStats stage_stats() const;
    // Checks LM-1 to LM-6 over the whole table while nothing else runs, and that what the pools
    // gave out is in use. Error text or empty.
    std::string verify() const;
    size_t memory_bytes() const;
    // Buckets that the table has now.
    size_t buckets() const;
    // The address space of the largest table. For tests, which ask how much of it is in memory.
    std::span<const std::byte> address_space() const;

    struct Impl;  // lock_impl.h

private:
    LockArray array_;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::txn
