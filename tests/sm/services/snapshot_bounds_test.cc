// labels: unit
// snapshot_bounds_test.cc - snapshot transactions: how many and how long they may be open, what
// they hold back meanwhile, and what refuses one that is used wrongly.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/sm/services/snapshot_test_util.h"

namespace lockstep::snapshot_bounds_test {

TEST_F(SnapshotTest, TensOfThousandsAtOnce) {
    constexpr size_t kSnapshots = 40'000, kKeys = 7;
    Options options = small_options();
    options.transactions_max = kSnapshots + 100;
    reopen(options);
    on_thread(*store_, [&] {
        std::vector<Txn> open;
        for (size_t i = 0; i < kSnapshots; ++i) {
            if (i % 10 == 0) put("k" + std::to_string(i / 10 % kKeys), std::to_string(i));
            open.push_back(begin(kSnapshot));
        }
        EXPECT_EQ(store_->stats().snapshots_open, kSnapshots);
        for (size_t i = 0; i < kSnapshots; i += 13) {
            const size_t last = i / 10 * 10;
            EXPECT_EQ(get(open[i], "k" + std::to_string(i / 10 % kKeys)), std::to_string(last));
        }
    });
}

// A snapshot has no place in the log that must stay: checkpoints end, and more log than the bound
// is written and recycled.
TEST_F(SnapshotTest, ALongOneHoldsBackNeitherLogNorCheckpoints) {
    Options options = small_options();
    options.log_bytes = 16 << 20;
    reopen(options);
    on_thread(*store_, [&] {
        const std::string before(2000, 'b');
        for (int i = 0; i < 20; ++i) put("k" + std::to_string(i), before);
        Txn snapshot = begin(kSnapshot);
        EXPECT_EQ(scan(snapshot).size(), 20u);
        const auto& log = *sm::engine_of(*store_).log;
        const Lsn began = log.tail();
        const uint64_t enough = began.value + options.log_bytes * 5 / 4;
        for (int round = 0; log.tail().value < enough; ++round) {
            for (int i = 0; i < 20; ++i)
                put("k" + std::to_string(i),
                    std::string(2000, static_cast<char>('c' + round % 20)));
            Txn gives_up = begin(kWriter);
            put(gives_up, "k0", "rolled back");
            ASSERT_OK(gives_up.abort());
            if (round % 100 == 0) ASSERT_OK(store_->checkpoint());
        }
        ASSERT_OK(store_->checkpoint());
        EXPECT_GT(log.start(), began);
        EXPECT_LT(log.used_bytes(), options.log_bytes / 2);
        for (int i = 0; i < 20; ++i) EXPECT_EQ(get(snapshot, "k" + std::to_string(i)), before);
        ASSERT_OK(snapshot.commit());
    });
}

TEST_F(SnapshotTest, TheAgeOfTheOldestIsTold) {
    EXPECT_EQ(store_->stats().snapshot_oldest_nanos, 0u);
    on_thread(*store_, [&] {
        Txn first = begin(kSnapshot);
        sleep_for(30 * kMillisecond);
        Txn second = begin(kSnapshot);
        EXPECT_GE(store_->stats().snapshot_oldest_nanos, 25 * kMillisecond);
        ASSERT_OK(first.commit());
        sleep_for(5 * kMillisecond);
        const Nanos age = store_->stats().snapshot_oldest_nanos;
        EXPECT_GT(age, 0u);
        sleep_for(20 * kMillisecond);
        EXPECT_GE(store_->stats().snapshot_oldest_nanos, age + 15 * kMillisecond);
    });
    EXPECT_EQ(store_->stats().snapshot_oldest_nanos, 0u);
}

TEST_F(SnapshotTest, IsRefusedOnAnotherThreadAndBehindItsEnd) {
    std::optional<Txn> kept;
    const Index rows = index();
    std::string text;
    on_thread(*store_, [&] {
        put("a", "1");
        Txn snapshot = begin(kSnapshot);
        auto other = store_->start([&]() -> Result<void> {
            std::string value;
            EXPECT_EQ(code_of(rows.get(snapshot, "a", value)), ErrorCode::wrong_thread);
            EXPECT_EQ(code_of(rows.scan(snapshot).next()), ErrorCode::wrong_thread);
            EXPECT_EQ(code_of(snapshot.commit()), ErrorCode::wrong_thread);
            return {};
        });
        ASSERT_OK(other.join());
        EXPECT_EQ(get(snapshot, "a"), "1");  // it has lost nothing
        Cursor cursor = rows.scan(snapshot);
        ASSERT_TRUE(*cursor.next());
        ASSERT_OK(snapshot.commit());
        EXPECT_EQ(code_of(rows.get(snapshot, "a", text)), ErrorCode::txn_ended);
        EXPECT_EQ(code_of(cursor.next()), ErrorCode::txn_ended);
        EXPECT_EQ(code_of(snapshot.commit()), ErrorCode::txn_ended);
        kept.emplace(std::move(snapshot));
    });
    ASSERT_OK(store_->close());
    EXPECT_EQ(code_of(rows.get(*kept, "a", text)), ErrorCode::txn_ended);
    EXPECT_EQ(code_of(kept->commit()), ErrorCode::txn_ended);
    kept.reset();
    store_.reset();
}

}  // namespace lockstep::snapshot_bounds_test
