// buffer_pool.h - pages in memory: a translation array of latch words, frames that never unmap,
// batched clock eviction.
//
// Concepts   words_[page] is one latch word (threads/sync/latch.h): who holds the page, its
//            version, and the frame number as payload. One load finds a page; no hash table. Frames
//            are one region on huge pages and stay mapped, so an optimistic reader may read stale
//            bytes but never faults; it must bound every offset it follows and validate before it
//            believes. A latch is also the pin: a page that anybody holds is not evicted. The
//            payload's top bit says "warm": set at every look that finds it clear, cleared by the
//            clock's hand. A word of all zeros is a page that nobody has asked for yet (frame 0
//            holds no page): it is not warm, so fix_optimistic() needs no test of its own for it.
// Invariants BP-1 A page is written only after the log is durable up to its lsn (write-ahead).
// [checked: write_batch()]
//            BP-2 A dirty frame has rec_lsn <= the first record that is not in the volume's copy.
//            [checked: mark_dirty()]
//            BP-3 What is read passes the checksum with its own page id, or is repaired from the
//                 log, or is an error: never data. The same for a page that is older than its last
//                 write (LW-2).
//            BP-4 A page being written may change meanwhile: the write goes from a copy, and the
//            frame stays dirty if it changed.
// Blocking   fix_* park for the latch and for the read; fix_optimistic() parks only on a miss. Hold
//            no more than the operation needs.
// Source     V. Leis et al., vmcache, 2023 (page state words); LeanStore; here words live in an
//            array of their own, without munmap.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "sm/buffer/page.h"
#include "sm/buffer/written_lsns.h"
#include "threads/base/hints.h"
#include "threads/io/io.h"
#include "threads/runtime/runtime.h"
#include "threads/sync/latch.h"
#include "txn/log/log.h"

namespace lockstep::sm {

class BufferPool;

// Shared hold on a page; unlatched by the destructor. Movable.
class SharedPage {
public:
    SharedPage() = default;
    SharedPage(threads::LatchWord* word, Page* page) : word_(word), page_(page) {}
    SharedPage(SharedPage&& o) noexcept : word_(std::exchange(o.word_, nullptr)), page_(o.page_) {}
    SharedPage& operator=(SharedPage&& o) noexcept {
        release();
        word_ = std::exchange(o.word_, nullptr);
        page_ = o.page_;
        return *this;
    }
    ~SharedPage() { release(); }
    void release() {
        if (word_) threads::latch::unlatch_shared(*std::exchange(word_, nullptr));
    }
    explicit operator bool() const { return word_ != nullptr; }
    const Page* operator->() const { return page_; }
    const Page& operator*() const { return *page_; }

private:
    threads::LatchWord* word_ = nullptr;
    Page* page_ = nullptr;
};

// Exclusive hold on a page. Bytes are changed only through PageChange (page_change.h).
class ExclusivePage {
public:
    ExclusivePage() = default;
    ExclusivePage(threads::LatchWord* word, Page* page, uint32_t frame)
        : word_(word), page_(page), frame_(frame) {}
    ExclusivePage(ExclusivePage&& o) noexcept
        : word_(std::exchange(o.word_, nullptr)), page_(o.page_), frame_(o.frame_) {}
    ExclusivePage& operator=(ExclusivePage&& o) noexcept {
        release();
        word_ = std::exchange(o.word_, nullptr);
        page_ = o.page_;
        frame_ = o.frame_;
        return *this;
    }
    ~ExclusivePage() { release(); }
    void release() {
        if (word_) threads::latch::unlatch_exclusive(*std::exchange(word_, nullptr));
    }
    explicit operator bool() const { return word_ != nullptr; }
    const Page* operator->() const { return page_; }
    const Page& operator*() const { return *page_; }
    Page* mutable_page() { return page_; }  // PageChange and redo only
    // Holds nothing before; what it takes is exclusively latched.
    void take(threads::LatchWord* word, Page* page, uint32_t frame) {
        word_ = word;
        page_ = page;
        frame_ = frame;
    }
    // The caller unlatches.
    threads::LatchWord* forget() { return std::exchange(word_, nullptr); }
    uint32_t frame() const { return frame_; }

private:
    threads::LatchWord* word_ = nullptr;
    Page* page_ = nullptr;
    uint32_t frame_ = 0;
};

// Optimistic look at a page: nothing is held. Read, then ask valid(); no switch in between (LA-3).
struct OptimisticPage {
    const Page* page = nullptr;
    const threads::LatchWord* word = nullptr;
    uint64_t snapshot = 0;
    bool valid() const { return threads::latch::validate(*word, snapshot); }
};

struct BufferPoolOptions {
    uint64_t bytes = 256ull << 20;  // frames + descriptors + write buffers together
    // Size of the translation array (virtual memory only).
    uint64_t pages_max = 1ull << 28;
    bool huge_pages = true;
    double free_target = 0.02;  // share of frames that the cleaners keep free
    bool sync = true;           // false: write_dirty() writes and does not sync
    std::string data_path = {};
};

// What the pool knows about one frame.
struct FrameInfo {
    static constexpr uint32_t kDirty = 1, kWriting = 2;
    // BP-2, while dirty. Written by the exclusive holder, or by the page's writer under a shared
    // latch.
    std::atomic<uint64_t> rec_lsn{0};
    // kPageNone: free. Written by the word's exclusive holder.
    std::atomic<uint32_t> page{UINT32_MAX};
    // kDirty: as rec_lsn; kWriting: belongs to the one who set it.
    std::atomic<uint32_t> flags{0};
};
static_assert(sizeof(FrameInfo) == 16);

class BufferPool {
public:
    static Result<std::unique_ptr<BufferPool>> create(threads::Runtime& runtime, txn::Log& log,
                                                      threads::FileId data,
                                                      const BufferPoolOptions& options);
    ~BufferPool();

    // Hot path: one load, and a read of the page's first line by the caller. Marked (cold) pages
    // are unmarked, absent ones read in. The id may come from bytes that are not validated yet: any
    // value gives a page or an error.
    Result<OptimisticPage> fix_optimistic(PageId id) {
        if (id.value < pages_max_) [[likely]] {
            const threads::LatchWord& word = words_[id.value];
            const uint64_t snapshot = word.load(std::memory_order_acquire);
            if (warm(snapshot) && threads::latch::readable(snapshot)) [[likely]]
                return OptimisticPage{frame(frame_of(snapshot)), &word, snapshot};
        }
        return fix_optimistic_slow(id);
    }
    // What fix_optimistic() does in the common case, and nothing else: false if the page is absent,
    // exclusively held, cold or not of this volume.
    bool try_peek(PageId id, OptimisticPage& out) const {
        if (id.value >= pages_max_) [[unlikely]]
            return false;
        const threads::LatchWord& word = words_[id.value];
        out.snapshot = word.load(std::memory_order_acquire);
        out.word = &word;
        out.page = frame(frame_of(out.snapshot));
        return warm(out.snapshot) && threads::latch::readable(out.snapshot);
    }
    // Hints for CTX + prefetch: addresses of the word, and of the page if it is in memory (else
    // null).
    const void* word_address(PageId id) const {
        return &words_[id.value < pages_max_ ? id.value : 0];
    }
    const Page* resident(PageId id) const {
        if (id.value >= pages_max_) return nullptr;
        const uint64_t seen = words_[id.value].load(std::memory_order_relaxed);
        return threads::latch::readable(seen) && frame_of(seen) != 0 ? frame(frame_of(seen))
                                                                     : nullptr;
    }
    // The page will be changed soon: what note_dirty() touches is asked for.
    void prefetch_for_change(const OptimisticPage& at) const {
        prefetch_line_to_write(&info_[frame_of(at.snapshot)]);
    }

    Result<SharedPage> fix_shared(PageId id);
    Result<ExclusivePage> fix_exclusive(PageId id);
    // Exclusive hold if nobody has changed the page since the optimistic fix; nothing (false)
    // otherwise, without waiting.
    bool upgrade(const OptimisticPage& seen_page, PageId id, ExclusivePage& out) {
        threads::LatchWord& word = words_[id.value];
        DCHECK(&word == seen_page.word && !out);
        if (!threads::latch::try_upgrade(word, seen_page.snapshot)) [[unlikely]]
            return false;
        const uint32_t f = frame_of(seen_page.snapshot);
        out.take(&word, frame(f), f);
        return true;
    }
    // Only if in memory and free at once.
    bool try_fix_exclusive(PageId id, ExclusivePage& out);
    // A page whose content does not matter: no read. Its header says kind free and lsn 0 unless it
    // was in memory, then it is as it was.
    Result<ExclusivePage> fix_new(PageId id);
    // Starts to read pages that will be wanted soon, in the background. Only a hint: stops at the
    // first that finds no free frame or no room in the I/O stage; a page that cannot be read is
    // left to whoever asks for it. Evicts nothing, waits for nothing. User threads only. The number
    // of pages that are now here or on their way, from the first on.
    size_t read_ahead(std::span<const PageId> ids);
    // The page was freed: forget its content without writing it (a page that is just being written
    // stays until it is evicted).
    void drop(ExclusivePage page);

    // The page got a record that ends at `lsn` and began at `begin`. Sets page lsn, dirty and
    // rec_lsn. Exclusive holder only.
    void mark_dirty(ExclusivePage& page, Lsn begin, Lsn end) {
        DCHECK(begin < end && page->header.lsn <= begin.value);  // PG-1: a page's lsn only grows
        note_dirty(page, begin);
        page.mutable_page()->header.lsn = end.value;
    }
    // First half of mark_dirty. Called while the record's reservation is open, so that a checkpoint
    // that has settled the log finds every page that a record before its begin changes.
    void note_dirty(const ExclusivePage& page, Lsn begin) {
        FrameInfo& info = info_[page.frame()];
        DCHECK(page.frame() != 0 && begin != kLsnNone);
        DCHECK(info.page.load(std::memory_order_relaxed) != kPageNone.value);
        if (info.flags.load(std::memory_order_relaxed) & FrameInfo::kDirty) [[likely]]
            return;
        info.rec_lsn.store(begin.value, std::memory_order_relaxed);
        info.flags.fetch_or(FrameInfo::kDirty, std::memory_order_release);
    }

    // Writes every page that was dirty when the call began (checkpoint), sorted by page id, in
    // batches, then syncs the volume. `pace`: at most that many pages a second, 0 = as fast as it
    // goes. Parks. Errors: store_failed, io_error, no_space (pages stay dirty).
    Result<void> write_dirty(uint64_t pace);
    // The same at a pace that may change: asked after each batch (pages written, pages altogether)
    // how long to rest.
    Result<void> write_dirty(std::move_only_function<Nanos(uint64_t done, uint64_t total)> rest);
    // Background cleaner and evictor: a user thread on each worker. stop before the runtime stops.
    Result<void> start_cleaner();
    void stop_cleaner();

    // Repairs a page whose stored copy is damaged. Set by the store: rebuilds the page from the log
    // into `page`; false if it cannot.
    void set_repair(std::move_only_function<Result<bool>(PageId, Page&)> repair);

    // Which lsn each page has on the volume. The checkpointer saves it, redo makes it forget.
    WrittenLsns& written_lsns() { return *written_; }

    struct Stats {
        uint64_t frames = 0, resident = 0, dirty = 0, reads = 0, writes = 0, evictions = 0,
                 faults = 0, repairs = 0, write_batches = 0, latch_waits = 0, sync_failures = 0,
                 write_errors = 0,
                 lost_writes = 0,  // pages found to be older than their last write
            reads_ahead = 0,       // of the reads: nobody waited for them when they began
            // Threads that wanted a page whose read was under way: merged into it.
            read_waiters = 0;
    };
    Stats stats() const;
    size_t memory_bytes() const;
    uint64_t pages_max() const { return pages_max_; }
    // Lowest rec_lsn of dirty pages, kLsnMax if none.
    Lsn oldest_rec_lsn() const;
    // Checks words against frames while no transaction runs; everything if the cleaners are stopped
    // as well. Error text or empty.
    std::string verify() const;

    // In the payload: looked at since the clock's hand passed.
    static constexpr uint64_t kWarmBit = 1ull << 27;
    static uint32_t frame_of(uint64_t word) {
        return static_cast<uint32_t>(threads::latch::payload(word) & (kWarmBit - 1));
    }
    static bool warm(uint64_t word) { return threads::latch::payload(word) & kWarmBit; }

private:
    BufferPool();
    Page* frame(uint32_t index) const { return frames_ + index; }
    [[gnu::cold, gnu::noinline]] Result<OptimisticPage> fix_optimistic_slow(PageId id);

    threads::LatchWord* words_ = nullptr;  // one per page id, reserved virtual memory
    Page* frames_ = nullptr;
    uint64_t pages_max_ = 0;
    FrameInfo* info_ = nullptr;  // one per frame
    std::unique_ptr<WrittenLsns> written_;
    friend struct ReadAhead;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::sm
