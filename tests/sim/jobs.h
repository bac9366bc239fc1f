// jobs.h - many seeds in child processes, so that a seed that dies (a failed CHECK, a bad access)
// is a failing seed and no more.
#pragma once

#include "tests/sim/config.h"
#include "tests/sim/report.h"

namespace lockstep::sim {

// Exit status of the program.
int run_seeds(const Arguments& arguments);

}  // namespace lockstep::sim
