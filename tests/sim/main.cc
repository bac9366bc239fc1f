// main.cc - lockstep-sim: the whole engine in a deterministic simulation, seed by seed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tests/sim/campaign.h"
#include "tests/sim/jobs.h"
#include "tools/base/option_names.h"

using namespace lockstep::sim;

int main(int argc, char** argv) {
    Arguments a;
    CLI::App app{
        "Runs the storage engine on a simulated disk under virtual time, cuts the power at I/O "
        "events, recovers, and compares with an oracle."};
    app.add_option("--seed", a.first_seed, "first seed");
    app.add_option("--seeds", a.seeds, "number of seeds");
    app.add_option("--until", a.until,
                   "take images at this I/O event only and stop there: replays a failure");
    app.add_flag("--digest", a.digest, "print each seed's digest");
    app.add_option("--jobs", a.jobs, "processes")->check(CLI::Range(1, 64));
    app.add_option("--crash-points", a.crash_points, "I/O events per seed at which power is cut");
    app.add_option("--outcomes", a.outcomes, "outcomes of each power cut");
    app.add_option("--depth", a.depth, "crashes in a row, those during recovery included");
    const lockstep::Names<Workload> workloads{
        {"records", Workload::records}, {"tpcc", Workload::tpcc}, {"mixed", Workload::mixed}};
    app.add_option("--workload", a.workload, "records, tpcc or mixed (drawn by seed)")
        ->transform(lockstep::chosen_from(workloads));
    app.add_option("--time", a.seconds, "start no further seed after so many seconds");
    lockstep::Names<int> profiles{{"any", -1}};
    for (int i = 0; i < static_cast<int>(FaultProfile::kCount); ++i)
        profiles[profile_name(static_cast<FaultProfile>(i))] = i;
    app.add_option("--faults", a.profile, "fault profile of all seeds; any: drawn by seed")
        ->transform(lockstep::chosen_from(profiles));
    app.add_option("--transactions", a.transactions, "of the main run of each seed; 0: drawn");
    const lockstep::Names<int> switches{{"off", 0}, {"on", 1}, {"any", -1}};
    app.add_option("--steps", a.steps, "teams: on, off, any")
        ->transform(lockstep::chosen_from(switches));
    app.add_option("--workers", a.workers, "virtual workers, 1..4; 0: drawn");
    app.add_option("--keys", a.keys, "keys per index; 0: drawn");
    app.add_flag("--secondary", a.secondary,
                 "each index of the records has a secondary one, which verify() compares with it");
    app.add_option("--variety", a.variety,
                   "version of the irregular work: 0, none; 1, without what was added later")
        ->check(CLI::Range(0u, kVarietyNewest));
    app.add_flag_callback(
        "--plain", [&a] { a.variety = 0; }, "the same as --variety 0");
    app.add_flag("--sync-after-write", a.syncs_after_write,
                 "the disk ignores durable writes, so the queues sync behind them");

    app.add_flag("--verbose", a.verbose, "show each seed's configuration");
    app.add_flag("!--no-shrink", a.shrink, "do not shrink a failing seed");
    app.add_flag("--keep-going", a.keep_going, "go on after a failing seed");
    app.add_option("--trace", a.trace,
                   "write what goes into the digest to FILE.1 (first pass) and FILE.2 (second)");
    auto* campaign = app.add_option(
        "--campaign", a.campaign,
        "run the seeds in pieces and keep the results in this directory; a later call goes on");
    app.add_option("--piece", a.piece, "seeds of a piece")
        ->needs(campaign)
        ->check(CLI::Range(1, 1'000'000));
    app.add_flag("--totals", a.totals, "print the campaign's totals as Markdown; run nothing")
        ->needs(campaign);
    CLI11_PARSE(app, argc, argv);
    if (a.until > 0) a.seeds = 1;
    if (a.totals) return print_totals(a);
    if (!a.campaign.empty()) return run_campaign(a);
    return run_seeds(a);
}
