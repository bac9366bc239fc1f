// transaction.cc - the table of live transactions: slots, ids, admission, queries of checkpoints.
#include "txn/transaction.h"

#include <algorithm>
#include <utility>

#include "threads/base/coherence.h"
#include "threads/thread/between_calls.h"
#include "txn/transaction_impl.h"

namespace lockstep::txn {

TransactionTable::Impl::Impl(Log& l, LockManager& m, uint32_t n)
    : log(l),
      locks(m),
      slots(n + kSystemSlots),
      workers(l.runtime().workers()),
      shards(std::make_unique<TxnShard[]>(workers)),
      chunks((slots + kTxnChunk - 1) / kTxnChunk) {
    [[maybe_unused]] const uint32_t first = make_chunk();
    DCHECK(first == 0);  // TT-2
    for (uint32_t slot = 0; slot < kSystemSlots; ++slot) {
        make_slot(slot);
        at(slot).next_free = std::exchange(system_free, slot);
    }
}

TransactionTable::TransactionTable(Log& log, LockManager& locks, uint32_t slots)
    : impl_(std::make_unique<Impl>(log, locks, slots)) {
    CHECK(slots > 0);
}

TransactionTable::~TransactionTable() {
    if (!impl_->ended) end();
}

void TransactionTable::end() {
    DCHECK(!impl_->ended);
    impl_->ended = true;
    const uint32_t used = impl_->chunks_used.load() * kTxnChunk;
    for (uint32_t slot = 0; slot < std::min(used, impl_->slots); ++slot) {
        LockOwner& owner = impl_->at(slot).locks;
        // One in doubt keeps its locks to the end, as after a crash.
        impl_->abandoned || impl_->at(slot).state == TxnState::prepared
            ? impl_->locks.forget_owner(owner)
            : impl_->locks.remove_owner(owner);
        Outcome::drop(impl_->at(slot).outcome);  // of one that was abandoned
    }
}

void TransactionTable::abandon() { impl_->abandoned = true; }

[[gnu::always_inline]] inline Transaction* TransactionTable::Impl::pop(TxnShard& shard) {
    shard.assert_state();
    const uint32_t slot = shard.free_head;
    if (slot == kNoSlot) [[unlikely]]
        return nullptr;
    Transaction& txn = at(slot);
    DCHECK(txn.slot == slot && txn.state == TxnState::free);
    shard.free_head = txn.next_free;
    return &txn;
}

[[gnu::always_inline]] inline uint64_t TransactionTable::Impl::new_id(TxnShard& shard) {
    shard.assert_state();
    if (shard.id_next == shard.id_end) [[unlikely]] {
        shard.id_next = next_id.fetch_add(limits::transaction_ids());
        shard.id_end = shard.id_next + limits::transaction_ids();
    }
    DCHECK(shard.id_next < shard.id_end);
    return shard.id_next++;
}

Result<Transaction*> TransactionTable::begin_system(const TxnOptions& options) {
    Impl& table = *impl_;
    if (table.log.failed()) return table.log.refused();
    TxnShard& shard = table.my_shard();
    uint64_t id;
    {
        SpinGuard guard(shard.lock);
        if (table.closed.load(std::memory_order_relaxed)) return fail(ErrorCode::store_closed);
        id = table.new_id(shard);
        ++shard.live;
    }
    const uint32_t slot = table.take_system_slot();
    Transaction& txn = table.at(slot);
    DCHECK(txn.state == TxnState::free && slot < kSystemSlots);
    note(txn.id.value, id);
    table.prepare(txn, options);
    table.assert_state(txn);
    return &txn;
}

uint32_t TransactionTable::Impl::take_system_slot() {
    DCHECK(threads::current()->latch_depth == 0);
    system_units.acquire(1, kNever, threads::ParkReason::admission);
    const SpinGuard guard(admission);
    const uint32_t slot = system_free;
    DCHECK(slot < kSystemSlots);  // as many are free as the semaphore has units
    system_free = at(slot).next_free;
    return slot;
}

[[gnu::cold, gnu::noinline]] void TransactionTable::Impl::put_system_slot(uint32_t slot) {
    {
        const SpinGuard guard(admission);
        DCHECK(slot < kSystemSlots && slot != system_free);
        at(slot).next_free = system_free;
        system_free = slot;
    }
    system_units.release();
}

Result<Transaction*> TransactionTable::begin(const TxnOptions& options) {
    Impl& table = *impl_;
    if (table.log.failed()) [[unlikely]]
        return table.log.refused();
    TxnShard& shard = table.my_shard();
    Transaction* txn;
    uint64_t id = 0;
    {
        SpinGuard guard(shard.lock);
        if (table.closed.load(std::memory_order_relaxed)) [[unlikely]]
            return fail(ErrorCode::store_closed);
        txn = table.pop(shard);
        id = table.new_id(shard);
        ++shard.live;
    }
    if (txn == nullptr) [[unlikely]] {
        const Result<uint32_t> taken = table.take_slot_slow(shard);
        if (!taken) {
            {
                SpinGuard guard(shard.lock);
                --shard.live;
            }
            if (table.closed.load()) table.tell_if_drained();
            return std::unexpected(taken.error());
        }
        txn = &table.at(*taken);
    }
    DCHECK(txn->state == TxnState::free);
    note(txn->id.value, id);
    table.prepare(*txn, options);
    table.assert_state(*txn);
    return txn;
}

[[gnu::always_inline]] inline void TransactionTable::Impl::prepare(Transaction& txn,
                                                                   const TxnOptions& options) {
    DCHECK(is_level(options.isolation));
    DCHECK(options.durability <= Durability::lazy && threads::current() != nullptr);
    DCHECK(txn.locks.locks_held == 0 && txn.locks.waiting.load() == nullptr);  // TX-2
    DCHECK(txn.first_lsn.load(std::memory_order_relaxed) == 0 && txn.undo.bytes == 0);
    DCHECK(!txn.internal && txn.reaper == nullptr);
    note(txn.shard, threads::worker_index());
    note(txn.began, threads::now_coarse());
    // Behind id and shard, for threads that look from outside.
    std::atomic_ref(txn.state).store(TxnState::active, std::memory_order_release);
    txn.isolation = options.isolation;
    txn.durability = options.durability;
    txn.read_only = options.read_only || rules_of(options.isolation).by_snapshot;
    txn.heed = Heed::nothing;
    txn.thread = threads::current();
    txn.thread_id = txn.thread->id;
    note(txn.last_lsn.value, kLsnNone.value);
    txn.undo_next = kLsnNone;
    txn.savepoints = 0;
    LockOwner& owner = txn.locks;
    owner.txn = txn.id;
    owner.thread = txn.thread;
    note(owner.thread_use, static_cast<uint32_t>(txn.thread_id));
    owner.timeout = options.lock_timeout;
    owner.work = 0;
    owner.priority = options.priority;
    owner.operations = options.operations;
}

// Other shards, a new chunk, or a wait.
[[gnu::cold, gnu::noinline]] Result<uint32_t> TransactionTable::Impl::take_slot_slow(
    TxnShard& shard) {
    for (;;) {
        if (add_chunk(shard)) {
            SpinGuard guard(shard.lock);
            if (const Transaction* const txn = pop(shard)) return txn->slot;
        } else if (const uint32_t slot = steal(); slot != kNoSlot) {
            return slot;
        } else {
            return wait_for_slot();
        }
    }
}

uint32_t TransactionTable::Impl::steal() {
    for (uint32_t i = 0; i < workers; ++i) {
        SpinGuard guard(shards[i].lock);
        if (const Transaction* const txn = pop(shards[i])) return txn->slot;
    }
    return kNoSlot;
}

// The first slot of a new chunk; kNoSlot if all chunks exist already.
uint32_t TransactionTable::Impl::make_chunk() {
    if (chunks_used.load() == chunks.size()) return kNoSlot;
    auto fresh = std::make_unique<Transaction[]>(kTxnChunk);
    SpinGuard guard(admission);
    const uint32_t number = chunks_used.load();
    if (number == chunks.size()) return kNoSlot;
    DCHECK(chunks[number].load() == nullptr && memory.size() == number);
    coherence::name("transaction", fresh.get(), kTxnChunk * sizeof(Transaction),
                    sizeof(Transaction));
    chunks[number].store(fresh.get(), std::memory_order_release);
    memory.push_back(std::move(fresh));
    chunks_used.store(number + 1);
    return number * kTxnChunk;
}

void TransactionTable::Impl::make_slot(uint32_t slot) {
    Transaction& txn = at(slot);
    txn.slot = txn.locks.slot = slot;
    txn.undo.heed = &txn.heed;
    locks.add_owner(txn.locks);
}

// Fills the shard with a chunk of new slots. False if all chunks exist already. Once this one
// counts as made, others find none left and may wait: they are given slots of it (TT-1).
bool TransactionTable::Impl::add_chunk(TxnShard& shard) {
    const uint32_t first = make_chunk();
    if (first == kNoSlot) return false;
    DCHECK(first >= kSystemSlots && first < slots);  // TT-2
    for (uint32_t slot = first; slot < std::min(first + kTxnChunk, slots); ++slot) {
        make_slot(slot);
        put_free(shard, slot);
    }
    return true;
}

// TT-1: enters the queue first, then searches the shards once more. It may get two slots that way;
// it then returns one.
[[gnu::cold]] Result<uint32_t> TransactionTable::Impl::wait_for_slot() {
    threads::Waiter waiter{.thread = threads::current()};
    CHECK(waiter.thread != nullptr);
    // An older transaction of this thread can be rolled back meanwhile.
    const threads::BetweenCalls waits;
    const auto answer = [&] {
        SpinGuard guard(admission);
        return waiter.tag;
    };
    waiting.fetch_add(1);
    {
        SpinGuard guard(admission);
        if (closed.load()) waiter.tag = kClosedTag;
        else waiters.add(waiter);
    }
    const uint32_t found = steal();
    if (found != kNoSlot) {
        SpinGuard guard(admission);
        if (waiter.tag == 0) {
            waiters.remove(waiter);
            waiter.tag = found + 1ull;
        }
    }
    while (answer() == 0) {
        const Nanos look = threads::now() + kFailureLook;
        if (!threads::park_until(look, threads::ParkReason::admission) && log.failed())
            give_up(waiter);
    }
    DCHECK(!waiter.queued && waiting.load() > 0);
    waiting.fetch_sub(1);
    if (found != kNoSlot && waiter.tag != found + 1ull) put_free(shards[0], found);
    if (waiter.tag == kClosedTag) return fail(ErrorCode::store_closed);
    if (waiter.tag == kFailedTag) return log.refused();
    DCHECK(waiter.tag - 1 < slots);
    return static_cast<uint32_t>(waiter.tag - 1);
}

// The threads that have the slots may never end their transactions, now that the store has failed.
[[gnu::cold]] void TransactionTable::Impl::give_up(threads::Waiter& waiter) {
    DCHECK(log.failed() && waiter.thread == threads::current());
    const SpinGuard guard(admission);
    if (waiter.tag != 0) return;  // a slot came after all
    DCHECK(waiter.queued);
    waiters.remove(waiter);
    waiter.tag = kFailedTag;
}

void TransactionTable::Impl::put_free(TxnShard& shard, uint32_t slot) {
    const SpinGuard guard(shard.lock);
    offer(shard, at(slot));
}

// A free slot goes to the first waiter if there is one, else to the shard.
[[gnu::always_inline]] inline void TransactionTable::Impl::offer(TxnShard& shard,
                                                                 Transaction& txn) {
    shard.assert_state();
    DCHECK(txn.slot >= kSystemSlots && txn.slot < slots && txn.slot != shard.free_head);
    DCHECK(txn.state == TxnState::free && txn.locks.locks_held == 0);
    if (waiting.load(std::memory_order_relaxed) != 0 && hand_to_waiter(txn.slot)) [[unlikely]]
        return;
    txn.next_free = shard.free_head;
    shard.free_head = txn.slot;
}

bool TransactionTable::Impl::hand_to_waiter(uint32_t slot) {
    threads::Thread* thread = nullptr;
    {
        SpinGuard guard(admission);
        if (threads::Waiter* waiter = waiters.pop()) {
            DCHECK(waiter->tag == 0 && waiter->thread != nullptr);
            waiter->tag = slot + 1ull;
            thread = waiter->thread;
        }
    }
    if (thread == nullptr) return false;
    threads::wake(thread);
    return true;
}

// Frees the object. Its shard is that of the worker that began the transaction and now ends it.
void TransactionTable::Impl::recycle_slot(Transaction& txn) {
    assert_state(txn);
    DCHECK(txn.state != TxnState::free);  // given back once
    DCHECK(txn.locks.locks_held == 0);    // TX-2
    DCHECK(txn.undo.bytes == 0);
    DCHECK(txn.first_lsn.load(std::memory_order_relaxed) == 0 || log.failed());
    TxnShard& shard = shards[txn.shard];
    if (txn.outcome != nullptr) [[unlikely]]
        Outcome::drop(std::exchange(txn.outcome, nullptr));
    // Handles that are left, also behind end(), are stale from now on.
    ++txn.generation;
    note(txn.state, TxnState::free);
    const bool of_system = txn.slot < kSystemSlots;
    if (of_system) [[unlikely]]
        put_system_slot(txn.slot);
    bool closing;
    {
        const SpinGuard guard(shard.lock);
        DCHECK(shard.live > 0);
        if (!of_system) offer(shard, txn);
        --shard.live;
        shard.assert_state();
        closing = closed.load(std::memory_order_relaxed);
    }
    if (closing) [[unlikely]]
        tell_if_drained();
}

void TransactionTable::Impl::tell_if_drained() {
    DCHECK(closed.load());
    if (count() == 0 && !drained.exchange(true)) all_ended.set();
}

int64_t TransactionTable::Impl::count() const {
    int64_t live = 0;
    for (uint32_t i = 0; i < workers; ++i) {
        SpinGuard guard(shards[i].lock);
        live += shards[i].live;
    }
    return live;
}

Result<Transaction*> TransactionTable::adopt(TxnId id, Lsn first, Lsn last) {
    DCHECK(id != kTxnNone && first != kLsnNone && first <= last);
    set_next_id(TxnId{std::max(impl_->next_id.load(), id.value + 1)});
    Transaction* txn = TRY(begin(TxnOptions{}));
    txn->id = txn->locks.txn = id;
    txn->state = TxnState::aborting;
    txn->last_lsn = txn->undo_next = last;
    txn->first_lsn.store(first.value, std::memory_order_release);
    return txn;
}

std::vector<Transaction*> TransactionTable::unfinished() {
    std::vector<Transaction*> found;
    const uint32_t used = std::min(impl_->chunks_used.load() * kTxnChunk, impl_->slots);
    for (uint32_t slot = 0; slot < used; ++slot)
        if (Transaction& txn = impl_->at(slot);
            txn.state == TxnState::active || txn.state == TxnState::undone)
            found.push_back(&txn);
    return found;
}

// The fields of an entry are consistent: first_lsn identifies one use of the slot, and is read
// before and after the others.
std::vector<TransactionTable::Live> TransactionTable::live() const {
    impl_->log.wait_until_published();
    std::vector<Live> list;
    const uint32_t end = std::min(impl_->chunks_used.load() * kTxnChunk, impl_->slots);
    for (uint32_t slot = 0; slot < end; ++slot) {
        Transaction& txn = impl_->at(slot);
        for (;;) {
            const uint64_t first = txn.first_lsn.load(std::memory_order_acquire);
            if (first == 0) break;
            const Live entry{
                .id = TxnId{std::atomic_ref(txn.id.value).load(std::memory_order_relaxed)},
                .first = Lsn{first},
                .last = Lsn{std::atomic_ref(txn.last_lsn.value).load(std::memory_order_relaxed)},
                .state = std::atomic_ref(txn.state).load(std::memory_order_relaxed)};
            std::atomic_thread_fence(std::memory_order_acquire);
            if (txn.first_lsn.load(std::memory_order_relaxed) != first) continue;
            list.push_back(entry);
            break;
        }
    }
    return list;
}

std::vector<TransactionTable::Seen> TransactionTable::seen() const {
    const auto read = [](auto& field) {
        return std::atomic_ref(field).load(std::memory_order_relaxed);
    };
    std::vector<Seen> list;
    const uint32_t end = std::min(impl_->chunks_used.load() * kTxnChunk, impl_->slots);
    for (uint32_t slot = 0; slot < end; ++slot) {
        Transaction& txn = impl_->at(slot);
        const TxnState state = read(txn.state);
        if (state == TxnState::free) continue;
        const Seen entry{.id = TxnId{read(txn.id.value)},
                         .slot = slot,
                         .worker = read(txn.shard),
                         .state = state,
                         .internal = read(txn.internal),
                         .waits = txn.locks.waiting.load(std::memory_order_relaxed) != nullptr,
                         .first = Lsn{txn.first_lsn.load(std::memory_order_acquire)},
                         .last = Lsn{read(txn.last_lsn.value)},
                         .began = read(txn.began)};
        // Ended meanwhile, and perhaps another one has begun: it is too young to be of interest.
        if (read(txn.id.value) == entry.id.value && entry.id != kTxnNone) list.push_back(entry);
    }
    return list;
}

// What is not atomic belongs to the threads of this worker, if it is theirs.
bool TransactionTable::rolls_back_here() const {
    DCHECK(threads::current() != nullptr);
    const std::vector<Seen> all = seen();
    return std::ranges::any_of(all, [this](const Seen& s) {
        return s.state == TxnState::aborting && s.worker == threads::worker_index() &&
               impl_->at(s.slot).runs_here();
    });
}

Transaction& TransactionTable::at(uint32_t slot) { return impl_->at(slot); }

Lsn TransactionTable::oldest_first_lsn() const {
    impl_->log.wait_until_published();
    uint64_t oldest = kLsnMax.value;
    const uint32_t end = std::min(impl_->chunks_used.load() * kTxnChunk, impl_->slots);
    for (uint32_t slot = 0; slot < end; ++slot)
        if (const uint64_t first = impl_->at(slot).first_lsn.load(std::memory_order_acquire))
            oldest = std::min(oldest, first);
    return Lsn{oldest};
}

void TransactionTable::set_next_id(TxnId next) {
    for (uint32_t i = 0; i < impl_->workers; ++i) {
        SpinGuard guard(impl_->shards[i].lock);
        impl_->shards[i].id_next = impl_->shards[i].id_end = 0;
    }
    DCHECK(next != kTxnNone);
    impl_->next_id.store(next.value);
}

TxnId TransactionTable::next_id() const { return TxnId{impl_->next_id.load()}; }
uint32_t TransactionTable::active() const {
    // The shards also count the waiting ones, so that close() does not overlook them.
    const int64_t begun = impl_->count() - int64_t{waiting()};
    return static_cast<uint32_t>(std::clamp<int64_t>(begun, 0, impl_->slots));
}
uint32_t TransactionTable::waiting() const { return impl_->waiting.load(); }

void TransactionTable::close() {
    Impl& table = *impl_;
    if (!table.closed.exchange(true)) {
        for (bool more = true; more;) {
            threads::Thread* thread = nullptr;
            {
                SpinGuard guard(table.admission);
                if (threads::Waiter* waiter = table.waiters.pop()) {
                    waiter->tag = kClosedTag;
                    thread = waiter->thread;
                }
            }
            more = thread != nullptr;
            if (more) threads::wake(thread);
        }
        // A begin() that takes a shard's lock after this sees `closed`; an earlier one is counted.
        table.tell_if_drained();
    }
    table.all_ended.wait();
}

}  // namespace lockstep::txn
