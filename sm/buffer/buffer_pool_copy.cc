// buffer_pool_copy.cc - copies of pages for a backup: from memory without a read, or else from the
// file, checked.
//
// Argument   A copy from memory takes no latch, so nothing waits for it: like any optimistic reader
//            it looks at the latch word before and after (LA-1). If the page changed, the worker
//            copies it again under a shared latch. Only then does the copy get its checksum.
//            A file read may meet a write of the same page: the bytes are then a mixture, the
//            checksum differs, and the page is fixed instead. The LSN that a page must have is read
//            before its transfer begins. A write that completes later makes the page newer, never
//            older, so a lower LSN is a lost write (LW-2).
#include <cstring>

#include "sm/buffer/buffer_pool_impl.h"
#include "threads/worker/io_wait.h"
#include "threads/worker/offload.h"

namespace lockstep::sm {

namespace latch = threads::latch;

namespace {
constexpr uint32_t kWorthAThread = 8;  // pages in memory; fewer are copied in the time of a switch

bool is_stamped(const Page& page) { return page.header.checksum != 0 || page.header.lsn != 0; }
}  // namespace

// On any kernel thread, beside the workers. False: the page is absent, or changed meanwhile.
bool BufferPool::Impl::copy_unlatched(PageId id, Page& out) const {
    const threads::LatchWord& w = word(id.value);
    const uint64_t seen = w.load(std::memory_order_acquire);
    const uint32_t frame = frame_of(seen);
    if (frame == 0 || !latch::readable(seen)) return false;
    std::memcpy(static_cast<void*>(&out), &page_in(frame), kPageBytes);
    if (!latch::validate(w, seen)) return false;
    DCHECK(out.header.page_id == id.value);
    out.header.checksum = page_checksum(out, id);
    return true;
}

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

// A run of absent pages, at most kCopyMax. `sound` is how many pages from the first on are copied.
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
    if (page.header.checksum == 0 && never_written(page)) return least == 0;
    return page.header.checksum == page_checksum(page, id) && page.header.page_id == id.value &&
           !newer_than_log(id, page.header.lsn, least) && page.header.lsn >= least;
}

Result<void> BufferPool::copy_pages(PageId first, uint32_t& count, Page* out,
                                    threads::OffloadPool& copier) {
    const uint32_t wanted = std::exchange(count, 0);
    DCHECK(wanted <= kCopyMax);
    TRY(open_pages(first.value + uint64_t{wanted}));
    const auto id_of = [&](uint32_t i) { return PageId{first.value + i}; };
    uint32_t here = 0;
    for (uint32_t i = 0; i < wanted; ++i) here += resident(id_of(i)) != nullptr;
    bool copied[kCopyMax] = {};
    // Without a thread the worker copies.
    if (here >= kWorthAThread)
        (void)threads::run_on(copier, [&] {
            for (uint32_t i = 0; i < wanted; ++i)
                copied[i] = impl_->copy_unlatched(id_of(i), out[i]);
        });
    while (count < wanted) {
        if (copied[count] || impl_->copy_from_memory(id_of(count), out[count])) {
            ++count;
            continue;
        }
        uint32_t run = 1;
        while (count + run < wanted && !copied[count + run] &&
               resident(id_of(count + run)) == nullptr)
            ++run;
        uint32_t sound = 0;
        const Result<void> done = impl_->copy_from_file(id_of(count), run, out + count, sound);
        count += sound;
        TRY(done);
    }
    return {};
}

// An absent page was written since its last change, and LW-1 says with which LSN; the latch word
// that names no frame comes after that. A page that this run has not changed has no such LSN. Of a
// page that was given up the LSN is forgotten, while its bytes may lie in the file still, or zeros
// may have taken their place.
bool BufferPool::may_be_newer(PageId id, Lsn lsn) const {
    DCHECK(id.value < pages_max_ && lsn != kLsnNone);
    const auto newer = [&](uint64_t known) {
        return known > lsn.value ||
               (known == 0 && id.value >= impl_->given_up_from.load(std::memory_order_acquire));
    };
    if (id.value >= pages_open()) return newer(0);  // never used
    const threads::LatchWord& word = words_[id.value];
    const uint64_t seen = word.load(std::memory_order_acquire);
    if (seen == 0 || latch::state(seen) == latch::kAbsent) return newer(written_->of(id));
    if (!latch::readable(seen)) return true;
    return newer(frame(frame_of(seen))->header.lsn) || !latch::validate(word, seen);
}

}  // namespace lockstep::sm
