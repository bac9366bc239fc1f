// log_append.cc - reserve, fill, publish: the hot path of the log.
//
// Proof of the flusher's boundary (lowest-LSN protocol). reserve() stores t, a tail it has seen,
// into its worker's slot and then adds to `tail`. Its record begins at lsn >= t. The flusher loads
// `tail` (T) first and the slots after it.
//   Record ends at or below T: the add precedes the flusher's load in the modification order of
//   `tail`. Add and load synchronize (release sequence of adds), so the flusher sees the slot as of
//   that store or later. While the record is open, the slot holds t <= lsn. After publish() it
//   holds kNothingOpen or a higher t, and the release store of publish() makes the record's bytes
//   visible.
//   Record ends above T: it is not flushed.
// So min(T, all slots) is a boundary between records below which every byte is filled.
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
    DCHECK(lsn >= seen && lsn % 8 == 0 && lsn >= kLogFirst);
    // LI-2.
    DCHECK(lsn + bytes <= log.hard_limit.load(std::memory_order_relaxed) + log.ring_margin ||
           log.failed.load());
    SIM_POINT();
    std::byte* at = log.ring.at(lsn);
    // The ring is larger than the caches: prefetch the lines of the next record while this one is
    // being filled.
    prefetch_line_to_write(at + bytes + 128);
    prefetch_line_to_write(at + bytes + 192);
    const uint64_t zero = 0;
    // Padding bytes are part of the checksum: set them to zero.
    std::memcpy(at + bytes - 8, &zero, 8);
    return LogSpace{.at = at, .lsn = Lsn{lsn}, .bytes = bytes};
}

void Log::publish(const LogSpace& space) {
    Impl& log = *impl_;
    LogRecordHeader* header = space.header();
    DCHECK(space.at == log.ring.at(space.lsn.value) && header->kind != 0);
    DCHECK(header->prev < space.lsn.value);
    header->bytes = space.bytes;
    header->checksum = log_checksum(header, space.bytes, space.lsn);
    LogWorkerSlot& slot = log.my_slot();
    DCHECK(slot.inflight.load(std::memory_order_relaxed) <= space.lsn.value);  // LI-1
    slot.records.store(slot.records.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    SIM_POINT();
    slot.inflight.store(kNothingOpen, std::memory_order_release);
    SIM_POINT();
    // The add in reserve() precedes this load. The flusher's store to `idle` precedes its load of
    // `tail`. So at least one of the two sees the other.
    if (log.idle.load(std::memory_order_seq_cst)) [[unlikely]]
        log.wake_idle_flusher();
}

void Log::discard(const LogSpace& space) {
    DCHECK(space.at != nullptr && space.bytes >= sizeof(LogRecordHeader));
    std::memset(space.at, 0, space.bytes);
    space.header()->kind = static_cast<uint16_t>(TxnLogKind::pad);
    publish(space);
}

void Log::wait_until_published() const { impl_->wait_until_published(); }

// A reservation is open for the time of a copy, and its kernel thread does not switch user threads
// meanwhile. So the spin is short, unless the system has preempted that kernel thread. The loop
// therefore yields now and then, so that other user threads can run.
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

// The soft limit makes the flusher start early; only the hard limit makes the thread wait.
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
    if (!idle.exchange(false)) return;  // another thread wakes it
    if (threads::Thread* thread = flusher.load(std::memory_order_acquire)) threads::wake(thread);
}

}  // namespace lockstep::txn
