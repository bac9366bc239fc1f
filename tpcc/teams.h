// teams.h - what STEPS did in a run, for people and for scripts: the teams in the form of the
// thesis's table 5-4, and the CTX points.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <lockstep/stats.h>

namespace lockstep::tpcc {

// One line per operation, and the average over all of them; operations with fewer than ten teams
// are left out. Empty: nothing ran in teams.
std::vector<std::string> teams_table(const StepsStats& figures);
// {"operations": [...], "average": {...}, "points": {...}}
nlohmann::ordered_json teams_json(const StepsStats& figures);

}  // namespace lockstep::tpcc
