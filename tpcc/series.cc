// series.cc - windows of the workers, and the points that they become.
#include "tpcc/series.h"

namespace lockstep::tpcc {

void WindowCounts::merge(const WindowCounts& other) {
    for (size_t t = 0; t < kTxnTypes; ++t) latency[t].merge(other.latency[t]);
    waits.lock += other.waits.lock;
    waits.page += other.waits.page;
    waits.log += other.waits.log;
    for (size_t c = 0; c < kAbortCauses; ++c) aborts[c] += other.aborts[c];
}

void WindowCounts::clear() {
    for (auto& type : latency) type.clear();
    waits = {};
    std::ranges::fill(aborts, 0);
}

bool WindowCounts::empty() const {
    return std::ranges::all_of(latency, [](const auto& type) { return type.count() == 0; });
}

void Window::record(TxnType type, Nanos took, const WaitSums& waits, bool measured) {
    SpinGuard guard(lock_);
    WindowCounts& counts = counts_[measured];
    counts.latency[static_cast<size_t>(type)].record(took);
    counts.waits.lock += waits.lock;
    counts.waits.page += waits.page;
    counts.waits.log += waits.log;
}

void Window::record_abort(AbortCause cause, bool measured) {
    SpinGuard guard(lock_);
    ++counts_[measured].aborts[static_cast<size_t>(cause)];
}

void Window::take(WindowCounts& to, bool measured) {
    SpinGuard guard(lock_);
    to.merge(counts_[measured]);
    counts_[measured].clear();
}

double SeriesPoint::per_second(uint64_t count) const {
    return end > begin ? static_cast<double>(count) * static_cast<double>(kSecond) /
                             static_cast<double>(end - begin)
                       : 0;
}

uint64_t SeriesPoint::aborts_sum() const {
    uint64_t sum = 0;
    for (const uint64_t n : aborts) sum += n;
    return sum;
}

void Series::start(const Store& store, Nanos began) {
    began_ = began;
    last_ = store.stats();
    points_.clear();
}

const SeriesPoint& Series::close(const Store& store, Nanos now, const WindowCounts& counts,
                                 bool measured) {
    SeriesPoint point;
    point.begin = points_.empty() ? 0 : points_.back().end;
    point.end = now > began_ ? now - began_ : 0;
    point.measured = measured;
    all_.clear();
    for (size_t t = 0; t < kTxnTypes; ++t) {
        point.types[t] = PointLatency::of(counts.latency[t]);
        all_.merge(counts.latency[t]);
    }
    point.all = PointLatency::of(all_);
    point.waits = counts.waits;
    std::ranges::copy(counts.aborts, point.aborts);
    const StoreStats stats = store.stats();
    point.checkpoints = stats.checkpoints - last_.checkpoints;
    point.log_bytes = stats.log_bytes - last_.log_bytes;
    point.pages_read = stats.page_reads - last_.page_reads;
    point.pages_written = stats.page_writes - last_.page_writes;
    last_ = stats;
    return points_.emplace_back(point);
}

}  // namespace lockstep::tpcc
