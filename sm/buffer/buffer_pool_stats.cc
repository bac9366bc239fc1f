// buffer_pool_stats.cc - statistics of the pool, and its check.
#include <vector>

#include "sm/buffer/buffer_pool_impl.h"

namespace lockstep::sm {

BufferPool::Stats BufferPool::stats() const {
    const Impl& p = *impl_;
    Stats s;
    s.frames = p.frame_count - 1;
    s.resident = s.frames - p.free_frames.load(std::memory_order_relaxed);
    s.dirty = dirty_.load(std::memory_order_relaxed);
    s.reads = p.reads.load(std::memory_order_relaxed);
    s.writes = p.writes.load(std::memory_order_relaxed);
    s.evictions = p.evictions.load(std::memory_order_relaxed);
    s.faults = p.faults.load(std::memory_order_relaxed);
    s.repairs = p.repairs.load(std::memory_order_relaxed);
    s.lost_writes = p.lost_writes.load(std::memory_order_relaxed);
    s.write_batches = p.write_batches.load(std::memory_order_relaxed);
    s.latch_waits = p.latch_waits.load(std::memory_order_relaxed);
    s.sync_failures = p.sync_failures.load(std::memory_order_relaxed);
    s.reads_ahead = p.reads_ahead.load(std::memory_order_relaxed);
    s.read_waiters = p.read_waiters.load(std::memory_order_relaxed);
    s.write_errors = p.write_errors.load(std::memory_order_relaxed);
    return s;
}

std::string BufferPool::data_path() const { return impl_->options.directory.path("data"); }

size_t BufferPool::memory_bytes() const {
    const Impl& p = *impl_;
    return p.frames_bytes + p.other_bytes + p.batch_count * sizeof(WriteBatch) +
           p.runtime.workers() * kReadAheadMax * sizeof(ReadAhead);
}

// While cleaners run, only frames whose latch is free can be checked, and only against themselves.
std::string BufferPool::Impl::verify_frame(uint32_t f, bool quiet) const {
    const uint32_t page = info(f).page.load(std::memory_order_acquire);
    if (page == kPageNone.value) return {};
    const uint64_t seen = word(page).load(std::memory_order_acquire);
    const uint32_t flags = info(f).flags.load(std::memory_order_acquire);
    const bool at_rest = threads::latch::readable(seen) && threads::latch::state(seen) == 0 &&
                         frame_of(seen) == f && !(flags & FrameInfo::kWriting);
    if (!at_rest) return quiet ? "latched, being written, or its word leads elsewhere" : "";
    const PageHeader header = page_in(f).header;
    const uint64_t rec_lsn = info(f).rec_lsn.load(std::memory_order_relaxed);
    if (!threads::latch::validate(word(page), seen) || info(f).flags.load() != flags) return {};
    if (header.page_id != page) return "holds page " + std::to_string(header.page_id);
    if ((flags & FrameInfo::kDirty) && rec_lsn > header.lsn)
        return "rec_lsn above the page's lsn (BP-2)";
    return {};
}

// Every frame is free once or holds the page that leads to it.
std::string BufferPool::Impl::verify_free() const {
    std::vector<bool> is_free(frame_count, false);
    for (uint32_t i = 0; i < free_used; ++i) {
        const uint32_t f = free_stack[i];
        if (f == 0 || f >= untouched) return "free stack holds frame " + std::to_string(f);
        if (is_free[f]) return "frame " + std::to_string(f) + " is free twice";
        is_free[f] = true;
    }
    for (uint32_t f = 1; f < untouched; ++f)
        if (is_free[f] != (info(f).page.load() == kPageNone.value))
            return "frame " + std::to_string(f) + " is lost, or free and in use";
    if (free_frames.load() != free_used + frame_count - untouched)
        return "count of free frames is wrong";
    uint64_t dirty = 0;
    for (uint32_t f = 1; f < untouched; ++f) dirty += info(f).flags.load() & FrameInfo::kDirty;
    if (dirty != pool.dirty_.load()) return "count of dirty pages is wrong";
    return {};
}

std::string BufferPool::verify(bool at_rest) const {
    const Impl& p = *impl_;
    bool quiet = true;
    for (uint32_t w = 0; w < p.runtime.workers(); ++w) quiet &= p.cleaners[w].done == nullptr;
    if (quiet || at_rest)
        if (std::string fault = p.verify_free(); !fault.empty()) return fault;
    const uint32_t seen = p.frames_seen.load(std::memory_order_acquire);
    for (uint32_t f = 1; f < seen; ++f)
        if (const std::string fault = p.verify_frame(f, quiet); !fault.empty())
            return "frame " + std::to_string(f) + ", page " +
                   std::to_string(p.info(f).page.load()) + ": " + fault;
    return {};
}

}  // namespace lockstep::sm
