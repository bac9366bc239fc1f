// shrink.h - shortens a failing seed's list of operations.
#pragma once

#include "tests/sim/config.h"

namespace lockstep::sim {

// Removes transactions and operations while the seed still fails. Prints what remains. Each attempt
// is a child process.
void shrink(const Arguments& arguments, uint64_t seed);

}  // namespace lockstep::sim
