// print.cc - comparisons as tables.
#include <fmt/core.h>

#include "tools/icache/compare.h"

namespace lockstep::icache {

namespace {

using Json = nlohmann::ordered_json;

double number(const Json& json) { return json.get<double>(); }
double percent(const Json& json) { return 100 * json.get<double>(); }

void print_stream(const Json& c) {
    const Json &serial = c["serial"], &team = c["team"];
    fmt::print("  {:<34}{:>12.0f}{:>12.0f}   {:+.1f}%\n", "instructions",
               number(serial["instructions"]), number(team["instructions"]),
               100 * (number(team["instructions"]) / number(serial["instructions"]) - 1));
    for (const char* kind : {"mispredicted", "mispredicted_cold"}) {
        if (!serial.contains(kind)) continue;  // transactions are never made cold
        const std::string cold = std::string_view(kind) == "mispredicted" ? "" : ", cold";
        for (const auto& [name, wrong] : serial[kind].items()) {
            const double before = number(wrong["total"]), after = number(team[kind][name]["total"]);
            fmt::print("  {:<34}{:>12.2f}{:>12.2f}   {:+.0f}%   (returns {:.2f}, {:.2f})\n",
                       "mispredicted branches, " + name + cold, before, after,
                       before == 0 ? 0 : 100 * (after / before - 1), number(wrong["returns"]),
                       number(team[kind][name]["returns"]));
        }
    }
    fmt::print("  {:<34}{:>12}{:>12.2f}\n", "fast switches", "-", number(team["switches"]));
}

void print_operation(const Json& c) {
    fmt::print("\n  {:<13}{:>9}{:>9} |{:>9}{:>9}{:>9} |{:>8}{:>8}{:>8} |{:>7}{:>7} |{:>8}{:>8}\n",
               "L1-I cache", "serial", "serial", "leader", "follower", "team", "reduced", "reduced",
               "bound", "a", "beta", "L1-D", "L1-D");
    fmt::print("  {:<13}{:>9}{:>9} |{:>9}{:>9}{:>9} |{:>8}{:>8}{:>8} |{:>7}{:>7} |{:>8}{:>8}\n",
               "misses per op", "cold", "warm", "(cold)", "(cold)", "warm", "to warm", "to cold",
               "", "", "", "serial", "team");
    for (const Json& m : c["machines"]) {
        const Json& model = m["model"];
        fmt::print("  {:<13}{:>9.1f}{:>9.1f} |{:>9.1f}{:>9.1f}{:>9.1f} |",
                   m["l1"].get<std::string>(), number(m["serial_cold"]["l1i"]),
                   number(m["serial_warm"]["l1i"]), number(m["team_cold"]["leader"]),
                   number(m["team_cold"]["follower"]), number(m["team_warm"]["l1i"]));
        if (m["fits"].get<bool>()) fmt::print("{:>8}", "fits");
        else fmt::print("{:>7.1f}%", percent(m["reduction_warm"]));
        fmt::print("{:>7.1f}%{:>7.1f}% |{:>7.3f}{:>7.3f} |{:>8.1f}{:>8.1f}\n",
                   percent(m["reduction_cold"]), percent(model["bound"]), number(model["a"]),
                   number(model["beta"]), number(m["serial_warm"]["l1d"]),
                   number(m["team_warm"]["l1d"]));
    }
}

void print_transactions(const Json& c) {
    const Json& teams = c["teams"];
    fmt::print(
        "  teams: {:.1f} enter, {:.1f} leave in the team, {:.1f} ready; bound (N-1)/N {:.1f}%\n",
        number(teams["in"]), number(teams["out"]), number(teams["ready"]), percent(teams["bound"]));
    fmt::print("\n  {:<13}{:>10}{:>10}{:>9}{:>10} |{:>9}{:>9} |{:>9}{:>9}{:>9}{:>9}\n",
               "L1-I cache", "off", "on", "reduced", "of bound", "L1-D off", "L1-D on", "L2-I off",
               "L2-I on", "L2-D off", "L2-D on");
    for (const Json& m : c["machines"]) {
        const Json &serial = m["serial"], &team = m["team"];
        fmt::print(
            "  {:<13}{:>10.1f}{:>10.1f}{:>8.1f}%{:>9.1f}% |{:>9.1f}{:>9.1f} "
            "|{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}\n",
            m["l1"].get<std::string>(), number(serial["l1i"]), number(team["l1i"]),
            percent(m["reduction"]["l1i"]), percent(m["share_of_bound"]), number(serial["l1d"]),
            number(team["l1d"]), number(serial["l2i"]), number(team["l2i"]), number(serial["l2d"]),
            number(team["l2d"]));
    }
}

void print_time(const Json& time) {
    fmt::print("  native time: {}; {} of {} pairs on an undisturbed core\n",
               time["verdict"].get<std::string>(), time["quiet_pairs"].get<uint64_t>(),
               time["pairs"].get<uint64_t>());
    if (time.contains("speedup"))
        fmt::print("    ratio of pairs {:.3f}, quartiles {:.3f} .. {:.3f}", number(time["speedup"]),
                   number(time["quartile_low"]), number(time["quartile_high"]));
    if (time.contains("low"))
        fmt::print(", 99% interval {:.3f} .. {:.3f}", number(time["low"]), number(time["high"]));
    if (time.contains("speedup"))
        fmt::print("; {:.0f} ns off, so {:.0f} ns on\n", number(time["ns_off"]),
                   number(time["ns_on"]));
    if (time["verdict"] == "too noisy to tell")
        fmt::print(
            "    nothing is claimed: quartiles wider than {:.0f}% of the median, or fewer "
            "than 8 such pairs; repeat on a quieter machine or with more --seconds\n",
            percent(time["spread_max"]));
    if (time.contains("counters_refused"))
        fmt::print("  hardware counters: {}\n", time["counters_refused"].get<std::string>());
    if (!time.contains("counters")) return;
    for (const auto& [name, value] : time["counters"].items()) {
        if (!value.contains("on")) {
            fmt::print("  {:<34}not known: {}   (hardware)\n", name,
                       value["missing"].get<std::string>());
            continue;
        }
        fmt::print(
            "  {:<34}{:>12.1f}{:>12.1f}   {:+.1f}%   (hardware, counted {:.0f}% of the "
            "time)\n",
            name, number(value["off"]), number(value["on"]),
            100 * (number(value["on"]) / number(value["off"]) - 1),
            percent(value["counted_share"]));
    }
}

}  // namespace

void print_comparison(const Json& c) {
    const bool operation = c["kind"] == "operation";
    fmt::print("\n{}, {} threads, off against {}: {:.0f} bytes of code per {}, {} bytes in all\n",
               c["what"].get<std::string>(), c["threads"].get<uint32_t>(),
               c["mode"].get<std::string>(), number(c["footprint_bytes"]),
               operation ? "operation" : "transaction", c["footprint_all_bytes"].get<uint64_t>());
    fmt::print("  {:<34}{:>12}{:>12}\n", operation ? "per operation" : "per transaction", "off",
               "on");
    print_stream(c);
    if (c.contains("time")) print_time(c["time"]);
    if (operation) print_operation(c);
    else print_transactions(c);
}

}  // namespace lockstep::icache
