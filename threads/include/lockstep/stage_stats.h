// stage_stats.h - the counters of a stage: packets, queue length, wait, batch size.
//
// Concepts   StageStats is a snapshot: plain numbers that can be added up over stages. Histograms
//            divide each power of two into 8 buckets. A bucket's middle represents its values, with
//            an error of at most 6%.
// Blocking   never.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/log_buckets.h>
#include <lockstep/types.h>

namespace lockstep {

// Buckets of the histograms below.
using StageBuckets = LogBuckets<3>;

// Counts of values (lengths, or nanoseconds) by size.
struct StageHistogram {
    // By StageBuckets::index(), as many as the largest value needs. On the heap: a histogram is
    // small enough for the stack of a user thread.
    std::vector<uint64_t> buckets;
    uint64_t count = 0, sum = 0, max = 0;  // over all values
    // Counts one value.
    void record(uint64_t value);
    // Adds the counts of another histogram.
    void add(const StageHistogram& other);
    StageHistogram since(const StageHistogram& earlier) const;  // max stays the all-time maximum
    // Mean of all values; 0 if there are none.
    double mean() const {
        return count ? static_cast<double>(sum) / static_cast<double>(count) : 0;
    }
    // The value that at least `share` (0..1) of all recorded values do not exceed; 0 if there are
    // none.
    uint64_t percentile(double share) const;
};

// entered = finished + forwarded + cancelled + queued + in_service, once nothing runs (STG-1).
struct StageStats {
    uint64_t entered = 0;  // by enqueue, or forwarded from another stage
    uint64_t finished = 0, forwarded = 0, cancelled = 0;
    uint64_t requeued = 0;                // times a packet in service went back into the queue
    uint64_t queued = 0, in_service = 0;  // now
    uint64_t bypasses = 0;                // times a packet was overtaken by the order
    uint64_t bypassed_max = 0;            // of one packet
    uint64_t suspended = 0;               // producers that waited for capacity
    StageHistogram length;                // packets in the line when another entered
    // Nanoseconds from entering the queue to leaving it for service.
    StageHistogram wait;
    StageHistogram batch;  // packets served together
    // Adds the counters of another stage.
    void add(const StageStats& other);
    // The difference from an older snapshot; queued, in_service and maxima stay current.
    StageStats since(const StageStats& earlier) const;
    bool conserved() const {
        return entered == finished + forwarded + cancelled + queued + in_service;
    }
};

}  // namespace lockstep
