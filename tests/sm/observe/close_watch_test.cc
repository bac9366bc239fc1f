// labels: unit
// close_watch_test.cc - what close() says while it waits for functions of the application.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/sm/store_crash_util.h"

namespace lockstep::close_watch_test {

class CloseWatch : public StoreCrash {
protected:
    Options options() {
        Options o = small_options(2);
        o.slice_warning = std::nullopt;  // it would warn of a machine that stands still
        o.logger = [this](int level, std::string_view text) {
            const std::lock_guard guard(mutex_);
            if (level == 1) warnings_ += std::string(text) + "\n";
        };
        return o;
    }
    std::string warnings() {
        const std::lock_guard guard(mutex_);
        return warnings_;
    }

    std::mutex mutex_;
    std::string warnings_;  // under mutex_
};

TEST_F(CloseWatch, NamesTheTransactionsThatItWaitsFor) {
    Store store = open("a", options());
    const auto rows =
        store.run([&](Txn& txn) { return store.create_index(txn, "rows"); }).value_or(Index{});
    std::atomic<uint64_t> id{0};
    std::atomic<bool> go{false};
    (void)store.spawn([&, rows](Txn& txn) -> Result<void> {
        LOCKSTEP_TRY(rows.put(txn, "k", "v"));
        id = txn.id().value;
        while (!go) sleep_for(kMillisecond);
        return {};
    });
    while (id == 0) sleep_for(kMillisecond);
    std::thread closer([&] { EXPECT_TRUE(store.close()); });
    for (int n = 0; n < 10'000 && !warnings().contains("transactions: "); ++n)
        sleep_for(kMillisecond);
    const std::string said = warnings();
    go = true;
    closer.join();
    EXPECT_TRUE(said.contains("close() has waited 1 s for functions of the application")) << said;
    EXPECT_TRUE(said.contains("transactions: " + std::to_string(id) + " (idle, user thread "))
        << said;
}

// A worker that is blocked reports no transactions.
TEST_F(CloseWatch, SpeaksEvenIfAWorkerIsBlocked) {
    Options blocked = options();
    blocked.workers = 1;
    blocked.slice_warning = std::nullopt;
    Store store = open("a", blocked);
    std::mutex held;
    held.lock();
    (void)store.start([&]() -> Result<void> {
        const std::lock_guard guard(held);
        return {};
    });
    std::thread closer([&] { EXPECT_TRUE(store.close()); });
    for (int n = 0; n < 10'000 && warnings().empty(); ++n) sleep_for(kMillisecond);
    EXPECT_TRUE(warnings().contains("close() has waited 1 s for functions of the application"))
        << warnings();
    held.unlock();
    closer.join();
}

// Functions have left transactions open. Another one waits for a slot of theirs, or for a lock.
TEST_F(CloseWatch, EndsWhatIsLeftOpen) {
    for (const bool for_lock : {false, true}) {
        Options o = options();
        o.transactions_max = 16;
        o.lock_timeout = kNever;
        Store store = open(for_lock ? "a" : "b", o);
        const auto rows =
            store.run([&](Txn& txn) { return store.create_index(txn, "rows"); }).value_or(Index{});
        std::vector<Txn> kept;
        const auto left = store.start([&]() -> Result<void> {
            while (kept.size() < (for_lock ? 1 : 16)) kept.push_back(LOCKSTEP_TRY(store.begin()));
            return rows.put(kept[0], "k", "left");
        });
        await([&] { return left.ready(); });
        std::atomic<bool> begins{false};
        auto next = store.start([&]() -> Result<void> {
            begins = true;
            return store.run([&](Txn& txn) { return rows.put(txn, "k", "next"); });
        });
        await([&] { return begins.load(); });
        EXPECT_TRUE(store.close());
        EXPECT_TRUE(next.join());
        EXPECT_TRUE(warnings().contains("was left open by its thread and is rolled back"));
    }
}

TEST_F(CloseWatch, AShortWaitSaysNothing) {
    Store store = open("a", options());
    (void)store.start([]() -> Result<void> {
        sleep_for(50 * kMillisecond);
        return {};
    });
    EXPECT_TRUE(store.close());
    EXPECT_EQ(warnings(), "");
}

}  // namespace lockstep::close_watch_test
