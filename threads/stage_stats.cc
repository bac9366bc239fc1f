// stage_stats.cc - adding up and reading the figures of stages.
#include "threads/stage_stats.h"

namespace lockstep {
namespace {

uint64_t middle_of(size_t bucket) {
    using stage_buckets::kBits, stage_buckets::kSub;
    if (bucket < kSub) return bucket;
    const uint64_t shift = bucket / kSub - 1;
    return ((kSub + bucket % kSub) << shift) + ((1ull << shift) >> 1);
}

}  // namespace

void StageHistogram::record(uint64_t value) {
    ++buckets[stage_buckets::index(value)];
    ++count;
    sum += value;
    max = std::max(max, value);
}

void StageHistogram::add(const StageHistogram& other) {
    for (size_t i = 0; i < buckets.size(); ++i) buckets[i] += other.buckets[i];
    count += other.count;
    sum += other.sum;
    max = std::max(max, other.max);
}

StageHistogram StageHistogram::since(const StageHistogram& earlier) const {
    StageHistogram d = *this;
    for (size_t i = 0; i < buckets.size(); ++i) d.buckets[i] -= earlier.buckets[i];
    d.count -= earlier.count;
    d.sum -= earlier.sum;
    return d;
}

uint64_t StageHistogram::percentile(double share) const {
    if (count == 0) return 0;
    const auto rank = std::clamp<uint64_t>(static_cast<uint64_t>(share * static_cast<double>(count) + 0.999999), 1, count);
    uint64_t seen = 0;
    for (size_t i = 0; i < buckets.size(); ++i) {
        seen += buckets[i];
        if (seen >= rank) return std::min(middle_of(i), max);
    }
    return max;
}

void StageStats::add(const StageStats& other) {
    entered += other.entered;
    finished += other.finished;
    forwarded += other.forwarded;
    cancelled += other.cancelled;
    requeued += other.requeued;
    queued += other.queued;
    in_service += other.in_service;
    bypasses += other.bypasses;
    bypassed_max = std::max(bypassed_max, other.bypassed_max);
    suspended += other.suspended;
    length.add(other.length);
    wait.add(other.wait);
    batch.add(other.batch);
}

StageStats StageStats::since(const StageStats& earlier) const {
    StageStats d = *this;
    d.entered -= earlier.entered;
    d.finished -= earlier.finished;
    d.forwarded -= earlier.forwarded;
    d.cancelled -= earlier.cancelled;
    d.requeued -= earlier.requeued;
    d.bypasses -= earlier.bypasses;
    d.suspended -= earlier.suspended;
    d.length = length.since(earlier.length);
    d.wait = wait.since(earlier.wait);
    d.batch = batch.since(earlier.batch);
    return d;
}

}  // namespace lockstep
