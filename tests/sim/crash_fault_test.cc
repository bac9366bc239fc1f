// labels: sim
// crash_fault_test.cc - failing syncs and writes under load: nobody is told "durable"
// afterwards, and the next open has all that was acknowledged.
#include "tests/sim/crash_harness.h"

namespace lockstep::sim::crash_fault_test {

using threads::SimCrash;
using threads::SimDisk;
using threads::SimFault;

struct Outcome {
    size_t acknowledged = 0;  // counter values told to be durable
    bool failed = false;
};

// Three threads count upwards in their own keys, each step a durable transaction; the fault strikes
// somewhere in between.
Outcome run_until_failure(SimDisk& disk, SimFault fault, uint64_t nth, const char* path,
                          std::map<std::string, uint64_t>& durable) {
    Outcome outcome;
    SimStore store(disk, nth, 1);
    store.options().checkpoint_log_bytes = 1 << 20;
    EXPECT_TRUE(store.open());
    store.on_thread([&] {
        auto made = store->run([&](Txn& txn) -> Result<void> {
            TRY(store->create_index(txn, "i"));
            TRY(store->create_heap(txn, "h"));
            return {};
        });
        EXPECT_TRUE(made);
    });
    disk.faults().only_paths_with(fault, path);
    disk.faults().fail_nth(fault, nth);
    int running = 3;
    std::vector<Handle<void>> handles;
    for (int n = 0; n < 3; ++n)
        handles.push_back(store->start([&, n]() -> Result<void> {
            const std::string key = "counter" + std::to_string(n);
            bool broken = false;
            for (uint64_t i = 1; i <= 60; ++i) {
                if (i % 10 == 0) (void)store->checkpoint();
                auto done = store->run([&](Txn& txn) -> Result<void> {
                    TRY(TRY(store->index("i")).put(txn, key, std::to_string(i)));
                    TRY(TRY(store->heap("h")).insert(txn, key + std::string(300, '.')));
                    return {};
                });
                if (done) {
                    EXPECT_FALSE(broken) << "acknowledged after the failure";
                    durable[key] = i;
                    ++outcome.acknowledged;
                } else {
                    broken = outcome.failed = true;
                    EXPECT_EQ(done.error().code, ErrorCode::store_failed) << done.error().text();
                }
            }
            --running;
            return {};
        }));
    EXPECT_TRUE(store.step_until([&] { return running == 0; })) << "hangs";
    (void)store.close();
    return outcome;
}

void expect_recovered(SimDisk& disk, const std::map<std::string, uint64_t>& durable) {
    SimStore store(disk, 99, 1);
    auto opened = store.open();
    ASSERT_TRUE(opened) << opened.error().text();
    auto seen = read_all(store);
    ASSERT_TRUE(seen) << seen.error().text();
    ASSERT_TRUE(*seen);
    size_t total = 0;
    for (const auto& [key, value] : durable) {
        ASSERT_TRUE((*seen)->keys.contains(key));
        EXPECT_GE(std::stoull((*seen)->keys[key]), value);
    }
    for (const auto& [key, value] : (*seen)->keys) total += std::stoull(value);
    EXPECT_EQ((*seen)->records.size(), total) << "a transaction is there in part";
    auto faults = store->verify();
    ASSERT_TRUE(faults);
    for (const auto& fault : *faults) ADD_FAILURE() << fault;
    EXPECT_TRUE(store.close());
}

class FaultUnderLoad : public ::testing::TestWithParam<std::tuple<SimFault, const char*, bool>> {};

TEST_P(FaultUnderLoad, NothingAcknowledgedIsLost) {
    const auto [fault, path, by_sync] = GetParam();
    const uint64_t first = number_from("LOCKSTEP_SEED", 1);
    size_t failures = 0;
    for (uint64_t nth = first; nth < first + 12 && !HasFailure(); ++nth) {
        SCOPED_TRACE(std::string(threads::sim_fault_name(fault)) + " on " + path +
                     ", LOCKSTEP_SEED=" + std::to_string(nth));
        SimDisk disk({.seed = nth, .syncs_after_write = by_sync});
        std::map<std::string, uint64_t> durable;
        failures += run_until_failure(disk, fault, nth, path, durable).failed;
        disk.faults().enable(false);
        for (const SimCrash mode : threads::kSimCrashes) {
            SCOPED_TRACE("crash mode " + std::to_string(static_cast<int>(mode)));
            auto image = disk.image(nth, mode);
            expect_recovered(*image, durable);
        }
    }
    EXPECT_GT(failures, 0u) << "the fault never stopped the store";
}

INSTANTIATE_TEST_SUITE_P(Faults, FaultUnderLoad,
                         ::testing::Values(std::tuple{SimFault::sync_error, "log.", false},
                                           std::tuple{SimFault::sync_error, "log.", true},
                                           std::tuple{SimFault::write_error, "log.0", false},
                                           std::tuple{SimFault::write_error, "log.0", true},
                                           std::tuple{SimFault::sync_error, "data", false}));

// A data page that cannot be written stays dirty: the checkpoint fails, transactions go on, and a
// later checkpoint succeeds.
TEST(FaultUnderLoad, FailedPageWriteLosesNothing) {
    for (uint64_t nth = 1; nth < 10 && !::testing::Test::HasFailure(); ++nth) {
        SimDisk disk({.seed = nth});
        std::map<std::string, uint64_t> durable;
        const Outcome outcome =
            run_until_failure(disk, SimFault::write_error, nth, "data", durable);
        EXPECT_FALSE(outcome.failed);
        EXPECT_EQ(outcome.acknowledged, 180u);
        EXPECT_GT(disk.faults().count(SimFault::write_error), 0u);
        disk.faults().enable(false);
        expect_recovered(disk, durable);
    }
}

}  // namespace lockstep::sim::crash_fault_test
