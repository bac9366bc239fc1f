// worker_verify.cc - checks a worker while nothing runs: every thread is where its state says, and
// nobody waits without a reason.
#include <string>

#include "threads/worker/worker.h"

namespace lockstep::threads {

namespace {

constexpr size_t kReasons = static_cast<size_t>(ParkReason::kCount);

// Only a transfer or the holder of a latch ends such a wait, unless it has a deadline.
bool needs_others(const Thread& thread) {
    DCHECK((thread.timer_index == TimerHeap::kNowhere) == (thread.deadline == kNever));
    return thread.timer_index == TimerHeap::kNowhere &&
           (thread.reason == ParkReason::page_read || thread.reason == ParkReason::latch ||
            thread.reason == ParkReason::io);
}

}  // namespace

std::string Worker::verify(uint64_t& threads) const {
    // A fault that finds no frame, or no room on the disk, sleeps with its latches held.
    bool holder_sleeps = false;
    for (const Worker* other : shared_.workers)
        for (const Thread* t = other->all_threads_; t != nullptr; t = t->all_next)
            holder_sleeps |= t->latch_depth != 0 && t->timer_index != TimerHeap::kNowhere;
    uint32_t waiting[kReasons] = {};
    size_t timed_threads = 0;
    for (const Thread* t = all_threads_; t != nullptr; t = t->all_next, ++threads) {
        DCHECK(t->worker == this && t->stack != nullptr);
        DCHECK(t != t->all_next && t->reason < ParkReason::kCount);
        if (t->state.load(std::memory_order_acquire) != Thread::kParked)
            return std::string("WK-1: a thread is ready and in no queue: ") + t->name;
        if (needs_others(*t) && !holder_sleeps)
            return std::string("a thread waits for what nobody does (reason ") +
                   std::to_string(static_cast<int>(t->reason)) + "): " + t->name;
        ++waiting[static_cast<size_t>(t->reason)];
        timed_threads += t->timer_index != TimerHeap::kNowhere;
    }
    timers_.assert_state();
    DCHECK(timed_threads <= threads);
    timers_.verify();
    if (timed_threads != timers_.size()) return "TM-1: timers of threads that do not wait";
    if (timers_.earliest() <= clock().now() && all_threads_ != nullptr)
        return "a timer is due and has not expired";
    for (size_t r = 0; r < kReasons; ++r) {
        if (!timed(static_cast<ParkReason>(r))) continue;
        const uint64_t counted = parks_[r].get() - waits_ended_[r].get();
        if (waiting_[r] != waiting[r] || counted != waiting[r])
            return "waits are miscounted, reason " + std::to_string(r);
    }
    if (system_waits() || pending_ != nullptr || !none_ready() || dead_ != nullptr)
        return "the worker has work and does not do it";
    return verify_packets();
}

std::string Worker::verify_packets() const {
    DCHECK(none_ready() && pending_ == nullptr);
    if (executors_.may_admit())
        return "EX-3: packets wait, and a thread could take one; queued " +
               std::to_string(admission_.queued()) + ", busy " + std::to_string(executors_.busy());
    if (admission_.next_due() <= clock().now()) return "a packet is due and has not come";
    if (std::string fault = executors_.verify(all_threads_); !fault.empty()) return fault;
    if (std::string fault = admission_.verify(executors_.in_service(all_threads_)); !fault.empty())
        return "packets: " + fault;
    return io_ != nullptr ? io_->verify_idle() : "";
}

}  // namespace lockstep::threads
