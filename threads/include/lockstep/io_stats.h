// io_stats.h - the counters of the I/O stages, summed over workers, and the modes of the stages.
#pragma once

#include <cstddef>
#include <cstdint>

#include <lockstep/stage_stats.h>

namespace lockstep::threads {

// staged: as io_stage.h says. unsorted: batches without sorting, merging and joining. one_by_one:
// each request is submitted alone, and the worker waits for it. The last two serve for comparison.
enum class IoMode : uint8_t { staged, unsorted, one_by_one };

// Classes of requests, by priority, and their names in that order.
inline constexpr size_t kIoClasses = 4;
inline constexpr const char* kIoClassNames[kIoClasses] = {"log", "demand read", "read-ahead",
                                                          "write-back"};

// Counters of one class of requests.
struct IoClassStats {
    uint64_t packets = 0;  // requests that entered the stage
    uint64_t bytes = 0;    // requested
    uint64_t merged = 0;   // served by another equal request
    // Joined a neighbour's transfer; the first of each transfer does not count.
    uint64_t joined = 0;
    uint64_t transfers = 0;  // sent to the device
};

// Counters of all I/O stages of a store.
struct IoStats {
    // Length of a line at arrival, wait in the stage, packets per batch.
    StageStats stage;
    IoClassStats classes[kIoClasses];
    uint64_t batches = 0;
    // System calls that submitted requests to the kernel; 0 if the backend has none.
    uint64_t submissions = 0;
    // Joined transfers that failed and were repeated one by one.
    uint64_t split = 0;
    StageHistogram depth;  // packets on the device after each submission
    // The difference from `earlier`, an older snapshot of the same stages.
    IoStats since(const IoStats& earlier) const {
        IoStats d = *this;
        d.stage = stage.since(earlier.stage);
        for (size_t c = 0; c < kIoClasses; ++c) {
            d.classes[c].packets -= earlier.classes[c].packets;
            d.classes[c].bytes -= earlier.classes[c].bytes;
            d.classes[c].merged -= earlier.classes[c].merged;
            d.classes[c].joined -= earlier.classes[c].joined;
            d.classes[c].transfers -= earlier.classes[c].transfers;
        }
        d.batches -= earlier.batches;
        d.submissions -= earlier.submissions;
        d.split -= earlier.split;
        d.depth = depth.since(earlier.depth);
        return d;
    }
    // The counters of IoClassStats, summed over the classes.
    uint64_t merged() const {
        return classes[0].merged + classes[1].merged + classes[2].merged + classes[3].merged;
    }
    uint64_t joined() const {
        return classes[0].joined + classes[1].joined + classes[2].joined + classes[3].joined;
    }
    uint64_t packets() const {
        return classes[0].packets + classes[1].packets + classes[2].packets + classes[3].packets;
    }
    uint64_t transfers() const {
        return classes[0].transfers + classes[1].transfers + classes[2].transfers +
               classes[3].transfers;
    }
};

}  // namespace lockstep::threads
