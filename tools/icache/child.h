// child.h - the two child processes of lockstep-icache: a traced run and a timed native run.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/icache/workload.h"

namespace lockstep::icache {

struct ChildSettings {
    std::vector<Part> plan;
    WorkloadSettings workload;
    // CTX points as ctx_points_from() reads them; empty: the set `manual`.
    std::string points;
    // 0: as many as a part has threads, 64 for transactions.
    uint32_t team_max = 0;
    TeamPolicy team_policy = TeamPolicy::last_leaver;
    TeamGate team_gate = TeamGate::t_gated;
    LockStageOptions lock_stage;
    bool float_state = false;  // a fast switch keeps floating-point modes ("float on")
    double seconds = 1;        // native: measured time of each part
    std::string directory;     // native: where its store lies
};

// Runs every part once and records it. Returns what the simulator needs beside the trace: units,
// teams and the address of the fast switch. Disk and clock are simulated and everything runs on the
// calling kernel thread, so equal settings give equal traces.
Result<nlohmann::ordered_json> run_traced(const ChildSettings& settings);

// Times each part against its first mode, in the order A B A B on one store. Reads hardware
// counters if this machine has them.
Result<nlohmann::ordered_json> run_native(const ChildSettings& settings);

// Store options for a plan. With `simulated`, the pool is smaller. Errors: bad_option for
// unknown points.
Result<Options> options_for(const ChildSettings& settings, bool simulated);

nlohmann::ordered_json teams_of(const Store& store);

}  // namespace lockstep::icache
