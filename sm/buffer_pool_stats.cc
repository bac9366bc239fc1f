// buffer_pool_stats.cc - figures about the pool, and its check.
#include <algorithm>
#include <vector>

#include "sm/buffer_pool_impl.h"

namespace lockstep::sm {

BufferPool::Stats BufferPool::stats() const {
    const Impl& p = *impl_;
    Stats s;
    s.frames = p.frame_count - 1;
    const uint32_t seen = p.frames_seen.load(std::memory_order_acquire);
    for (uint32_t f = 1; f < seen; ++f) {
        s.resident += p.info(f).page.load(std::memory_order_relaxed) != kPageNone.value;
        s.dirty += (p.info(f).flags.load(std::memory_order_relaxed) & FrameInfo::kDirty) != 0;
    }
    s.reads = p.reads.load(std::memory_order_relaxed);
    s.writes = p.writes.load(std::memory_order_relaxed);
    s.evictions = p.evictions.load(std::memory_order_relaxed);
    s.faults = p.faults.load(std::memory_order_relaxed);
    s.repairs = p.repairs.load(std::memory_order_relaxed);
    s.write_batches = p.write_batches.load(std::memory_order_relaxed);
    s.latch_waits = p.latch_waits.load(std::memory_order_relaxed);
    s.sync_failures = p.sync_failures.load(std::memory_order_relaxed);
    s.write_errors = p.write_errors.load(std::memory_order_relaxed);
    return s;
}

size_t BufferPool::memory_bytes() const {
    const Impl& p = *impl_;
    return p.frames_bytes + p.other_bytes + p.batch_count * sizeof(WriteBatch);
}

Lsn BufferPool::oldest_rec_lsn() const {
    uint64_t oldest = kLsnMax.value;
    const uint32_t seen = impl_->frames_seen.load(std::memory_order_acquire);
    for (uint32_t f = 1; f < seen; ++f)
        if (impl_->info(f).flags.load(std::memory_order_acquire) & FrameInfo::kDirty)
            oldest = std::min(oldest, impl_->info(f).rec_lsn.load(std::memory_order_relaxed));
    return Lsn{oldest};
}

std::string BufferPool::verify() const {
    const Impl& p = *impl_;
    std::vector<bool> is_free(p.frame_count, false);
    for (uint32_t i = 0; i < p.free_used; ++i) {
        const uint32_t f = p.free_stack[i];
        if (f == 0 || f >= p.untouched) return "free stack holds frame " + std::to_string(f);
        if (is_free[f]) return "frame " + std::to_string(f) + " is free twice";
        is_free[f] = true;
    }
    if (p.free_frames.load() != p.free_used + p.frame_count - p.untouched) return "count of free frames is wrong";
    for (uint32_t f = 1; f < p.untouched; ++f) {
        const FrameInfo& info = p.info(f);
        const uint32_t page = info.page.load();
        const std::string name = "frame " + std::to_string(f) + ", page " + std::to_string(page) + ": ";
        if (is_free[f] != (page == kPageNone.value)) return name + "lost, or free and in use";
        if (is_free[f]) continue;
        const uint64_t word = p.word(page).load();
        if (!threads::latch::readable(word) || frame_of(word) != f) return name + "word does not lead here";
        if (threads::latch::state(word) != 0) return name + "still latched";
        if (info.flags.load() & FrameInfo::kWriting) return name + "still being written";
        if (p.page_in(f).header.page_id != page) return name + "holds page " + std::to_string(p.page_in(f).header.page_id);
        if (!(info.flags.load() & FrameInfo::kDirty)) continue;
        if (info.rec_lsn.load() > p.page_in(f).header.lsn) return name + "rec_lsn above the page's lsn (BP-2)";
    }
    return {};
}

}  // namespace lockstep::sm
