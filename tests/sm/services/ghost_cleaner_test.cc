// labels: unit sim
// ghost_cleaner_test.cc - what the cleaner makes of notes whose index is dropped, and of a store
// that has failed.
#include "sm/services/ghost_cleaner.h"

#include <string>

#include "sm/btree/btree.h"
#include "sm/catalog/catalog.h"

#include "tests/sm/api/index_on_sim_store.h"

namespace lockstep::ghost_cleaner_test {

class GhostCleanerTest : public IndexOnSimStore {
protected:
    GhostCleanerTest() : IndexOnSimStore(1) {}
    sm::GhostCleaner& ghosts() { return *store.engine().ghosts; }
    static std::string key_of(int i) { return "key " + std::to_string(1000 + i); }
    // Two records take about half a leaf.
    Result<void> fill(Txn& txn) {
        for (int i = 0; i < kRecords; ++i)
            TRY(index.insert(txn, key_of(i), std::string(1900, 'v')));
        return {};
    }
    Result<void> erase_all(Txn& txn) {
        for (int i = 0; i < kRecords; ++i) EXPECT_TRUE(TRY(index.erase(txn, key_of(i))));
        return {};
    }
    void pass(Nanos time) {
        const Nanos end = store.clock().now() + time;
        ASSERT_TRUE(store.step_until([&] { return store.clock().now() > end; }));
    }
    sm::StructureReport report() { return report(index); }
    sm::StructureReport report(const Index& of) {
        Result<sm::StructureReport> found;
        store.on_thread([&] { found = store.engine().catalog->index_by_id(of.id())->verify(); });
        EXPECT_TRUE(found);
        return found ? *found : sm::StructureReport{};
    }
    bool all_cleaned() {
        const sm::StructureReport now = report();
        return now.ghosts == 0 && now.pages.size() == 1;
    }

    static constexpr int kRecords = 300;
};

// A chain that a value had before the last one is no page of the index, so a drop of the same
// transaction leaves it to the release. TearDown() finds a leak, and a second freeing is a CHECK.
TEST_F(GhostCleanerTest, AChainOfADroppedIndexIsFreedOnce) {
    open();
    const auto put = [&](char c) {
        return store->run([&](Txn& txn) { return index.put(txn, "k", std::string(20'000, c)); });
    };
    ASSERT_OK(put('a'));
    store.on_thread([&] {
        ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
            TRY(index.put(txn, "k", std::string(20'000, 'b')));
            return store->drop(txn, "i");
        }));
        EXPECT_EQ(ghosts().pages_waiting(), 0u);
    });
}

// A transaction that erases more leaves than there may be notes.
TEST_F(GhostCleanerTest, AMassDeleteLeavesNoGhosts) {
    open();
    ghosts().limit_leaf_notes(5);
    ASSERT_OK(store->run([&](Txn& txn) { return fill(txn); }));
    ASSERT_GT(report().pages.size(), 50u);
    ASSERT_OK(store->run([&](Txn& txn) { return erase_all(txn); }));
    const Nanos erased = store.clock().now();
    ASSERT_TRUE(store.step_until([&] { return store.clock().now() > erased + 20 * kSecond; }));
    EXPECT_TRUE(all_cleaned()) << report().ghosts << " ghosts, " << report().pages.size()
                               << " pages";
}

// A leaf keeps its last ghost, and with its fences this one fills much of the leaf. The leaf is
// merged away all the same.
TEST_F(GhostCleanerTest, LeavesWithOneLargeGhostGo) {
    open();
    const auto long_key = [](int i) { return std::string(900, 'k') + key_of(i); };
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        for (int i = 0; i < 40; ++i) TRY(index.insert(txn, long_key(i), std::string(1000, 'v')));
        return {};
    }));
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        for (int i = 0; i < 40; ++i) EXPECT_TRUE(TRY(index.erase(txn, long_key(i))));
        return {};
    }));
    EXPECT_GT(report().pages.size(), 10u);
    pass(60 * kSecond);
    EXPECT_EQ(ghosts().waiting(), 0u);
    EXPECT_EQ(report().pages.size(), 1u);
}

// Its ghosts came into the leaf by a split, and the note of them stayed with the other leaf.
TEST_F(GhostCleanerTest, AnEmptiedLeafIsCleanedThoughItsFirstGhostHadNoNote) {
    open();
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        for (int i = 0; i < 4; ++i) TRY(index.insert(txn, key_of(i), std::string(1900, 'v')));
        return {};
    }));
    store.on_thread([&] {
        ghosts().hold();
        Txn eraser = std::move(*store->begin());
        EXPECT_TRUE(*index.erase(eraser, key_of(1)));
        EXPECT_TRUE(*index.erase(eraser, key_of(3)));
        ASSERT_OK(store->run(
            [&](Txn& txn) { return index.insert(txn, key_of(1) + "x", std::string(1900, 'v')); }));
        ASSERT_OK(eraser.commit());
        ghosts().resume();
    });
    EXPECT_EQ(report().pages.size(), 3u) << "the test is blind";
    pass(20 * kSecond);
    EXPECT_EQ(report().ghosts, 1u) << "the test is blind";
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        EXPECT_TRUE(TRY(index.erase(txn, key_of(2))));
        return {};
    }));
    pass(20 * kSecond);
    EXPECT_EQ(report().ghosts, 0u);
    EXPECT_EQ(report().pages.size(), 1u);
}

// All notes of one index wait for a transaction. Another index has notes of its own.
TEST_F(GhostCleanerTest, ALongDeleteDoesNotStopTheCleaningOfOtherIndexes) {
    open();
    ghosts().limit_leaf_notes(5);
    auto other = store->run([&](Txn& txn) { return store->create_index(txn, "other"); });
    ASSERT_OK(other);
    ASSERT_OK(store->run([&](Txn& txn) { return fill(txn); }));
    bool go = false, ended = false;
    auto deleter = store->start([&]() -> Result<void> {
        TRY(store->run([&](Txn& txn) -> Result<void> {
            TRY(erase_all(txn));
            while (!go) sleep_for(10 * kMillisecond);
            return {};
        }));
        ended = true;
        return {};
    });
    pass(kSecond);
    std::swap(index, *other);
    ASSERT_OK(store->run([&](Txn& txn) { return fill(txn); }));
    ASSERT_OK(store->run([&](Txn& txn) { return erase_all(txn); }));
    pass(20 * kSecond);
    EXPECT_TRUE(all_cleaned()) << report().ghosts << " ghosts, " << report().pages.size()
                               << " pages";
    std::swap(index, *other);
    go = true;
    ASSERT_TRUE(store.step_until([&] { return ended; }));
    ASSERT_OK(deleter.join());
    pass(60 * kSecond);  // five leaves at a time
    EXPECT_TRUE(all_cleaned()) << report().ghosts << " ghosts, " << report().pages.size()
                               << " pages";
}

// Other notes are worked off meanwhile, so the cleaner makes progress all the time.
TEST_F(GhostCleanerTest, ALeafThatStaysLockedForLongIsCleanedAfterwards) {
    open();
    auto other = store->run([&](Txn& txn) { return store->create_index(txn, "other"); });
    ASSERT_OK(other);
    ASSERT_OK(store->run([&](Txn& txn) { return fill(txn); }));
    bool ended = false, beside_ended = false;
    auto beside = store->start([&]() -> Result<void> {
        for (int i = 0; !ended; ++i) {
            TRY(store->run([&](Txn& txn) { return other->insert(txn, key_of(i), "q"); }));
            TRY(store->run([&](Txn& txn) -> Result<void> {
                TRY(other->erase(txn, key_of(i)));
                return {};
            }));
            sleep_for(2 * kMillisecond);
        }
        beside_ended = true;
        return {};
    });
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        TRY(erase_all(txn));
        sleep_for(3 * kSecond);
        return {};
    }));
    const Nanos erased = store.clock().now();
    ASSERT_TRUE(store.step_until([&] { return store.clock().now() > erased + 10 * kSecond; }));
    ended = true;
    ASSERT_TRUE(store.step_until([&] { return beside_ended; }));
    ASSERT_OK(beside.join());
    EXPECT_TRUE(all_cleaned()) << report().ghosts << " ghosts, " << report().pages.size()
                               << " pages";
}

// Each round would report its error.
TEST_F(GhostCleanerTest, AFailedStoreIsNotCleaned) {
    open();
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        TRY(index.insert(txn, "a", "1"));
        return index.insert(txn, "b", "2");
    }));
    store.on_thread([&] {
        ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
            EXPECT_TRUE(TRY(index.erase(txn, "a")));
            return {};
        }));
        ASSERT_GT(ghosts().waiting(), 0u) << "the test is blind";
        store.engine().log->fail_store(
            {.what = "test", .cause = {.code = ErrorCode::io_error, .os = EIO}});
    });
    const Nanos failed = store.clock().now();
    ASSERT_TRUE(store.step_until([&] { return store.clock().now() > failed + 3 * kSecond; }));
    EXPECT_GT(ghosts().waiting(), 0u);
    EXPECT_EQ(log.find("ghost cleaner"), std::string::npos) << log;
    EXPECT_FALSE(store.close());
    closed = true;
}

}  // namespace lockstep::ghost_cleaner_test
