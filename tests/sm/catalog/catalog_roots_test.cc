// labels: unit sim
// catalog_roots_test.cc - the first use of many indexes after an open reads their roots together.
#include <gtest/gtest.h>

#include <string>

#include "tests/sim_store.h"
#include "tests/sm/test_util.h"

namespace lockstep::catalog_roots_test {

TEST(CatalogRoots, TheFirstUseOfManyIndexesReadsAhead) {
    constexpr int kIndexes = 600;
    const auto name_of = [](int i) { return "index " + std::to_string(i); };
    threads::SimDisk disk;
    {
        SimStore store(disk);
        ASSERT_OK(store.open());
        for (int i = 0; i < kIndexes; ++i)
            ASSERT_OK(store->run([&](Txn& txn) { return store->create_index(txn, name_of(i)); }));
        ASSERT_OK(store.close());
    }
    SimStore store(disk);
    ASSERT_OK(store.open());
    const StoreStats before = store->stats();
    for (int i = 0; i < kIndexes; ++i) {
        const auto index = store->index(name_of(i));
        ASSERT_OK(index);
        ASSERT_OK(store->run([&](Txn& txn) { return index->put(txn, "k", "v"); }));
    }
    const StoreStats after = store->stats();
    EXPECT_GE(after.reads_ahead - before.reads_ahead, kIndexes * 9 / 10u);
    EXPECT_LE(after.page_reads - before.page_reads, kIndexes + 20u);
    ASSERT_OK(store.close());
}

// What it finds wrong of others it leaves to their own first use.
TEST(CatalogRoots, ADroppedNeighbourIsNoError) {
    threads::SimDisk disk;
    {
        SimStore store(disk);
        ASSERT_OK(store.open());
        for (const char* name : {"a", "b", "c"})
            ASSERT_OK(store->run([&](Txn& txn) { return store->create_index(txn, name); }));
        ASSERT_OK(store.close());
    }
    SimStore store(disk);
    ASSERT_OK(store.open());
    ASSERT_OK(store->run([&](Txn& txn) { return store->drop(txn, "b"); }));
    ASSERT_OK(store->run([&](Txn& txn) { return store->create_index(txn, "b"); }));
    for (const char* name : {"a", "b", "c"}) {
        const auto index = store->index(name);
        ASSERT_OK(index);
        ASSERT_OK(store->run([&](Txn& txn) { return index->put(txn, "k", name); }));
    }
    const auto faults = store->verify();
    ASSERT_OK(faults);
    EXPECT_TRUE(faults->empty());
    ASSERT_OK(store.close());
}

}  // namespace lockstep::catalog_roots_test
