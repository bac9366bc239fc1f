// first_touch.h - memory of a mapping, taken from the system ahead of its use.
//
// Concepts   The first access to a page of a mapping makes the kernel find memory and clear it. For
//            a huge page that is 2 MB, which takes milliseconds on a virtual machine. A worker that
//            does this stops with all its threads. So a kernel thread of this class does it before:
//            for as many bytes as are in use, up to kAheadMax.
// Invariants FT-1 advance() changes no byte, so what it touches may be in use.
//            FT-2 Nothing beyond the goal is touched: a small store stays small.
// Blocking   advance() parks until the kernel thread has touched one piece.
// Limits     Linux before 5.14 cannot do it: the first error ends the work ahead.
// Source     madvise(2), MADV_POPULATE_WRITE.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "threads/base/check.h"
#include "threads/io/offload_pool.h"

namespace lockstep::sm {

class FirstTouch {
public:
    static constexpr size_t kStep = 2 << 20;       // a huge page
    static constexpr size_t kPiece = 8 << 20;      // one call touches so much at most
    static constexpr size_t kAheadMax = 64 << 20;  // beyond what is in use

    // `memory` is a mapping, aligned to pages; its first bytes are used first. Nothing is due
    // before.
    void watch(std::byte* memory, size_t bytes);

    // The first `used` bytes are in use: shall advance() be called? Any thread.
    bool is_due(size_t used) const {
        return is_behind(used) && !busy_.load(std::memory_order_relaxed);
    }
    // Touches the next piece, if it is due and no other thread does so. User threads only.
    void advance(size_t used);

private:
    bool is_behind(size_t used) const {
        DCHECK(used <= bytes_ || bytes_ == 0);
        return touched_.load(std::memory_order_relaxed) + kStep <= goal(used);
    }
    void touch(size_t used);  // by one thread at a time, while it is behind
    size_t goal(size_t used) const { return std::min(used + std::min(used, kAheadMax), bytes_); }

    std::byte* memory_ = nullptr;
    size_t bytes_ = 0;
    std::atomic<size_t> touched_{0};  // up to here nothing is left to do; whole steps, or bytes_
    std::atomic<bool> busy_{false};
    threads::OffloadPool helper_{1};
};

}  // namespace lockstep::sm
