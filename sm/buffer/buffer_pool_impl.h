// buffer_pool_impl.h - the inside of BufferPool: free frames, the clock, write batches, cleaners.
// Private to buffer_pool*.cc.
//
// Concepts   A fault takes a frame from the free stack. Cleaners, one user thread on each worker,
//            keep the stack filled. A fault that finds it empty does the same work itself.
//            make_room() moves the clock hand. Warm pages become cold; cold clean pages are
//            evicted. Cold dirty pages are collected, written in one batch and then evicted.
//            Several threads may move the hand at once.
// States     Of a frame:
//            Free -> reading         a fault: word exclusive.
//            Reading -> clean        the read is published.
//            Clean -> dirty          note_dirty().
//            Dirty -> writing        copy_for_write(): dirty and writing.
//            Writing -> clean        finish_entry(); back to dirty if the page changed.
//            Clean -> free           try_evict(), drop().
//            Dirty -> free           drop().
// Invariants BI-1 A frame with flags set is never evicted. [checked: try_evict()]
//            BI-2 One writer at a time sets kWriting, so two writes of a page never overlap and
//                 never pass each other.
//            BI-3 While a batch is being written, its thread waits for no latch: a fault may hold
//                 latches of its own and must still be able to evict. Only write_dirty() waits for
//                 latches, and its caller holds none.
//            BI-4 What is written is a copy with its own page id in its header. [checked:
//                 copy_for_write()]
// Blocking   take_frame() parks for writes, for the log and, when no frame can be freed or no page
//            can be written, up to kRoomPatience (write_backoff.h).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sm/buffer/buffer_pool.h"
#include "sm/buffer/dirty_pages.h"
#include "sm/buffer/first_touch.h"
#include "sm/buffer/write_backoff.h"
#include "threads/base/limits.h"
#include "threads/base/spin_lock.h"
#include "threads/sync/event.h"

namespace lockstep::sm {

inline constexpr uint32_t kWriteBatchMax = limits::most::write_batch;  // pages
// Active read-ahead requests, for each worker.
inline constexpr uint32_t kReadAheadMax = limits::most::read_ahead;
inline constexpr uint32_t kHandStep = 32;  // frames that one step of the clock hand takes
// Frames that a scan passes before other threads run: some 0.1 ms.
inline constexpr uint32_t kLooksPerSlice = 1024;

// Copies of pages that are being written to the volume.
struct WriteBatch {
    struct Entry {
        uint32_t page, frame;
        uint64_t lsn;  // of the copy
        bool written;
    };
    // kWriteBatchMax or fewer pages, in the order of entries.
    std::byte* memory = nullptr;
    uint32_t count = 0;
    Entry entries[kWriteBatchMax];
    threads::IoRequest requests[kWriteBatchMax];
    WriteBatch* next = nullptr;  // list of idle batches

    void assert_state() const {
        DCHECK(memory != nullptr && count <= kWriteBatchMax);
        // Neighbours lie side by side: the I/O stage joins them.
        DCHECK(count < 2 || entries[count - 2].page < entries[count - 1].page);
    }
};

struct alignas(kCacheLineBytes) Cleaner {
    std::atomic<bool> sleeping{false};
    std::atomic<threads::Thread*> thread{nullptr};
    std::unique_ptr<threads::Completion> done;  // of the running cleaner, null before start
};

// A page that is being read ahead. The I/O request owns the exclusive latch until the read
// completes.
struct ReadAhead {
    threads::IoRequest request;
    BufferPool::Impl* pool = nullptr;
    uint32_t page = 0, frame = 0, worker = 0;
    ReadAhead* next = nullptr;  // free ones of the worker
};

struct alignas(kCacheLineBytes) ReadAheadSlots {  // used by one worker only
    std::unique_ptr<ReadAhead[]> slots;
    ReadAhead* free = nullptr;
    uint32_t busy = 0;

    void assert_state() const {
        DCHECK(busy <= limits::read_ahead());
        DCHECK((free == nullptr) == (busy == limits::read_ahead()));
    }
};

struct BufferPool::Impl {
    Impl(BufferPool& pool, threads::Runtime& runtime, txn::Log& log, threads::FileId data,
         const BufferPoolOptions& options)
        : pool(pool), runtime(runtime), log(log), data(data), options(options) {}
    ~Impl();
    Result<void> map_memory();
    void name_lines() const;  // for the counter of transfers (coherence.h)
    Result<void> reserve_pages(size_t alignment);
    // A mapping of the cache or a new one, and the reverse.
    std::byte* obtain(threads::MappingUse use, size_t bytes, size_t alignment);
    void give_back(threads::MappingUse use, void* at, size_t bytes);
    void size_memory();

    // --- buffer_pool.cc
    threads::LatchWord& word(uint32_t page) const {
        DCHECK(page < pool.pages_open());
        return pool.words_[page];
    }
    Page& page_in(uint32_t frame) const {
        DCHECK(frame != 0 && frame < frame_count);  // frame 0 holds no page
        return pool.frames_[frame];
    }
    FrameInfo& info(uint32_t frame) const {
        DCHECK(frame < frame_count);
        return pool.info_[frame];
    }
    // Absent -> in memory. `keep` leaves the word exclusively held. False: another thread was
    // first, so look again. `fresh`: no read.
    Result<bool> fault(PageId id, bool keep, bool fresh);
    // Marks the page as warm; returns the word's new value.
    uint64_t warm_up(threads::LatchWord& word, uint64_t seen);

    // --- buffer_pool_read.cc
    // true: rebuilt from the log, so the volume's copy is stale.
    Result<bool> read_page(PageId id, Page& page);
    Result<void> read_once(PageId id, Page& page);
    Result<void> check_read(PageId id, Page& page, size_t bytes) const;
    // `written`: what the page has at least (WrittenLsns::of()).
    bool newer_than_log(PageId id, uint64_t lsn, uint64_t written) const;
    Result<bool> repair(PageId id, Page& page, const Error& why);
    void keep_repaired(threads::LatchWord& w, Page& page, uint32_t frame);
    void drop_settled(PageId id);

    // --- buffer_pool_copy.cc
    bool copy_unlatched(PageId id, Page& out) const;
    bool copy_from_memory(PageId id, Page& out) const;
    Result<void> copy_from_file(PageId first, uint32_t count, Page* out, uint32_t& sound);
    bool check_bytes(PageId id, const Page& page, uint64_t least) const;

    // --- buffer_pool_ahead.cc
    void make_read_ahead();
    bool read_ahead_one(PageId id);
    static void on_read_ahead(threads::IoRequest* request);
    void end_read_ahead(ReadAhead& slot);
    void wait_for_read_ahead(uint32_t worker);

    // --- buffer_pool_evict.cc
    void assert_state() const;  // of the free frames; nothing without DEBUG_CHECKS
    Result<uint32_t> take_frame();
    size_t bytes_seen() const { return frames_seen.load(std::memory_order_relaxed) * kPageBytes; }
    // WB-3. Whether a fault must leave the frames that are left to rollbacks.
    [[gnu::cold, gnu::noinline]] bool starves() const;
    // Waits for a page to be written. An error ends the fault.
    [[gnu::cold, gnu::noinline]] Result<void> wait_for_write(Nanos& pause);
    Result<void> try_to_write();
    // Nothing could be freed at the moment, as `made` says. An error ends the fault.
    [[gnu::cold, gnu::noinline]] Result<void> wait_for_room(const Result<uint32_t>& made,
                                                            Nanos& pause);
    // Whether a page is being read or written, so that a frame becomes free without this thread.
    bool awaits_device() const;
    uint32_t pop_free();
    void push_free(uint32_t frame);
    void wait_for_free(Nanos until);
    Result<uint32_t> make_room(uint32_t goal);
    uint32_t evict_cooled(uint32_t goal);
    bool look_at(uint32_t frame, std::optional<WriteCandidate>& dirty);
    bool try_evict(threads::LatchWord& word, uint64_t seen, uint32_t frame);
    bool evict_if_cold(uint32_t frame);

    // --- buffer_pool_write.cc
    WriteBatch& acquire_batch();
    void release_batch(WriteBatch& batch);
    bool copy_for_write(WriteBatch& batch, const WriteCandidate& candidate, bool wait);
    Result<void> write_batch(WriteBatch& batch);
    // Whether make_room() may write pages now; else why not.
    Result<void> may_write();
    // The error with a text that names file, page and operation; and that of the last batch.
    [[gnu::cold]] std::unexpected<Error> named(Error error) const;
    [[gnu::cold]] std::unexpected<Error> write_refused() const;
    Result<void> transfer(WriteBatch& batch);
    void finish_entry(const WriteBatch::Entry& entry);
    // Copies, writes and finishes at most batch_pages candidates, sorted by page. With `busy`, it
    // waits for latches and adds the pages that another thread is writing to it. Without it, pages
    // that are latched or being written are left out.
    Result<void> write_candidates(std::span<const WriteCandidate> candidates,
                                  std::vector<WriteCandidate>* busy);
    DirtyPages dirty_before(Lsn end) const;  // rec_lsn < end; other threads run meanwhile
    void wait_for_writers(std::span<const WriteCandidate> busy);

    // --- buffer_pool_cleaner.cc
    void run_cleaner(uint32_t worker);
    bool cleaner_is_needed() const {
        return free_frames.load(std::memory_order_relaxed) < low_water ||
               first_touch.is_due(bytes_seen());
    }
    void kick_cleaner();

    // --- buffer_pool_stats.cc
    std::string verify_frame(uint32_t frame, bool quiet) const;
    std::string verify_free() const;

    BufferPool& pool;
    threads::Runtime& runtime;
    txn::Log& log;
    const threads::FileId data;
    BufferPoolOptions options;           // constant after create()
    const Lsn log_at_start{log.tail()};  // the log's end when this run began
    std::move_only_function<Result<bool>(PageId, Page&)> repair_page;
    std::move_only_function<bool(ExclusivePage&)> log_repaired;
    // Pages from here on were given back to the file system; see give_up_from().
    std::atomic<uint32_t> given_up_from{UINT32_MAX};
    threads::Latch repair_latch{950, "page repair"};  // one repair at a time

    // --- sizes, constant after create()
    uint32_t frame_count = 0;  // frame 0 included, which holds no page
    uint32_t batch_pages = 0;
    uint32_t batch_count = 0;
    // Free frames: cleaners are woken below low and work up to high.
    uint32_t low_water = 0, high_water = 0;
    uint32_t kept_for_rollbacks = 0;  // frames that are not dirty (WB-3)
    size_t frames_bytes = 0, other_bytes = 0;
    uint64_t pages_wanted = 0;   // pages_max as it was given
    GrowingMap words;            // of pool.words_
    SpinLock words_lock;         // of what opens more of them
    std::byte* other = nullptr;  // descriptors, free stack, write buffers

    // --- free frames
    SpinLock free_lock;
    uint32_t* free_stack = nullptr;  // under free_lock, as the next two
    uint32_t free_used = 0;
    uint32_t untouched = 1;  // frames from here on have never been used
    threads::WaitQueue free_waiters;
    std::atomic<uint32_t> free_frames{0};  // changed under free_lock, read without
    std::atomic<uint32_t> frames_seen{1};  // == untouched, for scans
    std::atomic<uint64_t> hand{0};
    FrameShortage shortage;
    FirstTouch first_touch;  // of frames, in the order of their first use

    // --- write batches
    WriteBackoff backoff;
    std::optional<threads::Semaphore> batch_units;
    SpinLock cooled_lock;
    // Of cool(), a ring. Under cooled_lock, as the two counters.
    uint32_t cooled[BufferPool::kCooledMax];
    uint64_t cooled_begin = 0, cooled_end = 0;
    SpinLock batch_lock;
    WriteBatch* idle_batches = nullptr;  // under batch_lock
    std::unique_ptr<WriteBatch[]> batches;
    SpinLock writers_lock;
    // Wait for the end of any batch; under writers_lock.
    threads::WaitQueue writers_waiters;

    // --- cleaners
    std::unique_ptr<Cleaner[]> cleaners;
    std::unique_ptr<ReadAheadSlots[]> ahead;
    std::atomic<bool> stopping{false};

    // --- statistics, relaxed
    std::atomic<uint64_t> reads{0}, writes{0}, evictions{0}, faults{0}, repairs{0},
        write_batches{0}, latch_waits{0}, sync_failures{0}, write_errors{0}, lost_writes{0},
        reads_ahead{0}, read_waiters{0};
};

}  // namespace lockstep::sm
