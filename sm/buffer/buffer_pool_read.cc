// buffer_pool_read.cc - reading one page: checked against its own id, read again once, rebuilt from
// the log, or an error (BP-3).
#include <cstring>

#include "sm/buffer/buffer_pool_impl.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

namespace latch = threads::latch;

namespace {

constexpr uint64_t kPagesPerSlice = 4096;  // that are given up before other threads run

// a = page, b = the lsn that it must at least have, c = the one it has.
[[gnu::cold]] Result<void> lost_write(PageId id, const Page& page, uint64_t expected) {
    return fail(ErrorCode::lost_write, "data page", id.value, expected, page.header.lsn);
}

}  // namespace

// Errors: io_error, corrupt_page or lost_write, see check_read().
Result<void> BufferPool::Impl::read_once(PageId id, Page& page) {
    DCHECK(id.value < pool.pages_open());
    reads.fetch_add(1, std::memory_order_relaxed);
    const auto bytes =
        threads::io_read(data, uint64_t{id.value} * kPageBytes, &page, kPageBytes, "data page");
    if (!bytes) return fail_os(bytes.error().code, bytes.error().os, "data page", id.value);
    return check_read(id, page, *bytes);
}

// Errors: corrupt_page, whose b says why: 1 beyond the end of the file, 2 checksum, 3 another
// page's id, 4 newer than the log; lost_write.
Result<void> BufferPool::Impl::check_read(PageId id, Page& page, size_t bytes) const {
    if (bytes < kPageBytes) {
        if (id.value < given_up_from.load(std::memory_order_acquire))
            return fail(ErrorCode::corrupt_page, "data page", id.value, 1);
        std::memset(static_cast<void*>(&page), 0, kPageBytes);
    }
    const PageHeader& header = page.header;
    if (header.checksum == 0 && never_written(page)) {
        page.header.page_id = id.value;
        page.header.hole_begin = sizeof(PageHeader);
        page.header.hole_end = kPageBytes;
        return pool.written_->of(id) == 0 ? Result<void>{}
                                          : lost_write(id, page, pool.written_->of(id));
    }
    if (header.checksum != page_checksum(page, id))
        return fail(ErrorCode::corrupt_page, "data page", id.value, 2);
    if (header.page_id != id.value) return fail(ErrorCode::corrupt_page, "data page", id.value, 3);
    const uint64_t expected = pool.written_->of(id);
    if (newer_than_log(id, header.lsn, expected))
        return fail(ErrorCode::corrupt_page, "data page", id.value, 4);
    if (header.lsn < expected) [[unlikely]]  // LW-2
        return lost_write(id, page, expected);
    // LW-1: from now on the volume's copy must not get older. But that of a page that was given up
    // is about to become zeros.
    if (expected == 0 && header.lsn != 0 &&
        id.value < given_up_from.load(std::memory_order_acquire))
        pool.written_->written(id, page.lsn());
    return {};
}

// The log has lost the records that the page has. The log may have grown beyond them with other
// records, but then this run has not written the page (LW-1). Of a page that was given up, what was
// written is forgotten.
bool BufferPool::Impl::newer_than_log(PageId id, uint64_t lsn, uint64_t written) const {
    DCHECK(log_at_start <= log.tail());
    if (lsn > log.tail().value) return true;
    return lsn > log_at_start.value && lsn > written &&
           id.value < given_up_from.load(std::memory_order_acquire);
}

Result<void> BufferPool::give_up_from(PageId end, uint64_t before) {
    DCHECK(end.value <= before);
    TRY(open_pages(before));
    uint32_t known = impl_->given_up_from.load(std::memory_order_relaxed);
    while (end.value < known && !impl_->given_up_from.compare_exchange_weak(known, end.value)) {}
    for (uint64_t p = end.value; p < before; ++p) {
        const PageId id{static_cast<uint32_t>(p)};
        impl_->drop_settled(id);
        written_->forget(id);
        if (p % kPagesPerSlice == 0) threads::yield();
    }
    return {};
}

// Behind a read or a write of the page that is in flight: its end may note an lsn.
void BufferPool::Impl::drop_settled(PageId id) {
    DCHECK(id.value >= given_up_from.load());  // a read that begins now notes none
    threads::LatchWord& w = word(id.value);
    while (w.load(std::memory_order_relaxed) != 0 && latch::latch_exclusive(w)) {
        const uint32_t frame = frame_of(w.load(std::memory_order_relaxed));
        DCHECK(pool.leads_to(w.load(std::memory_order_relaxed), id));
        pool.drop(ExclusivePage(&w, &page_in(frame), frame));
        const WriteCandidate written{id.value, frame};
        wait_for_writers({&written, 1});
    }
}

Result<bool> BufferPool::Impl::read_page(PageId id, Page& page) {
    Result<void> read = read_once(id, page);
    if (read) [[likely]]
        return false;
    // The file does not get longer by reading again.
    if (read.error().b != 1) read = read_once(id, page);
    if (read) return false;
    if (read.error().code == ErrorCode::lost_write)
        lost_writes.fetch_add(1, std::memory_order_relaxed);
    return repair(id, page, read.error());
}

[[gnu::cold]] Result<bool> BufferPool::Impl::repair(PageId id, Page& page, const Error& why) {
    if (!repair_page) return std::unexpected(why);
    repair_latch.lock();
    Result<bool> done = repair_page(id, page);
    repair_latch.unlock();
    if (!done.has_value() || !*done || page.header.page_id != id.value ||
        page.header.lsn < pool.written_->of(id))
        return std::unexpected(why);
    page.assert_state();
    DCHECK(page.header.lsn <= log.durable().value);  // rebuilt from durable records alone
    repairs.fetch_add(1, std::memory_order_relaxed);
    return true;
}

// The volume's copy is bad, so the page must be written even if no record changed it. Its image
// goes to the log first: a power cut may tear that write, and the next checkpoint frees the log
// that has rebuilt the page. A redo needs no image, because the next redo reads the page again.
[[gnu::cold]] void BufferPool::Impl::keep_repaired(threads::LatchWord& w, Page& page,
                                                   uint32_t frame) {
    DCHECK(latch::state(w.load()) == latch::kExclusive && page.header.page_id != kPageNone.value);
    // A page that was given up has no place in the volume.
    if (log_repaired && page.header.page_id < given_up_from.load(std::memory_order_acquire)) {
        ExclusivePage held(&w, &page, frame);
        const bool logged = log_repaired(held);
        (void)held.forget();
        if (logged) return;
    }
    // A page from a backup may be older than the live log.
    info(frame).rec_lsn.store(std::min(log.start().value, page.header.lsn),
                              std::memory_order_relaxed);
    info(frame).flags.fetch_or(FrameInfo::kDirty, std::memory_order_release);
    pool.dirty_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace lockstep::sm
