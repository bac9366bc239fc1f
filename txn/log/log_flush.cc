// log_flush.cc - the flusher: one user thread that writes and syncs for all workers, and keeps the
// mark (the durable-end record).
//
// Group commit: while one flush is in flight, further commits gather. The next flush takes them
// all.
// The mark is a durable write of its own, and no thread waits for it. One with each flush would
// double the device's work and cost TPC-C's durable commits a tenth of their rate. It would tell
// little more than the next durable-LSN stamp. So there is one every kMarkInterval while the log
// moves, and a last one when the log is idle. Under lazy commits alone a mark would be every second
// submission, and nothing was promised to any thread: there is one every kLazyMarkInterval.
//
// Lazy commits (LI-6): the flusher sleeps for lazy_flush_interval from the begin of one flush to
// the begin of the next. At 10 ms and more than 6.4 MB/s of log, that is one submission in more
// than 64 KB. A thread that waits for durability ends the sleep at once, by kick().
#include <algorithm>
#include <cstring>

#include "threads/base/coherence.h"
#include "threads/base/limits.h"
#include "threads/thread/thread.h"
#include "threads/worker/io_wait.h"
#include "txn/log/log_impl.h"

namespace lockstep::txn {

using threads::IoKind;
using threads::IoRequest;
using threads::ParkReason;

inline void Log::Impl::assert_state() const {
#ifdef LOCKSTEP_DEBUG_CHECKS
    // Read in this order: each value only grows, so a later read of a larger one cannot be smaller.
    const uint64_t from = start.load(), synced = durable.load(), end = tail.load();
    DCHECK(kLogFirst <= from && from <= synced && synced <= end);
    DCHECK(flushed == synced);
    DCHECK(boundary <= end && mark.durable_end <= std::max(synced, boundary));
    DCHECK(stamped.load() <= synced);
    DCHECK(prepared_end.load() % kLogBlock == 0);
    DCHECK(mark_request.file.value < 0 || mark_file.value >= 0);
#endif
}

void Log::Impl::kick(FlushReason reason) {
    if (reasons.load(std::memory_order_seq_cst) & reason) return;
    if (reasons.fetch_or(reason) & reason) return;
    if (threads::Thread* thread = flusher.load(std::memory_order_acquire)) threads::wake(thread);
}

void Log::Impl::name_lines() const {
    coherence::name("log ring", ring.at(0), 2 * ring.bytes());
    coherence::name("log slot", slots.get(), workers * sizeof(LogWorkerSlot),
                    sizeof(LogWorkerSlot));
    coherence::name("log", this, sizeof *this, sizeof *this);
    coherence::name_field("log", "tail", tail);
    coherence::name_field("log", "limit", limit);
    coherence::name_field("log", "promise_limit", promise_limit);
    coherence::name_field("log", "reserved", reserved);
    coherence::name_field("log", "durable", durable);
    coherence::name_field("log", "durable_lock", durable_lock);
    coherence::name_field("log", "reasons", reasons);
}

void Log::Impl::run_flusher() {
    name_lines();
    DCHECK(flusher.load() == nullptr && !stopping);
    flusher.store(threads::current());
    // If it were woken behind all ready threads, the disk would be idle for a turn of them.
    threads::current()->urgent = true;
    lazy_deadline = threads::now() + options.lazy_flush_interval;
    for (;;) {
        const uint32_t reason = next_reason();
        if (reason & kFlushStop) stopping = true;
        if (failed.load()) {
            if (stopping) break;
            continue;
        }
        if (reason & kFlushDurable) gather_commits();
        // A flush is wanted but nothing is filled: another worker is in the middle of a record.
        if (!flush_once() && flushed != tail.load()) threads::yield();
        if (reason & kFlushMark) (void)sync_mark();
        if (stopping && flushed == tail.load()) break;
    }
    if (!failed.load()) (void)write_last_mark();
    wait_for_mark();
    flusher.store(nullptr);
    flusher_done->set();
}

// Lets ready threads of this worker run for at most a quarter of a flush's time. If transactions
// are short compared with a flush, all of them commit together. If they are long, part of them runs
// during the flush of the others, and the CPU never waits for the disk.
void Log::Impl::gather_commits() {
    const Nanos enough = threads::now() + last_flush / 4;
    while (threads::yield_to_few(2) && threads::now() < enough) {}
}

// Parks until there is a reason to flush; 0 means that the lazy interval has passed.
uint32_t Log::Impl::next_reason() {
    for (;;) {
        keep_mark();
        uint32_t reason = reasons.exchange(0);
        const bool over = failed.load();
        if (!over) {
            SpinGuard guard(durable_lock);
            if (!durable_waiters.empty()) reason |= kFlushDurable;
        }
        if (reason & kFlushDurable) awaited = true;
        if (reason != 0 || stopping) return reason;
        if (over) {
            threads::park(ParkReason::log);
        } else if (tail.load() == flushed) {
            if (idle_since == kNever) idle_since = threads::now();
            idle.store(true, std::memory_order_seq_cst);
            const Nanos until = next_mark();
            if (tail.load(std::memory_order_seq_cst) == flushed && reasons.load() == 0)
                threads::park_until(until, ParkReason::log);
            idle.store(false);
            lazy_deadline = threads::now() + options.lazy_flush_interval;
        } else {
            idle_since = kNever;
            if (threads::now() >= lazy_deadline) return 0;
            threads::park_until(std::min(next_mark(), lazy_deadline), ParkReason::log);
        }
    }
}

// Writes the filled bytes, up to the end of the segment. False if there are none.
bool Log::Impl::flush_once() {
    assert_state();
    DCHECK(threads::current() == flusher.load());
    if (timed) note_time();
    const uint64_t complete = timed ? std::min(filled(), time_end) : filled();
    // LOG-5. Checked only here: a gathered commit may depend on a rollback that has failed since.
    if (failed.load()) return true;
    const uint64_t begin = block_floor(flushed);
    const uint64_t end = std::min({complete, files.segment_end(flushed), begin + kFlushMax});
    CHECK(end >= flushed);
    if (end == flushed) return false;
    if (boundary <= flushed) boundary = complete;
    lazy_deadline = threads::now() + options.lazy_flush_interval;
    limit.store(hard_limit.load());  // the flusher is active: appends need not wake it
    const Nanos started = threads::now();
    const Result<void> written = write_prefix(begin, end);
    DCHECK(written || failed.load());
    if (failed.load()) return true;
    last_flush = threads::now() - started;
    flush_nanos.fetch_add(last_flush, std::memory_order_relaxed);
    flush_bytes.fetch_add(end - flushed, std::memory_order_relaxed);
    flushes.fetch_add(1, std::memory_order_relaxed);
    advance(end);
    return true;
}

// Whole blocks are written straight from the ring: their bytes are complete and never change
// (IO-1). The last block goes through a copy, since appenders may fill its rest meanwhile. That
// rest is written as zeros.
Result<void> Log::Impl::write_prefix(uint64_t begin, uint64_t end) {
    DCHECK(begin % kLogBlock == 0 && begin < end && end - begin <= kFlushMax);
    DCHECK(files.number_of(begin) == files.number_of(end - 1));
    if (end > prepared_end.load()) TRY(make_space_now(end));
    TRY(open_write_segment(begin));
    DCHECK(write_segment == files.number_of(begin) && write_file.value >= 0);
    const uint64_t whole_end = block_floor(end);
    IoRequest write;
    write.kind = IoKind::write;
    write.file = write_file;
    write.io_class = threads::IoClass::log;
    write.durable = options.sync;
    write.offset = begin % files.segment_bytes();
    if (whole_end > begin) write.iov[write.iov_count++] = {ring.at(begin), whole_end - begin};
    if (end > whole_end) {
        std::memcpy(buffers->last_block, ring.at(whole_end), end - whole_end);
        std::memset(buffers->last_block + (end - whole_end), 0, kLogBlock - (end - whole_end));
        write.iov[write.iov_count++] = {buffers->last_block, kLogBlock};
    }
    DCHECK(write.offset + (block_ceil(end) - begin) <= files.segment_bytes());
    threads::io_start(write);
    threads::io_wait(write, ParkReason::log);
    if (write.durable) syncs.fetch_add(1, std::memory_order_relaxed);
    if (write.result != static_cast<int64_t>(block_ceil(end) - begin))
        return fail(
            write.durable ? "write and sync of log segment" : "write of log segment",
            files.segment_path(write_segment),
            fail_os(ErrorCode::io_error, write.result < 0 ? static_cast<int>(-write.result) : 0,
                    "log segment", begin)
                .error());
    return {};
}

Result<void> Log::Impl::open_write_segment(uint64_t lsn) {
    const uint64_t number = files.number_of(lsn);
    if (number == write_segment) return {};
    if (write_file.value >= 0) files.disk().close(write_file);
    write_file = threads::FileId{-1};
    write_segment = UINT64_MAX;
    DCHECK(lsn < prepared_end.load());
    const Result<threads::FileId> file = files.open(number, threads::Disk::kDirect);
    if (!file) return fail("open of log segment", files.segment_path(number), file.error());
    write_file = *file;
    write_segment = number;
    return {};
}

// LOG-1: called when the write of everything below `end`, and its sync, are complete.
void Log::Impl::advance(uint64_t end) {
    CHECK(end > flushed && end <= tail.load());
    DCHECK(!timed || end <= time_end);  // LOG-7
    const bool whole = end % files.segment_bytes() == 0;
    flushed = end;
    durable.store(end, std::memory_order_seq_cst);
    if (boundary <= flushed && options.sync) stamped.store(boundary, std::memory_order_release);
    assert_state();
    update_limits();
    wake_durable_waiters();
    wake_all(ring_lock, ring_waiters);
    keep_mark();
    if (prepared_end.load() < wanted_end()) kick_keeper();
    if (whole && on_whole_segment) on_whole_segment();  // no flush crosses a segment's end
}

void Log::Impl::update_limits() {
    // The last block stays in the ring until it is full: the next flush writes it again.
    const uint64_t hard = block_floor(flushed) + ring.bytes() - ring_margin - kTimeRecordBytes;
    const uint64_t soft = std::min(hard, flushed + ring.bytes() / 4);
    find_plenty();  // LI-7: before tail may move on
    SpinGuard guard(ring_lock);
    if (failed.load()) return;
    DCHECK(hard >= hard_limit.load() && soft <= hard);  // limits only grow
    hard_limit.store(hard);
    limit.store(soft);
}

// Starts the write of a new mark when it is due and the previous write is complete.
void Log::Impl::keep_mark() {
    if (!mark_lags() || failed.load()) return;
    const Nanos now = threads::now();
    if (now < mark_due() || mark_busy()) return;
    marked_at = now;
    awaited = false;
    write_mark();
}

// No mark before this.
Nanos Log::Impl::mark_due() const {
    if (awaited) return marked_at + kMarkInterval;
    if (idle_since == kNever) return marked_at + kLazyMarkInterval;
    return std::max(marked_at, idle_since) + kMarkInterval;
}

// LM-A: records only what a completed sync covers, so the recorded end is never ahead. The write is
// durable, so the record is never taken back.
void Log::Impl::write_mark() {
    if (mark_failed()) {
        (void)fail("write and sync of log.mark", files.directory().path(LogFiles::kMarkName),
                   mark_error());
        return;
    }
    if (!mark_lags()) return;
    DCHECK(!mark_busy() && boundary <= durable.load());
    mark.durable_end = boundary;
    ++mark.sequence;
    DCHECK(mark.sequence > 0 && mark.segment_bytes > 0);
    mark.encode(buffers->mark);
    mark_request = IoRequest{};
    mark_request.kind = IoKind::write;
    mark_request.durable = options.sync;
    // The flusher starts it, so it must not wait for a place behind pages.
    mark_request.io_class = threads::IoClass::log;
    mark_request.file = mark_file;
    mark_request.offset = mark.slot_offset();
    mark_request.iov[0] = {buffers->mark, DurableEnd::kSlotBytes};
    mark_request.iov_count = 1;
    mark_request.user = threads::current();
    mark_request.done = [](IoRequest* request) {
        request->complete = true;
        threads::wake(static_cast<threads::Thread*>(request->user));
    };
    threads::io_start(mark_request);
}

void Log::Impl::wait_for_mark() {
    DCHECK(threads::current() == flusher.load());  // which the completion wakes
    while (mark_busy()) threads::park(ParkReason::log);
}

Error Log::Impl::mark_error() const {
    DCHECK(mark_failed());
    const int err = mark_request.result < 0 ? static_cast<int>(-mark_request.result) : 0;
    return fail_os(ErrorCode::io_error, err, "log mark", mark.durable_end).error();
}

// Writes the mark now, without regard to the interval. A failure stops the store.
Result<void> Log::Impl::sync_mark() {
    wait_for_mark();
    write_mark();
    wait_for_mark();
    if (mark_failed())
        return fail("write and sync of log.mark", files.directory().path(LogFiles::kMarkName),
                    mark_error());
    return {};
}

// Everything is flushed: records that in the mark.
Result<void> Log::Impl::write_last_mark() {
    DCHECK(stopping);
    boundary = flushed;
    return sync_mark();
}

// A waiter lives on its thread's stack and may be destroyed as soon as it has left the queue. So
// only its thread is kept, and it is woken outside the lock (a late wake is harmless, TH-3).
void Log::Impl::wake_durable_waiters() {
    threads::Thread* batch[limits::most::durable_wakes];
    size_t count;
    do {
        count = 0;
        {
            SpinGuard guard(durable_lock);
            const bool all = failed.load();
            for (threads::Waiter *w = durable_waiters.first(), *next;
                 w != nullptr && count < limits::durable_wakes(); w = next) {
                next = w->next;
                if (!all && w->tag > durable.load(std::memory_order_relaxed)) continue;
                DCHECK(w->thread != nullptr && w->tag != 0);
                batch[count++] = w->thread;
                durable_waiters.remove(*w);
            }
        }
        for (size_t i = 0; i < count; ++i) threads::wake(batch[i]);
    } while (count == limits::durable_wakes());
}

void Log::Impl::wake_all(SpinLock& lock, threads::WaitQueue& queue) {
    for (;;) {
        threads::Thread* thread = nullptr;
        {
            SpinGuard guard(lock);
            if (threads::Waiter* waiter = queue.pop()) thread = waiter->thread;
        }
        if (thread == nullptr) return;
        threads::wake(thread);
    }
}

void Log::request_flush() { impl_->kick(kFlushRequest); }

Result<void> Log::wait_promised(Lsn lsn) {
    DCHECK(lsn != kLsnNone && lsn <= tail());
    if (!is_promised(lsn)) return wait_durable(lsn);
    return failed() && lsn > durable() ? impl_->refused() : Result<void>{};
}

bool Log::is_promised(Lsn lsn) const {
    return lsn <= durable() || !impl_->options.outlives_process;
}

Result<void> Log::wait_durable(Lsn lsn, Nanos deadline) {
    Impl& log = *impl_;
    if (log.durable.load(std::memory_order_acquire) >= lsn.value) return {};
    if (lsn.value > log.tail.load())
        return lockstep::fail(ErrorCode::bad_argument, "LSN beyond the log's end", lsn.value);
    log.durable_waits.fetch_add(1, std::memory_order_relaxed);
    threads::Waiter waiter{.thread = threads::current(), .tag = lsn.value};
    CHECK(waiter.thread != nullptr);
    {
        SpinGuard guard(log.durable_lock);
        log.durable_waiters.add(waiter);
    }
    log.kick(kFlushDurable);
    bool in_time = true;
    while (in_time && log.durable.load(std::memory_order_seq_cst) < lsn.value && !log.failed.load())
        in_time = threads::park_until(deadline, ParkReason::log);
    {
        SpinGuard guard(log.durable_lock);
        log.durable_waiters.remove(waiter);
    }
    if (log.durable.load() >= lsn.value) return {};
    if (log.failed.load()) return log.refused();
    return lockstep::fail(ErrorCode::timeout, "wait_durable", lsn.value);
}

}  // namespace lockstep::txn
