// log_impl.h - the inside of Log, split by operation: log_append, log_flush, log_keep, log_hold,
// log_grow, log_space, log_read, log_open. Private.
//
// Concepts   Appenders move `tail`. Each worker notes in its slot the lowest LSN it may still be
//            filling. The *flusher* (user thread on worker 0) writes and syncs the filled prefix,
//            one flush at a time, never across a segment's end, at most kFlushMax bytes. The
//            *keeper* (user thread on worker 0) owns the segment files: it makes segments ahead of
//            need and recycles those below start. If the flusher finds no segment, it may make one
//            itself, on the same worker and without switching. The *mark* is the durable-end
//            record (durable_end_file.h).
//            Order of LSNs: start <= durable == flushed <= filled <= tail <= prepared_end.
// Invariants LI-1 A worker has at most one open reservation, and no user thread switches while it
//                 is open.
//            LI-2 tail - block_floor(flushed) <= ring size, always: see ring_margin. [checked:
//                 reserve()]
//            LI-3 All bytes ever written beyond the durable end lie in one flush: within kFlushMax
//                 bytes and one segment. The durable end may lie inside a record, at a segment's
//                 end or where kFlushMax has cut a flush. So the end of the last whole record may
//                 lie up to kLogRecordMax below it. open() relies on both when it clears a torn
//                 tail. [checked: LogSegmentEnd.*]
//            LI-4 promise_limit == the lesser of limit_of(start, prepared_end, grows) and start +
//                 scarce_bytes, or 0 while writers are stopped or once the store has failed. Once
//                 the device was full, it is lower by `warned`. It may lag for a moment.
//            LI-6 While no thread waits for durability, wants ring space or asks for a flush, two
//                 submissions of log are lazy_flush_interval apart, and no published byte waits
//                 for longer. [checked: LogLazy.*]
//            LI-7 plenty => block_floor(durable) + ring size + reserved <= both promise_limit and
//                 start + half of the capacity. So is tail + reserved (LI-2). It is found out anew
//                 before the ring's limits move, and after the other terms have. [checked:
//                 take_spare(), filling()]
//            LI-5 The blocks below prepared_end are allocated, and a completed sync covers them.
//                 [checked: LogGrow.WhatIsPromisedSurvivesAPowerCut]
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "threads/base/check.h"
#include "threads/base/spin_lock.h"
#include "threads/runtime/runtime.h"
#include "threads/sync/event.h"
#include "txn/log/durable_end_file.h"
#include "txn/log/log.h"
#include "txn/log/log_files.h"
#include "txn/log/log_ring.h"

namespace lockstep::txn {

inline constexpr uint64_t kFlushMax = 4ull << 20;
inline constexpr uint64_t kNothingOpen = UINT64_MAX;
inline constexpr uint32_t kEndRecordBytes = sizeof(LogRecordHeader);

// Written by one worker's threads only; read by the flusher and by statistics.
struct alignas(kCacheLineBytes) LogWorkerSlot {
    // No LSN below this is still being filled by this worker.
    std::atomic<uint64_t> inflight{kNothingOpen};
    // End of this worker's newest record, which no later one lies below; 0: none yet. Its own.
    uint64_t end = 0;
    // Undo space taken from the shared counter, not promised to a transaction yet.
    std::atomic<uint64_t> spare{0};
    std::atomic<uint64_t> records{0};
};

// Why the flusher is wanted.
enum FlushReason : uint32_t {
    kFlushDurable = 1,
    kFlushRing = 2,
    kFlushRequest = 4,
    kFlushMark = 8,
    kFlushStop = 16
};

// Copies of blocks that may still change in the ring, and a slot of the mark. They outlive any
// request in flight.
struct alignas(kLogBlock) LogIoBuffers {
    std::byte last_block[kLogBlock];
    std::byte mark[DurableEnd::kSlotBytes];
};

// Why the keeper could not make a segment, or make it larger.
struct KeeperRefusal {
    ErrorCode code = ErrorCode::none;
    int os = 0;  // errno
};
static_assert(std::atomic<KeeperRefusal>::is_always_lock_free);

// One window of the log as read from file, kept for rollbacks that walk backwards.
struct LogReadWindow {
    static constexpr uint64_t kBytes = 64 * 1024;
    SpinLock lock;
    uint64_t begin = kNothingOpen;  // under lock
    uint64_t bytes = 0;
    std::unique_ptr<std::byte[]> data;

    void assert_state() const {
        DCHECK((begin == kNothingOpen) == (data == nullptr));
        DCHECK(bytes <= kBytes && (data != nullptr || bytes == 0));
        DCHECK(begin == kNothingOpen || begin % kLogBlock == 0);
    }
};

struct Log::Impl {
    Impl(threads::Runtime& rt, const LogOptions& given, LogRing&& memory);
    ~Impl();

    // Checks LOG-1..4 and LI-4 on the values that only the flusher moves. Called on the flusher;
    // empty in a build without DEBUG_CHECKS.
    void assert_state() const;

    // --- log_append.cc
    Place take_place(LogWorkerSlot& slot, uint32_t bytes, uint64_t seen);
    Place wait_for_place(uint32_t bytes);
    uint64_t wait_for_ring(uint32_t bytes);  // returns a tail at which `bytes` fit
    void publish(std::byte* at, Lsn lsn, uint32_t bytes);
    void note_time();
    void wake_idle_flusher();
    uint64_t filled() const;  // all bytes below are complete
    void wait_until_published() const;

    // --- log_flush.cc
    void run_flusher();
    void name_lines() const;  // for the counter of transfers (coherence.h)
    uint32_t next_reason();
    void gather_commits();
    bool flush_once();
    Result<void> write_prefix(uint64_t begin, uint64_t end);
    Result<void> open_write_segment(uint64_t lsn);
    void advance(uint64_t end);
    void update_limits();
    void keep_mark();
    Nanos mark_due() const;
    void write_mark();
    bool mark_lags() const { return boundary <= flushed && boundary > mark.durable_end; }
    bool mark_busy() const { return mark_request.file.value >= 0 && !mark_request.complete; }
    bool mark_failed() const {
        return mark_request.file.value >= 0 && mark_request.complete &&
               mark_request.result != DurableEnd::kSlotBytes;
    }
    // When to look at the mark again. Its completion wakes the flusher.
    Nanos next_mark() const { return mark_lags() && !mark_busy() ? mark_due() : kNever; }
    void wait_for_mark();
    Result<void> sync_mark();
    Result<void> write_last_mark();
    void wake_durable_waiters();
    static void wake_all(SpinLock& lock, threads::WaitQueue& queue);
    void kick(FlushReason reason);
    Error mark_error() const;

    // --- log_failure.cc
    // Stops the store; the first cause stays. Returns `cause`. `told`: the first calls on_failure.
    [[gnu::cold]] std::unexpected<Error> fail(StoreFailure why, bool told);
    [[gnu::cold]] std::unexpected<Error> fail(const char* what, std::string file,
                                              const Error& cause);
    [[gnu::cold]] std::unexpected<Error> refused() const;

    // --- log_keep.cc
    void run_keeper();
    bool keep_step();
    Result<void> recycle_old();
    Result<void> sync_names();
    bool make_segment();
    void note_refusal(const Error& why);
    void fill_with_zeros(threads::FileId file, uint64_t from, uint64_t to);
    bool sync_segment(threads::FileId file, const std::string& name);
    Result<void> place_segment_now();  // for the flusher; never parks
    void space_added(uint64_t end);
    void kick_keeper();
    void update_promise_limit();
    uint64_t wanted_end() const;

    // --- log_grow.cc
    bool last_is_whole() const { return prepared_end.load() % options.segment_bytes == 0; }
    bool grow_last();
    Result<uint64_t> allocate_step(threads::FileId file, uint64_t from);
    Result<void> make_space_now(uint64_t end);  // for the flusher
    Result<void> grow_last_now(uint64_t end);
    uint64_t slack_below(uint64_t end) const;
    uint64_t limit_of(uint64_t from, uint64_t end, LogNeed need) const;
    bool files_end_soon(uint64_t taken_to) const;
    uint64_t end_for(uint64_t promised) const;

    // --- log_hold.cc
    bool move_start(uint64_t wanted);
    void start_moved();

    // --- log_space.cc
    Result<void> reserve_undo_slow(UndoCredit& credit, uint64_t forward, uint64_t undo,
                                   LogWorkerSlot& slot, LogNeed need);
    Result<void> wait_for_segment(uint64_t upto);
    std::unexpected<Error> refuse_segment() const;
    void return_spare(LogWorkerSlot& slot);
    bool promise_fits(uint64_t forward) const;
    void find_plenty();
    void find_plenty_locked();

    // --- log_read.cc
    bool copy_from_ring(uint64_t lsn, uint64_t bytes, std::byte* out) const;
    Result<void> copy_from_file(uint64_t lsn, uint64_t bytes, std::byte* out);
    Result<void> load_window(uint64_t begin, LogReadWindow& window);
    Result<void> copy(uint64_t lsn, uint64_t bytes, std::byte* out);

    // --- log_open.cc
    void begin_at(uint64_t lsn);
    Result<uint64_t> adopt_length(uint64_t number, bool sync);
    Result<void> adopt_segments(uint64_t from, uint64_t end);
    bool disk_has_new() const;
    Result<uint64_t> read_records(uint64_t from) const;
    Result<uint64_t> find_end(uint64_t from, uint64_t sound, const DurableEnd& known,
                              Lsn durable) const;
    Result<void> sync_below(uint64_t lsn);
    Result<void> secure_tail(uint64_t from, uint64_t end);
    Result<void> load_last_block(uint64_t end);

    // --- log_stamp.cc
    Result<uint64_t> stamp_of(const LogRecordHeader& header, uint64_t available, uint64_t lsn,
                              uint64_t known) const;
    Result<uint64_t> stamped_behind(uint64_t end) const;

    // Of the caller's own slot: what it keeps for undo is part of what all have reserved (LI-4).
    void assert_state(const LogWorkerSlot& slot) const {
        DCHECK(&slot == &slots[threads::worker_index()] && threads::worker_index() < workers);
        DCHECK(slot.spare.load(std::memory_order_relaxed) <= reserved.load());
    }
    // Where files end at most.
    uint64_t files_max() const { return start.load() + options.capacity_bytes + reserve + warned; }
    // It has refused the keeper, who has made no whole segment since.
    bool device_was_full() const { return keeper_refusal.load().code == ErrorCode::no_space; }
    // Of the segments, for who adds or removes one.
    void assert_segments() const {
        DCHECK(first_segment <= files.number_of(start.load()));
        DCHECK(first_segment * files.segment_bytes() < prepared_end.load());
        DCHECK(prepared_end.load() % kLogBlock == 0);
    }

    LogWorkerSlot& my_slot() { return slots[threads::worker_index()]; }

    // --- constant after construction
    threads::Runtime& runtime;
    const LogOptions options;
    LogFiles files;
    LogRing ring;
    const uint32_t workers;
    // Bytes that all workers together may reserve between check and add.
    const uint64_t ring_margin;
    // Capacity kept for records without a promise (LOG-3) and for races of promises.
    const uint64_t slack;
    // Ends of files: what only changes get that free space (LOG-8), and how far before that other
    // changes begin to wait.
    const uint64_t reserve, warned;
    bool appends = true;  // false: opened to be read, and all space is promised to nobody
    const uint64_t undo_chunk;
    // The log is scarce when more than this is used or promised.
    const uint64_t scarce_bytes;
    std::unique_ptr<LogWorkerSlot[]> slots;

    // --- appenders
    alignas(kCacheLineBytes) std::atomic<uint64_t> tail{kLogFirst};
    // This line is read by every append and written at most once per flush.
    // An append beyond this tail takes the slow path.
    alignas(kCacheLineBytes) std::atomic<uint64_t> limit{0};
    std::atomic<uint64_t> promise_limit{0};  // LI-4
    std::atomic<bool> plenty{false};         // LI-7; changed under room_lock
    // The flusher sleeps without a deadline.
    std::atomic<bool> idle{false};
    std::atomic<bool> failed{false};
    std::atomic<uint64_t> start{kLogFirst};
    // Tail never passes this between a check and its add.
    std::atomic<uint64_t> hard_limit{0};

    // --- promises
    std::atomic<bool> writers_stopped{false};
    // Undo credits of all transactions + spares of all workers.
    alignas(kCacheLineBytes) std::atomic<uint64_t> reserved{0};
    // Highest end of segments that a thread has waited for.
    std::atomic<uint64_t> room_wanted{0};
    SpinLock room_lock;
    threads::WaitQueue room_waiters;  // for the keeper; under room_lock

    // --- holds (LOG-6)
    static constexpr size_t kHoldsMax = 8;
    SpinLock hold_lock;
    // First LSN that each hold keeps, kNothingOpen: no hold; under hold_lock.
    uint64_t holds[kHoldsMax];
    // Where truncate_before() wanted the start of the log; under hold_lock.
    uint64_t start_wanted = kLogFirst;

    // --- progress
    alignas(kCacheLineBytes) std::atomic<uint64_t> durable{kLogFirst};
    // A record boundary that syncs have covered (LA-L1); 0: none yet.
    std::atomic<uint64_t> stamped{0};
    SpinLock durable_lock;
    // Waiter::tag = LSN wanted; under durable_lock.
    threads::WaitQueue durable_waiters;
    SpinLock ring_lock;
    threads::WaitQueue ring_waiters;   // under ring_lock
    std::atomic<uint32_t> reasons{0};  // FlushReason
    std::atomic<threads::Thread*> flusher{nullptr};
    std::atomic<threads::Thread*> keeper{nullptr};

    // --- flusher only
    uint64_t flushed = kLogFirst;  // == durable, without the atomic
    bool timed = false;            // constant while threads run
    uint64_t time_end = 0;         // of the newest time record (LOG-7)
    // A record boundary to mark as soon as it is durable (LM-B).
    uint64_t boundary = kLogFirst;
    DurableEnd mark;       // newest written or being written
    Nanos last_flush = 0;  // its duration
    Nanos lazy_deadline = 0;
    Nanos marked_at = 0;  // when the newest mark was begun
    // A thread has waited for durability since then.
    bool awaited = false;
    Nanos idle_since = kNever;  // kNever: there is something to flush
    threads::FileId write_file{-1};
    uint64_t write_segment = UINT64_MAX;
    threads::FileId mark_file{-1};
    threads::IoRequest mark_request;
    std::unique_ptr<LogIoBuffers> buffers;
    bool stopping = false;

    // --- keeper (and flusher, see Concepts)
    uint64_t first_segment = 0;  // lowest number that exists
    std::atomic<uint64_t> prepared_end{0};
    // Both on worker 0 only. The keeper extends the last segment and has parked; the flusher waits
    // for that.
    bool growing = false, flusher_waits = false;
    // The last attempt to make a segment failed.
    std::atomic<bool> keeper_stuck{false};
    // Why, until a whole segment is made. `os` is 0 if the system did not say.
    std::atomic<KeeperRefusal> keeper_refusal{};
    std::atomic<bool> keeper_wanted{false};
    std::atomic<bool> keeper_stop{false};
    // True between start_flusher and stop_flusher.
    std::atomic<bool> running{false};

    std::unique_ptr<threads::Completion> flusher_done;
    std::unique_ptr<threads::Completion> keeper_done;

    // --- readers
    static constexpr size_t kReadWindows = 16;
    LogReadWindow windows[kReadWindows];
    uint64_t first_tail = kLogFirst;  // tail when the log was opened
    // The ring never held bytes below this.
    uint64_t ring_valid_from = 0;

    // --- failure (LOG-5)
    StoreFailure failure;  // written once, under ring_lock, before `failed`
    std::function<void(const StoreFailure&)> on_failure;  // constant while threads run
    std::function<void()> on_whole_segment;               // the same

    // --- statistics, relaxed
    std::atomic<uint64_t> flushes{0}, syncs{0}, flush_bytes{0}, ring_full_waits{0},
        durable_waits{0}, flush_nanos{0};
};

}  // namespace lockstep::txn
