// labels: unit
// begin_limit_test.cc - begin waits at Options::transactions_max: the logger says so if nothing
// ends; and it does not wait below that.
#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::begin_limit_test {

class BeginLimit : public StoreCrash {
protected:
    Options options() {
        Options o = small_options(2);
        o.transactions_max = 16;
        o.logger = [this](int level, std::string_view text) {
            const std::lock_guard guard(mutex_);
            if (level == 1) warnings_ += std::string(text) + "\n";
        };
        return o;
    }
    bool warned() {
        const std::lock_guard guard(mutex_);
        return warnings_.contains("transactions_max");
    }

    std::mutex mutex_;
    std::string warnings_;  // under mutex_
};

TEST_F(BeginLimit, IsReportedIfNothingEnds) {
    Store store = open("a", options());
    auto waiter = store.start([&]() -> Result<bool> {
        std::vector<Txn> open_ones;
        for (int n = 0; n < 16; ++n) open_ones.push_back(LOCKSTEP_TRY(store.begin()));
        auto next = store.start([&]() -> Result<void> {
            Txn txn = LOCKSTEP_TRY(store.begin());
            return txn.abort();
        });
        for (int n = 0; n < 10'000 && !warned(); ++n) sleep_for(kMillisecond);
        const bool told = warned() && !next.ready();
        for (Txn& txn : open_ones) LOCKSTEP_TRY(txn.abort());
        LOCKSTEP_TRY(next.join());
        return told;
    });
    EXPECT_TRUE(waiter.join().value_or(false));
    EXPECT_TRUE(store.close());
}

// TT-1. Two workers begin at the same moment. One of them makes the slots, all that there will be.
TEST(BeginLimitSim, SlotsThatAreBeingMadeAreNotMissed) {
    const uint64_t first = seed_of_run(1);
    for (uint64_t seed = first; seed < first + 100; ++seed) {
        threads::SimDisk disk{{.seed = seed}};
        SimStore store(disk, seed, 2);
        store.options().transactions_max = 16;
        store.interrupt_one_in(4);
        ASSERT_TRUE(store.open());
        int begun = 0, ended = 0;
        for (const int worker : {0, 1})
            (void)store->start(
                [&]() -> Result<void> {
                    Txn txn = LOCKSTEP_TRY(store->begin());
                    for (++begun; begun < 2;) sleep_for(kMillisecond);
                    ++ended;
                    return txn.abort();
                },
                worker);
        const Nanos late = store.clock().now() + 10 * kSecond;
        ASSERT_TRUE(store.step_until([&] { return ended == 2 || store.clock().now() > late; }));
        EXPECT_EQ(ended, 2) << "seed " << seed;
        begun = 2;
        ASSERT_TRUE(store.close());
    }
}

// Many wait, but transactions end.
TEST_F(BeginLimit, IsNotReportedWhileTransactionsEnd) {
    Store store = open("a", options());
    std::vector<Handle<void>> handles;
    for (int n = 0; n < 60; ++n)
        handles.push_back(store.start([&]() -> Result<void> {
            for (int turn = 0; turn < 10; ++turn) {
                Txn txn = LOCKSTEP_TRY(store.begin());
                sleep_for(50 * kMillisecond);
                LOCKSTEP_TRY(txn.abort());
            }
            return {};
        }));
    for (auto& handle : handles) EXPECT_TRUE(handle.join());
    EXPECT_FALSE(warned());
    EXPECT_TRUE(store.close());
}

}  // namespace lockstep::begin_limit_test
