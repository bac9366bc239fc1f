// labels: sim
// restart_refused_test.cc - a restart that fails anywhere: the store is refused and
// what it holds stays, so that the next restart finds it all.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "sm/engine/engine.h"
#include "tests/sim_store.h"

namespace lockstep::restart_refused_test {

using threads::SimCrash;
using threads::SimDisk;
using threads::SimFault;

constexpr int kKeys = 60;
std::string key_of(int n) { return "k" + std::to_string(100 + n); }

class RestartRefused : public ::testing::Test {
protected:
    // Winners that only the log knows, losers on pages that only the volume has, each with an index
    // of its own.
    void SetUp() override {
        SimStore store(disk_);
        ASSERT_TRUE(store.open());
        store.on_thread([&] {
            EXPECT_TRUE(store->run([&](Txn& txn) -> Result<void> {
                for (const char* name : {"old", "new", "lost"}) TRY(store->create_index(txn, name));
                return {};
            }));
            EXPECT_TRUE(store->run([&](Txn& txn) { return put_all(*store, txn, "old", "old"); }));
            auto first = store->begin(), second = store->begin();
            ASSERT_TRUE(first && second);
            EXPECT_TRUE(store->index("old")->put(*first, key_of(0), "gone"));
            EXPECT_TRUE(put_all(*store, *second, "lost", "gone"));
            EXPECT_TRUE(store->checkpoint());
            EXPECT_TRUE(store->run([&](Txn& txn) { return put_all(*store, txn, "new", "new"); }));
            crashed_ = disk_.image(1, SimCrash::keep_all);
            EXPECT_TRUE(first->abort());
            EXPECT_TRUE(second->abort());
        });
        ASSERT_TRUE(store.close());
    }
    static Result<void> put_all(Store& store, Txn& txn, const char* name,
                                const std::string& value) {
        const Index index = TRY(store.index(name));
        for (int n = 0; n < kKeys; ++n)
            TRY(index.put(txn, key_of(n), value + std::string(400, '.')));
        return {};
    }
    static void expect_whole(SimStore& store) {
        store.on_thread([&] {
            for (const char* name : {"old", "new", "lost"}) {
                int records = 0;
                const auto read = store->run([&](Txn& txn) -> Result<void> {
                    Cursor cursor = TRY(store->index(name)).scan(txn);
                    for (; TRY(cursor.next()); ++records)
                        EXPECT_EQ(std::string(cursor.value()).substr(0, 3), name);
                    return {};
                });
                EXPECT_TRUE(read) << name << ": " << read.error().text();
                EXPECT_EQ(records, std::string_view(name) == "lost" ? 0 : kKeys) << name;
            }
            const auto faults = store->verify();
            ASSERT_TRUE(faults);
            for (const std::string& fault : *faults) ADD_FAILURE() << fault;
        });
    }
    // The n-th opportunity of a kind fails while the store is opened, for each n; returns how many
    // openings were refused.
    int refuse_each(SimFault kind) {
        int refused = 0;
        for (uint64_t n = 1; !HasFailure(); ++n) {
            auto disk = crashed_->image(1, SimCrash::keep_all);
            disk->faults().fail_nth(kind, n);
            {
                SimStore store(*disk);
                const auto opened = store.open();
                refused += !opened;
                disk->faults().enable(false);
                // A write that nobody waits for may fail late.
                for (int steps = 0; opened && steps < 1000; ++steps) store.step();
                if (opened && !store.engine().failed()) expect_whole(store);
                store.abandon();
            }
            if (disk->faults().count(kind) == 0) return refused;
            disk->close_all();
            SimStore again(*disk);
            const auto opened = again.open();
            EXPECT_TRUE(opened) << sim_fault_name(kind) << " " << n << ": "
                                << opened.error().text();
            if (!opened) return refused;
            expect_whole(again);
            EXPECT_TRUE(again.close()) << sim_fault_name(kind) << " " << n;
        }
        return refused;
    }

    SimDisk disk_;
    std::unique_ptr<SimDisk> crashed_;
};

TEST_F(RestartRefused, ByAReadThatFails) { EXPECT_GT(refuse_each(SimFault::read_error), 10); }
TEST_F(RestartRefused, ByAWriteThatFails) { EXPECT_GT(refuse_each(SimFault::write_error), 0); }
TEST_F(RestartRefused, ByASyncThatFails) { EXPECT_GT(refuse_each(SimFault::sync_error), 0); }

}  // namespace lockstep::restart_refused_test
