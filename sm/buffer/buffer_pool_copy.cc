// buffer_pool_copy.cc - copies of pages for a backup: from memory without a read, or else from the
// file, checked.
//
// Argument   A file read may meet a write of the same page: the bytes are then a mixture, the
//            checksum differs, and the page is fixed instead. The LSN that a page must have is read
//            before its transfer begins. A write that completes later makes the page newer, never
//            older, so a lower LSN is a lost write (LW-2).
#include <cstring>

#include "sm/buffer/buffer_pool_impl.h"
#include "threads/base/mutants.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

namespace latch = threads::latch;

namespace {
constexpr uint32_t kCopyMax = 128;  // pages of one file read

bool is_stamped(const Page& page) { return page.header.checksum != 0 || page.header.lsn != 0; }
}  // namespace

// Never waits, and does not make the page warm.
bool BufferPool::Impl::copy_from_memory(PageId id, Page& out) const {
    if (pool.resident(id) == nullptr) return false;
    threads::LatchWord& w = word(id.value);
    if (!latch::try_shared(w)) return false;
    const uint32_t frame = frame_of(w.load(std::memory_order_relaxed));
    if (frame != 0) {
        std::memcpy(static_cast<void*>(&out), &page_in(frame), kPageBytes);
        DCHECK(out.header.page_id == id.value && out.header.lsn <= log.tail().value);
    }
    latch::unlatch_shared(w);
    if (frame == 0) return false;
    out.header.checksum = page_checksum(out, id);
    return true;
}

// A run of absent pages. `sound` is how many pages from the first on are copied.
Result<void> BufferPool::Impl::copy_from_file(PageId first, uint32_t count, Page* out,
                                              uint32_t& sound) {
    DCHECK(count > 0 && count <= kCopyMax);
    DCHECK(reinterpret_cast<uintptr_t>(out) % kPageBytes == 0);
    uint64_t least[kCopyMax];
    for (uint32_t i = 0; i < count; ++i) least[i] = pool.written_->of(PageId{first.value + i});
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const Result<size_t> got = threads::io_read(data, uint64_t{first.value} * kPageBytes, out,
                                                count * kPageBytes, "data page");
    reads.fetch_add(count, std::memory_order_relaxed);
    if (got && *got < count * kPageBytes)
        std::memset(out->bytes() + *got, 0, count * kPageBytes - *got);
    for (sound = 0; sound < count; ++sound) {
        const PageId id{first.value + sound};
        Page& page = out[sound];
        if (got && check_bytes(id, page, least[sound])) continue;
        const SharedPage fixed = TRY(pool.fix_shared(id));
        std::memcpy(static_cast<void*>(&page), &*fixed, kPageBytes);
        // Zeros stay zeros: a page that was never written has no checksum.
        if (is_stamped(page)) page.header.checksum = page_checksum(page, id);
        else std::memset(static_cast<void*>(&page), 0, kPageBytes);
    }
    return {};
}

bool BufferPool::Impl::check_bytes(PageId id, const Page& page, uint64_t least) const {
    if (MUTANT(backup_unchecked)) return true;
    if (page.header.checksum == 0 && never_written(page)) return least == 0;
    return page.header.checksum == page_checksum(page, id) && page.header.page_id == id.value &&
           page.header.lsn <= log.tail().value && page.header.lsn >= least;
}

Result<void> BufferPool::copy_pages(PageId first, uint32_t& count, Page* out) {
    const uint32_t wanted = std::exchange(count, 0);
    DCHECK(first.value + uint64_t{wanted} <= pages_max_);
    while (count < wanted) {
        const PageId id{first.value + count};
        if (impl_->copy_from_memory(id, out[count])) {
            ++count;
            continue;
        }
        uint32_t run = 1;
        while (run < kCopyMax && count + run < wanted &&
               resident(PageId{id.value + run}) == nullptr)
            ++run;
        uint32_t sound = 0;
        const Result<void> copied = impl_->copy_from_file(id, run, out + count, sound);
        count += sound;
        TRY(copied);
    }
    return {};
}

}  // namespace lockstep::sm
