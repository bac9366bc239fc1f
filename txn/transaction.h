// transaction.h - the transaction object, the table of live ones, and the commit protocol.
//
// States     free -> active (begin) -> committed (commit) -> free; active -> aborting (rollback by
//            sm/) -> free (finish_abort). Invariants TX-1 A transaction that wrote has first_lsn <=
//            every record of it; checkpoints keep the log from the least first_lsn.
//            TX-2 Locks are released only after the commit record is in the log (early release) or
//            the rollback is complete.
//            TX-3 Nobody is told "committed" (durable) before the log is durable up to its commit
//                 record, and a durable reader not before every commit it may have read from is
//                 durable.
//            TX-4 What a transaction notes about itself (first_lsn, last_lsn, that it has ended) is
//                 stored between reserve and publish of the record that makes it true. Whoever
//                 waits for Log::wait_until_published() after taking a checkpoint's begin LSN sees
//                 it for every record below that LSN; later records are seen by analysis itself.
// Blocking   begin() parks while all slots are taken; commit() of a durable transaction parks for
//            the flush.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include <lockstep/txn_options.h>
#include "threads/base/mutants.h"
#include "txn/lock/lock_manager.h"
#include "txn/log/log.h"

namespace lockstep::txn {

enum class TxnState : uint8_t { free, active, committed, aborting };

// Room in each transaction for what the layer above keeps there; zero when the object is made, and
// never touched here.
inline constexpr size_t kUpperBytes = 192, kUpperAlign = 8;

struct Transaction {
    LockOwner locks;
    TxnId id{};
    uint32_t slot = 0;
    TxnState state = TxnState::free;
    Isolation isolation = Isolation::serializable;
    Durability durability = Durability::durable;
    bool read_only = false;
    bool must_abort = false;             // an error left it unable to go on
    threads::Thread* thread = nullptr;   // the user thread it belongs to,
    uint64_t thread_id = 0;              // and that one's number: Thread objects are used again
    std::atomic<uint64_t> first_lsn{0};  // 0 = has not written, or has ended; read by checkpoints
    Lsn last_lsn{};
    Lsn undo_next{};  // while aborting
    UndoCredit undo;
    uint32_t savepoints = 0;
    // Grows with every use of the object: stale handles are recognised.
    uint64_t generation = 0;
    uint32_t shard = 0;      // the worker that began it
    uint32_t next_free = 0;  // the table's free list
    // The upper layer's, see kUpperBytes.
    alignas(kUpperAlign) std::byte upper[kUpperBytes]{};
};

class TransactionTable {
public:
    TransactionTable(Log& log, LockManager& locks, uint32_t slots);
    ~TransactionTable();

    // Parks while no slot is free. Errors: store_failed, store_closed.
    Result<Transaction*> begin(const TxnOptions& options);
    // Re-creates a loser found by restart.
    Result<Transaction*> adopt(TxnId id, Lsn first, Lsn last);

    // Notes that `lsn` is the transaction's newest record (call between reserve and publish of its
    // records: prev = returned value).
    static Lsn chain(Transaction& txn, Lsn lsn) {
        const Lsn before = MUTANT(chain_broken) ? kLsnNone : txn.last_lsn;
        if (txn.first_lsn.load(std::memory_order_relaxed) == 0)
            txn.first_lsn.store(lsn.value, std::memory_order_release);
        // Read by live().
        std::atomic_ref(txn.last_lsn.value).store(lsn.value, std::memory_order_relaxed);
        return before;
    }

    // Commit record (if it wrote), early lock release, wait as its durability says; frees the
    // object. Errors: store_failed: then the outcome is decided by the next restart. The commit's
    // LSN end is returned (for wait_durable), kLsnNone for readers.
    Result<Lsn> commit(Transaction& txn);
    // End record if sm/ has undone everything; locks released, object freed. Without the record the
    // log names a loser: the next restart undoes it.
    void finish_abort(Transaction& txn, bool undone);

    // Of all live transactions that wrote; kLsnMax if none. Like live(): settles the log first, so
    // a call after a checkpoint's begin record misses nobody who wrote before that record.
    Lsn oldest_first_lsn() const;
    struct Live {
        TxnId id;
        Lsn first, last;
        TxnState state;
    };
    std::vector<Live> live() const;  // for checkpoints: those that have written and not ended
    void set_next_id(TxnId next);
    TxnId next_id() const;
    uint32_t active() const;
    // Transactions that are neither committed nor rolled back, whoever began them. Only while no
    // thread uses any.
    std::vector<Transaction*> unfinished();
    // New begins get store_closed from now on; waits until no transaction is live.
    void close();
    // After a simulated crash, or a restart that failed: whoever is live stays so until the table
    // is destroyed.
    void abandon();

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::txn
