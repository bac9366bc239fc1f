// faults.h - injects the faults of a profile. The first part of a run has faults, the last none.
// With data_failure the first part has none, and the last no write of data that succeeds: also then
// every transaction ends in time (liveness.h), by an error that it may be.
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
    void fail_data(Host& host);
    void count();

    threads::SimDisk& disk_;
    Shared& shared_;
    Rng rng_;
    bool active_ = false;
    double data_fails_at_ = 2;  // progress from which on no write of data succeeds
};

}  // namespace lockstep::sim
