// jobs.h - runs many seeds in child processes, so that a crash (failed CHECK) fails one seed only.
#pragma once

#include "tests/sim/config.h"
#include "tests/sim/report.h"

namespace lockstep::sim {

// Runs all seeds. Returns the exit status of the program.
int run_seeds(const Arguments& arguments);

}  // namespace lockstep::sim
