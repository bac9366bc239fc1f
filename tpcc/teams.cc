// teams.cc - the table of teams.
#include "tpcc/teams.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lockstep::tpcc {
namespace {

double mean(uint64_t sum, uint64_t teams) {
    return teams == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(teams);
}

TeamStats average(const StepsStats& stats) {
    TeamStats all{.operation = "average", .strays = {}};
    for (const TeamStats& f : stats.teams) {
        all.teams += f.teams, all.entered += f.entered, all.left += f.left, all.ready += f.ready;
        all.strays.lock += f.strays.lock, all.strays.page += f.strays.page,
            all.strays.latch += f.strays.latch;
        all.strays.log += f.strays.log, all.strays.other += f.strays.other;
    }
    return all;
}

std::string line(const TeamStats& f) {
    return fmt::format("{:<28} {:>9} {:>8.1f} {:>8.1f} {:>8.1f}   {:>9} {:>6} {:>6} {:>6} {:>6}",
                       f.operation, f.teams, mean(f.entered, f.teams), mean(f.left, f.teams),
                       mean(f.ready, f.teams), f.strays.lock, f.strays.page, f.strays.latch,
                       f.strays.log, f.strays.other);
}

nlohmann::ordered_json json_of(const TeamStats& f) {
    return {{"operation", f.operation},
            {"teams", f.teams},
            {"mean_entered", mean(f.entered, f.teams)},
            {"mean_left", mean(f.left, f.teams)},
            {"mean_ready", mean(f.ready, f.teams)},
            {"strays",
             {{"lock", f.strays.lock},
              {"page", f.strays.page},
              {"latch", f.strays.latch},
              {"log", f.strays.log},
              {"other", f.strays.other}}}};
}

std::string setting_text(const TunerStats& g) {
    if (g.mode == StepsMode::on)
        return fmt::format("teams at begin, of operations at most {}", g.team_max);
    if (g.mode == StepsMode::ctx) return fmt::format("teams of operations, at most {}", g.team_max);
    return g.mode == StepsMode::prefetch ? "no teams, needs walked" : "no teams";
}

}  // namespace

std::vector<std::string> teams_table(const StepsStats& stats) {
    std::vector<std::string> lines;
    if (stats.teams.empty()) return lines;
    lines.push_back(fmt::format("{:<28} {:>9} {:>8} {:>8} {:>8}   {:>9} {:>6} {:>6} {:>6} {:>6}",
                                "teams: operation", "formed", "entered", "left", "ready", "lock",
                                "page", "latch", "log", "other  (strays by cause)"));
    for (const TeamStats& f : stats.teams)
        if (f.teams >= 10) lines.push_back(line(f));
    lines.push_back(line(average(stats)));
    std::string points = "CTX taken / skipped:";
    for (const CtxPointStats& p : stats.points)
        points += fmt::format(" {} {} / {}", p.name, p.taken, p.off + p.alone + p.latched);
    lines.push_back(points);
    for (size_t w = 0; w < stats.tuner.size(); ++w) {
        const TunerStats& g = stats.tuner[w];
        lines.push_back(fmt::format("worker {}: {}; {} windows of work, {} trials, {} changes", w,
                                    setting_text(g), g.windows, g.trials, g.changes));
    }
    return lines;
}

nlohmann::ordered_json teams_json(const StepsStats& stats) {
    nlohmann::ordered_json j;
    j["operations"] = nlohmann::ordered_json::array();
    for (const TeamStats& f : stats.teams) j["operations"].push_back(json_of(f));
    j["average"] = json_of(average(stats));
    for (const CtxPointStats& p : stats.points)
        j["points"][p.name] = {
            {"taken", p.taken}, {"off", p.off}, {"alone", p.alone}, {"latched", p.latched}};
    for (const TunerStats& g : stats.tuner)
        j["tuner"].push_back({{"setting", setting_text(g)},
                              {"windows", g.windows},
                              {"trials", g.trials},
                              {"changes", g.changes}});
    return j;
}

}  // namespace lockstep::tpcc
