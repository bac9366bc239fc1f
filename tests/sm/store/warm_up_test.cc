// labels: sim
// warm_up_test.cc - Options::warm_up: the pool is filled after an open, and nothing is lost by it.
#include <gtest/gtest.h>

#include "sm/space/space_map.h"
#include "tests/sm/backup/archive_test_util.h"

namespace lockstep {
namespace {

using threads::SimDisk;

constexpr int kRecords = 4000;
constexpr size_t kValueBytes = 900;

class WarmUpTest : public ::testing::Test {
protected:
    void SetUp() override {
        SimStore store(disk_, 1);
        store.options().pool_bytes = 16 << 20;
        ASSERT_OK(store.open());
        store.on_thread([&] {
            Commits::make_index(*store);
            for (int first = 0; first < kRecords; first += 100)
                ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
                    const Index index = TRY(store->index("i"));
                    for (int i = first; i < first + 100; ++i)
                        TRY(index.put(txn, key(i), std::string(kValueBytes, 'v')));
                    return {};
                }));
            pages_used_ = store.engine().space->pages_used();
        });
        ASSERT_OK(store.close());
    }
    static std::string key(int i) { return "key" + std::to_string(100000 + i); }
    static void wait() { threads::sleep_until(threads::now() + 10 * kSecond); }

    SimDisk disk_{{.seed = 1}};
    uint64_t pages_used_ = 0;
};

TEST_F(WarmUpTest, ReadsWhatThePoolHasRoomFor) {
    for (const bool on : {true, false}) {
        SimStore store(disk_, 2);
        store.options().pool_bytes = 16 << 20;
        store.options().warm_up = on;
        ASSERT_OK(store.open());
        store.on_thread([&] {
            wait();
            const StoreStats before = store->stats();
            EXPECT_EQ(before.pool_resident >= pages_used_ - 2, on) << before.pool_resident;
            EXPECT_EQ(content_of(*store).size(), size_t{kRecords});
            EXPECT_EQ(store->stats().page_reads == before.page_reads, on);
        });
        ASSERT_OK(store.close());
    }
}

TEST_F(WarmUpTest, EvictsNothingFromASmallPool) {
    SimStore store(disk_, 3);
    store.options().pool_bytes = 4 << 20;
    ASSERT_LT(store.options().pool_bytes, pages_used_ * kPageBytes);
    store.options().warm_up = true;
    ASSERT_OK(store.open());
    store.on_thread([&] {
        wait();
        EXPECT_EQ(store->stats().evictions, 0u);
        EXPECT_GT(store->stats().pool_resident, 100u);
        EXPECT_EQ(content_of(*store).size(), size_t{kRecords});
    });
    ASSERT_OK(store.close());
}

TEST_F(WarmUpTest, ACloseEndsIt) {
    for (int n = 0; n < 5; ++n) {
        SimStore store(disk_, 10 + static_cast<uint64_t>(n));
        store.options().pool_bytes = 16 << 20;
        store.options().warm_up = true;
        ASSERT_OK(store.open());
        store.on_thread([&] { threads::sleep_until(threads::now() + n * 50 * kMicrosecond); });
        ASSERT_OK(store.close());
    }
    EXPECT_EQ(opened(disk_, "/store").size(), size_t{kRecords});
}

// Writers meanwhile: what is read is never an older state of a page.
TEST_F(WarmUpTest, DoesNotUndoWhatIsWrittenMeanwhile) {
    SimStore store(disk_, 4);
    store.options().pool_bytes = 16 << 20;
    store.options().warm_up = true;
    ASSERT_OK(store.open());
    store.on_thread([&] {
        for (int i = kRecords - 1; i >= 0; i -= 3)
            ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
                return TRY(store->index("i")).put(txn, key(i), "new");
            }));
        wait();
        const Content content = content_of(*store);
        for (int i = kRecords - 1; i >= 0; i -= 3) EXPECT_EQ(content.at(key(i)), "new") << i;
        const auto faults = store->verify();
        EXPECT_TRUE(faults && faults->empty());
    });
    ASSERT_OK(store.close());
}

TEST_F(WarmUpTest, AStoreThatIsOnlyReadToo) {
    SimStore store(disk_, 5);
    store.options().pool_bytes = 16 << 20;
    store.options().warm_up = true;
    store.options().read_only = true;
    ASSERT_OK(store.open());
    store.on_thread([&] {
        wait();
        EXPECT_GE(store->stats().pool_resident, pages_used_ - 2);
    });
    ASSERT_OK(store.close());
}

}  // namespace
}  // namespace lockstep
