// labels: model
// history_test.cc - random transactions on real workers, replayed in commit order: every
// read, miss and range must be what an ordered map gives.
//
// LOCKSTEP_TRANSACTIONS: how many in all, spread over the configurations. LOCKSTEP_SEED: the first
// seed.
#include <cstdio>
#include <filesystem>

#include "tests/isolation/workload.h"
#include "tests/own_directory.h"
#include "tests/seed_of_run.h"
#include "threads/base/sanitized.h"
#include "threads/thread/ctx_points.h"

namespace lockstep::isolation::history_test {

#if defined(LOCKSTEP_SANITIZED) || defined(LOCKSTEP_DEBUG_CHECKS)
constexpr uint64_t kTransactions = 25'000;  // these builds are slow
#else
constexpr uint64_t kTransactions = 300'000;
#endif

struct Configuration {
    const char* name;
    WorkloadOptions work;
    uint32_t workers = 2;
    StepsMode steps = StepsMode::off;
    uint64_t pool_bytes = 16 << 20;
    uint32_t escalate_at = 5000;
    uint64_t share = 1;  // of all transactions
};

const Configuration kConfigurations[] = {
    {"OneKey", {.keys = 1, .threads = 8}},
    {"TenKeys", {.keys = 10, .skew = 0, .threads = 8}},
    {"TenKeysSteps", {.keys = 10, .skew = 0.9, .threads = 24}, 1, StepsMode::on},
    {"HundredKeys", {.keys = 100, .skew = 0.9}, 2, StepsMode::off, 16 << 20, 5000, 2},
    {"HundredKeysSteps", {.keys = 100, .skew = 0.5}, 2, StepsMode::on, 16 << 20, 5000, 2},
    {"HundredKeysDurable", {.keys = 100, .skew = 0.5, .durable = 1}, 2, StepsMode::on},
    {"ThousandKeysEscalating",
     {.keys = 1000, .skew = 0.7, .scattered = true},
     2,
     StepsMode::on,
     16 << 20,
     4},
    {"ThousandLargeRows",
     {.keys = 1000, .skew = 0.7, .value_max = 2600},
     2,
     StepsMode::on,
     4 << 20},
    {"TenThousandKeys",
     {.keys = 10'000, .skew = 0.9, .threads = 48},
     2,
     StepsMode::on,
     4 << 20,
     5000,
     2},
    {"HundredThousandKeys",
     {.keys = 100'000, .skew = 0.99, .scattered = true, .threads = 48},
     2,
     StepsMode::on,
     4 << 20,
     5000,
     2},
    {"MillionKeys",
     {.keys = 1'000'000, .skew = 0.99, .threads = 48},
     2,
     StepsMode::off,
     8 << 20,
     5000,
     2},
};

class HistoryTest : public ::testing::TestWithParam<Configuration> {};

TEST_P(HistoryTest, IsSerialInCommitOrder) {
    const Configuration& c = GetParam();
    uint64_t shares = 0;
    for (const Configuration& one : kConfigurations) shares += one.share;
    const uint64_t total = number_from("LOCKSTEP_TRANSACTIONS", kTransactions) * c.share / shares,
                   seed = number_from("LOCKSTEP_SEED", 1);
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));

    const std::string directory = make_own_directory("history");
    Options options{.workers = c.workers,
                    .pool_bytes = c.pool_bytes,
                    .transactions_max = 256,
                    .log_bytes = 64 << 20,
                    .log_segment_bytes = 4 << 20,
                    .log_ring_bytes = 4 << 20,
                    .lock_timeout = 120 * kSecond,
                    .lock_table_bytes_log2 = 18,
                    .escalate_at = c.escalate_at};
    options.sync = false;
    options.steps.mode = c.steps;
    options.steps.points = threads::kCtxIcache;
    auto store = Store::open(directory, options);
    ASSERT_TRUE(store) << store.error().text();
    auto index = store->run([&](Txn& txn) { return store->create_index(txn, "rows"); });
    ASSERT_TRUE(index);

    Workload workload(*store, *index, c.work);
    Replay replay;
    if (c.work.keys > 100) {
        workload.load(Rng(seed));
        replay.start_with(workload.content());
    }
    uint64_t done = 0, committed = 0;
    for (uint64_t batch = 0; done < total && !HasFailure(); ++batch) {
        std::vector<History> histories =
            workload.run(seed + batch * 1'000'003, std::min<uint64_t>(20'000, total - done));
        done += histories.size();
        for (const History& history : histories) committed += history.committed;
        ASSERT_TRUE(replay.judge(histories)) << replay.fault();
        ASSERT_TRUE(workload.content() == replay.state())
            << "the index does not hold what was committed";
    }
    const StoreStats stats = store->stats();
    std::printf(
        "%s: %lu transactions, %lu committed, %lu answers, %lu lock waits, %lu deadlocks, %lu "
        "escalations, %lu pages evicted\n",
        c.name, done, committed, replay.answers(), stats.lock_waits, stats.deadlocks,
        stats.escalations, stats.evictions);
    EXPECT_GT(stats.lock_waits, 0u) << "no transaction waited for a lock: this proves nothing";
    const auto faults = store->verify();
    ASSERT_TRUE(faults) << faults.error().text();
    EXPECT_TRUE(faults->empty()) << faults->size() << " faults, the first: " << faults->front();
    ASSERT_TRUE(store->close());
    std::filesystem::remove_all(directory);
}

INSTANTIATE_TEST_SUITE_P(Random, HistoryTest, ::testing::ValuesIn(kConfigurations),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace lockstep::isolation::history_test
