// compare.h - compares one workload with STEPS off and on, and fits the thesis's miss model to it.
//
// Concepts   The result is one JSON object per operation or transaction. In the model, m_p is the
//            number of misses of the operation with an empty cache. The parameter a is the share of
//            m_p that stays when the same operation has just run. The parameter beta is the share
//            of m_p that a follower in a team has. A team of N saves (N-1)/N (1 - beta) against the
//            cold serial run and (N-1)/N (1 - beta/a) against the warm one. The bound is (N-1)/N.
//            The simulated value stands beside the predicted one.
// Source     S. Harizopoulos, "Staged Database Systems", 2005, section 5.3.4.1.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/icache/replay.h"
#include "tools/icache/workload.h"

namespace lockstep::icache {

// "fits": a serial run misses at most this share of the lines that it uses.
inline constexpr double kFitsShare = 0.02;

struct CompareSettings {
    std::vector<Geometry> geometries;
    // Bytes of code added to the fast switch. Each value is simulated for the largest geometry.
    std::vector<uint32_t> pads;
    uint64_t swap = 0;
};

// Compares one operation: serial (warm, cold) and as a team (warm, cold). `off` and `on` are the
// traces of the two parts.
nlohmann::ordered_json compare_operation(std::span<const uint64_t> off,
                                         std::span<const uint64_t> on, const Part& part,
                                         uint64_t warm_units, const CompareSettings& settings);
nlohmann::ordered_json compare_transactions(std::span<const uint64_t> off,
                                            std::span<const uint64_t> on, const Part& part,
                                            uint64_t warm_units,
                                            const nlohmann::ordered_json& teams,
                                            const CompareSettings& settings);

// Prints the comparison as tables.
void print_comparison(const nlohmann::ordered_json& comparison);

}  // namespace lockstep::icache
