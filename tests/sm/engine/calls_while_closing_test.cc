// labels: unit
// calls_while_closing_test.cc - kernel threads that use a store, or close it too, while another
// one closes it; and a store that one of its own user threads destroys.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/offload.h>
#include "tests/sm/store_crash_util.h"

namespace lockstep::calls_while_closing_test {

class CallsWhileClosing : public StoreCrash {
protected:
    Options options() {
        Options o = small_options(2);
        o.logger = nullptr;
        return o;
    }
};

bool refused(const Error& error) { return error.code == ErrorCode::store_closed; }

// Each call, until it tells that the store is closed.
using UntilClosed = std::function<bool(Store&, Index)>;
const UntilClosed kCalls[] = {
    [](Store& store, Index rows) {
        const auto done = store.run([&](Txn& txn) { return rows.put(txn, "k", "v"); },
                                    {.durability = Durability::lazy});
        EXPECT_TRUE(done || refused(done.error())) << done.error().text();
        return !done;
    },
    [](Store& store, Index) {
        auto done = store.start([]() -> Result<int> { return 1; }).join();
        EXPECT_TRUE(done || refused(done.error()));
        return !done;
    },
    [](Store& store, Index) { return store.metrics().empty(); },
    [](Store& store, Index) {
        (void)store.stats(), (void)store.transactions(), (void)store.prepared();
        (void)store.failure(), (void)store.steps_options(), (void)store.steps_stats();
        return store.list().empty();
    },
    [](Store& store, Index) {
        const auto found = store.index("rows");
        EXPECT_TRUE(found || refused(found.error()));
        return !found;
    },
    [](Store& store, Index) {
        const auto done = store.commit_prepared("none");
        EXPECT_TRUE(done.has_value() || refused(done.error()));
        return !done.has_value();
    }};

TEST_F(CallsWhileClosing, FindAStoreOrNone) {
    constexpr int kRounds = 30, kRefused = 200;
    for (int round = 0; round < kRounds; ++round) {
        Store store = open("a", options());
        const auto rows = store.run([&](Txn& t) { return store.open_or_create_index(t, "rows"); });
        ASSERT_TRUE(rows);
        std::atomic<size_t> begun{0};
        std::vector<std::thread> threads;
        for (const UntilClosed& closed : kCalls)
            threads.emplace_back([&] {
                ++begun;
                for (int n = 0; n < kRefused;) n += closed(store, *rows);
            });
        while (begun < std::size(kCalls)) sleep_for(100 * kMicrosecond);
        sleep_for(kMillisecond);
        EXPECT_TRUE(store.close());
        for (std::thread& t : threads) t.join();
    }
}

TEST_F(CallsWhileClosing, SeveralThreadsMayClose) {
    for (int round = 0; round < 20; ++round) {
        Store store = open("a", options());
        std::vector<std::thread> threads;
        std::atomic<int> closed{0};
        for (int n = 0; n < 4; ++n)
            threads.emplace_back([&] {
                EXPECT_TRUE(store.close());
                // Each of them finds it closed, and not on the way.
                EXPECT_TRUE(Store::open(path("a"), {.read_only = true, .logger = nullptr}));
                ++closed;
            });
        for (std::thread& t : threads) t.join();
        EXPECT_EQ(closed, 4);
    }
}

// On one worker, so that a closer which blocked it would wait for ever.
TEST_F(CallsWhileClosing, OnUserThreadsOfAnotherStore) {
    Store other = open("b", small_options(1)), store = open("a", options());
    std::atomic<bool> inside{false};
    auto caller = other.start([&] {
        return store.run([&](Txn&) -> Result<void> {
            inside = true;
            sleep_for(10 * kMillisecond);
            return {};
        });
    });
    const auto close = [&] {
        while (!inside) yield();
        return store.close();
    };
    auto first = other.start(close), second = other.start(close);
    EXPECT_TRUE(caller.join());
    EXPECT_TRUE(first.join());
    EXPECT_TRUE(second.join());
    EXPECT_TRUE(Store::open(path("a"), {.read_only = true, .logger = nullptr}));
}

// A function of the closing store needs the worker of the closer.
TEST_F(CallsWhileClosing, AFunctionMayWaitForTheClosersStore) {
    Store other = open("b", small_options(1)), store = open("a", options());
    std::atomic<bool> closes{false};
    auto caller = store.start([&]() -> Result<void> {
        while (!closes) yield();
        while (store.start([]() -> Result<void> { return {}; }).started()) yield();
        return other.run([](Txn&) -> Result<void> { return {}; });
    });
    auto closer = other.start([&] {
        closes = true;
        return store.close();
    });
    EXPECT_TRUE(closer.join());
    EXPECT_TRUE(caller.join());
    EXPECT_TRUE(Store::open(path("a"), {.read_only = true, .logger = nullptr}));
}

// A user thread waits for the function, and close() would wait for the user thread.
TEST_F(CallsWhileClosing, ItsOwnOffloadMayNotClose) {
    Store other = open("b", options()), store = open("a", options());
    auto caller = store.start([&] {
        return offload([&]() -> Result<void> {
            EXPECT_TRUE(other.close());
            const auto closed = store.close();
            EXPECT_TRUE(!closed && closed.error().code == ErrorCode::wrong_thread);
            return {};
        });
    });
    EXPECT_TRUE(caller.join());
    EXPECT_TRUE(store.close());
}

using CallsWhileClosingDeathTest = CallsWhileClosing;

TEST_F(CallsWhileClosingDeathTest, AStoreIsNotDestroyedOnItsOwnThread) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            auto* const store = new Store(open("a", options()));
            (void)store
                ->start([store]() -> Result<void> {
                    delete store;
                    return {};
                })
                .join();
        },
        "destroyed, or assigned to, on one of its own user threads");
}

TEST_F(CallsWhileClosingDeathTest, NorInItsOffload) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            auto* const store = new Store(open("a", options()));
            (void)store->start([store] { return offload([store] { delete store; }); }).join();
        },
        "or in its offload\\(\\)");
}

}  // namespace lockstep::calls_while_closing_test
