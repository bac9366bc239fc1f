// provenance.h - what was run, on what, and how that differs from the driver: part of every result.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/icache/child.h"

namespace lockstep::icache {

struct Provenance {
    std::string command;  // as it was typed
    std::string points;   // name of the set of CTX points
    bool only_counts = false;
    std::vector<Part> plan;  // of one kind: operations or transactions
    const ChildSettings* settings;
};

// Members: command, date (UTC), plan, seed, points, order (locks, teams, tuner), scale, machine,
// build, and differs: sentences that say how this differs from `lockstep-tpcc --steps on` with its
// defaults. Errors: bad_option for unknown points.
Result<nlohmann::ordered_json> provenance_json(const Provenance& provenance);
void print_provenance(const nlohmann::ordered_json& json);

}  // namespace lockstep::icache
