// injury.h - damage done to an image while no store is open on it, and what opening it must then
// lead to.
#pragma once

#include "tests/sim/work.h"

namespace lockstep::sim {

enum class Injury : uint8_t {
    // A byte between the checkpoint and the recorded durable end: open must name the place, never
    // cut.
    log,
    // A block there is empty, as if its write had been acknowledged and lost: the same.
    log_lost,
    // The same up to what later commit records stamp, with log.mark as old as the checkpoint.
    log_tail,
    // A page of the volume: repaired, or refused where it is needed; never returned as data.
    page,
    // Sectors of the volume that cannot be read until they are written again: as a damaged page.
    unreadable,
    kCount
};

// Damages the image, opens it and judges. Nothing happens if the image offers no place to damage.
void injure_and_judge(threads::SimDisk& image, Injury injury, Work& work, uint64_t at,
                      Shared& shared, Rng& rng);

// Opens a disk some of whose writes got lost, and judges (lost_writes.cc).
void judge_lost_writes(threads::SimDisk& disk, Work& work, uint64_t at, Shared& shared);

}  // namespace lockstep::sim
