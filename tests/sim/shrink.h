// shrink.h - makes a failing seed's list of operations short.
#pragma once

#include "tests/sim/config.h"

namespace lockstep::sim {

// Leaves out transactions and operations as long as the seed still fails; prints what remains. Each
// attempt is a child process.
void shrink(const Arguments& arguments, uint64_t seed);

}  // namespace lockstep::sim
