// first_touch.cc - see first_touch.h.
#include "sm/buffer/first_touch.h"

#include <linux/mman.h>  // keep: MADV_POPULATE_WRITE, which older C libraries do not name
#include <sys/mman.h>

#include <algorithm>

#include "threads/worker/offload.h"

namespace lockstep::sm {

void FirstTouch::watch(std::byte* memory, size_t bytes) {
    DCHECK(memory_ == nullptr && memory != nullptr && bytes != 0);
    memory_ = memory;
    bytes_ = bytes;
}

void FirstTouch::advance(size_t used) {
    if (busy_.exchange(true, std::memory_order_acquire)) return;
    if (is_behind(used)) touch(used);  // another thread may have been here since is_due()
    busy_.store(false, std::memory_order_release);
}

void FirstTouch::touch(size_t used) {
    // Of what is in use, the rest was touched by its users.
    const size_t from = std::max(touched_.load(std::memory_order_relaxed), used / kStep * kStep);
    const size_t end = std::max(from, std::min(goal(used), from + kPiece) / kStep * kStep);
    DCHECK(from % kStep == 0 && end <= goal(used));  // FT-2
    bool touched = true;
    if (from < end) {
        const auto done = threads::run_on(
            helper_, [&] { return madvise(memory_ + from, end - from, MADV_POPULATE_WRITE) == 0; });
        touched = done.has_value() && *done;
    }
    touched_.store(touched ? end : bytes_, std::memory_order_relaxed);
}

}  // namespace lockstep::sm
