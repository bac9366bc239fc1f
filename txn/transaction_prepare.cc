// transaction_prepare.cc - the first phase of two-phase commit, and how the second one gets the
// transaction back.
//
// Concepts   Between the phases a transaction has a slot, its locks, its undo credit and its place
//            in the list of checkpoints, but no thread. Its shard does not count it as live, so
//            close() does not wait for it. Its object still belongs to the worker that began it:
//            what reads it without atomic operations runs there, and so does the second phase.
// Blocking   prepare() parks for the flush; attach() never.
#include <cstring>

#include "txn/prepare_record.h"
#include "txn/transaction_impl.h"

namespace lockstep::txn {

// What came from outside after the call began comes too late: a reaper leaves the state `prepared`
// alone.
Result<void> TransactionTable::prepare(Transaction& txn, Slice gid, Nanos time) {
    Impl& table = *impl_;
    table.assert_state(txn);
    CHECK(txn.state == TxnState::active);
    CHECK(txn.first_lsn.load(std::memory_order_relaxed) != 0 && !gid.empty());
    DCHECK(txn.thread == threads::current() && txn.reaper == nullptr);
    table.locks.leave_lines(txn.locks);
    Prepared prepared{.gid = std::string(gid),
                      .time = time,
                      .undo_bytes = txn.undo.bytes,
                      .locks = table.locks.list(txn.locks)};
    const std::vector<std::string> payloads = prepare_payloads(prepared);
    uint64_t bytes = 0;
    for (const std::string& payload : payloads)
        bytes += log_align(static_cast<uint32_t>(sizeof(LogRecordHeader) + payload.size()));
    TRY(table.log.reserve_undo(txn.undo, bytes, 0));
    txn.durability = Durability::durable;  // of the second phase
    Lsn end = kLsnNone;
    for (const std::string& payload : payloads) {
        const bool last = &payload == &payloads.back();
        const LogSpace space = table.log.reserve(
            log_align(static_cast<uint32_t>(sizeof(LogRecordHeader) + payload.size())));
        LogRecordHeader* header = space.header();
        *header = {};
        header->prev = chain(txn, space.lsn).value;
        header->txn = txn.id.value;
        header->kind =
            static_cast<uint16_t>(last ? TxnLogKind::prepare : TxnLogKind::prepare_locks);
        if (last) header->object = table.log.durable_stamp(space.lsn);
        std::memcpy(space.payload(), payload.data(), payload.size());
        const size_t used = sizeof(LogRecordHeader) + payload.size();
        std::memset(space.at + used, 0, space.bytes - used);
        if (last) note(txn.state, TxnState::prepared);  // TX-4
        table.log.publish(space);
        end = space.lsn + space.bytes;
    }
    DCHECK(txn.state == TxnState::prepared && end > txn.last_lsn);
    const auto durable = table.log.wait_promised(end);
    table.detach(txn);
    return durable;
}

void TransactionTable::Impl::detach(Transaction& txn) {
    DCHECK(txn.state == TxnState::prepared && txn.thread == threads::current());
    txn.thread = nullptr;
    txn.thread_id = 0;
    // Read by others under the latches of its locks (LM-7).
    std::atomic_ref(txn.locks.thread).store(nullptr, std::memory_order_relaxed);
    prepared.fetch_add(1);
    TxnShard& shard = shards[txn.shard];
    bool closing;
    {
        SpinGuard guard(shard.lock);
        DCHECK(shard.live > 0);
        --shard.live;
        closing = closed.load(std::memory_order_relaxed);
    }
    if (closing) tell_if_drained();
}

Result<void> TransactionTable::attach(Transaction& txn) {
    Impl& table = *impl_;
    table.assert_state(txn);
    CHECK(txn.state == TxnState::prepared && txn.thread == nullptr);
    DCHECK(threads::worker_index() == txn.shard);
    {
        TxnShard& shard = table.shards[txn.shard];
        SpinGuard guard(shard.lock);
        if (table.closed.load(std::memory_order_relaxed)) return fail(ErrorCode::store_closed);
        ++shard.live;
    }
    table.prepared.fetch_sub(1);
    txn.thread = threads::current();
    txn.thread_id = txn.thread->id;
    note(txn.locks.thread_use, static_cast<uint32_t>(txn.thread_id));
    std::atomic_ref(txn.locks.thread).store(txn.thread, std::memory_order_relaxed);
    txn.heed = Heed::nothing;
    txn.durability = Durability::durable;
    note(txn.state, TxnState::active);
    return {};
}

Result<Transaction*> TransactionTable::adopt_prepared(TxnId id, Lsn first, Lsn last,
                                                      uint64_t undo_bytes) {
    Transaction* txn = TRY(adopt(id, first, last));
    txn->undo_next = kLsnNone;
    note(txn->state, TxnState::prepared);
    impl_->detach(*txn);
    impl_->log.promise_again(txn->undo, undo_bytes);
    return txn;
}

uint32_t TransactionTable::prepared() const { return impl_->prepared.load(); }

}  // namespace lockstep::txn
