// labels: tsan
// change_feed_live_test.cc - feeds of a store on a real disk, while kernel threads write to it.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include <lockstep/changes.h>
#include <lockstep/store.h>
#include "tests/optimistic_readers.h"  // keep
#include "tests/own_directory.h"
#include "tests/sm/test_util.h"
#include "tests/steps_of_run.h"
#include "threads/base/try.h"

namespace lockstep::change_feed_live_test {

constexpr int kWriters = 3, kTransactions = 40;

class ChangeFeedLive : public ::testing::Test {
protected:
    ~ChangeFeedLive() override { std::filesystem::remove_all(root_); }
    Store open(bool read_only = false, uint64_t changes_log_bytes = 16 << 20) {
        Options options;
        options.read_only = read_only;
        options.workers = 2;
        options.pool_bytes = 16 << 20;
        options.log_bytes = 64 << 20;
        options.log_segment_bytes = 1 << 20;
        options.log_ring_bytes = 4 << 20;
        options.changes_log_bytes = changes_log_bytes;
        options.steps = steps_of_run();
        auto store = Store::open(root_ + "/store", options);
        CHECK(store.has_value());
        return std::move(*store);
    }
    static void write(Store& store, int writer) {
        const Index index = *store.index("i");
        for (int n = 0; n < kTransactions; ++n) {
            const auto body = [&](Txn& txn) -> Result<void> {
                const std::string key = std::to_string(writer) + "." + std::to_string(n % 10);
                if (n % 7 == 6) TRY(index.erase(txn, key));
                else TRY(index.put(txn, key, std::string(n % 5 == 0 ? 9000 : 30, 'a' + n % 26)));
                TRY(index.put(txn, "all", std::to_string(writer) + "/" + std::to_string(n)));
                if (n % 9 == 8) return Error::user(1, "undone");
                return {};
            };
            const auto done = store.run(body, {.durability = Durability::lazy});
            ASSERT_TRUE(done.has_value() || done.error().code == ErrorCode::user_error);
        }
    }
    // Follows the feed until the record "stop" comes.
    static Result<std::map<std::string, std::string>> follow(ChangeFeed& feed) {
        std::map<std::string, std::string> records;
        for (Change change; TRY(feed.next(change, 20 * kSecond));) {
            std::string& value = records[std::string(change.key)];
            switch (change.kind) {
                case ChangeKind::insert:
                case ChangeKind::update: value = change.value; break;
                case ChangeKind::patch:
                    value.replace(change.offset, change.old->size(), change.value);
                    break;
                default: records.erase(std::string(change.key)); break;
            }
            if (change.key == "stop") return records;
        }
        return fail(ErrorCode::timeout, "feed");
    }

    const std::string root_ = make_own_directory("change-feed");
};

TEST_F(ChangeFeedLive, FollowsWritersFromAnyKernelThread) {
    Store store = open();
    ASSERT_OK(store.run([&](Txn& txn) { return store.create_index(txn, "i"); }));
    const auto read = [&] {
        auto feed = store.changes(kChangesFromOldest);
        ASSERT_OK(feed);
        const auto records = follow(*feed);
        ASSERT_OK(records);
        const auto seen = store.index("i")->scan({}, {}, [&](Slice key, Slice value) {
            const auto at = records->find(std::string(key));
            EXPECT_TRUE(at != records->end() && at->second == value) << key;
            return true;
        });
        ASSERT_OK(seen);
        EXPECT_EQ(*seen, records->size());
    };
    std::vector<std::thread> threads;
    for (int writer = 0; writer < kWriters; ++writer)
        threads.emplace_back([&, writer] { write(store, writer); });
    std::thread foreign(read);
    auto inside = store.start([&]() -> Result<void> {
        read();
        return {};
    });
    for (std::thread& thread : threads) thread.join();
    ASSERT_OK(store.index("i")->put("stop", "."));
    foreign.join();
    ASSERT_OK(inside.join());
}

// While others append, the end of the log is never durable.
TEST_F(ChangeFeedLive, GivesADurableCommitAtOnce) {
    Store store = open(false, 0);
    ASSERT_OK(store.run([&](Txn& txn) { return store.create_index(txn, "i"); }));
    std::atomic<bool> over{false};
    std::thread writer([&] {
        while (!over) write(store, 0);
    });
    auto feed = store.changes();
    ASSERT_OK(feed);
    for (int n = 0; n < 200; ++n) {
        const std::string key = "mine " + std::to_string(n);
        ASSERT_OK(store.index("i")->put(key, "."));
        bool told = false;
        for (Change change; !told && feed->next(change).value_or(false);) told = change.key == key;
        EXPECT_TRUE(told) << n;
    }
    over = true;
    writer.join();
}

TEST_F(ChangeFeedLive, GoesOnAfterAnOpen) {
    std::string position;
    for (int run = 0; run < 3; ++run) {
        Store store = open();
        const auto index =
            store.run([&](Txn& txn) { return store.open_or_create_index(txn, "i"); });
        ASSERT_OK(index);
        if (position.empty()) position = store.changes()->position();
        ASSERT_OK(index->put("k" + std::to_string(run), "v"));
        if (run == 1) continue;  // the feed is not read in this run
        auto feed = store.changes(position);
        ASSERT_OK(feed);
        Change change;
        for (int n = run == 0 ? 0 : 1; n <= run; ++n) {
            ASSERT_TRUE(feed->next(change, 20 * kSecond).value_or(false));
            EXPECT_EQ(change.key, "k" + std::to_string(n));
            EXPECT_NE(change.time, 0u);
            ASSERT_TRUE(feed->next(change, 20 * kSecond).value_or(false));
            EXPECT_EQ(change.kind, ChangeKind::commit);
        }
        const auto more = feed->next(change);
        EXPECT_FALSE(more.value_or(true));
        position = feed->position();
        ASSERT_OK(store.close());
    }
    // Of a store that is only read, to its last record.
    Store store = open(true);
    auto feed = store.changes(kChangesFromOldest);
    ASSERT_OK(feed);
    std::string keys;
    Change change;
    for (auto next = feed->next(change); next.value_or(false); next = feed->next(change))
        keys += change.key;
    EXPECT_EQ(keys, "k0k1k2");
}

TEST_F(ChangeFeedLive, ACloseEndsTheWait) {
    Store store = open();
    auto feed = store.changes();
    ASSERT_OK(feed);
    std::atomic<bool> waits{false};
    std::thread waiter([&] {
        Change change;
        waits = true;
        const auto next = feed->next(change, kNever);
        ASSERT_FALSE(next.has_value());
        EXPECT_EQ(next.error().code, ErrorCode::store_closed);
    });
    while (!waits) sleep_for(kMillisecond);
    auto inside = store.start([&]() -> Result<void> {
        auto own = TRY(store.changes());
        Change change;
        const auto next = own.next(change, kNever);
        EXPECT_TRUE(!next.has_value() && next.error().code == ErrorCode::store_closed);
        return {};
    });
    sleep_for(5 * kMillisecond);
    ASSERT_OK(store.close());
    waiter.join();
    ASSERT_OK(inside.join());
}

}  // namespace lockstep::change_feed_live_test
