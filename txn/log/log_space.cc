// log_space.cc - undo space: the promise that a rollback always finds space in the log (LOG-3).
//
// Concepts   Every forward record checks tail + reserved + forward <= promise_limit. `reserved`
//            counts the credits of all transactions and the spare bytes of the workers. Forward
//            records move bytes from free to used, compensation records from credit to used. The
//            end of a transaction returns its credit. Between a check and its record, other workers
//            may pass their own check, each by at most one record. `slack` covers that. It also
//            covers records without a promise (splits, checkpoints). While the files are small,
//            they keep less (slack_below()).
//            The check reads words that all workers write. While there is *plenty* of space (LI-7)
//            it is true without a look: the flusher, and who takes from the shared counter, say so.
#include <algorithm>

#include "threads/base/error_detail.h"
#include "threads/thread/thread.h"
#include "txn/log/log_impl.h"

namespace lockstep::txn {

// The transaction's last record needs space as well.
inline uint64_t undo_with_end(const UndoCredit& credit, uint64_t undo) {
    return undo + (credit.bytes == 0 ? kEndRecordBytes : 0);
}

bool Log::take_spare(UndoCredit& credit, uint64_t forward, uint64_t undo) {
    Impl& log = *impl_;
    undo = undo_with_end(credit, undo);
    LogWorkerSlot& slot = log.my_slot();
    log.assert_state(slot);
    const uint64_t spare = slot.spare.load(std::memory_order_relaxed);
    if (spare < undo) [[unlikely]]
        return false;
    if (!log.plenty.load(std::memory_order_relaxed) && !log.promise_fits(forward)) [[unlikely]]
        return false;
    slot.spare.store(spare - undo, std::memory_order_relaxed);
    credit.bytes += undo;
    return true;
}

bool Log::Impl::promise_fits(uint64_t forward) const {
    const uint64_t wanted =
        tail.load(std::memory_order_relaxed) + reserved.load(std::memory_order_relaxed) + forward;
    return wanted <= promise_limit.load(std::memory_order_relaxed);
}

// LI-7. Under the lock the last caller sees what the others have changed before.
void Log::Impl::find_plenty() {
    SpinGuard guard(room_lock);
    find_plenty_locked();
}

void Log::Impl::find_plenty_locked() {
    DCHECK(room_lock.is_held());
    const uint64_t most = block_floor(durable.load()) + ring.bytes() + reserved.load();
    const uint64_t half = start.load() + options.capacity_bytes / 2;
    plenty.store(most <= std::min(promise_limit.load(), half), std::memory_order_seq_cst);
}

[[gnu::cold]] Result<void> Log::reserve_undo_slow(UndoCredit& credit, uint64_t forward,
                                                  uint64_t undo, LogNeed need) {
    return impl_->reserve_undo_slow(credit, forward, undo_with_end(credit, undo), impl_->my_slot(),
                                    need);
}

// Takes a chunk from the shared counter, or less than that when little is left.
[[gnu::noinline]] Result<void> Log::Impl::reserve_undo_slow(UndoCredit& credit, uint64_t forward,
                                                            uint64_t undo, LogWorkerSlot& slot,
                                                            LogNeed need) {
    for (;;) {
        if (failed.load()) return refused();
        if (writers_stopped.load()) return lockstep::fail(ErrorCode::archive_failed, "log archive");
        const uint64_t spare = slot.spare.load(std::memory_order_relaxed);
        const uint64_t missing = undo > spare ? undo - spare : 0;
        const uint64_t bound = start.load() + options.capacity_bytes;
        const uint64_t limit_now = limit_of(start.load(), prepared_end.load(), need);
        uint64_t taken = reserved.load();
        const uint64_t least = tail.load() + forward + missing;
        if (least + taken <= limit_now) {
            const uint64_t left = limit_now - (least + taken);
            const uint64_t extra =
                missing != 0 ? std::min(undo_chunk, left / (16 * workers) / 8 * 8) : 0;
            if (!reserved.compare_exchange_strong(taken, taken + missing + extra)) continue;
            DCHECK(spare + missing >= undo);
            if (missing != 0) find_plenty();
            slot.spare.store(spare + missing + extra - undo, std::memory_order_relaxed);
            assert_state(slot);
            credit.bytes += undo;
            if (credit.heed && *credit.heed == Heed::nothing &&
                (least + taken > start.load() + scarce_bytes || files_end_soon(least + taken)))
                *credit.heed = Heed::log_scarce;
            return {};
        }
        if (least + taken + slack > bound)
            return lockstep::fail(ErrorCode::log_full, "log_bytes", options.capacity_bytes,
                                  forward + undo);
        TRY(wait_for_segment(end_for(least + taken)));
    }
}

// The capacity allows the promise, and no file can be made for it.
[[gnu::cold]] std::unexpected<Error> Log::Impl::refuse_segment() const {
    const KeeperRefusal why = keeper_stuck.load() ? keeper_refusal.load() : KeeperRefusal{};
    if (why.os == 0)
        return lockstep::fail(ErrorCode::log_full, "log segments", options.capacity_bytes);
    DCHECK(why.code != ErrorCode::none);
    auto refused = fail_os(why.code, why.os, "log segment");
    const char* const said =
        why.code == ErrorCode::no_space
            ? " has no space for more of the log; free some on its device, or erase records "
              "in smaller transactions and call Store::give_back_space()"
            : ": no more of the log can be made in this directory";
    set_error_detail(refused.error(), files.directory().path() + said);
    return refused;
}

// The capacity allows the promise, but the files do not reach `upto` yet. Returns after a step of
// the keeper; the caller tries again.
[[gnu::cold]] Result<void> Log::Impl::wait_for_segment(uint64_t upto) {
    for (uint64_t seen = room_wanted.load();
         seen < upto && !room_wanted.compare_exchange_weak(seen, upto);) {}
    threads::Waiter waiter{.thread = threads::current()};
    if (keeper_stuck.load() || keeper_stop.load() || !running.load() || waiter.thread == nullptr) {
        kick_keeper();
        return refuse_segment();
    }
    {
        SpinGuard guard(room_lock);
        room_waiters.add(waiter);
    }
    // After this thread is in the queue, so that the keeper finds it.
    kick_keeper();
    threads::park(threads::ParkReason::log);
    SpinGuard guard(room_lock);
    room_waiters.remove(waiter);
    return {};
}

void Log::promise_again(UndoCredit& credit, uint64_t undo) {
    Impl& log = *impl_;
    const uint64_t bytes = undo_with_end(credit, undo);
    log.reserved.fetch_add(bytes);
    log.find_plenty();
    credit.bytes += bytes;
    DCHECK(credit.bytes <= log.reserved.load());
    log.kick_keeper();
}

void Log::use_undo(UndoCredit& credit, uint64_t bytes) {
    Impl& log = *impl_;
    const uint64_t used = std::min(credit.bytes, bytes);
    credit.bytes -= used;
    LogWorkerSlot& slot = log.my_slot();
    log.assert_state(slot);
    DCHECK(used <= log.reserved.load());
    slot.spare.store(slot.spare.load(std::memory_order_relaxed) + used, std::memory_order_relaxed);
    log.return_spare(slot);
}

void Log::release_undo(UndoCredit& credit) { use_undo(credit, credit.bytes); }

// Bounds the spare bytes of a worker, so that idle workers do not hold the last bytes of a small
// log.
void Log::Impl::return_spare(LogWorkerSlot& slot) {
    const uint64_t spare = slot.spare.load(std::memory_order_relaxed);
    if (spare <= 2 * undo_chunk) [[likely]]
        return;
    DCHECK(spare <= reserved.load());
    slot.spare.store(undo_chunk, std::memory_order_relaxed);
    reserved.fetch_sub(spare - undo_chunk);
}

uint64_t Log::undo_reserved_bytes() const {
    uint64_t spare = 0;
    for (uint32_t i = 0; i < impl_->workers; ++i)
        spare += impl_->slots[i].spare.load(std::memory_order_relaxed);
    const uint64_t taken = impl_->reserved.load();
    return taken > spare ? taken - spare : 0;
}

bool Log::filling() const {
    if (impl_->plenty.load(std::memory_order_relaxed)) return false;
    const uint64_t taken = impl_->tail.load(std::memory_order_relaxed) +
                           impl_->reserved.load(std::memory_order_relaxed);
    return taken >
               impl_->start.load(std::memory_order_relaxed) + impl_->options.capacity_bytes / 2 ||
           impl_->files_end_soon(taken);
}

// Reads the start first: the tail stays at or beyond it.
uint64_t Log::taken_bytes() const {
    const uint64_t start = impl_->start.load();
    return impl_->tail.load() + impl_->reserved.load() - start;
}

bool Log::scarce() const {
    return taken_bytes() > impl_->scarce_bytes ||
           impl_->files_end_soon(impl_->tail.load() + impl_->reserved.load());
}

bool Log::wants_start(Lsn from, Lsn to) const {
    return impl_->keeper_stuck.load(std::memory_order_relaxed) &&
           impl_->files.number_of(from.value) < impl_->files.number_of(to.value);
}

uint64_t Log::promises_max() const { return impl_->options.capacity_bytes - impl_->slack; }

// Reads the start first: both only grow, and the tail stays at or beyond the start.
uint64_t Log::used_bytes() const {
    const uint64_t start = impl_->start.load();
    return impl_->tail.load() - start;
}
uint64_t Log::capacity_bytes() const { return impl_->options.capacity_bytes; }

}  // namespace lockstep::txn
