// arguments.cc - options that several commands share.
#include "tools/icache/arguments.h"

#include "tools/base/option_checks.h"
#include "tools/base/option_names.h"

namespace lockstep::icache {

namespace {

// Options for the order of execution.
void add_order_options(CLI::App& app, ChildSettings& c) {
    app.add_option("--team-max", c.team_max,
                   "Maximum threads in a team (0: all threads of an operation, 64 for TPC-C; "
                   "the engine's default is 16)")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    app.add_option("--team-policy", c.team_policy,
                   "Which waiting list forms the next team (default: last-leaver)")
        ->transform(chosen_from(kTeamPolicies));
    app.add_option("--team-gate", c.team_gate,
                   "How many waiting threads form a team (default: t-gated)")
        ->transform(chosen_from(kTeamGates));
    app.add_flag("--float-state", c.float_state,
                 "A fast switch keeps the floating-point modes (the thesis's \"float on\")");
    app.add_option("--lock-policy", c.lock_stage.policy,
                   "Which waiter gets a contended lock first (default: fifo)")
        ->transform(chosen_from(kLockPolicies));
    app.add_option("--lock-bypass", c.lock_stage.bypass_max,
                   "How often a lock waiter can be overtaken at most")
        ->check(CLI::Range(0, 65535))
        ->capture_default_str();
}

}  // namespace

void add_workload_options(CLI::App& app, Arguments& a) {
    WorkloadSettings& w = a.runner.child.workload;
    show_one_name(app);
    app.add_option("--seed", w.seed, "Seed of keys and inputs; equal seeds give equal counts")
        ->check(kNotNegative)
        ->capture_default_str();
    app.add_option("--rounds", w.rounds, "Counted operations of each thread")
        ->check(CLI::Range(1, 10000))
        ->capture_default_str();
    app.add_option("--warm-rounds", w.warm_rounds, "Operations before the counted ones")
        ->check(CLI::Range(1, 10000))
        ->capture_default_str();
    app.add_option("--transactions", w.transactions,
                   "Traced transactions; the first tenth is not counted")
        ->check(CLI::Range(10, 1000000))
        ->capture_default_str();
    app.add_option("--warm-transactions", w.warm_transactions,
                   "Untraced transactions before the traced ones")
        ->check(CLI::Range(1, 10000000))
        ->capture_default_str();
    app.add_option("--warehouses", w.warehouses, "TPC-C warehouses, ten terminals each")
        ->check(CLI::Range(1, 100))
        ->capture_default_str();
    app.add_option(
        "--points", a.runner.child.points,
        "CTX points: names with commas, none, manual, icache or auto:FILE (default: manual)");
    add_order_options(app, a.runner.child);
    app.add_option("--seconds,--duration", a.runner.child.seconds,
                   "Seconds of native time of each pair of modes")
        ->check(number_in(0.001, 1e6))
        ->capture_default_str();
    app.add_option("--path", a.runner.directory,
                   "Scratch directory (default: a temporary one, removed at the end)");
}

void add_geometry_options(CLI::App& app, Arguments& a) {
    app.add_option(
        "--geometry", a.geometry_texts,
        "L1 caches, SIZE,WAYS[,LINE] each, such as 48K,12 or 16K,full,64; any number of sets that "
        "is a power of two (default: 65536,2,64 16384,4,32 32768,8,64 49152,12,64 "
        "65536,8,64)");
    app.add_flag("--sweep", a.sweep, "Also 4 to 64 KB with 1, 2, 4, 8 ways and fully associative");
}

}  // namespace lockstep::icache
