// buffer_pool.cc - finding and fixing pages; what happens when a page is not in memory.
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "sm/buffer/buffer_pool_impl.h"
#include "threads/base/coherence.h"
#include "threads/base/error_detail.h"
#include "threads/base/zero_bytes.h"

namespace lockstep::sm {

namespace latch = threads::latch;

namespace {

constexpr uint64_t kHugePage = 2u << 20;
constexpr uint64_t kBytesMin = 1u << 20;
// Of a volume: what it may always have, and how much more of the arrays is opened at once: a huge
// page of words.
constexpr uint64_t kPagesLeast = 1u << 20, kPagesStep = kHugePage / sizeof(threads::LatchWord);
constexpr uint64_t kOthersBytes = 256u << 20;

std::byte* map_private(size_t bytes) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

// The kernel gives addresses that are multiples of 4096. A Page wants more, and frames begin at a
// huge page's boundary so that the kernel can back them with huge pages from the first byte on.
std::byte* map_aligned(size_t bytes, size_t alignment) {
    std::byte* at = map_private(bytes + alignment);
    if (at == nullptr) return nullptr;
    DCHECK(std::has_single_bit(alignment) && alignment % 4096 == 0);
    const size_t before = (alignment - reinterpret_cast<uintptr_t>(at) % alignment) % alignment;
    const size_t page = 4096, used = (bytes + page - 1) / page * page;
    if (before != 0) munmap(at, before);
    if (alignment > before + used - bytes)
        munmap(at + before + used, bytes + alignment - before - used);
    DCHECK(reinterpret_cast<uintptr_t>(at + before) % alignment == 0);
    return at + before;
}

// `reserved`: addresses for the pages of the volume.
[[gnu::cold]] std::unexpected<Error> refuse_memory(uint64_t bytes, uint64_t reserved) {
    DCHECK(bytes >= kBytesMin);
    auto error = fail(ErrorCode::out_of_memory, "buffer pool", bytes + reserved);
    set_error_detail(error.error(),
                     "the system does not give " + std::to_string(bytes + reserved) +
                         " bytes of addresses, " + std::to_string(bytes) +
                         " for option pool_bytes and " + std::to_string(reserved) +
                         " for the page numbers of the volume: choose a smaller pool, or raise "
                         "the limit of the process (ulimit -v, ulimit -d) or of the machine");
    return error;
}

}  // namespace

BufferPool::BufferPool() = default;
BufferPool::~BufferPool() = default;

// With a cache, the next pool finds frames and descriptors as zeros.
BufferPool::Impl::~Impl() {
    using threads::MappingUse;
    if (pool.frames_ != nullptr) {
        if (options.mappings != nullptr)
            std::memset(static_cast<void*>(pool.frames_), 0, size_t{untouched} * kPageBytes);
        give_back(MappingUse::frames, pool.frames_, frames_bytes);
    }
    if (other != nullptr) {
        if (options.mappings != nullptr) {
            auto* infos = reinterpret_cast<std::byte*>(pool.info_);
            std::memset(infos, 0, static_cast<size_t>(other + other_bytes - infos));
        }
        give_back(MappingUse::write_buffers, other, other_bytes);
    }
}

void BufferPool::Impl::give_back(threads::MappingUse use, void* at, size_t bytes) {
    if (options.mappings != nullptr) options.mappings->give(use, at, bytes);
    else munmap(at, bytes);
}

std::byte* BufferPool::Impl::obtain(threads::MappingUse use, size_t bytes, size_t alignment) {
    void* at = options.mappings != nullptr ? options.mappings->take(use, bytes) : nullptr;
    if (at == nullptr) return map_aligned(bytes, alignment);
    DCHECK(reinterpret_cast<uintptr_t>(at) % alignment == 0);  // every use has one alignment
    return static_cast<std::byte*>(at);
}

void BufferPool::Impl::name_lines() const {
    const auto object_of = [](const void* at) -> uint32_t {
        const auto page = reinterpret_cast<uintptr_t>(at) / kPageBytes * kPageBytes;
        return reinterpret_cast<const Page*>(page)->header.object;
    };
    coherence::name("page", pool.frames_, frames_bytes, kPageBytes, object_of);
    coherence::name("page word", pool.words_, words.reserved_bytes(), kCacheLineBytes);
    coherence::name("frame information", pool.info_, frame_count * sizeof(FrameInfo),
                    sizeof(FrameInfo));
    coherence::name("buffer pool", &pool, sizeof pool, sizeof pool);
    coherence::name("buffer pool, inside", this, sizeof *this, sizeof *this);
}

// Divides options.bytes: write buffers are about 1/32 of it at most, the rest is frames with their
// descriptors.
void BufferPool::Impl::size_memory() {
    batch_count = runtime.workers() + 1;
    batch_pages = static_cast<uint32_t>(
        std::clamp<uint64_t>(options.bytes / 32 / batch_count / kPageBytes, 4, kWriteBatchMax));
    batch_pages = std::min(batch_pages, limits::write_batch());
    const uint64_t writing =
        uint64_t{batch_count} * (batch_pages * kPageBytes + sizeof(WriteBatch)) +
        uint64_t{runtime.workers()} * kReadAheadMax * sizeof(ReadAhead);
    DCHECK(writing < options.bytes);
    frame_count = static_cast<uint32_t>((options.bytes - writing) /
                                        (kPageBytes + sizeof(FrameInfo) + sizeof(uint32_t)));
    high_water = std::max<uint32_t>(8, static_cast<uint32_t>(frame_count * options.free_target));
    low_water = high_water / 2;
    kept_for_rollbacks = std::min(std::clamp(frame_count / 16, 32u, 1024u), frame_count / 4);
    DCHECK(batch_pages <= kWriteBatchMax && low_water < high_water && high_water < frame_count);
}

Result<void> BufferPool::Impl::map_memory() {
    frames_bytes = size_t{frame_count} * kPageBytes;
    const size_t buffers = size_t{batch_count} * batch_pages * kPageBytes;
    other_bytes = buffers + size_t{frame_count} * (sizeof(FrameInfo) + sizeof(uint32_t));
    // One huge page of words covers 2 GB of the volume: a random page then costs no TLB miss for
    // its word.
    const size_t alignment = options.huge_pages ? kHugePage : alignof(Page);
    TRY(reserve_pages(alignment));
    pool.frames_ =
        reinterpret_cast<Page*>(obtain(threads::MappingUse::frames, frames_bytes, alignment));
    if (options.huge_pages && pool.frames_ != nullptr) {
        madvise(static_cast<void*>(pool.frames_), frames_bytes, MADV_HUGEPAGE);
        first_touch.watch(reinterpret_cast<std::byte*>(pool.frames_), frames_bytes);
    }
    other = obtain(threads::MappingUse::write_buffers, other_bytes, alignof(Page));
    if (pool.frames_ == nullptr || other == nullptr)
        return refuse_memory(options.bytes, 2 * words.reserved_bytes());
    pool.info_ = reinterpret_cast<FrameInfo*>(other + buffers);
    DCHECK(all_zero(other + buffers, other_bytes - buffers));  // also if it comes from the cache
    free_stack = reinterpret_cast<uint32_t*>(pool.info_ + frame_count);
    DCHECK(reinterpret_cast<std::byte*>(free_stack + frame_count) <= other + other_bytes);
    batches = std::make_unique<WriteBatch[]>(batch_count);
    for (uint32_t i = 0; i < batch_count; ++i) {
        batches[i].memory = other + size_t{i} * batch_pages * kPageBytes;
        batches[i].next = std::exchange(idle_batches, &batches[i]);
    }
    batch_units.emplace(batch_count);
    free_frames.store(frame_count - 1, std::memory_order_relaxed);
    name_lines();
    return {};
}

// Addresses for as many pages as the system allows, up to pages_max.
Result<void> BufferPool::Impl::reserve_pages(size_t alignment) {
    const uint64_t least = std::min(options.pages_max, kPagesLeast);
    DCHECK(least > 0 && pool.words_ == nullptr);
    pages_wanted = options.pages_max;
    uint64_t bytes = 0;
    for (uint64_t pages = options.pages_max;; pages = std::max(pages / 2, least)) {
        bytes = pages * sizeof(threads::LatchWord);
        // Room for the lsns and for what the rest of the store needs.
        GrowingMap trial;
        const bool room = trial.reserve(bytes + options.bytes + kOthersBytes, alignment);
        if ((room || pages == least) && words.reserve(bytes, alignment)) {
            options.pages_max = pages;
            break;
        }
        if (pages == least) return refuse_memory(options.bytes, 2 * bytes);
    }
    pool.words_ = reinterpret_cast<threads::LatchWord*>(words.begin());
    if (options.huge_pages) madvise(words.begin(), bytes, MADV_HUGEPAGE);
    pool.written_ = TRY(WrittenLsns::create(options.pages_max, 0));
    pool.pages_max_ = options.pages_max;
    return pool.open_pages(1);
}

Result<void> BufferPool::open_pages(uint64_t pages) {
    if (pages <= pages_open()) return {};
    if (pages > impl_->pages_wanted)
        return fail(ErrorCode::corrupt_page, "page number beyond any volume", pages - 1);
    if (pages > pages_max_)
        return refuse_memory(impl_->options.bytes, 2 * pages * sizeof(threads::LatchWord));
    const SpinGuard guard(impl_->words_lock);
    const uint64_t wanted =
        std::min(pages_max_, (pages + kPagesStep - 1) / kPagesStep * kPagesStep);
    if (wanted <= pages_open()) return {};
    DCHECK(pages <= wanted && wanted <= pages_max_);
    TRY(written_->open(wanted));
    const size_t bytes = wanted * sizeof(threads::LatchWord);
    if (!impl_->words.open(bytes)) return refuse_memory(impl_->options.bytes, 2 * bytes);
    pages_open_.store(wanted, std::memory_order_release);
    return {};
}

Result<std::unique_ptr<BufferPool>> BufferPool::create(threads::Runtime& runtime, txn::Log& log,
                                                       threads::FileId data,
                                                       const BufferPoolOptions& options) {
    if (options.bytes < kBytesMin || options.bytes / kPageBytes >= kWarmBit)
        return fail(ErrorCode::bad_option, "pool_bytes", options.bytes);
    if (options.pages_max == 0 || options.pages_max > kPageNone.value)
        return fail(ErrorCode::bad_option, "pages_max", options.pages_max);
    if (!(options.free_target >= 0 && options.free_target <= 0.5))
        return fail(ErrorCode::bad_option, "free_target");
    std::unique_ptr<BufferPool> pool(new BufferPool);
    pool->impl_ = std::make_unique<Impl>(*pool, runtime, log, data, options);
    pool->impl_->size_memory();
    TRY(pool->impl_->map_memory());
    pool->impl_->cleaners = std::make_unique<Cleaner[]>(runtime.workers());
    pool->impl_->make_read_ahead();
    return pool;
}

void BufferPool::set_repair(std::move_only_function<Result<bool>(PageId, Page&)> repair) {
    impl_->repair_page = std::move(repair);
}

void BufferPool::set_repaired(std::move_only_function<bool(ExclusivePage&)> repaired) {
    impl_->log_repaired = std::move(repaired);
}

// The bit is a hint: it is set only in words that are in use at that moment, and a concurrent
// release may lose it.
uint64_t BufferPool::Impl::warm_up(threads::LatchWord& word, uint64_t seen) {
    while (latch::readable(seen) && !warm(seen)) {
        DCHECK(frame_of(seen) != 0);  // only a page in memory is warm
        const uint64_t desired = latch::with_payload(seen, latch::payload(seen) | kWarmBit);
        if (word.compare_exchange_weak(seen, desired, std::memory_order_acq_rel,
                                       std::memory_order_acquire))
            return desired;
    }
    return seen;
}

Result<bool> BufferPool::Impl::fault(PageId id, bool keep, bool fresh) {
    TRY(pool.open_pages(uint64_t{id.value} + 1));
    threads::LatchWord& w = word(id.value);
    uint64_t never = 0;
    w.compare_exchange_strong(never, latch::kAbsent, std::memory_order_relaxed);
    if (!latch::fault_begin(w)) return false;
    faults.fetch_add(1, std::memory_order_relaxed);
    Result<uint32_t> frame = take_frame();
    if (!frame) {
        latch::unlatch_to_absent(w);
        return std::unexpected(frame.error());
    }
    Page& page = page_in(*frame);
    bool rebuilt = false;
    if (fresh) {
        page.header = PageHeader{.checksum = 0,
                                 .lsn = 0,
                                 .page_id = id.value,
                                 .object = 0,
                                 .kind = 0,
                                 .level = 0,
                                 .hole_begin = sizeof(PageHeader),
                                 .hole_end = kPageBytes,
                                 .flags = 0};
    } else if (Result<bool> read = read_page(id, page); !read.has_value()) {
        push_free(*frame);
        latch::unlatch_to_absent(w);
        return std::unexpected(read.error());
    } else {
        rebuilt = *read;
    }
    DCHECK(info(*frame).flags.load() == 0);
    DCHECK(info(*frame).page.load() == kPageNone.value && page.header.page_id == id.value);
    DCHECK(latch::state(w.load()) == latch::kExclusive);
    info(*frame).page.store(id.value, std::memory_order_release);
    latch::set_payload(w, *frame | kWarmBit);
    if (rebuilt) [[unlikely]]
        keep_repaired(w, page, *frame);
    if (!keep) latch::unlatch_exclusive(w);
    return true;
}

Result<OptimisticPage> BufferPool::fix_optimistic_slow(PageId id) {
    for (;;) {
        TRY(open_pages(uint64_t{id.value} + 1));
        threads::LatchWord& word = words_[id.value];
        uint64_t seen = word.load(std::memory_order_acquire);
        if (seen == 0 || latch::state(seen) == latch::kAbsent) {
            TRY(impl_->fault(id, false, false));
            continue;
        }
        if (latch::state(seen) == latch::kExclusive) {
            (frame_of(seen) == 0 ? impl_->read_waiters : impl_->latch_waits)
                .fetch_add(1, std::memory_order_relaxed);
            latch::wait_while_exclusive(word);
            continue;
        }
        seen = impl_->warm_up(word, seen);
        if (latch::readable(seen)) return OptimisticPage{frame(frame_of(seen)), &word, seen};
    }
}

Result<SharedPage> BufferPool::fix_shared(PageId id) {
    for (;;) {
        if (id.value < pages_open()) [[likely]] {
            threads::LatchWord& word = words_[id.value];
            uint64_t seen = word.load(std::memory_order_relaxed);
            if (seen != 0 && latch::latch_shared(word)) [[likely]] {
                seen = word.load(std::memory_order_relaxed);
                DCHECK(leads_to(seen, id));
                if (!warm(seen)) impl_->warm_up(word, seen);
                return SharedPage(&word, frame(frame_of(seen)));
            }
        }
        TRY(impl_->fault(id, false, false));
    }
}

Result<ExclusivePage> BufferPool::fix_exclusive(PageId id) {
    for (;;) {
        if (id.value < pages_open()) [[likely]] {
            threads::LatchWord& word = words_[id.value];
            uint64_t seen = word.load(std::memory_order_relaxed);
            if (seen != 0) [[likely]] {
                if (!warm(seen)) impl_->warm_up(word, seen);
                if (latch::latch_exclusive(word)) [[likely]] {
                    seen = word.load(std::memory_order_relaxed);
                    DCHECK(leads_to(seen, id));
                    return ExclusivePage(&word, frame(frame_of(seen)), frame_of(seen));
                }
            }
        }
        if (TRY(impl_->fault(id, true, false))) {
            threads::LatchWord& word = words_[id.value];
            const uint32_t f = frame_of(word.load(std::memory_order_relaxed));
            return ExclusivePage(&word, frame(f), f);
        }
    }
}

bool BufferPool::try_fix_exclusive(PageId id, ExclusivePage& out) {
    if (id.value >= pages_open()) return false;
    threads::LatchWord& word = words_[id.value];
    if (word.load(std::memory_order_relaxed) == 0 || !latch::try_exclusive(word)) return false;
    const uint32_t f = frame_of(word.load(std::memory_order_relaxed));
    DCHECK(leads_to(word.load(std::memory_order_relaxed), id));
    out = ExclusivePage(&word, frame(f), f);
    return true;
}

// A freed page may still be in memory, or return because a reader follows an outdated pointer. Then
// it is taken as it is.
Result<ExclusivePage> BufferPool::fix_new(PageId id) {
    for (;;) {
        if (TRY(impl_->fault(id, true, true))) {
            threads::LatchWord& word = words_[id.value];
            const uint32_t f = frame_of(word.load(std::memory_order_relaxed));
            return ExclusivePage(&word, frame(f), f);
        }
        threads::LatchWord& word = words_[id.value];
        if (latch::latch_exclusive(word)) {
            DCHECK(leads_to(word.load(std::memory_order_relaxed), id));
            const uint32_t f = frame_of(word.load(std::memory_order_relaxed));
            return ExclusivePage(&word, frame(f), f);
        }
    }
}

void BufferPool::drop(ExclusivePage page) {
    page.assert_state();
    FrameInfo& info = info_[page.frame()];
    DCHECK(info.page.load(std::memory_order_relaxed) == page->header.page_id);
    uint32_t flags = info.flags.load(std::memory_order_acquire);
    if ((flags & FrameInfo::kWriting) ||
        !info.flags.compare_exchange_strong(flags, 0, std::memory_order_acq_rel))
        return;
    if (flags & FrameInfo::kDirty) dirty_.fetch_sub(1, std::memory_order_relaxed);
    const uint32_t f = page.frame();
    threads::LatchWord* word = page.forget();
    info.page.store(kPageNone.value, std::memory_order_release);
    latch::unlatch_to_absent(*word);
    impl_->push_free(f);
}

}  // namespace lockstep::sm
