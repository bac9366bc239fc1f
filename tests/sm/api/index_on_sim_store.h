// index_on_sim_store.h - a simulated store of two workers with the index "i", and what it reported.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/sim_store.h"
#include "tests/sm/test_util.h"

namespace lockstep {

// Locks are waited for without an end. The store must be sound at the end of each test.
class IndexOnSimStore : public ::testing::Test {
protected:
    explicit IndexOnSimStore(uint64_t seed) : store(disk, seed, 2) {
        store.options().lock_timeout = 3600 * kSecond;
        store.options().logger = [this](int level, std::string_view text) {
            log += std::string(text) + "\n";
            if (level == 0) errors += std::string(text) + "\n";
        };
    }
    void open() {
        ASSERT_OK(store.open());
        auto made = store->run([&](Txn& txn) { return store->create_index(txn, "i"); });
        ASSERT_OK(made);
        index = *made;
    }
    void TearDown() override {
        if (closed) return;
        auto faults = store->verify();
        ASSERT_OK(faults);
        for (const auto& fault : *faults) ADD_FAILURE() << fault;
        EXPECT_TRUE(store.close());
        EXPECT_EQ(errors, "");
    }

    threads::SimDisk disk;
    SimStore store;
    Index index;
    bool closed = false;      // by the test
    std::string log, errors;  // all that the store reported, and of it level 0
};

}  // namespace lockstep
