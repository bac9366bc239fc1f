// transaction_commit.cc - the ends of a transaction: commit with early lock release, abort after
// rollback.
//
// Why early release is correct (TX-3). Locks are released as soon as the commit record is
// published, before it is durable. A transaction that then reads the data commits later. If it
// writes, its own commit record stands behind ours in the log, so its durability implies ours. If
// it only reads, it waits for the commit records that it may have read from. The writer notes the
// end of its record where it releases a lock, and the reader looks at the notes of what it has
// locked (LM-8). Where it has no names of what it read, it waits for the newest commit record
// appended so far. The end of that record was noted in the shard before any reader could see the
// commit (TX-6). A lazy commit promises no durability, and leaves its notes nevertheless. The
// argument is in txn/README.md.
#include <algorithm>

#include "threads/base/sim_point.h"
#include "txn/transaction_impl.h"

namespace lockstep::txn {

// TX-4: first_lsn becomes 0 before publish, so a checkpoint that waits until records are published
// sees either the record or its effect.
Lsn TransactionTable::Impl::append_last(Transaction& txn, TxnLogKind kind, TxnState state) {
    assert_state(txn);
    DCHECK(txn.last_lsn != kLsnNone);  // it wrote
    const bool commits = kind == TxnLogKind::commit;
    if (commits && txn.outcome != nullptr) [[unlikely]]
        txn.outcome->begin_commit(log.tail());  // OC-1
    const LogSpace space = log.reserve(kEndBytes);
    DCHECK(space.lsn > txn.last_lsn);
    DCHECK(txn.state == TxnState::active || txn.state == TxnState::aborting);
    DCHECK(state == TxnState::committed || state == TxnState::aborting);
    LogRecordHeader* header = space.header();
    header->prev = txn.last_lsn.value;
    header->txn = txn.id.value;
    header->kind = static_cast<uint16_t>(kind);
    header->flags = 0;
    header->parts = 0;
    header->object = log.durable_stamp(space.lsn);
    const Lsn end = space.lsn + space.bytes;
    if (commits) note_commit(end);
    note(txn.state, state);
    txn.first_lsn.store(0, std::memory_order_release);
    if (commits && txn.outcome != nullptr) [[unlikely]]
        txn.outcome->commit(space.lsn);
    SIM_POINT();
    log.publish(space);
    return end;
}

// TX-6. A worker's records follow each other in the log, because nothing switches between reserve
// and publish.
inline void TransactionTable::Impl::note_commit(Lsn end) {
    std::atomic<uint64_t>& newest = my_shard().last_commit;
    DCHECK(newest.load(std::memory_order_relaxed) < end.value);
    newest.store(end.value, std::memory_order_release);
}

Lsn TransactionTable::newest_commit() const {
    uint64_t newest = 0;
    for (uint32_t i = 0; i < impl_->workers; ++i) {
        newest = std::max(newest, impl_->shards[i].last_commit.load(std::memory_order_acquire));
    }
    return Lsn{newest};
}

// Releases the locks and the undo credit. The object stays in use.
inline void TransactionTable::Impl::release_locks_and_undo(Transaction& txn, Lsn committed) {
    DCHECK(txn.locks.waiting.load() == nullptr);
    locks.release_all(txn.locks, committed);
    if (txn.undo.bytes != 0) log.release_undo(txn.undo);
}

// The same for a durable transaction that wrote nothing. Returns the LSN to wait for. The newest
// commit record is an upper bound of it, also where the notes say only "unknown".
inline Lsn TransactionTable::Impl::release_locks_of_reader(const TransactionTable& self,
                                                           Transaction& txn) {
    DCHECK(txn.locks.waiting.load() == nullptr);
    const Lsn seen = locks.release_all_of_reader(txn.locks);
    if (txn.undo.bytes != 0) log.release_undo(txn.undo);
    if (seen <= log.durable()) return kLsnNone;
    return std::min(seen, self.newest_commit());
}

Result<Lsn> TransactionTable::commit(Transaction& txn) {
    Impl& table = *impl_;
    table.assert_state(txn);
    CHECK(txn.state == TxnState::active);
    DCHECK(txn.thread == threads::current() && txn.reaper == nullptr);
    // What came from outside after the call began comes too late.
    DCHECK(txn.heed != Heed::failed);
    Lsn end = kLsnNone, must_be_durable = kLsnNone;
    const bool durable = txn.durability == Durability::durable;
    if (txn.first_lsn.load(std::memory_order_relaxed) != 0) {
        end = must_be_durable = table.append_last(txn, TxnLogKind::commit, TxnState::committed);
    } else {
        note(txn.state, TxnState::committed);
    }
    DCHECK(txn.state == TxnState::committed);
    if (end == kLsnNone && durable) must_be_durable = table.release_locks_of_reader(*this, txn);
    else table.release_locks_and_undo(txn, end);
    // A snapshot locked nothing: it may have read from every commit below its place.
    if (rules_of(txn.isolation).by_snapshot && durable) [[unlikely]]
        must_be_durable = std::min(txn.sees, newest_commit());
    DCHECK(must_be_durable <= table.log.tail());
    Result<void> outcome{};
    if (durable && must_be_durable != kLsnNone) outcome = table.log.wait_promised(must_be_durable);
    // In a failed store rollbacks may have failed too, so a reader may have seen uncommitted data.
    if (outcome && table.log.failed() && !(durable && end != kLsnNone))
        outcome = table.log.refused();
    table.recycle_slot(txn);
    if (!outcome) return std::unexpected(outcome.error());
    return end;
}

void TransactionTable::finish_undone(Transaction& txn, bool undone) {
    Impl& table = *impl_;
    CHECK(txn.state == TxnState::active || txn.state == TxnState::aborting);
    table.assert_state(txn);
    DCHECK(txn.runs_here());
    DCHECK(undone || table.log.failed());
    if (undone && txn.first_lsn.load(std::memory_order_relaxed) != 0)
        table.append_last(txn, TxnLogKind::end, TxnState::aborting);
    if (txn.outcome != nullptr) [[unlikely]]
        txn.outcome->abort();  // its pages are as before
    table.release_locks_and_undo(txn, kLsnNone);
    note(txn.state, TxnState::undone);
}

void TransactionTable::finish_abort(Transaction& txn, bool undone) {
    if (txn.state != TxnState::undone) finish_undone(txn, undone);
    DCHECK(txn.state == TxnState::undone);
    txn.reaper = nullptr;
    impl_->recycle_slot(txn);
}

}  // namespace lockstep::txn
