// buffer_pool.h - pages in memory: a translation array of latch words, frames that never unmap,
// batched clock eviction.
//
// Concepts   words_[page] is one latch word (threads/sync/latch.h). It holds latch state, version,
//            and the frame number as payload. One load finds a page; there is no hash table.
//            Frames are one region on huge pages and stay mapped. So an optimistic reader may read
//            stale bytes but never faults. It must bound every offset it follows, and validate
//            before it trusts the bytes.
//            A latch is also the pin: a latched page is not evicted.
//            The payload's top bit says "warm". A look that finds it clear sets it; the clock hand
//            clears it. A word of zeros is a page that nothing has asked for yet (frame 0 holds no
//            page). It is not warm, so fix_optimistic() needs no separate test for it.
// Invariants BP-1 A page is written only after the log is durable up to its lsn (write-ahead).
//                 [checked: write_batch()]
//            BP-2 A dirty frame has rec_lsn <= the first record that is not in the volume's copy.
//                 [checked: mark_dirty()]
//            BP-3 What is read passes the checksum with its own page id, or is repaired from the
//                 log, or is an error: never data. The same holds for a page that is older than its
//                 last write (LW-2), and for one with records that the log has lost. [checked:
//                 check_read()]
//            BP-4 A page may change while it is written: the write uses a copy, and the frame stays
//                 dirty if the page changed.
// Blocking   fix_* park for the latch and for the read; fix_optimistic() parks only on a miss. Hold
//            no more latches than the operation needs.
// Source     V. Leis et al., vmcache, 2023 (page state words); LeanStore. Here the words lie in an
//            array of their own, and nothing is unmapped.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "sm/buffer/page.h"
#include "sm/buffer/written_lsns.h"
#include "threads/base/hints.h"
#include "threads/io/directory.h"
#include "threads/io/offload_pool.h"
#include "threads/runtime/runtime.h"
#include "threads/sync/latch.h"
#include "txn/log/log.h"

namespace lockstep::sm {

class BufferPool;

// Shared hold on a page; unlatched by the destructor. Movable.
class SharedPage {
public:
    SharedPage() = default;
    SharedPage(threads::LatchWord* word, Page* page) : word_(word), page_(page) {
        DCHECK(threads::latch::readable(word->load(std::memory_order_relaxed)));
        DCHECK(threads::latch::state(word->load(std::memory_order_relaxed)) != 0);
    }
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
    const Page* operator->() const { return &**this; }
    const Page& operator*() const {
        DCHECK(word_ != nullptr);  // else the page may be another by now
        return *page_;
    }

private:
    threads::LatchWord* word_ = nullptr;
    Page* page_ = nullptr;
};

// Exclusive hold on a page. Its bytes change only through change_pages() (page_change.h).
class ExclusivePage {
public:
    ExclusivePage() = default;
    ExclusivePage(threads::LatchWord* word, Page* page, uint32_t frame)
        : word_(word), page_(page), frame_(frame) {
        assert_state();
    }
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
    const Page* operator->() const { return &**this; }
    const Page& operator*() const {
        DCHECK(word_ != nullptr);  // else another thread may change it
        return *page_;
    }
    Page* mutable_page() {  // change_pages() and redo only
        assert_state();
        return page_;
    }
    // Must hold nothing before. The word must be exclusively latched; this object now owns the
    // latch.
    void take(threads::LatchWord* word, Page* page, uint32_t frame) {
        DCHECK(word_ == nullptr);
        word_ = word;
        page_ = page;
        frame_ = frame;
        assert_state();
    }
    // Of a page that is held.
    void assert_state() const {
        DCHECK(word_ != nullptr && frame_ != 0);
        DCHECK(threads::latch::state(word_->load(std::memory_order_relaxed)) ==
               threads::latch::kExclusive);
    }
    // Gives up the latch, which the caller must release.
    threads::LatchWord* forget() {
        assert_state();
        return std::exchange(word_, nullptr);
    }
    uint32_t frame() const { return frame_; }

private:
    threads::LatchWord* word_ = nullptr;
    Page* page_ = nullptr;
    uint32_t frame_ = 0;
};

// Optimistic fix of a page: it holds nothing. Read, then call valid(), with no switch in between
// (LA-3).
struct OptimisticPage {
    const Page* page = nullptr;
    const threads::LatchWord* word = nullptr;
    uint64_t snapshot = 0;
    bool valid() const {
        DCHECK(word != nullptr);  // a look was taken
        return threads::latch::validate(*word, snapshot);
    }
};

struct BufferPoolOptions {
    uint64_t bytes = 256ull << 20;  // frames + descriptors + write buffers together
    // Pages that a volume may have. Two arrays of 8 bytes a page are reserved for them, and opened
    // as far as the volume goes. Where the system has not the addresses, pages_max() is less, down
    // to 2^20.
    uint64_t pages_max = 1ull << 28;
    bool huge_pages = true;
    threads::MappingCache* mappings = nullptr;  // of the frames; must outlive the pool
    double free_target = 0.02;                  // share of frames that the cleaners keep free
    bool sync = true;                           // false: write_dirty() writes and does not sync
    // Of the data file, for messages.
    threads::Directory directory = {};
    // Whether the calling user thread rolls a transaction back (WB-3).
    std::function<bool()> rolls_back = {};
};

// What the pool knows about one frame.
struct FrameInfo {
    static constexpr uint32_t kDirty = 1, kWriting = 2;
    // BP-2, while dirty. Written by the exclusive holder, or by the page's writer under a shared
    // latch.
    std::atomic<uint64_t> rec_lsn{0};
    // kPageNone: free. Written by the word's exclusive holder.
    std::atomic<uint32_t> page{UINT32_MAX};
    // kDirty: as rec_lsn. kWriting: only the writer that set it clears it.
    std::atomic<uint32_t> flags{0};
};
static_assert(sizeof(FrameInfo) == 16 && kCacheLineBytes % sizeof(FrameInfo) == 0);

class BufferPool {
public:
    static Result<std::unique_ptr<BufferPool>> create(threads::Runtime& runtime, txn::Log& log,
                                                      threads::FileId data,
                                                      const BufferPoolOptions& options);
    ~BufferPool();

    // Hot path: one load, and a read of the page's first line by the caller. A cold page becomes
    // warm; an absent page is read. The id may come from bytes that are not validated yet: any
    // value gives a page or an error.
    Result<OptimisticPage> fix_optimistic(PageId id) {
        if (id.value < pages_open()) [[likely]] {
            const threads::LatchWord& word = words_[id.value];
            const uint64_t snapshot = word.load(std::memory_order_acquire);
            if (warm(snapshot) && threads::latch::readable(snapshot)) [[likely]]
                return OptimisticPage{frame(frame_of(snapshot)), &word, snapshot};
        }
        return fix_optimistic_slow(id);
    }
    // The common case of fix_optimistic() and nothing else. False if the page is absent,
    // exclusively held, cold or not of this volume.
    bool try_fix_optimistic(PageId id, OptimisticPage& out) const {
        if (id.value >= pages_open()) [[unlikely]]
            return false;
        const threads::LatchWord& word = words_[id.value];
        out.snapshot = word.load(std::memory_order_acquire);
        out.word = &word;
        out.page = frame(frame_of(out.snapshot));
        return warm(out.snapshot) && threads::latch::readable(out.snapshot);
    }
    // Addresses for CTX and prefetch: of the word, and of the page if it is in memory (else null).
    const void* word_address(PageId id) const {
        return &words_[id.value < pages_open() ? id.value : 0];
    }
    const Page* resident(PageId id) const {
        if (id.value >= pages_open()) return nullptr;
        const uint64_t seen = words_[id.value].load(std::memory_order_relaxed);
        return threads::latch::readable(seen) && frame_of(seen) != 0 ? frame(frame_of(seen))
                                                                     : nullptr;
    }
    // The page will be changed soon: prefetches what note_dirty() touches.
    void prefetch_for_change(const OptimisticPage& at) const {
        // To read: four frames share the line, and only the first change of a page writes there.
        prefetch_line(&info_[frame_of(at.snapshot)]);
    }

    Result<SharedPage> fix_shared(PageId id);
    Result<ExclusivePage> fix_exclusive(PageId id);
    // Takes the exclusive latch if the page has not changed since the optimistic fix; else false.
    // Never waits.
    bool upgrade(const OptimisticPage& seen_page, PageId id, ExclusivePage& out) {
        threads::LatchWord& word = words_[id.value];
        DCHECK(&word == seen_page.word && !out);
        if (!threads::latch::try_upgrade(word, seen_page.snapshot)) [[unlikely]]
            return false;
        const uint32_t f = frame_of(seen_page.snapshot);
        DCHECK(leads_to(seen_page.snapshot, id));
        out.take(&word, frame(f), f);
        return true;
    }
    // Succeeds only if the page is in memory and its latch is free.
    bool try_fix_exclusive(PageId id, ExclusivePage& out);
    // Fixes a page whose content does not matter, without a read. If it was in memory, it is
    // unchanged. Otherwise its header says kind free and lsn 0.
    Result<ExclusivePage> fix_new(PageId id);
    // Starts background reads of pages that will be needed soon. Only a hint: it stops at the first
    // page for which no frame or no I/O slot is free. A page that cannot be read is left to the
    // next fix. Evicts nothing, waits for nothing. User threads only. Returns how many pages, from
    // the first on, are in memory or being read.
    size_t read_ahead(std::span<const PageId> ids);
    // These pages were read for a walk that does not come back: they become cold, and the next that
    // leave memory are those among them that nobody has used since and that are not dirty. So a
    // long walk keeps to a few frames. Only a hint; the last kCooledMax count. Never waits.
    static constexpr uint32_t kCooledMax = 1024;
    void cool(std::span<const PageId> ids);
    // For backups: copies the pages [first, first + count) to `out`, with their checksums. Each
    // copy is a state that the page had during the call: the one in memory, or else the volume's,
    // checked as a fix checks it. A damaged page is fixed, which repairs it. A page that the file
    // does not have is zeros. On an error, `count` says how many pages are copied, and the next one
    // is bad. Brings no sound page into memory. Parks. `out` is aligned for direct I/O. Errors:
    // those of reading a page.
    // A kernel thread of `copier` copies what is in memory, so that no worker spends its time on
    // it. `count` is at most kCopyMax.
    static constexpr uint32_t kCopyMax = 128;
    Result<void> copy_pages(PageId first, uint32_t& count, Page* out, threads::OffloadPool& copier);
    // For backups: false if no change of the page has an LSN above `lsn`. True: it may have one.
    // `lsn` must lie in this run of the store: what an earlier run wrote is not always known
    // (LW-4). Looks at no file, waits for nothing. Changes during the call need not be seen.
    bool may_be_newer(PageId id, Lsn lsn) const;
    // The page was freed: drops its content without writing it. A page that is being written stays
    // until it is evicted.
    void drop(ExclusivePage page);

    // The page got a record that lies in [begin, end). Sets page lsn, dirty flag and rec_lsn.
    // Exclusive holder only.
    void mark_dirty(ExclusivePage& page, Lsn begin, Lsn end) {
        DCHECK(begin < end && page->header.lsn <= begin.value);  // PG-1: a page's lsn only grows
        note_dirty(page, begin);
        page.mutable_page()->header.lsn = end.value;
    }
    // First half of mark_dirty(). Called while the record's reservation is open. So a checkpoint
    // that has waited for published records finds every page that a record below its begin changes.
    void note_dirty(const ExclusivePage& page, Lsn begin) {
        FrameInfo& info = info_[page.frame()];
        DCHECK(page.frame() != 0 && begin != kLsnNone);
        DCHECK(info.page.load(std::memory_order_relaxed) != kPageNone.value);
        DCHECK(info.page.load(std::memory_order_relaxed) == page->header.page_id);
        DCHECK(!(info.flags.load(std::memory_order_relaxed) & FrameInfo::kDirty) ||
               info.rec_lsn.load(std::memory_order_relaxed) <= begin.value);  // BP-2
        if (info.flags.load(std::memory_order_relaxed) & FrameInfo::kDirty) [[likely]]
            return;
        info.rec_lsn.store(begin.value, std::memory_order_relaxed);
        info.flags.fetch_or(FrameInfo::kDirty, std::memory_order_release);
        dirty_.fetch_add(1, std::memory_order_relaxed);
    }

    // Writes every page that was dirty when the call began (checkpoint), sorted by page id, in
    // batches, then syncs the volume. `pace`: at most that many pages a second, 0 = no limit.
    // Parks. Errors: store_failed, io_error, no_space (pages stay dirty).
    Result<void> write_dirty(uint64_t pace);
    // The same with a variable pace. After each batch, `rest` gets the pages written and the pages
    // in all, and returns the pause.
    Result<void> write_dirty(std::move_only_function<Nanos(uint64_t done, uint64_t total)> rest);
    // Background cleaner and evictor: a user thread on each worker. Stop it before the runtime
    // stops.
    Result<void> start_cleaner();
    void stop_cleaner();

    // The volume will end before page `end`; it had `before` pages. Forgets what the volume must
    // have behind it, and drops these pages. From now on a page there that the file does not have
    // reads as zeros, because an outdated descent may still ask for it. Parks. Errors: those of
    // reading a page.
    Result<void> give_up_from(PageId end, uint64_t before);

    // Since when no page can be written to the volume (WB-2); kNever: pages can be written. Any
    // kernel thread.
    Nanos writes_fail_since() const;

    // The store sets this function. It rebuilds a damaged page from the log into `page`; false if
    // it cannot.
    void set_repair(std::move_only_function<Result<bool>(PageId, Page&)> repair);
    // Logs the image of a page that was rebuilt; false if it cannot. Set when the log may grow, and
    // before other threads run.
    void set_repaired(std::move_only_function<bool(ExclusivePage&)> repaired);

    // The lsn that each page has on the volume. The checkpointer saves it; redo clears entries.
    WrittenLsns& written_lsns() { return *written_; }

    struct Stats {
        uint64_t frames = 0, resident = 0, dirty = 0, reads = 0, writes = 0, evictions = 0,
                 faults = 0, repairs = 0, write_batches = 0, latch_waits = 0, sync_failures = 0,
                 write_errors = 0,
                 lost_writes = 0,  // pages found to be older than their last write
            reads_ahead = 0,       // of the reads: no thread waited for them when they began
            // Threads that wanted a page while another thread was reading it; they shared that
            // read.
            read_waiters = 0;
    };
    Stats stats() const;
    size_t memory_bytes() const;
    std::string data_path() const;  // where the volume is now
    uint64_t pages_max() const { return pages_max_; }
    // The volume has `pages` pages, at most pages_max(): opens what they need. So a later fix does
    // not fail for it. Any thread. Error: out_of_memory.
    Result<void> open_pages(uint64_t pages);
    // Checks words against frames while no transaction runs. Checks everything if the cleaners are
    // stopped as well, and the counts also if nothing runs and no transfer is in flight
    // (`at_rest`): a thread may then sleep with a latch until a page can be written. Returns an
    // error text or an empty string.
    std::string verify(bool at_rest = false) const;

    // Payload bit: the page was used since the clock hand passed.
    static constexpr uint64_t kWarmBit = 1ull << 27;
    static_assert(kWarmBit <= threads::latch::kPayloadMask >> threads::latch::kPayloadShift);
    static uint32_t frame_of(uint64_t word) {
        return static_cast<uint32_t>(threads::latch::payload(word) & (kWarmBit - 1));
    }
    static bool warm(uint64_t word) { return threads::latch::payload(word) & kWarmBit; }

private:
    BufferPool();
    Page* frame(uint32_t index) const { return frames_ + index; }
    // Of a word whose page is held: the frame is in use, and for that page.
    bool leads_to(uint64_t word, PageId id) const {
        return frame_of(word) != 0 &&
               info_[frame_of(word)].page.load(std::memory_order_relaxed) == id.value;
    }
    [[gnu::cold, gnu::noinline]] Result<OptimisticPage> fix_optimistic_slow(PageId id);

    // Words from here on are reserved only, and no page has used them. Only grows.
    uint64_t pages_open() const { return pages_open_.load(std::memory_order_relaxed); }

    threads::LatchWord* words_ = nullptr;  // one per page id
    Page* frames_ = nullptr;
    std::atomic<uint64_t> pages_open_{0};
    uint64_t pages_max_ = 0;
    FrameInfo* info_ = nullptr;  // one per frame
    std::unique_ptr<WrittenLsns> written_;
    friend struct ReadAhead;
    struct Impl;
    std::unique_ptr<Impl> impl_;
    // Frames with kDirty. Whoever changes that flag counts.
    alignas(kCacheLineBytes) std::atomic<uint64_t> dirty_{0};
};

}  // namespace lockstep::sm
