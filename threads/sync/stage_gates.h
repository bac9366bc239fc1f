// stage_gates.h - the gates of stages as a table of small functions, one row for each StageGate.
//
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 3.5.2.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include <lockstep/stage_gate.h>

namespace lockstep::threads {

namespace gates {
constexpr uint64_t one(uint64_t, uint64_t) { return 1; }
constexpr uint64_t all(uint64_t waiting, uint64_t) { return waiting; }
constexpr uint64_t at_most(uint64_t waiting, uint64_t max) { return std::min(waiting, max); }
constexpr uint64_t at_most_if_set(uint64_t waiting, uint64_t max) {
    return max == 0 ? waiting : std::min(waiting, max);
}
constexpr uint64_t endless(uint64_t, uint64_t) { return UINT64_MAX; }
}  // namespace gates

struct StageGatePolicy {
    StageGate gate;
    // How many packets a batch may take, if so many wait when the gate opens. A batch also ends
    // when no packet waits.
    uint64_t (*quota)(uint64_t waiting, uint64_t batch_max);
    bool cuts;     // a packet with much work stays behind
    bool batches;  // packets wait for their batch
};

inline constexpr StageGatePolicy kStageGates[] = {
    {StageGate::fcfs, gates::one, false, true},
    {StageGate::t_gated, gates::at_most, false, true},
    {StageGate::d_gated, gates::all, false, true},
    {StageGate::c_gated, gates::at_most_if_set, true, true},
    {StageGate::non_gated, gates::endless, false, true},
    {StageGate::sharing, gates::one, true, false},
};

constexpr const StageGatePolicy& policy_of(StageGate gate) {
    return kStageGates[static_cast<size_t>(gate)];
}

static_assert([] {
    for (size_t i = 0; i < std::size(kStageGates); ++i)
        if (kStageGates[i].gate != static_cast<StageGate>(i)) return false;
    return true;
}());

}  // namespace lockstep::threads
