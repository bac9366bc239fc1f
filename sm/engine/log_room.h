// log_room.h - back-pressure of a log that fills up: who waits, where, and how long.
//
// Concepts   Let `taken` be the log bytes between start and tail plus the bytes reserved for undo.
//            From half of log_bytes on, begin() sleeps a little, and longer the fuller the log is,
//            at most kDelayMax. From Log::scarce() on, it waits. A writer that has begun waits as
//            well: before its next operation, while it holds no latch. The oldest writer goes on
//            if no checkpoint can recycle log before its first record. If it waits for a lock, its
//            blockers go on, too. So space goes to one writer, which can end with it. Commits and
//            rollbacks never wait here.
//            The last quarter of what promises may take (Log::promises_max()) is for that writer,
//            for the next ones if they began at almost the same time, and for operations that were
//            active when the log became scarce. With N such writers that need s bytes each, half of
//            it for undo, (N - 1) * s / 2 + s must fit. Options::log_bytes promises less: an eighth
//            of log_bytes, or log_bytes / 3N if that is less.
//            The *keeper* of the log is what nothing of this can end: checkpoints that fail, or a
//            transaction in doubt that is the oldest writer.
// Invariants LR-1 No wait without end: it lasts as long as checkpoints can help or oldest writers
//                 end, for at most kCheckpointMax, and then for TxnWatch::slow_max() and kEndMax.
//                 The thread goes on then and may meet log_full.
//            LR-3 All threads together wait for a keeper no longer than kKeeperMax. After that
//                 begin() returns log_full, and who has begun goes on; both errors name it.
//                 [checked: sm_log_keeper_test]
//            LR-2 The oldest writer is not delayed by what cannot help it. [checked: may_go_on()]
// Blocking   Parks; the caller holds no latch. Locks may be held: a writer does not wait while the
//            oldest one waits for a lock.
#pragma once

#include <optional>
#include <string>

#include "threads/base/spin_lock.h"
#include "txn/transaction.h"

namespace lockstep::sm {

class Engine;

// Before a transaction begins that may write; the log is filling(). Returns when it may begin.
// Error: log_full (LR-3).
[[gnu::cold, gnu::noinline]] Result<void> wait_to_begin(Engine& engine);
// Before the next operation of a transaction that wrote while the log was scarce.
[[gnu::cold, gnu::noinline]] void wait_to_go_on(Engine& engine, txn::Transaction& txn);

// What keeps the log now.
struct LogKeeper {
    TxnId in_doubt;    // kTxnNone: checkpoints fail
    int os = 0;        // errno of the checkpoint, or 0
    Nanos since = 0;   // when checkpoints began to fail, else 0
    std::string text;  // names it, and the remedy
};
[[gnu::cold]] std::optional<LogKeeper> keeper_of_log(Engine& engine);

// Since when threads wait for the keeper of the log.
class KeeperWait {
public:
    // A thread waits at `now`. Returns since when threads do so. A wait that none has noticed for
    // `patience` is over. Any kernel thread.
    Nanos note(TxnId in_doubt, Nanos now, Nanos patience);

private:
    SpinLock lock_;
    TxnId in_doubt_{};  // under lock_, as the next two
    Nanos since_ = 0, noticed_ = 0;
};

// Can a repetition of the transaction succeed that got this error? It can after log_full if others
// took the space: it needed no more than Log::safe_bytes().
bool caused_by_others(const Error& error);

}  // namespace lockstep::sm
