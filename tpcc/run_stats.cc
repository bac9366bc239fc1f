// run_stats.cc - merging of counters and folding of timelines.
#include "tpcc/run_stats.h"

namespace lockstep::tpcc {

void TypeStats::merge(const TypeStats& other) {
    latency.merge(other.latency);
    lock_wait.merge(other.lock_wait);
    page_wait.merge(other.page_wait);
    log_wait.merge(other.log_wait);
    rolled_back += other.rolled_back;
    for (size_t i = 0; i < kAbortCauses; ++i) aborts[i] += other.aborts[i];
}

void WorkerStats::merge(const WorkerStats& other) {
    for (size_t i = 0; i < kTxnTypes; ++i) types[i].merge(other.types[i]);
    timeline.merge(other.timeline);
    deliveries_skipped += other.deliveries_skipped;
    completed.fetch_add(other.completed.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void Timeline::record(Nanos since_start, Nanos latency) {
    while (since_start / width_ >= kSlotsMax) fold();
    const size_t slot = since_start / width_;
    if (slot >= slots_.size()) slots_.resize(slot + 1);
    slots_[slot].record(latency);
}

void Timeline::merge(Timeline other) {
    while (width_ < other.width_) fold();
    while (other.width_ < width_) other.fold();
    if (slots_.size() < other.slots_.size()) slots_.resize(other.slots_.size());
    for (size_t i = 0; i < other.slots_.size(); ++i) slots_[i].merge(other.slots_[i]);
}

void Timeline::fold() {
    for (size_t i = 1; i < slots_.size(); ++i) {
        if (i % 2) {
            slots_[i / 2].merge(slots_[i]);
        } else {
            slots_[i / 2] = slots_[i];
        }
    }
    slots_.resize((slots_.size() + 1) / 2);
    width_ *= 2;
}

}  // namespace lockstep::tpcc
