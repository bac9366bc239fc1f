// txn_options.h - how a transaction runs: isolation, durability, limits. Part of the public
// interface.
#pragma once

#include <lockstep/types.h>

namespace lockstep::txn {

// serializable: no phantoms (key and gap locks until the end). repeatable_read: rows that were read
// do not change (key locks until the end), but phantoms may appear. read_committed: only committed
// values are seen; a read lock is released after the read, and mostly none is needed. snapshot:
// sees exactly the transactions that had committed when it began, whatever happens meanwhile. It
// takes no lock, waits for no transaction and makes none wait. It reads only: a change is the error
// read_only. Before-images of what others change are kept for it (Options::version_bytes); when
// they take more, the oldest snapshot's next call is the error snapshot_too_old.
enum class Isolation : uint8_t { serializable, repeatable_read, read_committed, snapshot };
// durable: commit() returns when the log is synced. lazy: commit() returns at once, and the log is
// synced within Options::lazy_flush_interval.
enum class Durability : uint8_t { durable, lazy };
// What a deadlock victim leaves to its repetition. Txn::retry() makes it, and TxnOptions::retry
// takes it. The repetition has the age of the first attempt and waits for its turn. So it commits
// after a few attempts, however many others want the same records. A plain value; copy it freely.
// A default one belongs to a first attempt.
struct Retry {
    TxnId first{};           // the first attempt
    uint32_t deadlocks = 0;  // attempts that were victims
    ObjectId object{};       // where the last one was a victim: the index or heap
    uint64_t lock = 0;       // and the hash of its key or record; 0: not known
};
// How one transaction runs.
struct TxnOptions {
    Isolation isolation = Isolation::serializable;
    Durability durability = Durability::durable;
    bool read_only = false;       // a change is the error read_only
    Nanos lock_timeout = kNever;  // longest wait for one lock; kNever: Options::lock_timeout
    // Records it will lock in total, as far as known; 0 = unknown. For LockPolicy::short_first.
    uint32_t operations = 0;
    uint32_t priority = 0;  // larger is served first under LockPolicy::priority
    // It repeats a transaction. begin() then waits for its turn, as long as the turn comes closer
    // at least once a second, and no longer than for one lock. Store::run() does so itself.
    Retry retry = {};
};

// A state of a transaction that Txn::rollback_to() restores. A plain value; copy it freely.
struct Savepoint {
    TxnId txn{};          // the transaction
    uint32_t number = 0;  // of this savepoint within it, from 1
};

}  // namespace lockstep::txn
