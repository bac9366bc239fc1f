// log_append.cc - reserve, fill, publish: the hot path of the log.
//
// Why the flusher's view is right (the lowest-LSN protocol). reserve() stores t, a tail it has
// seen, into its worker's slot and then adds to `tail`; its record begins at lsn >= t. The flusher
// loads `tail` (T) first and the slots after. If the record ends at or below T, the add precedes
// the flusher's load in the modification order of `tail`; add and load synchronize (release
// sequence of adds), so the flusher sees the slot as of that store or later: t <= lsn while the
// record is open, kNothingOpen or a higher t after publish(), whose release store makes the
// record's bytes visible. If the record ends above T, it is not asked for. So min(T, all slots) is
// a boundary between records below which every byte is filled.
#include <cstring>

#include "threads/base/hints.h"
#include "threads/base/sim_point.h"
#include "threads/thread/thread.h"
#include "txn/log/log_checksum.h"
#include "txn/log/log_impl.h"

namespace lockstep::txn {

LogSpace Log::reserve(uint32_t bytes) {
    Impl& log = *impl_;
    bytes = log_align(bytes);
    DCHECK(bytes >= sizeof(LogRecordHeader) && bytes <= kLogRecordMax);
    uint64_t seen = log.tail.load(std::memory_order_relaxed);
    if (seen + bytes > log.limit.load(std::memory_order_acquire)) [[unlikely]]
        seen = log.wait_for_ring(bytes);
    LogWorkerSlot& slot = log.my_slot();
    DCHECK(slot.inflight.load(std::memory_order_relaxed) == kNothingOpen);  // LI-1
    SIM_POINT();
    slot.inflight.store(seen, std::memory_order_release);
    SIM_POINT();
    const uint64_t lsn = log.tail.fetch_add(bytes, std::memory_order_seq_cst);
    // LI-2.
    DCHECK(lsn + bytes <= log.hard_limit.load(std::memory_order_relaxed) + log.ring_margin ||
           log.failed.load());
    SIM_POINT();
    std::byte* at = log.ring.at(lsn);
    // The ring is larger than the caches: ask for the lines of the record after this one while this
    // one is being filled.
    prefetch_line_to_write(at + bytes + 128);
    prefetch_line_to_write(at + bytes + 192);
    const uint64_t zero = 0;
    // Padding bytes are part of the checksum: give them a value.
    std::memcpy(at + bytes - 8, &zero, 8);
    return LogSpace{.at = at, .lsn = Lsn{lsn}, .bytes = bytes};
}

void Log::publish(const LogSpace& space) {
    Impl& log = *impl_;
    LogRecordHeader* header = space.header();
    header->bytes = space.bytes;
    header->checksum = log_checksum(header, space.bytes, space.lsn);
    LogWorkerSlot& slot = log.my_slot();
    slot.records.store(slot.records.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    SIM_POINT();
    slot.inflight.store(kNothingOpen, std::memory_order_release);
    SIM_POINT();
    // The add in reserve() came before this load, the flusher's store to `idle` before its look at
    // `tail`: one of the two sees the other.
    if (log.idle.load(std::memory_order_seq_cst)) [[unlikely]]
        log.wake_idle_flusher();
}

void Log::discard(const LogSpace& space) {
    std::memset(space.at, 0, space.bytes);
    space.header()->kind = static_cast<uint16_t>(TxnLogKind::pad);
    publish(space);
}

void Log::wait_until_published() const { impl_->wait_until_published(); }

// A reservation is open for the time of a copy, on a kernel thread that does not switch user
// threads meanwhile: spinning is short unless the system has taken that kernel thread off its CPU;
// then other user threads may go on.
void Log::Impl::wait_until_published() const {
    const uint64_t upto = tail.load(std::memory_order_seq_cst);
    for (uint32_t i = 0; i < workers; ++i) {
        for (uint32_t spins = 0; slots[i].inflight.load(std::memory_order_acquire) < upto;
             ++spins) {
            if (spins % 1024 == 1023 && threads::current() != nullptr) {
                threads::yield();
            } else {
                cpu_relax();
            }
        }
    }
}

uint64_t Log::Impl::filled() const {
    uint64_t low = tail.load(std::memory_order_seq_cst);
    SIM_POINT();
    for (uint32_t i = 0; i < workers; ++i)
        low = std::min(low, slots[i].inflight.load(std::memory_order_acquire));
    return low;
}

// The soft limit asks the flusher to start early; only the hard one makes the thread wait.
[[gnu::cold, gnu::noinline]] uint64_t Log::Impl::wait_for_ring(uint32_t bytes) {
    for (;;) {
        const uint64_t seen = tail.load(std::memory_order_relaxed);
        // LOG-5: this memory will never be written.
        if (failed.load(std::memory_order_acquire)) return seen;
        kick(kFlushRing);
        if (seen + bytes <= hard_limit.load(std::memory_order_acquire)) return seen;
        ring_full_waits.fetch_add(1, std::memory_order_relaxed);
        threads::Waiter waiter{.thread = threads::current()};
        CHECK(waiter.thread != nullptr);
        bool wait = false;
        {
            SpinGuard guard(ring_lock);
            wait = tail.load() + bytes > hard_limit.load() && !failed.load();
            if (wait) ring_waiters.add(waiter);
        }
        if (!wait) continue;
        threads::park(threads::ParkReason::log);
        SpinGuard guard(ring_lock);
        ring_waiters.remove(waiter);
    }
}

[[gnu::cold, gnu::noinline]] void Log::Impl::wake_idle_flusher() {
    if (!idle.exchange(false)) return;  // somebody else does it
    if (threads::Thread* thread = flusher.load(std::memory_order_acquire)) threads::wake(thread);
}

}  // namespace lockstep::txn
