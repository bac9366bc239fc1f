// teams.h - STEPS statistics of a run, for people and for scripts: the teams in the form of table
// 5-4 of the thesis, and the CTX points.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <lockstep/stats.h>

namespace lockstep::tpcc {

// One line per operation and one for their average. Operations with fewer than ten teams are left
// out. Empty if no operation ran in teams.
std::vector<std::string> teams_table(const StepsStats& stats);
// {"operations": [...], "average": {...}, "points": {...}}
nlohmann::ordered_json teams_json(const StepsStats& stats);

}  // namespace lockstep::tpcc
