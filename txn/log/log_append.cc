// log_append.cc - reserve, fill, publish: the hot path of the log.
//
// Proof of the flusher's boundary (lowest-LSN protocol). reserve() stores t, the end of its
// worker's newest record, into the worker's slot and then adds to `tail`. So it does not read the
// word that all workers write. Its record begins at lsn >= t. The flusher loads `tail` (T) first
// and the slots after it.
//   Record ends at or below T: the add precedes the flusher's load in the modification order of
//   `tail`. Add and load synchronize (release sequence of adds), so the flusher sees the slot as of
//   that store or later. While the record is open, the slot holds t <= lsn. After publish() it
//   holds kNothingOpen or a higher t, and the release store of publish() makes the record's bytes
//   visible.
//   Record ends above T: it is not flushed.
// So min(T, all slots) is a boundary between records below which every byte is filled. What is
// flushed is such a boundary too, and may be higher: t is old if the worker was idle.
// The ring (LI-2): a worker whose record ends beyond hard_limit has an `end` beyond it. So its next
// record waits. Hence of each worker at most one record is there, as ring_margin allows.
#include <cstring>

#include "threads/base/hints.h"
#include "threads/base/sim_point.h"
#include "threads/base/wall_clock.h"
#include "threads/thread/thread.h"
#include "txn/log/log_checksum.h"
#include "txn/log/log_impl.h"

namespace lockstep::txn {

Log::Place Log::take_place(uint32_t bytes) {
    Impl& log = *impl_;
    DCHECK(bytes >= sizeof(LogRecordHeader) && bytes <= kLogRecordMax && bytes % 8 == 0);
    LogWorkerSlot& slot = log.my_slot();
    if (slot.end + bytes > log.limit.load(std::memory_order_acquire)) [[unlikely]]
        return log.wait_for_place(bytes);
    return log.take_place(slot, bytes, slot.end);
}

// `seen`: a tail at which the bytes fit.
[[gnu::always_inline]] inline Log::Place Log::Impl::take_place(LogWorkerSlot& slot, uint32_t bytes,
                                                               uint64_t seen) {
    DCHECK(slot.inflight.load(std::memory_order_relaxed) == kNothingOpen);  // LI-1
    DCHECK(&slot == &my_slot() && slot.end <= tail.load());
    SIM_POINT();
    slot.inflight.store(seen, std::memory_order_release);
    SIM_POINT();
    const uint64_t lsn = tail.fetch_add(bytes, std::memory_order_seq_cst);
    slot.end = lsn + bytes;
    DCHECK(lsn >= seen && lsn % 8 == 0 && lsn >= kLogFirst);
    // LI-2.
    DCHECK(lsn + bytes <=
               hard_limit.load(std::memory_order_relaxed) + ring_margin + kTimeRecordBytes ||
           failed.load());
    SIM_POINT();
    std::byte* at = ring.at(lsn);
    // The ring is larger than the caches: prefetch the lines of the next record while this one is
    // being filled.
    prefetch_line_to_write(at + bytes + 128);
    prefetch_line_to_write(at + bytes + 192);
    const uint64_t zero = 0;
    // Padding bytes are part of the checksum: set them to zero.
    std::memcpy(at + bytes - 8, &zero, 8);
    return {.at = at, .lsn = Lsn{lsn}};
}

[[gnu::cold, gnu::noinline]] Log::Place Log::Impl::wait_for_place(uint32_t bytes) {
    const uint64_t seen = wait_for_ring(bytes);  // the caller may have parked meanwhile
    return take_place(my_slot(), bytes, seen);
}

void Log::publish(std::byte* at, Lsn lsn, uint32_t bytes) { impl_->publish(at, lsn, bytes); }

[[gnu::always_inline]] inline void Log::Impl::publish(std::byte* at, Lsn lsn, uint32_t bytes) {
    auto* header = reinterpret_cast<LogRecordHeader*>(at);
    DCHECK(at == ring.at(lsn.value) && header->kind != 0);
    DCHECK(header->prev < lsn.value);
    header->bytes = bytes;
    header->checksum = log_checksum(header, bytes, lsn);
    LogWorkerSlot& slot = my_slot();
    DCHECK(slot.inflight.load(std::memory_order_relaxed) <= lsn.value);  // LI-1
    slot.records.store(slot.records.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    SIM_POINT();
    slot.inflight.store(kNothingOpen, std::memory_order_release);
    SIM_POINT();
    // The add in reserve() precedes this load. The flusher's store to `idle` precedes its load of
    // `tail`. So at least one of the two sees the other.
    if (idle.load(std::memory_order_seq_cst)) [[unlikely]]
        wake_idle_flusher();
}

// LOG-7. Of a commit C that a thread learns of at the moment a, because C lies below durable():
// flush_once() calls this before it looks what is filled, and never writes beyond time_end. So C
// lies below a time record R that was reserved, and whose clock was read, before that write. Hence
// R is above C and its time is not later than a. Of a record D that lies below R: D was reserved
// before R, because `tail` only grows, and the clock is read after R's reservation. Hence D is
// older than the time of R. Neither depends on how long this thread did not run.
// Two limits. The clock is the time of day: where an operator sets it back, times go back with it.
// A flush that ends at a segment's end, after kFlushMax bytes or at a record that is being filled
// leaves R to the next flush. If the machine crashes between the two, R is lost and C is not.
// Only the flusher calls it, and only for records that others have written. So at a full ring it
// takes kTimeRecordBytes once, which update_limits() leaves free (LI-2).
void Log::Impl::note_time() {
    DCHECK(timed && threads::current() == flusher.load());
    const uint64_t seen = tail.load(std::memory_order_seq_cst);
    if (seen == time_end || failed.load()) return;
    const Place place = take_place(my_slot(), kTimeRecordBytes, seen);
    const TimePayload payload{wall_now(runtime.clock())};
    LogRecordHeader header{};
    header.kind = static_cast<uint16_t>(TxnLogKind::time);
    std::memcpy(place.at, &header, sizeof header);
    std::memcpy(place.at + sizeof header, &payload, sizeof payload);
    publish(place.at, place.lsn, kTimeRecordBytes);
    time_end = place.lsn.value + kTimeRecordBytes;
}

void Log::keep_times() {
    DCHECK(impl_->flusher.load() == nullptr);
    impl_->timed = true;
    impl_->time_end = impl_->flushed;
}

bool Log::keeps_times() const { return impl_->timed; }

void Log::discard(std::byte* at, Lsn lsn, uint32_t bytes) {
    DCHECK(at != nullptr && bytes >= sizeof(LogRecordHeader));
    std::memset(at, 0, bytes);
    reinterpret_cast<LogRecordHeader*>(at)->kind = static_cast<uint16_t>(TxnLogKind::pad);
    publish(at, lsn, bytes);
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
    return std::max(low, flushed);
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
