// faults.h - what a profile does to a run, and how it ends: the first part of a run has faults, the
// last has none.
#pragma once

#include "tests/sim/work.h"

namespace lockstep::sim {

// Faults that nobody may notice, on the disk of a recovery: short and repeated transfers, slow
// ones, one failed and one falsified page read.
void disturb(threads::SimDisk& disk, Rng& rng);
void count_disturbances(threads::SimDisk& disk, Report& report);

class FaultInjector {
public:
    FaultInjector(threads::SimDisk& disk, Shared& shared);
    void begin(Host& host);                   // the workload has been started
    void step(Host& host, const Work& work);  // before each step
    void end(Host& host);

private:
    void stop(Host& host);
    void count();

    threads::SimDisk& disk_;
    Shared& shared_;
    Rng rng_;
    bool active_ = false;
};

}  // namespace lockstep::sim
