// compare.h - one workload with STEPS off and on, per operation or transaction, in one JSON object;
// and the thesis's miss model fitted to it.
//
// Concepts   m_p: misses of the operation with an empty cache. a: share of them that stay when the
//            same operation has just run. beta: share of them that a follower in a team has. The
//            model predicts the reduction of a team of N: (N-1)/N (1 - beta) against the cold
//            serial run, (N-1)/N (1 - beta/a) against the warm one; (N-1)/N is the bound. What was
//            simulated stands beside what the model says.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 5.3.4.1.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/icache/replay.h"
#include "tools/icache/workload.h"

namespace lockstep::icache {

struct CompareSettings {
    std::vector<Geometry> geometries;
    // Bytes of code added to the fast switch, each simulated for the largest geometry given.
    std::vector<uint32_t> pads;
    uint64_t swap = 0;
};

// One operation: replayed serially (warm, cold) and as a team (warm, cold). `info` is what the
// child said of the team's part.
nlohmann::ordered_json compare_operation(std::span<const uint64_t> off,
                                         std::span<const uint64_t> on, const Part& part,
                                         uint64_t warm_units, const CompareSettings& settings);
nlohmann::ordered_json compare_transactions(std::span<const uint64_t> off,
                                            std::span<const uint64_t> on, const Part& part,
                                            uint64_t warm_units,
                                            const nlohmann::ordered_json& teams,
                                            const CompareSettings& settings);

// Tables for people.
void print_comparison(const nlohmann::ordered_json& comparison);

}  // namespace lockstep::icache
