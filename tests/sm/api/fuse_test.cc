// labels: unit
// fuse_test.cc - durable commits on a file system that ignores RWF_DSYNC: a sync behind each write
// must reach it.
#include <gtest/gtest.h>

#include <lockstep/store.h>
#include "tests/steps_of_run.h"
#include "threads/base/try.h"
#include "tools/faultfs/passthrough.h"

namespace lockstep::fuse_test {

constexpr int kCommits = 40;

class FuseStore : public testing::TestWithParam<IoMethod> {
protected:
    faultfs::Passthrough fuse;
    std::string notes;
    Options options;

    void SetUp() override {
        if (!fuse.why_not().empty()) GTEST_SKIP() << fuse.why_not();
        options.io = GetParam();
        options.pool_bytes = 4 << 20;
        options.log_bytes = 8 << 20;
        options.log_segment_bytes = 1 << 20;
        options.log_ring_bytes = 1 << 20;
        options.steps = steps_of_run();
        options.logger = [this](int, std::string_view text) { notes += std::string(text) + "\n"; };
    }
    Result<Store> open() { return Store::open(fuse.path() + "/store", options); }
    static Result<void> put(Store& store, int n) {
        return store.run([&](Txn& t) -> Result<void> {
            return TRY(store.index("i")).put(t, "key" + std::to_string(n), "value");
        });
    }
    static Result<void> make_index(Store& store) {
        return store.run([&](Txn& t) -> Result<void> {
            TRY(store.create_index(t, "i"));
            return {};
        });
    }
};

TEST_P(FuseStore, EveryDurableCommitSyncs) {
    auto store = open();
    ASSERT_TRUE(store) << store.error().text();
    EXPECT_EQ(store->stats().log_durability, "fdatasync");
    EXPECT_NE(notes.find("fdatasync"), std::string::npos) << notes;
    ASSERT_TRUE(make_index(*store));
    const uint64_t syncs = fuse.count(faultfs::Operation::sync),
                   writes = fuse.count(faultfs::Operation::write);
    // One after the other, so each has a flush of its own.
    for (int n = 0; n < kCommits; ++n) ASSERT_TRUE(put(*store, n));
    EXPECT_GE(fuse.count(faultfs::Operation::write) - writes, uint64_t{kCommits});
    EXPECT_GE(fuse.count(faultfs::Operation::sync) - syncs, uint64_t{kCommits});
    ASSERT_TRUE(store->close());
    store = open();
    ASSERT_TRUE(store) << store.error().text();
    EXPECT_TRUE(store->verify()->empty());
    EXPECT_TRUE(store->close());
}

// LOG-5 for the sync behind a write.
TEST_P(FuseStore, AFailedSyncStopsTheStore) {
    auto store = open();
    ASSERT_TRUE(store) << store.error().text();
    ASSERT_TRUE(make_index(*store));
    fuse.set_plan({.fault = faultfs::Fault::io_error,
                   .operation = faultfs::Operation::sync,
                   .nth = 1,
                   .lasts = true});
    const auto refused = put(*store, 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::store_failed);
    fuse.set_plan({});
    EXPECT_FALSE(put(*store, 2));
    EXPECT_FALSE(store->close());
    store = open();
    ASSERT_TRUE(store) << store.error().text();
    EXPECT_TRUE(put(*store, 3));
    EXPECT_TRUE(store->close());
}

INSTANTIATE_TEST_SUITE_P(Fuse, FuseStore, testing::Values(IoMethod::automatic, IoMethod::pool),
                         [](const auto& info) {
                             return info.param == IoMethod::pool ? "Pool" : "Automatic";
                         });

}  // namespace lockstep::fuse_test
