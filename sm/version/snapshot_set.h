// snapshot_set.h - the open snapshots in the order of the places in the log that they see.
//
// Concepts   A snapshot at S sees the transactions whose commit records begin below S. A version
//            that a transaction with commit record C has replaced is needed while some snapshot has
//            S <= C. Later snapshots have a larger S than every commit record that exists already.
// Invariants SN-1 oldest() <= S of every snapshot that is open or being opened. So a version that
//                 is not needed by oldest() is needed by none.
//            SN-2 The list ascends by S.
// Blocking   Spin lock, held briefly. Nothing parks.
#pragma once

#include <atomic>

#include <lockstep/types.h>
#include "threads/base/check.h"
#include "threads/base/spin_lock.h"
#include "txn/outcome.h"

namespace lockstep::txn {
class Log;
}

namespace lockstep::sm {

struct Snapshot {
    Lsn sees{};  // S
    // Pages whose lsn is not above it are as the snapshot sees them.
    Lsn quiet{};
    Nanos began = 0;
    // Its versions are going: every answer is snapshot_too_old.
    std::atomic<bool> too_old{false};

private:
    friend class SnapshotSet;
    Snapshot* older_ = nullptr;
    Snapshot* younger_ = nullptr;
    bool listed_ = false;
};

class SnapshotSet {
public:
    // Gives the snapshot its place, the log's end. It must stay where it is until remove().
    void add(Snapshot& snapshot, const txn::Log& log);
    void remove(Snapshot& snapshot);
    // The oldest one becomes too old. False: none is open.
    bool expel_oldest();
    // The snapshot becomes too old, unless it is that already.
    void expel(Snapshot& snapshot);

    // kLsnMax: none is open.
    Lsn oldest() const { return Lsn{oldest_.load()}; }
    // May a snapshot, open or later, not see the transaction's changes?
    bool needs_before(const txn::Outcome& writer) const {
        if (writer.aborted()) return false;
        return writer.committed_below(oldest()) != txn::Outcome::Below::yes;
    }
    // Is there one that sees `first` and not `second`? True also if that is not certain.
    bool between(const txn::Outcome* first, const txn::Outcome& second) const;
    // Does an open snapshot see the changes of one that is known to have committed? True also if
    // that is not certain.
    bool may_see(const txn::Outcome& writer) const {
        DCHECK(writer.committed_below(kLsnMax) == txn::Outcome::Below::yes);
        return writer.committed_below(Lsn{newest_.load()}) == txn::Outcome::Below::yes;
    }
    uint64_t open() const { return open_.load(std::memory_order_relaxed); }
    // SN-1, SN-2 and the count, while nothing runs: text of a fault, or empty.
    const char* verify() const;
    // When the oldest one began; 0: none is open.
    Nanos oldest_began() const;

private:
    void unlink(Snapshot& snapshot);  // under lock_
    void expel_listed(Snapshot& snapshot);

    mutable SpinLock lock_;
    Snapshot* first_ = nullptr;  // the oldest; under lock_
    Snapshot* last_ = nullptr;
    std::atomic<uint64_t> oldest_{kLsnMax.value}, newest_{0}, open_{0};
};

}  // namespace lockstep::sm
