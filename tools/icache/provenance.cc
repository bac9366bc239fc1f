// provenance.cc - settings, machine and build as JSON and as text.
#include "tools/icache/provenance.h"

#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include "threads/base/try.h"
#include "threads/base/wall_clock.h"
#include "threads/thread/ctx_points.h"
#include "tools/base/build_info.h"
#include "tools/base/option_names.h"

namespace lockstep::icache {

namespace {

using Json = nlohmann::ordered_json;

// The time of day at the beginning.
std::string date_now() {
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(wall_now(MonotonicClock()) / kSecond));
}

std::vector<std::string> point_names(uint32_t bits) {
    std::vector<std::string> names;
    for (size_t i = 0; i < threads::kCtxPoints; ++i)
        if ((bits >> i & 1) != 0) names.emplace_back(threads::kCtxPointInfo[i].name);
    return names;
}

std::string rows_of(const tpcc::Scale& scale) {
    return fmt::format("{} warehouses with {} customers and {} items each", scale.warehouses,
                       scale.districts * scale.customers, scale.items);
}

Json scale_json(const ChildSettings& s, bool transactions, bool only_counts) {
    const WorkloadSettings& w = s.workload;
    Json json;
    if (!transactions) {
        json["rows"] = "100,000 rows of 25 integers, traced and timed";
        json["counted"] =
            fmt::format("{} operations a thread, after {} that warm up", w.rounds, w.warm_rounds);
        if (!only_counts) json["timed"] = fmt::format("{} s for all pairs", s.seconds);
        return json;
    }
    WorkloadSettings native = w;
    native.native = true;
    json["traced"] = rows_of(scale_of(w));
    json["native"] = only_counts ? "not run" : rows_of(scale_of(native));
    json["terminals"] = w.warehouses * 10;
    json["counted"] =
        fmt::format("{} transactions after {} that warm up", w.transactions - w.transactions / 10,
                    w.warm_transactions + w.transactions / 10);
    if (!only_counts) json["timed"] = fmt::format("{} s for all pairs", s.seconds);
    return json;
}

// Only what differs with these settings.
std::vector<std::string> differences(const Json& json, const Options& options, StepsMode mode,
                                     bool transactions, bool only_counts) {
    const Options usual;
    std::vector<std::string> all;
    if (mode == StepsMode::ctx)
        all.emplace_back(
            "mode ctx here: every operation runs in a team, as in the thesis; there a transaction "
            "that has named its records runs to completion after one walk for its team (--steps "
            "ctx)");
    if (options.steps.points != usual.steps.points && json["points"]["set"] != "manual")
        all.push_back(fmt::format("CTX points: {} here, the set manual there (--ctx-points)",
                                  json["points"]["set"].get<std::string>()));
    if (options.steps.team_max != usual.steps.team_max)
        all.push_back(fmt::format("teams of up to {} threads here, {} there (--team-max)",
                                  options.steps.team_max, usual.steps.team_max));
    all.push_back(
        fmt::format("no tuner here; there it tries smaller teams and none, and keeps the fastest "
                    "(--team-window {})",
                    usual.steps.window_records));
    if (options.lock_stage.policy != usual.lock_stage.policy)
        all.push_back(fmt::format("lock policy {} here, fifo there (--lock-policy)",
                                  json["order"]["lock_policy"].get<std::string>()));
    all.emplace_back(
        "terminals are user threads here, packets there (--terminals-as-threads); no "
        "thread is ever short of a place to run");
    if (transactions) all.emplace_back("a Delivery runs on its terminal here, in a queue there");
    if (transactions && !only_counts)
        all.emplace_back("counts come from a tenth of the rows; time from the full size, as there");
    if (transactions && only_counts) all.emplace_back("counts come from a tenth of the rows");
    all.emplace_back("counts: disk and clock are simulated, and the worker does nothing else");
    return all;
}

}  // namespace

Result<Json> provenance_json(const Provenance& p) {
    ChildSettings s = *p.settings;
    s.plan = p.plan;
    const bool transactions = is_transaction(p.plan[0].what);
    const Options options = TRY(options_for(s, true));
    const uint32_t bits =
        options.steps.points == UINT32_MAX ? TRY(ctx_points_from("manual")) : options.steps.points;
    std::vector<std::string> plan;
    for (const Part& part : p.plan) plan.push_back(part.text());
    Json json = {{"command", p.command},
                 {"date", date_now()},
                 {"plan", plan},
                 {"seed", s.workload.seed},
                 {"points", {{"set", p.points}, {"names", point_names(bits)}}},
                 {"order",
                  {{"lock_policy", name_of(kLockPolicies, s.lock_stage.policy)},
                   {"lock_bypass", s.lock_stage.bypass_max},
                   {"team_max", options.steps.team_max},
                   {"team_policy", name_of(kTeamPolicies, s.team_policy)},
                   {"team_gate", name_of(kTeamGates, s.team_gate)},
                   {"float_state", s.float_state},
                   {"tuner", "off"},
                   {"workers", options.workers}}},
                 {"scale", scale_json(s, transactions, p.only_counts)},
                 {"machine", machine_json()},
                 {"build", build_json()}};
    json["differs"] = differences(json, options, p.plan.back().mode, transactions, p.only_counts);
    return json;
}

void print_provenance(const Json& json) {
    const Json &order = json["order"], &machine = json["machine"], &build = json["build"];
    const auto text = [](const Json& value) { return value.get<std::string>(); };
    fmt::print("command    {}\n", text(json["command"]));
    fmt::print("date       {}\n", text(json["date"]));
    fmt::print("points     {}: {}\n", text(json["points"]["set"]),
               fmt::join(json["points"]["names"].get<std::vector<std::string>>(), " "));
    fmt::print("order      locks {}, teams of at most {}, {}, {}; tuner {}; {} worker\n",
               text(order["lock_policy"]), order["team_max"].get<uint32_t>(),
               text(order["team_policy"]), text(order["team_gate"]), text(order["tuner"]),
               order["workers"].get<uint32_t>());
    for (const auto& [name, value] : json["scale"].items())
        fmt::print("{:<10} {}\n", name, value.is_string() ? text(value) : value.dump());
    fmt::print("seed       {}\n", json["seed"].get<uint64_t>());
    fmt::print("machine    {}, {} processors; {}; {}\n", text(machine["processor"]),
               machine["processors"].get<uint64_t>(),
               fmt::join(machine["caches"].get<std::vector<std::string>>(), ", "),
               text(machine["kernel"]));
    fmt::print("build      {}, commit {}, {}, {}\n", text(build["version"]), text(build["commit"]),
               text(build["compiler"]), text(build["kind"]));
    fmt::print("differs from lockstep-tpcc --steps on:\n");
    for (const Json& difference : json["differs"]) fmt::print("  - {}\n", text(difference));
}

}  // namespace lockstep::icache
