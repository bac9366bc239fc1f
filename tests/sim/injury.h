// injury.h - damages an image while no store is open on it, and judges the outcome.
#pragma once

#include "tests/sim/work.h"

namespace lockstep::sim {

enum class Injury : uint8_t {
    // A byte between the checkpoint and the recorded durable end. Open must name the place and must
    // not truncate the log.
    log,
    // A block there is empty, as if its acknowledged write had been lost. The same promise.
    log_lost,
    // The same below the LSN that later commit records stamp; log.mark is as old as the checkpoint.
    log_tail,
    // A page of the volume. Repaired, or refused where it is needed; never returned as data.
    page,
    // Sectors of the volume that cannot be read until written again. As for a damaged page.
    unreadable,
    kCount
};

// Damages the image, opens it and judges. Does nothing if the image has no place to damage.
void injure_and_judge(threads::SimDisk& image, Injury injury, Work& work, uint64_t at,
                      Shared& shared, Rng& rng);

// Opens a disk that lost some writes, and judges (lost_writes.cc).
void judge_lost_writes(threads::SimDisk& disk, Work& work, uint64_t at, Shared& shared);

}  // namespace lockstep::sim
