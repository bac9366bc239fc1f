// labels: unit
// handle_cancel_test.cc - Handle::cancel(): before the function begins, inside transactions,
// between them, and during close().
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::handle_cancel_test {

class HandleCancel : public StoreCrash {
protected:
    static Options patient() {
        Options options = small_options();
        options.lock_timeout = 3600 * kSecond;
        return options;
    }
    // A transaction that has changed "k" and then calls `then`.
    template <class Then>
    Handle<void> writer(Store& store, Then then) {
        running = false;
        auto handle = store.spawn([this, &store, then](Txn& txn) -> Result<void> {
            TRY(TRY(store.index("i")).put(txn, "k", "changed"));
            running = true;
            return then(txn);
        });
        await([&] { return running.load(); });
        return handle;
    }
    std::atomic<bool> go{false}, running{false};
};

// One worker that another function keeps busy.
TEST_F(HandleCancel, AFunctionThatHasNotBegunNeverDoes) {
    Store store = open("db");
    std::atomic<bool> busy{false};
    auto first = store.start([&]() -> Result<void> {
        busy = true;
        while (!go.load()) std::this_thread::yield();  // the kernel's: the worker stays here
        return {};
    });
    await([&] { return busy.load(); });
    const auto captured = std::make_shared<int>(1);
    bool called = false;
    auto second = store.start([&called, captured]() -> Result<int> { return called = true; });
    auto third = store.spawn([&called, captured](Txn&) -> Result<int> { return called = true; });
    ASSERT_OK(second.cancel());
    ASSERT_OK(second.cancel());
    ASSERT_OK(third.cancel());
    ASSERT_OK(second.started());
    EXPECT_FALSE(second.ready());
    std::atomic<int> calls{0};
    ASSERT_OK(third.then([&](Result<int> r) {
        EXPECT_EQ(captured.use_count(), 1);
        calls += code_of(r) == ErrorCode::cancelled;
    }));
    go = true;
    const auto cancelled = second.join();
    ASSERT_FALSE(cancelled);
    EXPECT_EQ(cancelled.error().code, ErrorCode::cancelled);
    EXPECT_EQ(cancelled.error().text().find("wait"), std::string::npos) << cancelled.error().text();
    ASSERT_OK(first.join());
    ASSERT_OK(store.close());
    EXPECT_EQ(calls, 1);
    EXPECT_FALSE(called);
}

// Its thread sleeps between two calls: the locks are free before it calls again.
TEST_F(HandleCancel, ARunningTransactionIsRolledBack) {
    Store store = open("db", patient());
    make(store, "i", "h");
    std::atomic<bool> slept{false};
    auto handle = writer(store, [&](Txn& txn) -> Result<void> {
        while (!go.load()) sleep_for(kMillisecond);
        slept = true;
        EXPECT_TRUE(cancel_requested());
        std::string value;
        const auto again = store.index("i")->get(txn, "k", value);
        EXPECT_EQ(code_of(again), ErrorCode::cancelled);
        return {};  // it does not care
    });
    ASSERT_OK(handle.cancel());
    ASSERT_OK(store.run([&](Txn& txn) { return store.index("i")->put(txn, "k", "mine"); }));
    EXPECT_FALSE(slept.load());
    go = true;
    EXPECT_EQ(code_of(handle.join()), ErrorCode::cancelled);
    EXPECT_EQ(index_content(store, "i").at("k"), "mine");
    expect_sound(store);
    ASSERT_OK(store.close());
}

TEST_F(HandleCancel, AWaitForALockEndsAndOthersGoOn) {
    Store store = open("db", patient());
    make(store, "i", "h");
    auto holder = writer(store, [&](Txn&) -> Result<void> {
        while (!go.load()) sleep_for(kMillisecond);
        EXPECT_FALSE(cancel_requested());
        return {};
    });
    auto waiter = store.spawn(
        [&](Txn& txn) -> Result<void> { return store.index("i")->put(txn, "k", "other"); });
    await([&] { return store.stats().lock_waits > 0; });
    ASSERT_OK(waiter.cancel());
    EXPECT_EQ(code_of(waiter.join()), ErrorCode::cancelled);
    go = true;
    ASSERT_OK(holder.join());
    EXPECT_EQ(index_content(store, "i").at("k"), "changed");
    ASSERT_OK(store.close());
}

// Between its transactions a loop cannot be interrupted; one of the next is.
TEST_F(HandleCancel, ALoopOfTransactionsEnds) {
    for (const uint32_t workers : {1u, 2u}) {
        Store store = open("db" + std::to_string(workers), small_options(workers));
        make(store, "i", "h");
        std::atomic<int> committed{0};
        auto handle = store.start([&]() -> Result<void> {
            for (uint32_t n = 0;; ++committed)
                TRY(store.run([&](Txn& txn) -> Result<void> {
                    const Index index = TRY(store.index("i"));
                    for (int i = 0; i < 10; ++i)
                        TRY(index.put(txn, Key().u32(n++ % 1000), "v")), yield();
                    return {};
                }));
        });
        await([&] { return committed > 10; });
        ASSERT_OK(handle.cancel());
        EXPECT_EQ(code_of(handle.join()), ErrorCode::cancelled);
        expect_sound(store);
        ASSERT_OK(store.close());
    }
}

TEST_F(HandleCancel, AComputationAsks) {
    Store store = open("db");
    auto handle = store.start([&]() -> Result<int> {
        running = true;
        while (!cancel_requested()) yield();
        return 5;  // its own decision
    });
    EXPECT_FALSE(cancel_requested());
    await([&] { return running.load(); });
    ASSERT_OK(handle.cancel());
    EXPECT_EQ(handle.join().value_or(0), 5);
    ASSERT_OK(store.close());
}

TEST_F(HandleCancel, AfterTheEndItHasNoEffect) {
    Store store = open("db");
    auto handle = store.start([]() -> Result<int> { return 5; });
    await([&] { return handle.ready(); });
    ASSERT_OK(handle.cancel());
    EXPECT_EQ(handle.join().value_or(0), 5);
    ASSERT_OK(store.close());
    auto late = store.start([]() -> Result<int> { return 5; });
    ASSERT_OK(late.cancel());
    EXPECT_EQ(code_of(late.join()), ErrorCode::store_closed);
}

// close() waits for a function that would never end; cancel() reaches it all the same.
TEST_F(HandleCancel, DuringClose) {
    Store store = open("db", patient());
    make(store, "i", "h");
    auto holder = writer(store, [&](Txn& txn) -> Result<void> {
        for (std::string value;; sleep_for(kMillisecond))
            TRY(store.index("i")->get(txn, "k", value));
    });
    std::atomic<int> calls{0};
    ASSERT_OK(holder.then([&](Result<void> r) { calls += code_of(r) == ErrorCode::cancelled; }));
    std::thread closer([&] { EXPECT_TRUE(store.close()); });
    await([&] {
        return code_of(store.start([]() -> Result<int> { return 1; }).started()) ==
               ErrorCode::store_closed;
    });
    EXPECT_EQ(calls, 0);
    ASSERT_OK(holder.cancel());
    closer.join();
    EXPECT_EQ(calls, 1);
}

// cancel() and the end of the function meet at random.
TEST_F(HandleCancel, MeetsTheEnd) {
    constexpr int kTasks = 1000;
    Store store = open("db", small_options(2));
    make(store, "i", "h");
    int cancelled = 0;
    for (int n = 0; n < kTasks; ++n) {
        auto handle = store.spawn(
            [&, n](Txn& txn) -> Result<int> {
                for (int i = 0; i < n % 7; ++i) yield();
                TRY(TRY(store.index("i")).put(txn, Key().u32(uint32_t(n)), "v"));
                return n;
            },
            {.durability = Durability::lazy});
        for (int i = 0; i < n % 5; ++i) sched_yield();
        ASSERT_OK(handle.cancel());
        const auto result = handle.join();
        if (!result) {
            EXPECT_EQ(result.error().code, ErrorCode::cancelled) << result.error().text();
            ++cancelled;
        }
    }
    EXPECT_EQ(index_content(store, "i").size(), size_t(kTasks - cancelled));
    expect_sound(store);
    ASSERT_OK(store.close());
}

}  // namespace lockstep::handle_cancel_test
