// compare.cc - replays the parts of a pair and sets their statistics side by side.
#include "tools/icache/compare.h"

namespace lockstep::icache {

namespace {

using Json = nlohmann::ordered_json;

std::vector<Machine> machines_of(const CompareSettings& settings) {
    std::vector<Machine> machines;
    for (const Geometry& g : settings.geometries) machines.push_back(machine_of(g));
    return machines;
}

double per(uint64_t count, uint64_t units) {
    return units == 0 ? 0 : static_cast<double>(count) / static_cast<double>(units);
}
double reduction(double before, double after) { return before == 0 ? 0 : 1 - after / before; }

Json misses(const MachineCounts& m, uint64_t units) {
    return {{"l1i", per(m.l1i.total(), units)},
            {"l1d", per(m.l1d.total(), units)},
            {"l2i", per(m.l2i.total(), units)},
            {"l2d", per(m.l2d.total(), units)}};
}

Json mispredicted(const ReplayResult& r) {
    Json json;
    for (const PredictorCounts& p : r.predictors)
        json[p.name] = {{"total", per(p.total(), r.units)},
                        {"branches", per(p.branches.total(), r.units)},
                        {"indirect", per(p.indirect.total(), r.units)},
                        {"returns", per(p.returns.total(), r.units)}};
    return json;
}

// What does not depend on the cache.
Json stream(const ReplayResult& r) {
    return {{"units", r.units},
            {"instructions", per(r.instructions.total(), r.units)},
            {"data", per(r.data.total(), r.units)},
            {"branches", per(r.branches.total(), r.units)},
            {"switches", per(r.switches.total(), r.units)},
            {"lines", r.lines},
            {"lines_per_unit", r.lines_per_unit},
            {"mispredicted", mispredicted(r)}};
}

// The code fits a cache if a serial run misses next to none of the lines that it uses. Its size does
// not decide: lines that compete for one set miss in a cache that is large enough.
bool fits(double misses, const ReplayResult& serial) {
    return misses <= kFitsShare * serial.lines_per_unit;
}

struct Runs {
    ReplayResult serial_warm, serial_cold, team_warm, team_cold;
};

// Leader: per round. Follower: per follower's operation.
Json roles(const MachineCounts& m, uint64_t units, uint32_t threads) {
    const uint64_t rounds = units / threads;
    return {{"leader", per(m.l1i[Role::leader], rounds)},
            {"follower", threads > 1 ? per(m.l1i[Role::follower], rounds * (threads - 1)) : 0},
            {"other", per(m.l1i[Role::other], rounds)}};
}

Json model(const Runs& r, size_t i, uint32_t threads) {
    const double m_p = per(r.serial_cold.machines[i].l1i.total(), r.serial_cold.units);
    const double warm = per(r.serial_warm.machines[i].l1i.total(), r.serial_warm.units);
    const double follower = roles(r.team_cold.machines[i], r.team_cold.units, threads)["follower"];
    const double a = m_p == 0 ? 0 : warm / m_p, beta = m_p == 0 ? 0 : follower / m_p;
    const double bound = (threads - 1.0) / threads;
    return {{"m_p", m_p},
            {"a", a},
            {"beta", beta},
            {"bound", bound},
            {"predicted_cold", bound * (1 - beta)},
            {"predicted_warm", a == 0 ? 0 : bound * (1 - beta / a)}};
}

Json machine_stats(const Runs& r, size_t i, uint32_t threads) {
    const MachineCounts& serial = r.serial_warm.machines[i];
    const Machine& machine = serial.machine;
    Json json = {{"machine", machine.name},
                 {"l1", machine.l1.text()},
                 {"l2", machine.l2.text()},
                 {"fits", fits(per(serial.l1i.total(), r.serial_warm.units), r.serial_warm)},
                 {"footprint_over_cache", r.serial_warm.lines_per_unit * 64 / machine.l1.bytes}};
    json["serial_warm"] = misses(serial, r.serial_warm.units);
    json["serial_cold"] = misses(r.serial_cold.machines[i], r.serial_cold.units);
    json["team_warm"] = misses(r.team_warm.machines[i], r.team_warm.units);
    json["team_cold"] = misses(r.team_cold.machines[i], r.team_cold.units);
    json["team_warm"].update(roles(r.team_warm.machines[i], r.team_warm.units, threads));
    json["team_cold"].update(roles(r.team_cold.machines[i], r.team_cold.units, threads));
    const auto l1i = [&](const char* run) { return json[run]["l1i"].get<double>(); };
    json["reduction_warm"] = reduction(l1i("serial_warm"), l1i("team_warm"));
    json["reduction_cold"] = reduction(l1i("serial_cold"), l1i("team_cold"));
    json["model"] = model(r, i, threads);
    return json;
}

Json padded(std::span<const uint64_t> on, ReplayOptions options, const CompareSettings& settings) {
    Json rows = Json::array();
    for (const uint32_t pad : settings.pads) {
        options.pad_bytes = pad;
        const ReplayResult r = replay(on, options);
        Json row = {{"pad", pad}};
        for (const MachineCounts& m : r.machines)
            row["l1i"][m.machine.l1.text()] = per(m.l1i.total(), r.units);
        rows.push_back(row);
    }
    return rows;
}

}  // namespace

Json compare_operation(std::span<const uint64_t> off, std::span<const uint64_t> on,
                       const Part& part, uint64_t warm_units, const CompareSettings& settings) {
    ReplayOptions options{.machines = machines_of(settings),
                          .threads = part.threads,
                          .warm_units = warm_units,
                          .swap = settings.swap};
    Runs r;
    r.serial_warm = replay(off, options);
    r.team_warm = replay(on, options);
    options.empty = Empty::each_operation;
    r.serial_cold = replay(off, options);
    options.empty = Empty::each_round;
    r.team_cold = replay(on, options);
    Json json = {{"what", part.what},
                 {"mode", part.text()},
                 {"kind", "operation"},
                 {"threads", part.threads},
                 {"serial", stream(r.serial_warm)},
                 {"team", stream(r.team_warm)}};
    json["serial"]["mispredicted_cold"] = mispredicted(r.serial_cold);
    json["team"]["mispredicted_cold"] = mispredicted(r.team_cold);
    json["footprint_bytes"] = r.serial_warm.lines_per_unit * 64;
    json["footprint_all_bytes"] = r.serial_warm.lines * 64;
    json["footprint_team_bytes"] = r.team_warm.lines * 64;
    for (size_t i = 0; i < options.machines.size(); ++i)
        json["machines"].push_back(machine_stats(r, i, part.threads));
    options.empty = Empty::never;
    if (!settings.pads.empty()) json["pads"] = padded(on, options, settings);
    return json;
}

Json compare_transactions(std::span<const uint64_t> off, std::span<const uint64_t> on,
                          const Part& part, uint64_t warm_units, const Json& teams,
                          const CompareSettings& settings) {
    const ReplayOptions options{
        .machines = machines_of(settings), .warm_units = warm_units, .swap = settings.swap};
    const ReplayResult base = replay(off, options), steps = replay(on, options);
    Json json = {{"what", part.what},
                 {"mode", part.text()},
                 {"kind", "transaction"},
                 {"threads", part.threads},
                 {"serial", stream(base)},
                 {"team", stream(steps)},
                 {"footprint_bytes", base.lines_per_unit * 64},
                 {"footprint_all_bytes", base.lines * 64},
                 {"footprint_team_bytes", steps.lines * 64}};
    double formed = 0, entered = 0, left = 0, ready = 0;
    for (const Json& t : teams) {
        formed += t["teams"].get<double>();
        entered += t["entered"].get<double>();
        left += t["left"].get<double>();
        ready += t["ready"].get<double>();
    }
    const double out = formed == 0 ? 0 : left / formed;
    const double bound = out > 1 ? (out - 1) / out : 0;
    json["teams"] = {{"lists", teams},
                     {"in", formed == 0 ? 0 : entered / formed},
                     {"out", out},
                     {"ready", formed == 0 ? 0 : ready / formed},
                     {"bound", bound}};
    for (size_t i = 0; i < options.machines.size(); ++i) {
        const Machine& machine = options.machines[i];
        Json row = {{"machine", machine.name},
                    {"l1", machine.l1.text()},
                    {"l2", machine.l2.text()},
                    {"fits", fits(per(base.machines[i].l1i.total(), base.units), base)},
                    {"footprint_over_cache", base.lines_per_unit * 64 / machine.l1.bytes},
                    {"serial", misses(base.machines[i], base.units)},
                    {"team", misses(steps.machines[i], steps.units)}};
        for (const char* event : {"l1i", "l1d", "l2i", "l2d"})
            row["reduction"][event] =
                reduction(row["serial"][event].get<double>(), row["team"][event].get<double>());
        row["share_of_bound"] = bound == 0 ? 0 : row["reduction"]["l1i"].get<double>() / bound;
        json["machines"].push_back(row);
    }
    return json;
}

}  // namespace lockstep::icache
