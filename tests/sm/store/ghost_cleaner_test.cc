// labels: unit sim
// ghost_cleaner_test.cc - what the cleaner makes of notes whose index is dropped, and of a store
// that has failed.
#include "sm/store/ghost_cleaner.h"

#include <string>

#include "tests/sm/store/index_on_sim_store.h"

namespace lockstep {
namespace {

class GhostCleanerTest : public IndexOnSimStore {
protected:
    GhostCleanerTest() : IndexOnSimStore(1) {}
    sm::GhostCleaner& ghosts() { return *store.engine().ghosts; }
};

// A chain that a value had before the last one is no page of the index, so a drop leaves it to the
// cleaner. No time passes for the cleaner's own thread before the test looks.
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
        ASSERT_GT(ghosts().waiting(), 0u) << "the test is blind";
        ASSERT_OK(ghosts().run_once());
        EXPECT_EQ(ghosts().waiting(), 0u);
    });
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

}  // namespace
}  // namespace lockstep
