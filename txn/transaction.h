// transaction.h - the transaction object, the table of live transactions, and the commit protocol.
//
// States     free -> active (begin) -> committed (commit) -> free;
//            active -> aborting (rollback by sm/) -> free (finish_abort);
//            active -> aborting (another thread, see reaper) -> undone (finish_undone) -> free
//            (finish_abort, by its own thread).
//            Two-phase commit: active -> prepared (prepare) -> active (attach, on its worker).
//            Restart: free -> prepared (adopt_prepared).
// Invariants TX-1 A transaction that wrote has first_lsn <= every record of it. Checkpoints keep
//                 the log from the least first_lsn.
//            TX-2 Locks are released only after the commit record is in the log (early release) or
//                 the rollback is complete.
//            TX-3 A durable commit returns only when the log is durable up to its commit record. A
//                 durable reader returns only when every commit it may have read from is durable.
//            TX-4 What a transaction notes about itself (first_lsn, last_lsn, that it has ended) is
//                 stored between reserve and publish of the record that makes it true. A checkpoint
//                 takes its begin LSN and then calls Log::wait_until_published(). It thus sees
//                 these notes for every record below that LSN. Analysis sees later records itself.
//            TX-5 A prepared transaction has no thread, holds all its locks, and its newest record
//                 is of the kind `prepare`, which is durable before prepare() returns. So each
//                 restart finds it in doubt, until a commit or compensation record follows.
//            TX-6 newest_commit() covers a commit before any other thread can see it: before its
//                 first_lsn becomes 0, its outcome says so, and its locks are released. [checked:
//                 CommitOrder.*]
// Blocking   begin() parks while all slots are taken; commit() of a durable transaction parks for
//            the flush.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/txn_options.h>
#include "threads/base/check.h"
#include "txn/isolation_rules.h"
#include "txn/lock/lock_manager.h"
#include "txn/log/log.h"
#include "txn/outcome.h"

namespace lockstep::txn {

enum class TxnState : uint8_t { free, active, committed, aborting, undone, prepared };

// Size and alignment of a slot in each transaction for the layer above. Zeroed when the object is
// made, and never touched here.
inline constexpr size_t kUpperBytes = 192, kUpperAlign = 8;
static_assert(kUpperBytes % kUpperAlign == 0);

struct Transaction {
    LockOwner locks;
    // --- The line that begin, each change and commit touch.
    TxnId id{};
    uint32_t slot = 0;
    TxnState state = TxnState::free;
    Isolation isolation = Isolation::serializable;
    Durability durability = Durability::durable;
    bool read_only = false;
    // What its next operation must heed. Written by user threads of its worker only.
    Heed heed = Heed::nothing;
    // The engine's own: it has no handle, and nothing ends it from outside. False between uses.
    bool internal = false;
    ErrorCode abort_cause{};             // counts only with Heed::failed: the error that did it
    threads::Thread* thread = nullptr;   // the user thread it belongs to; null: prepared
    std::atomic<uint64_t> first_lsn{0};  // 0 = has not written, or has ended; read by checkpoints
    Lsn last_lsn{};
    UndoCredit undo;
    // --- What begin touches too.
    uint32_t shard = 0;      // worker that began it
    uint32_t next_free = 0;  // the table's free list
    // Grows with every end of a transaction, so that stale handles are recognised.
    uint64_t generation = 0;
    // A thread of the same worker rolls it back, or has: null or that thread. Its own thread is
    // between two operations and stays outside until the state is `undone`.
    threads::Thread* reaper = nullptr;
    uint64_t thread_id = 0;  // the id of its thread: Thread objects are reused
    Nanos began = 0;         // time of the worker's turn that began it
    Lsn undo_next{};         // while aborting
    uint32_t savepoints = 0;
    // For those that meet its changes later, or null. Written by threads of its worker.
    Outcome* outcome = nullptr;
    // For the layer above, see kUpperBytes.
    alignas(kUpperAlign) std::byte upper[kUpperBytes]{};
    // --- Of a few transactions.
    // A snapshot transaction sees what was committed below this place in the log; see begin().
    Lsn sees{};
    uint64_t ended_number = 0;  // of the error, if it was ended from outside

    // Nothing but a rollback is possible any more.
    bool must_abort() const { return heed > Heed::log_scarce; }
    // Ended from outside: by an operator, Handle::cancel(), its age, or because it pins the log.
    bool ended_outside() const { return heed > Heed::failed; }
    // May the current user thread work on it?
    bool runs_here() const {
        return (reaper != nullptr && state != TxnState::undone ? reaper : thread) ==
               threads::current();
    }
};

// What begin, a change and a commit touch fills whole lines (tests/txn/touched_lines_test.cc).
static_assert(offsetof(Transaction, id) % kCacheLineBytes == 0);
static_assert(offsetof(Transaction, shard) - offsetof(Transaction, id) == kCacheLineBytes);
static_assert(offsetof(Transaction, upper) - offsetof(Transaction, shard) == kCacheLineBytes);

class TransactionTable {
public:
    // `slots` are for begin(); the lock manager must have room for kSystemSlots more.
    TransactionTable(Log& log, LockManager& locks, uint32_t slots);
    // end(), unless it was called.
    ~TransactionTable();
    // Leaves the lock manager and the log, which may be gone afterwards. The objects stay: handles
    // left behind read that they are stale. All transactions have ended, are in doubt, or were
    // abandoned.
    void end();

    // Parks while no slot is free. Errors: store_failed, store_closed.
    Result<Transaction*> begin(const TxnOptions& options);
    // The same for a short transaction of the store itself, also within a caller's: it takes one of
    // kSystemSlots, which no caller can have (TT-2). Parks while all of them are taken.
    Result<Transaction*> begin_system(const TxnOptions& options);
    static constexpr uint32_t kSystemSlots = 64;
    // Re-creates a loser found by restart.
    Result<Transaction*> adopt(TxnId id, Lsn first, Lsn last);

    // Notes that `lsn` is the transaction's newest record; returns the one before, for the header's
    // prev. Call it between reserve and publish of the record.
    static Lsn chain(Transaction& txn, Lsn lsn) {
        DCHECK(lsn > txn.last_lsn);
        DCHECK(txn.state == TxnState::active || txn.state == TxnState::aborting);
        const Lsn before = txn.last_lsn;
        if (txn.first_lsn.load(std::memory_order_relaxed) == 0)
            txn.first_lsn.store(lsn.value, std::memory_order_release);
        // Read by live().
        std::atomic_ref(txn.last_lsn.value).store(lsn.value, std::memory_order_relaxed);
        return before;
    }

    // Appends the commit record (if it wrote), releases locks early, waits if durable, and frees
    // the object. Returns the end LSN of the commit record (for wait_durable), kLsnNone for
    // readers. Error: store_failed; the next restart then decides the outcome.
    Result<Lsn> commit(Transaction& txn);
    // End of the newest commit record that any worker has appended, or kLsnNone. It covers every
    // commit whose effects the caller may have seen. Never parks.
    Lsn newest_commit() const;
    // Appends the end record if sm/ has undone everything, releases locks, frees the object.
    // Without the record the transaction is a loser in the log: the next restart undoes it.
    void finish_abort(Transaction& txn, bool undone);
    // The same for a reaper: the object stays in state `undone` until finish_abort().
    void finish_undone(Transaction& txn, bool undone);

    // --- two-phase commit: transaction_prepare.cc
    // The first phase, for a transaction that wrote: logs the prepare record, takes the transaction
    // from its thread, and waits until the record is durable. Errors of reserve_undo(): nothing
    // happened. Error store_failed: the next restart finds out whether it is in doubt.
    Result<void> prepare(Transaction& txn, Slice gid, Nanos time);
    // Gives a prepared transaction to the calling user thread, which must run on its worker and
    // end it at once. Error: store_closed.
    Result<void> attach(Transaction& txn);
    // Re-creates one that restart found in doubt, without its locks. `undo_bytes` are promised for
    // its rollback again. Errors: log_full, those of begin().
    Result<Transaction*> adopt_prepared(TxnId id, Lsn first, Lsn last, uint64_t undo_bytes);
    // They count neither as active() nor for close().
    uint32_t prepared() const;

    // The least first_lsn of all live transactions that wrote, or kLsnMax. Like live(), it calls
    // wait_until_published() first. A call after a checkpoint's begin record therefore misses no
    // writer of an earlier record.
    Lsn oldest_first_lsn() const;
    struct Live {
        TxnId id;
        Lsn first, last;
        TxnState state;
    };
    std::vector<Live> live() const;  // for checkpoints: all that have written and not ended
    // A transaction as other kernel threads see it, at some moment of the call.
    struct Seen {
        TxnId id;
        uint32_t slot, worker;  // the worker whose threads may look at the object
        TxnState state;
        bool internal, waits;  // waits: for a lock
        Lsn first, last;       // first: kLsnNone if it has not written
        Nanos began;
    };
    // All that have begun and not ended. Any kernel thread; never blocks.
    std::vector<Seen> seen() const;
    // Whether the calling user thread rolls one of them back.
    bool rolls_back_here() const;
    // The object in `slot`. Only user threads of its worker may use what is not atomic in it, and
    // they must find the id and the state that they expect.
    Transaction& at(uint32_t slot);
    void set_next_id(TxnId next);
    TxnId next_id() const;
    // Transactions that have begun and not ended. A snapshot.
    uint32_t active() const;
    // Threads that wait in begin() for a slot. A snapshot.
    uint32_t waiting() const;
    // All transactions that are neither committed nor rolled back. Call it only while no thread
    // uses any.
    std::vector<Transaction*> unfinished();
    // While nothing runs: checks that each slot is free once or has a transaction, that ids are
    // unique and below next_id(), and the counts, locks and promises of all. Text of a fault, or
    // empty.
    std::string verify() const;
    // From now on begin() fails with store_closed. Waits until no transaction is live.
    void close();
    // After a simulated crash or a failed restart: live transactions stay live until the table is
    // destroyed.
    void abandon();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::txn
