// shrink.h - shortens a failing seed's list of operations.
#pragma once

#include <string>

#include "tests/sim/config.h"

namespace lockstep::sim {

// Removes transactions and operations while the seed still fails. Returns what remains, as text.
// Each attempt is a child process.
std::string shrink(const Arguments& arguments, uint64_t seed);

}  // namespace lockstep::sim
