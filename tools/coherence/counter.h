// counter.h - begins and ends the counting, for the program whose transfers are counted.
#pragma once

#include "tools/coherence/turns.h"

namespace lockstep::coherence {

// From here workers take turns, and each access moves lines. Once, while no worker is in a
// transaction.
void start_turns(const TurnSettings& settings);
// The counted interval; both on a kernel thread that is no worker, while no transaction runs.
void begin_counting();
void end_counting();
// What was counted: after end_counting().
const Caches& counted_caches();
uint64_t locked_operations();

}  // namespace lockstep::coherence
