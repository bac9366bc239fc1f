// tpcc_steps.cc - TPC-C with STEPS on and off: the modes in turn on one database, paired, and the teams in the form of the thesis's table 5-4.
#include <fmt/core.h>

#include <algorithm>

#include "sm/engine.h"
#include "tools/bench/bench.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"

namespace lockstep::bench {
namespace {

Result<void> set_mode(Store& store, StepsMode mode) {
    for (uint32_t w = 0; w < store.options().workers; ++w)
        TRY(store.start([mode]() -> Result<void> { threads::set_steps_mode(mode); return {}; }, static_cast<int>(w)).join());
    return {};
}

Result<double> rate(tpcc::Database& db, const tpcc::RunSettings& run) { return TRY(tpcc::run_terminals(db, run, {}))->tx_per_s(); }

std::string object_name(Store& store, uint32_t id) {
    for (const auto& entry : store.list())
        if (entry.id.value == id) return entry.name;
    return {};
}

// Mean threads that entered a team, mean that left it in the team, ready threads, strays by cause.
void print_teams(Store& store, Report& report) {
    report.note(fmt::format("{:<28} {:>9} {:>8} {:>8} {:>8}   strays: lock, page, latch, log, other", "operation (object)", "teams", "entered",
                            "left", "ready"));
    uint64_t teams = 0, entered = 0, left = 0;
    for (const auto& s : store.engine().runtime->team_stats()) {
        if (s.teams < 10) continue;
        const double n = static_cast<double>(s.teams);
        const auto stray = [&](threads::ParkReason r) { return s.strays[static_cast<size_t>(r)]; };
        uint64_t all = 0;
        for (const uint64_t c : s.strays) all += c;
        const uint64_t named = stray(threads::ParkReason::lock) + stray(threads::ParkReason::page_read) + stray(threads::ParkReason::latch) +
                               stray(threads::ParkReason::log);
        const std::string object = s.object != 0 ? " (" + object_name(store, s.object) + ")" : "";
        report.note(fmt::format("{:<28} {:>9} {:>8.1f} {:>8.1f} {:>8.1f}   {} {} {} {} {}", threads::team_op_name(s.op) + object, s.teams,
                                static_cast<double>(s.entered) / n, static_cast<double>(s.left) / n, static_cast<double>(s.ready) / n,
                                stray(threads::ParkReason::lock), stray(threads::ParkReason::page_read), stray(threads::ParkReason::latch),
                                stray(threads::ParkReason::log), all - named));
        teams += s.teams;
        entered += s.entered;
        left += s.left;
    }
    report.note(fmt::format("{:<28} {:>9} {:>8.1f} {:>8.1f}", "average", teams, static_cast<double>(entered) / static_cast<double>(teams),
                            static_cast<double>(left) / static_cast<double>(teams)));
}

}  // namespace

Result<void> bench_tpcc_steps(const Settings& settings, Report& report) {
    const uint32_t warehouses = settings.warehouses != 0 ? settings.warehouses : 10;
    Store store = TRY(Store::open(settings.directory + "/tpcc", {.pool_bytes = (warehouses * 160ull + 512) << 20, .log_bytes = 32ull << 30}));
    tpcc::LoadProgress progress;
    tpcc::Database db = TRY(tpcc::load(store, {.scale = {.warehouses = warehouses}}, progress));
    tpcc::RunSettings run;
    run.warmup = kSecond / 4;
    run.duration = static_cast<Nanos>(settings.seconds * 1e9 / 2);
    for (const auto& [mix, name] : {std::pair{tpcc::Mix::payment, "payment"}, {tpcc::Mix::without_delivery, "mix4"}, {tpcc::Mix::full, "mix"}}) {
        run.mix = mix;
        std::vector<double> base, steps, ratios;
        for (int pair = 0; pair < 8; ++pair) {
            TRY(set_mode(store, StepsMode::off));
            const double a = TRY(rate(db, run));
            TRY(set_mode(store, StepsMode::on));
            const double b = TRY(rate(db, run));
            ++run.seed;
            if (pair == 0) continue;                     // warms up
            base.push_back(a);
            steps.push_back(b);
            ratios.push_back(b / a);
        }
        for (auto* v : {&base, &steps, &ratios}) std::sort(v->begin(), v->end());
        report.figure(fmt::format("{}, {} warehouses, base", name, warehouses), base[base.size() / 2], "tx/s");
        report.figure(fmt::format("{}, {} warehouses, STEPS", name, warehouses), steps[steps.size() / 2], "tx/s");
        report.figure("  STEPS / base, median of pairs", ratios[ratios.size() / 2], "x");
        report.note(fmt::format("pairs between {:.2f} and {:.2f}", ratios.front(), ratios.back()));
        print_teams(store, report);
    }
    return store.close();
}

}  // namespace lockstep::bench
