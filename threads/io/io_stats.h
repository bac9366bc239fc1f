// io_stats.h - what the I/O stages count, added up over workers, and the modes in which they can run.
#pragma once

#include <cstdint>

#include "threads/io/io.h"
#include "threads/stage_stats.h"

namespace lockstep::threads {

// staged: as io_stage.h says. unsorted: batches without sorting, merging and joining. one_by_one: each request is submitted alone, and
// the worker waits for it. The last two are what the stage is compared with.
enum class IoMode : uint8_t { staged, unsorted, one_by_one };

inline constexpr const char* kIoClassNames[kIoClasses] = {"log", "demand read", "read-ahead", "write-back"};

struct IoClassStats {
    uint64_t packets = 0;            // requests (linked ones count as one) that came
    uint64_t bytes = 0;
    uint64_t merged = 0;             // served by another's equal request
    uint64_t joined = 0;             // went in a transfer with neighbours, the first of each not counted
    uint64_t transfers = 0;          // handed to the device
};

struct IoStats {
    StageStats stage;                // length of a line at arrival, wait in the stage, packets of a batch
    IoClassStats classes[kIoClasses];
    uint64_t batches = 0;
    uint64_t submissions = 0;        // system calls that handed requests to the kernel; 0 if the backend has none
    uint64_t split = 0;              // joined transfers that failed and were asked for again, one by one
    StageHistogram depth;            // packets on the device after each submission
    uint64_t packets() const { return classes[0].packets + classes[1].packets + classes[2].packets + classes[3].packets; }
    uint64_t transfers() const { return classes[0].transfers + classes[1].transfers + classes[2].transfers + classes[3].transfers; }
};

}  // namespace lockstep::threads
