// stage_stats.cc - adds and reads the statistics of stages.
#include <lockstep/stage_stats.h>

#include <algorithm>

#include "threads/base/check.h"

namespace lockstep {

static_assert(StageBuckets::index(0) == 0 && StageBuckets::index(7) == 7);
static_assert(StageBuckets::index(UINT64_MAX) == StageBuckets::kCount - 1);
static_assert(StageBuckets::index(StageBuckets::middle(100)) == 100);
static_assert(StageBuckets::index(StageBuckets::middle(StageBuckets::kCount - 1)) ==
              StageBuckets::kCount - 1);

void StageHistogram::record(uint64_t value) {
    const size_t at = StageBuckets::index(value);
    if (at >= buckets.size()) buckets.resize(at + 1);
    ++buckets[at];
    ++count;
    sum += value;
    max = std::max(max, value);
}

void StageHistogram::add(const StageHistogram& other) {
    if (buckets.size() < other.buckets.size()) buckets.resize(other.buckets.size());
    for (size_t i = 0; i < other.buckets.size(); ++i) buckets[i] += other.buckets[i];
    count += other.count;
    sum += other.sum;
    max = std::max(max, other.max);
}

StageHistogram StageHistogram::since(const StageHistogram& earlier) const {
    DCHECK(count >= earlier.count && sum >= earlier.sum);  // counters only grow
    StageHistogram d = *this;
    DCHECK(buckets.size() >= earlier.buckets.size());
    for (size_t i = 0; i < earlier.buckets.size(); ++i) d.buckets[i] -= earlier.buckets[i];
    d.count -= earlier.count;
    d.sum -= earlier.sum;
    return d;
}

uint64_t StageHistogram::percentile(double share) const {
    return StageBuckets::percentile(buckets, count, max, share);
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
    DCHECK(entered >= earlier.entered && finished >= earlier.finished);
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
