// labels: model
// dependency_test.cc - mixed transactions, judged by the checker of histories: no level may show an
// anomaly that it forbids, and those that it permits must be seen.
//
// LOCKSTEP_TRANSACTIONS: how many in each configuration. LOCKSTEP_SEED: the first seed.
#include <cstdio>
#include <filesystem>

#include "tests/isolation/checker.h"
#include "tests/isolation/mixed_workload.h"
#include "tests/own_directory.h"
#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "threads/base/sanitized.h"
#include "threads/thread/ctx_points.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace lockstep::isolation::dependency_test {

#if defined(LOCKSTEP_SANITIZED) || defined(LOCKSTEP_DEBUG_CHECKS)
constexpr uint64_t kTransactions = 500;  // these builds are slow
#else
constexpr uint64_t kTransactions = 2000;
#endif
constexpr uint64_t kEpoch = 250;
// So many show each anomaly that their level permits.
constexpr uint64_t kTransactionsToSee = 2000;

struct Configuration {
    const char* name;
    MixOptions mix;
    bool simulated = true;
    uint32_t workers = 1;
    StepsMode steps = StepsMode::off;
    uint32_t escalate_at = 5000;
    std::vector<Anomaly> shows = {};  // what it permits and must show
};

const Configuration kConfigurations[] = {
    {"Mixed", {}},
    {"MixedTwoWorkers", {.processes = 8}, true, 2},
    {"MixedSteps", {.processes = 8}, true, 1, StepsMode::on},
    {"MixedEscalating", {.keys = 4}, true, 2, StepsMode::off, 6},
    {"Timeouts", {.lock_timeout = 30 * kMicrosecond}, true, 2},
    {"OneKey", {.processes = 5, .keys = 1}},
    {"Serializable", {.levels = {1, 0, 0, 0}, .keys = 6}},
    {"Snapshots", {.levels = {3, 0, 0, 4}, .processes = 8}},
    {"SnapshotsTwoWorkers", {.levels = {1, 0, 0, 1}, .processes = 8}, true, 2},
    {"Queues", {.levels = {4, 0, 0, 1}, .processes = 8, .keys = 1, .kinds = {0, 1, 8}}},
    {"Registers", {.levels = {4, 0, 0, 1}, .processes = 8, .keys = 7, .kinds = {0, 8, 0}}},
    {"Scans",
     {.levels = {1, 0, 0, 0}, .processes = 8, .keys = 4, .scans = true, .kinds = {0, 8, 3}}},
    {"ScansTwoWorkers",
     {.levels = {1, 0, 0, 0}, .processes = 6, .keys = 8, .scans = true, .kinds = {0, 8, 2}},
     true,
     2},
    {"RepeatableRead",
     {.levels = {0, 1, 0, 0}, .processes = 8, .scans = true, .kinds = {1, 1, 8}},
     true,
     1,
     StepsMode::off,
     5000,
     {Anomaly::phantom}},
    {"ReadCommitted",
     {.levels = {0, 0, 1, 0}, .careful = false},
     true,
     1,
     StepsMode::off,
     5000,
     {Anomaly::lost_update, Anomaly::fuzzy_read, Anomaly::phantom, Anomaly::write_skew}},
    {"RealWorkers", {.processes = 12, .keys = 4}, false, 2},
    {"RealWorkersSteps", {.processes = 16}, false, 2, StepsMode::on},
};

class DependencyTest : public ::testing::TestWithParam<Configuration> {
protected:
    static void configure(Options& options, const Configuration& c) {
        options.workers = c.workers;
        options.executors = 64;
        options.transactions_max = 256;
        options.escalate_at = c.escalate_at;
        options.steps.mode = c.steps;
        options.steps.points = threads::kCtxIcache;
        options.lock_timeout = 60 * kSecond;
    }
    void run(Store& store, Configuration c, MixedWorkload::RunAll run_all, uint64_t seed) {
        const uint64_t total = number_from("LOCKSTEP_TRANSACTIONS", kTransactions);
        if (c.simulated) c.mix.quiet = 600 * kMillisecond;  // costs no time there
        MixedWorkload workload(store, c.mix, std::move(run_all));
        uint64_t done = 0, committed = 0, edges = 0;
        std::vector<bool> seen(kAnomalies, false);
        while (done < total && !HasFailure()) {
            std::vector<Observed> history = workload.epoch(seed + done, kEpoch);
            done += history.size();
            for (const Observed& t : history) committed += t.ended == Ended::committed;
            const Checker checker(std::move(history));
            edges += checker.edges();
            ASSERT_TRUE(checker.sound()) << "within " << done << " transactions\n"
                                         << checker.text();
            for (size_t n = 0; n < kAnomalies; ++n)
                if (checker.shows(static_cast<Anomaly>(n), true)) seen[n] = true;
        }
        std::string shown;
        for (size_t n = 0; n < kAnomalies; ++n)
            if (seen[n]) shown += std::string(", ") + name_of(static_cast<Anomaly>(n));
        const StoreStats stats = store.stats();
        std::printf(
            "%s: %lu transactions, %lu committed, %lu edges, %lu lock waits, %lu deadlocks;"
            " permitted%s\n",
            c.name, done, committed, edges, stats.lock_waits, stats.deadlocks, shown.c_str());
        EXPECT_GT(stats.lock_waits, 0u) << "no transaction waited: this proves nothing";
        if (done < kTransactionsToSee) return;
        for (const Anomaly anomaly : c.shows)
            EXPECT_TRUE(seen[static_cast<size_t>(anomaly)])
                << name_of(anomaly) << " was never seen: the test is blind";
    }
    void simulate(const Configuration& c, uint64_t seed) {
        threads::SimDisk disk;
        SimStore sim(disk, seed, c.workers);
        configure(sim.options(), c);
        ASSERT_TRUE(sim.open());
        run(
            *sim, c,
            [&](MixedWorkload::Threads threads) {
                std::vector<Handle<void>> handles;
                for (auto& fn : threads) handles.push_back(sim->start(std::move(fn)));
                const auto over = [&] {
                    return std::ranges::all_of(handles, [](const auto& h) { return h.ready(); });
                };
                CHECK(sim.step_until(over, kMicrosecond));
                for (auto& handle : handles) {
                    const auto ended = handle.join();
                    EXPECT_TRUE(ended) << ended.error().text();
                }
            },
            seed);
        ASSERT_TRUE(sim.close());
    }
    void run_for_real(const Configuration& c, uint64_t seed) {
        const std::string directory = make_own_directory("dependency");
        Options options{.pool_bytes = 16 << 20,
                        .log_bytes = 64 << 20,
                        .log_segment_bytes = 4 << 20,
                        .log_ring_bytes = 4 << 20,
                        .lock_table_bytes_log2 = 18};
        options.sync = false;
        configure(options, c);
        auto store = Store::open(directory, options);
        ASSERT_TRUE(store) << store.error().text();
        run(
            *store, c,
            [&](MixedWorkload::Threads threads) {
                std::vector<Handle<void>> handles;
                int n = 0;
                for (auto& fn : threads)
                    handles.push_back(
                        store->start(std::move(fn), n++ % static_cast<int>(c.workers)));
                for (auto& handle : handles) {
                    const auto ended = handle.join();
                    EXPECT_TRUE(ended) << ended.error().text();
                }
            },
            seed);
        const auto faults = store->verify();
        ASSERT_TRUE(faults) << faults.error().text();
        EXPECT_TRUE(faults->empty()) << faults->front();
        ASSERT_TRUE(store->close());
        std::filesystem::remove_all(directory);
    }
};

class DependencyCrash : public ::testing::Test {
protected:
    void open(uint64_t seed) {
        sim_.emplace(*disk_, seed, 2);
        sim_->options().executors = 64;
        sim_->options().lock_timeout = 60 * kSecond;
        sim_->options().logger = [](int, std::string_view) {};
        ASSERT_TRUE(sim_->open());
    }
    void cut(threads::SimCrash mode, uint64_t seed) {
        auto image = disk_->image(seed, mode);
        sim_->abandon();
        sim_.reset();
        disk_ = std::move(image);
    }
    void run_all(MixedWorkload::Threads threads) {
        for (auto& fn : threads)
            sim_->on_thread([&] {
                const auto ended = fn();
                EXPECT_TRUE(ended) << ended.error().text();
            });
    }
    std::unique_ptr<threads::SimDisk> disk_ = std::make_unique<threads::SimDisk>();
    std::optional<SimStore> sim_;
};

// The power fails while transactions run, some of them prepared. What a commit has promised is
// there afterwards, what is in doubt is decided as it was before, and the history as a whole shows
// nothing that is forbidden.
TEST_F(DependencyCrash, HistoriesGoOnBehindAPowerCut) {
#ifdef __SANITIZE_ADDRESS__
    // A store that loses power is left as it is, with what lies on the stacks of its user threads.
    const __lsan::ScopedDisabler without_leaks;
#endif
    const uint64_t seed = seed_of_run();
    Rng rng(seed);
    open(seed);
    MixedWorkload workload(**sim_, {.processes = 8, .durable = 1},
                           [this](MixedWorkload::Threads threads) { run_all(std::move(threads)); });
    const uint64_t total = number_from("LOCKSTEP_TRANSACTIONS", kTransactions);
    uint64_t done = 0, unknown = 0;
    for (uint64_t round = 0; done < total && !HasFailure(); ++round) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed) + ", round " + std::to_string(round));
        workload.load();
        std::vector<Handle<void>> handles;
        for (auto& fn : workload.threads(seed + round, kEpoch))
            handles.push_back((*sim_)->start(std::move(fn)));
        const uint64_t until = 20 + rng.below(kEpoch - 40);
        ASSERT_TRUE(sim_->step_until([&] { return workload.begun() >= until; }, kMicrosecond));
        for (uint64_t steps = rng.below(60); steps > 0; --steps) sim_->step(kMicrosecond);
        cut(threads::kSimCrashes[rng.below(std::size(threads::kSimCrashes))], round);
        open(seed + round);
        workload.resume(**sim_);
        std::vector<Observed> history = workload.finish();
        done += history.size();
        for (const Observed& t : history) unknown += t.ended == Ended::unknown;
        const Checker checker(std::move(history));
        ASSERT_TRUE(checker.sound()) << "within " << done << " transactions\n" << checker.text();
    }
    std::printf("%lu transactions, %lu of unknown outcome\n", done, unknown);
    EXPECT_GT(unknown, 0u) << "no commit was cut: this proves nothing";
    ASSERT_TRUE(sim_->close());
}

TEST_P(DependencyTest, ShowsNothingThatIsForbidden) {
    const Configuration& c = GetParam();
    const uint64_t seed = seed_of_run();
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    if (c.simulated) simulate(c, seed);
    else run_for_real(c, seed);
}

INSTANTIATE_TEST_SUITE_P(Mixes, DependencyTest, ::testing::ValuesIn(kConfigurations),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace lockstep::isolation::dependency_test
