// tpcc_steps.cc - TPC-C with STEPS on and off, and with its parts alone: the variants take turns
// while the terminals go on working.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "tools/bench/paired.h"
#include "tpcc/driver.h"
#include "tpcc/loader.h"
#include "tpcc/teams.h"

namespace lockstep::bench {
namespace {

struct MixUnderTest {
    tpcc::Mix mix;
    const char* name;
    const char* goal;
    // Commits that a slice measures: a tenth of a second or more on one worker.
    uint64_t commits;
};
constexpr MixUnderTest kMixes[] = {
    {tpcc::Mix::payment, "payment", ">= 1.39 at 30 warehouses", 50'000},
    {tpcc::Mix::without_delivery, "mix4", ">= 1.3", 20'000},
    {tpcc::Mix::full, "mix", ">= 1.25", 20'000}};

class MixContest {
public:
    MixContest(Store& store, tpcc::Database& db, const Settings& settings, uint64_t commits)
        : store_(store), db_(db), settings_(settings), commits_(commits) {}

    Result<void> run(tpcc::Mix mix, uint32_t rounds) {
        tpcc::RunSettings run;
        run.mix = mix;
        run.calls = settings_.calls;
        run.terminals_as_threads = !settings_.packets;
        run.warmup = 0;
        run.duration = 24 * 3600 * kSecond;  // until the rounds are over
        if (settings_.threads != 0) run.terminals = settings_.threads;
        bool over = false;
        auto terminals = store_.start([&]() -> Result<void> {
            TRY(tpcc::run_terminals(db_, run, [&](const tpcc::RunProgress&) { return !over; }));
            return {};
        });
        Result<void> done;
        // The first round warms up.
        for (uint32_t round = 0; round <= rounds && done; ++round)
            for (size_t v = 0; v < std::size(kStepsVariants) && done; ++v)
                done = measure(v, round > 0);
        over = true;
        TRY(terminals.join());
        return done;
    }
    void print(Report& report, const std::string& name, const std::string& goal) const {
        for (size_t v = 0; v < std::size(kStepsVariants); ++v)
            paired_.print(report, v, fmt::format("{}, {}", name, kStepsVariants[v].name), "tx/s",
                          false, kStepsVariants[v].mode == StepsMode::on ? goal : "");
        for (const std::string& line : tpcc::teams_table(teams_)) report.note(line);
    }

private:
    Result<void> measure(size_t variant, bool keep) {
        StepsOptions options = settings_.steps;
        options.mode = kStepsVariants[variant].mode;
        TRY(store_.set_steps(options));
        TRY(commit_more(commits_ / 5));  // the new mode settles
        const double probe = probe_core();
        const Nanos begin = cpu_time();
        const uint64_t commits = TRY(commit_more(commits_));
        const double rate = static_cast<double>(commits) / static_cast<double>(cpu_time() - begin) *
                            1e9 * settings_.workers;
        if (keep) paired_.add(variant, rate, std::max(probe, probe_core()));
        if (options.mode == StepsMode::on) teams_ = store_.steps_stats();
        return {};
    }

    // Waits until `count` more transactions have committed; returns how many did.
    Result<uint64_t> commit_more(uint64_t count) {
        const uint64_t before = store_.stats().commits;
        for (uint64_t stalled = 0, last = before; stalled < kStallMillis; ++stalled) {
            usleep(1000);
            const uint64_t commits = store_.stats().commits;
            if (commits - before >= count) return commits - before;
            if (std::exchange(last, commits) != commits) stalled = 0;
        }
        return fail(ErrorCode::store_failed, "no transaction commits any more");
    }

    static constexpr uint64_t kStallMillis = 60'000;
    Store& store_;
    tpcc::Database& db_;
    const Settings& settings_;
    const uint64_t commits_;
    Paired paired_{std::size(kStepsVariants)};
    StepsStats teams_;
};

}  // namespace

Result<void> bench_tpcc_steps(const Settings& settings, Report& report) {
    const uint32_t warehouses = settings.warehouses != 0 ? settings.warehouses : 10;
    Store store = TRY(
        Store::open(settings.directory + "/tpcc", {.workers = settings.workers,
                                                   .pool_bytes = (warehouses * 160ull + 2048) << 20,
                                                   .executors = settings.executors(),
                                                   .log_bytes = 32ull << 30}));
    report.note("tx/s: transactions in a second of CPU time of each worker");
    tpcc::LoadProgress progress;
    tpcc::Database db = TRY(tpcc::load(store, {.scale = {.warehouses = warehouses}}, progress));
    for (const MixUnderTest& m : kMixes) {
        if (!settings.mix.empty() && settings.mix != m.name) continue;
        MixContest contest(store, db, settings,
                           settings.commits != 0 ? settings.commits : m.commits);
        TRY(contest.run(m.mix, 12));
        contest.print(report,
                      fmt::format("{}, {} warehouses{}{}", m.name, warehouses,
                                  settings.calls == tpcc::Calls::single ? ", single" : "",
                                  settings.packets ? ", packets" : ""),
                      m.goal);
    }
    return store.close();
}

}  // namespace lockstep::bench
