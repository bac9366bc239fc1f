// buffer_pool_cleaner.cc - background threads that keep frames free, one on each worker. While
// enough are free, they have the memory of new frames touched.
//
// States     asleep -> working: kick_cleaner(), when a fault finds fewer than low_water free, or
//            when a first touch is due.
//            working -> asleep: high_water is reached, and no first touch is due.
// Blocking   Polls at most every 10 ms, and only while nothing can be evicted. While pages cannot
//            be written, the pauses double up to 1 s.
#include <algorithm>

#include "sm/buffer/buffer_pool_impl.h"
#include "threads/base/limits.h"

namespace lockstep::sm {
namespace {}

void BufferPool::Impl::run_cleaner(uint32_t worker) {
    DCHECK(worker == threads::worker_index());
    Cleaner& me = cleaners[worker];
    me.thread.store(threads::current());
    Nanos pause = WriteBackoff::kPauseMin;
    while (!stopping.load()) {
        const uint32_t free_now = free_frames.load(std::memory_order_relaxed);
        if (free_now >= high_water) {
            if (first_touch.is_due(bytes_seen())) {
                first_touch.advance(bytes_seen());
                continue;
            }
            me.sleeping.store(true);
            if (!stopping.load() && !cleaner_is_needed()) threads::park(threads::ParkReason::event);
            me.sleeping.store(false);
            continue;
        }
        const Result<uint32_t> made =
            make_room(std::min(high_water - free_now, limits::cleaner_goal()));
        if (!made) {
            // stop_cleaner() wakes it. Under pressure faults make room themselves.
            threads::park_until(threads::now() + pause, threads::ParkReason::sleep);
            pause = longer_pause(pause, WriteBackoff::kPauseMax);
            continue;
        }
        pause = WriteBackoff::kPauseMin;
        if (*made == 0) threads::sleep_until(threads::now() + 10 * kMillisecond);
        else threads::yield();
    }
    wait_for_read_ahead(worker);
}

void BufferPool::Impl::kick_cleaner() {
    Cleaner& c = cleaners[threads::worker_index()];
    if (c.sleeping.load(std::memory_order_relaxed) && c.sleeping.exchange(false))
        threads::wake(c.thread.load());
}

Result<void> BufferPool::start_cleaner() {
    impl_->stopping.store(false);
    for (uint32_t w = 0; w < impl_->runtime.workers(); ++w) {
        Cleaner& c = impl_->cleaners[w];
        if (c.done) continue;
        c.done = std::make_unique<threads::Completion>();
        auto started = impl_->runtime.spawn(w, "cleaner", [impl = impl_.get(), w] {
            impl->run_cleaner(w);
            impl->cleaners[w].done->set();
        });
        if (started) continue;
        c.done.reset();
        stop_cleaner();
        return std::unexpected(started.error());
    }
    return {};
}

void BufferPool::stop_cleaner() {
    impl_->stopping.store(true);
    for (uint32_t w = 0; w < impl_->runtime.workers(); ++w) {
        Cleaner& c = impl_->cleaners[w];
        if (!c.done) continue;
        c.sleeping.store(false);
        if (threads::Thread* thread = c.thread.load()) threads::wake(thread);
        c.done->wait();
        c.done.reset();
    }
}

}  // namespace lockstep::sm
