// faults.h - injects the faults of a profile. The first part of a run has faults, the last none.
#pragma once

#include "tests/sim/work.h"

namespace lockstep::sim {

// Injects faults into a recovery that must have no effect: short, repeated and slow transfers, one
// failed page read and one falsified.
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
