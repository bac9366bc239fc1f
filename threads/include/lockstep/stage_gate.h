// stage_gate.h - the rules by which a stage forms batches of its requests.
//
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 3.5.2.
#pragma once

#include <cstdint>

#include <lockstep/standard.h>  // keep: it refuses older standards

namespace lockstep {

// How many of the requests that wait at a stage make a batch.
enum class StageGate : uint8_t {
    fcfs,     // one
    t_gated,  // at most batch_max of those that wait when the gate opens
    d_gated,  // all that wait when the gate opens
    // As d_gated (t_gated if batch_max > 0). A request whose work exceeds the cutoff stays behind
    // for the next batch.
    c_gated,
    non_gated,  // all, and those that arrive while the batch is taken
    sharing,    // processor sharing: no batches; requests take turns, each until its pause()
};

}  // namespace lockstep
