// labels: sim
// sync_again_test.cc - a store that was written without syncs (Options::sync), and is opened with
// them: from then on a power cut takes nothing that was acknowledged, or that this builds upon.
#include <gtest/gtest.h>

#include <string>

#include "tests/sim_store.h"
#include "tests/sm/index_content.h"
#include "tests/sm/test_util.h"

namespace lockstep::sync_again_test {

using threads::SimCrash;
using threads::SimDisk;

class SyncAgain : public ::testing::TestWithParam<SimCrash> {
protected:
    static void put(Store& store, int from, int to) {
        const auto done = store.run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store.index("i"));
            for (int n = from; n < to; ++n)
                TRY(index.put(txn, "key" + std::to_string(10000 + n), std::string(500, 'v')));
            return {};
        });
        ASSERT_OK(done);
    }
    static constexpr int kBefore = 8000, kAfter = 10;  // several segments of log

    // All of it, without a sync.
    void write_without() {
        store_.options().sync = false;
        ASSERT_OK(store_.open());
        store_.on_thread([&] {
            ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
                TRY(store_->create_index(txn, "i"));
                return {};
            }));
            // Its log is needed to the end, also below all checkpoints.
            auto in_doubt = store_->begin();
            ASSERT_OK(in_doubt);
            ASSERT_OK(store_->index("i")->put(*in_doubt, "a key of its own", "v"));
            ASSERT_OK(in_doubt->prepare("gid"));
            for (int n = 0; n < kBefore && !HasFailure(); n += 100) put(*store_, n, n + 100);
        });
        store_.options().sync = true;
    }
    // One commit with syncs, then the power is cut.
    void commit_and_cut() {
        ASSERT_OK(store_.open());
        store_.on_thread([&] { put(*store_, kBefore, kBefore + kAfter); });
        auto cut = disk_.image(7, GetParam());
        store_.abandon();
        SimStore again(*cut);
        ASSERT_OK(again.open());
        again.on_thread([&] {
            EXPECT_TRUE(again->rollback_prepared("gid").value_or(false));
            EXPECT_EQ(index_content(*again, "i").size(), size_t{kBefore + kAfter});
            const auto faults = again->verify();
            ASSERT_OK(faults);
            EXPECT_TRUE(faults->empty());
        });
        ASSERT_OK(again.close());
    }

    SimDisk disk_;
    SimStore store_{disk_};
};

TEST_P(SyncAgain, AfterAClose) {
    write_without();
    ASSERT_OK(store_.close());
    commit_and_cut();
}

TEST_P(SyncAgain, AfterAKill) {
    write_without();
    store_.abandon();
    disk_.close_all();
    commit_and_cut();
}

INSTANTIATE_TEST_SUITE_P(Cuts, SyncAgain, ::testing::ValuesIn(threads::kSimCrashes));

}  // namespace lockstep::sync_again_test
