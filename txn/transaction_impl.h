// transaction_impl.h - the inside of TransactionTable. Private to transaction*.cc.
//
// Concepts   Slots are type-stable Transaction objects in chunks that live as long as the table.
//            Each worker has a *shard*: its free slots, its block of transaction ids, the end of
//            its newest commit record. A worker without free slots makes a chunk, else takes a slot
//            from another shard, else waits. Freed slots go to waiters first, in their order.
// Invariants TT-1 A thread that frees or makes a slot checks `waiting` and the queue inside its
//                 shard's lock. A waiter enters the queue before it searches the shards, under
//                 their locks. So the waiter either finds a free slot or is given one.
//            TT-2 Chunk 0 has the slots of system transactions. A creation runs one inside the
//                 caller's: if both took the same slots, callers in all of them would wait for each
//                 other for ever. System slots become free without a caller. A system transaction
//                 begins no other. It locks what it has made itself, or objects that are dropped
//                 and that nobody else can lock any more. verify() alone waits for transactions in
//                 doubt, until its lock timeout. [test: SystemSlots.*]
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "threads/base/check.h"
#include "threads/base/limits.h"
#include "threads/base/spin_lock.h"
#include "threads/runtime/runtime.h"
#include "threads/sync/event.h"
#include "txn/transaction.h"

namespace lockstep::txn {

inline constexpr uint32_t kTxnChunk = 64;  // transactions per chunk
inline constexpr uint32_t kEndBytes = sizeof(LogRecordHeader);
inline constexpr uint32_t kNoSlot = UINT32_MAX;
static_assert(TransactionTable::kSystemSlots == kTxnChunk);  // chunk 0
// Waiter::tag of a begin() that close() refuses.
inline constexpr uint64_t kClosedTag = UINT64_MAX;
inline constexpr uint64_t kFailedTag = UINT64_MAX - 1;

// Fields that checkpoints read while their transaction runs (live()).
template <class T>
inline void note(T& field, T value) {
    std::atomic_ref(field).store(value, std::memory_order_relaxed);
}

struct alignas(kCacheLineBytes) TxnShard {
    SpinLock lock;
    uint32_t free_head = kNoSlot;      // under lock
    int64_t live = 0;                  // begun here minus ended here; under lock
    uint64_t id_next = 0, id_end = 0;  // under lock
    // End of the newest commit record; written by this worker only.
    std::atomic<uint64_t> last_commit{0};

    void assert_state() const {
        DCHECK(lock.is_held());
        DCHECK(id_next <= id_end && id_end - id_next <= limits::transaction_ids());
        DCHECK(live >= 0);
    }
};

static_assert(sizeof(TxnShard) == kCacheLineBytes);

struct TransactionTable::Impl {
    Impl(Log& l, LockManager& m, uint32_t n);

    TxnShard& my_shard() {
        return shards[threads::current() != nullptr ? threads::worker_index() : 0];
    }
    Transaction& at(uint32_t slot) const {
        DCHECK(slot < slots && slot / kTxnChunk < chunks_used.load());
        return chunks[slot / kTxnChunk].load(std::memory_order_acquire)[slot % kTxnChunk];
    }

    Transaction* pop(TxnShard& shard);  // null if it has none; under shard.lock
    Result<uint32_t> take_slot_slow(TxnShard& shard);
    uint32_t steal();
    uint32_t make_chunk();
    void make_slot(uint32_t slot);
    bool add_chunk(TxnShard& shard);
    uint32_t take_system_slot();
    void put_system_slot(uint32_t slot);
    Result<uint32_t> wait_for_slot();
    void give_up(threads::Waiter& waiter);
    void recycle_slot(Transaction& txn);
    void put_free(TxnShard& shard, uint32_t slot);
    void offer(TxnShard& shard, Transaction& txn);  // under shard.lock
    void tell_if_drained();
    bool hand_to_waiter(uint32_t slot);
    void prepare(Transaction& txn, const TxnOptions& options);
    uint64_t new_id(TxnShard& shard);
    void release_locks_and_undo(Transaction& txn, Lsn committed);
    Lsn release_locks_of_reader(const TransactionTable& self, Transaction& txn);

    // Checks slot and state; for every function that is given a transaction.
    void assert_state(const Transaction& txn) const {
        DCHECK(txn.slot < slots && &at(txn.slot) == &txn);
        DCHECK(txn.shard < workers);
        DCHECK(txn.state <= TxnState::prepared && txn.locks.slot == txn.slot);
        DCHECK(txn.state == TxnState::free || txn.id.value != 0);
        DCHECK(txn.first_lsn.load(std::memory_order_relaxed) <= txn.last_lsn.value);
        DCHECK(txn.locks.txn == txn.id || txn.state == TxnState::free);
    }

    // Appends a record without payload, and marks the transaction as ended between reserve and
    // publish. Returns the record's end LSN.
    Lsn append_last(Transaction& txn, TxnLogKind kind, TxnState state);
    void note_commit(Lsn end);
    void detach(Transaction& txn);
    int64_t count() const;

    Log& log;
    LockManager& locks;
    const uint32_t slots;  // with those of system transactions
    const uint32_t workers;
    std::unique_ptr<TxnShard[]> shards;
    std::vector<std::atomic<Transaction*>> chunks;       // null but for 0; grown under admission
    std::vector<std::unique_ptr<Transaction[]>> memory;  // under admission

    alignas(kCacheLineBytes) SpinLock admission;
    std::atomic<uint32_t> chunks_used{0};  // written under admission
    // Threads that wait for a slot or are about to.
    std::atomic<uint32_t> waiting{0};
    std::atomic<bool> closed{false};
    std::atomic<uint32_t> prepared{0};
    threads::Semaphore system_units{TransactionTable::kSystemSlots};  // free slots of chunk 0
    uint32_t system_free = kNoSlot;                                   // the first; under admission
    // Tag = slot + 1 once handed over; under admission.
    threads::WaitQueue waiters;
    std::atomic<uint64_t> next_id{1};
    std::atomic<bool> drained{false};
    threads::Completion all_ended;
    bool abandoned = false;
    bool ended = false;  // by TransactionTable::end()
};

}  // namespace lockstep::txn
