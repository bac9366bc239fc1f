// labels: sim
// undo_unreadable_test.cc - a rollback that cannot read the log: the store stops,
// acknowledges nothing more, and says why.
#include <gtest/gtest.h>

#include "sm/engine/engine.h"
#include "tests/sim_store.h"
#include "txn/log/log.h"

namespace lockstep::undo_unreadable_test {

class UndoUnreadable : public ::testing::Test {
protected:
    void SetUp() override {
        ASSERT_TRUE(store_.open());
        on_thread([&]() -> Result<void> {
            return store_->run([&](Txn& txn) -> Result<void> {
                TRY(store_->create_index(txn, "i"));
                TRY(store_->create_index(txn, "other"));
                return {};
            });
        });
    }
    void on_thread(std::function<Result<void>()> fn) {
        Result<void> done;
        store_.on_thread([&] { done = fn(); });
        EXPECT_TRUE(done) << done.error().text();
    }
    // So much that what was logged before is in memory no more.
    Result<void> write_log() {
        for (int n = 0; n < 6; ++n)
            TRY(store_->run([&](Txn& txn) -> Result<void> {
                const Index other = TRY(store_->index("other"));
                for (int i = 0; i < 5; ++i)
                    TRY(other.put(txn, "k" + std::to_string(i),
                                  std::string(100'000, static_cast<char>('a' + n))));
                return {};
            }));
        return {};
    }
    void spoil_log() {
        const auto names = disk_.list("/store");
        ASSERT_TRUE(names);
        int spoilt = 0;
        for (const std::string& name : *names) {
            const std::string path = "/store/" + name.substr(name.rfind('/') + 1);
            if (path.find("log") == std::string::npos || path.find("mark") != std::string::npos)
                continue;
            auto file = disk_.open(path, 0);
            if (!file) continue;
            const uint64_t bytes = disk_.size(*file).value_or(0);
            disk_.close(*file);
            for (uint64_t at = 0; at < bytes; at += 512) disk_.spoil_sector(path, at), ++spoilt;
        }
        ASSERT_GT(spoilt, 0);
    }
    // What only the next restart may decide.
    void expect_stopped() {
        EXPECT_TRUE(store_.engine().failed());
        EXPECT_NE(store_.errors().find("rollback failed"), std::string::npos) << store_.errors();
        on_thread([&]() -> Result<void> {
            const auto refused = store_->run([&](Txn& txn) -> Result<void> {
                return TRY(store_->index("i")).put(txn, "x", "y");
            });
            EXPECT_FALSE(refused);
            if (!refused) {
                EXPECT_EQ(refused.error().code, ErrorCode::store_failed) << refused.error().text();
            }
            return {};
        });
        EXPECT_FALSE(store_.close());
    }

    threads::SimDisk disk_;
    SimStore store_{disk_};
};

TEST_F(UndoUnreadable, AbortStopsTheStore) {
    on_thread([&]() -> Result<void> {
        Txn txn = TRY(store_->begin());
        TRY(TRY(store_->index("i")).put(txn, "a", "1"));
        TRY(write_log());
        spoil_log();
        const Lsn before = store_.engine().log->tail();
        const Result<void> aborted = txn.abort();
        EXPECT_FALSE(aborted);
        EXPECT_EQ(store_.engine().log->tail(), before)
            << "an end record says that it was rolled back";
        EXPECT_FALSE(txn.live());
        return {};
    });
    expect_stopped();
}

// A savepoint's rollback that cannot be finished leaves the transaction nothing but to be rolled
// back, which stops the store as well.
TEST_F(UndoUnreadable, RollbackToASavepointFailsThenTheAbortStopsTheStore) {
    on_thread([&]() -> Result<void> {
        Txn txn = TRY(store_->begin());
        TRY(TRY(store_->index("i")).put(txn, "a", "1"));
        const Savepoint savepoint = TRY(txn.savepoint());
        TRY(TRY(store_->index("i")).put(txn, "a", "2"));
        TRY(write_log());
        spoil_log();
        EXPECT_FALSE(txn.rollback_to(savepoint));
        EXPECT_FALSE(store_.engine().failed());
        std::string value;
        EXPECT_FALSE(TRY(store_->index("i")).get(txn, "a", value).has_value());
        EXPECT_FALSE(txn.abort());
        return {};
    });
    expect_stopped();
}

}  // namespace lockstep::undo_unreadable_test
