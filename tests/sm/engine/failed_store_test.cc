// labels: sim
// failed_store_test.cc - a store that cannot go on lets no thread wait for long, and does not
// repeat failing writes without end.
//
// Concepts   The disk is simulated and time is virtual, so a wait of seconds costs nothing and is
//            measured exactly.
#include <gtest/gtest.h>

#include "sm/api/engine_of.h"
#include "tests/seed_of_run.h"
#include "tests/sim_store.h"

namespace lockstep::failed_store_test {

using threads::SimDisk;
using threads::SimFault;

constexpr Nanos kBound = 5 * kSecond, kMargin = kSecond;
constexpr int kThreads = 16;

struct Outcome {
    Nanos longest = 0;  // call
    Error last{};
    bool ended = false;
};

class FailedStore : public testing::Test {
protected:
    SimDisk disk{{.seed = seed_of_run()}};
    SimStore store{disk, seed_of_run()};
    Outcome outcomes[kThreads];

    void open() {
        const auto opened = store.open();
        ASSERT_TRUE(opened) << opened.error().text();
        store.on_thread([&] {
            ASSERT_TRUE(store->run([&](Txn& t) -> Result<void> {
                TRY(store->create_index(t, "i"));
                return {};
            }));
        });
    }
    // Runs body(thread) on kThreads threads at a time, until all have ended.
    void run_all(const std::function<Result<void>(int)>& body) {
        for (int n = 0; n < kThreads; ++n) {
            store->start(
                [&, n]() -> Result<void> {
                    Outcome& mine = outcomes[n];
                    // The store may go on rejecting for ever; the thread need not.
                    for (int tries = 0; tries < 20; ++tries) {
                        const Nanos began = store.clock().now();
                        const auto done = body(n);
                        mine.longest = std::max(mine.longest, store.clock().now() - began);
                        if (!done) mine.last = done.error();
                        if (!done && done.error().code == ErrorCode::store_failed) break;
                    }
                    mine.ended = true;
                    return {};
                },
                0);
        }
        ASSERT_TRUE(store.step_until([&] {
            return std::all_of(outcomes, outcomes + kThreads, [](auto& o) { return o.ended; });
        }));
    }
    Result<void> insert_many(int thread, int& next) {
        return store->run([&](Txn& t) -> Result<void> {
            const Index index = TRY(store->index("i"));
            for (int i = 0; i < 20; ++i)
                TRY(index.put(t, std::to_string(thread * 100'000 + next++),
                              std::string(1500, 'v')));
            return {};
        });
    }
};

// 16 threads waited for a frame one after the other, 5 s each, while each held the latch that the
// next one wanted; and the cleaners wrote the same pages hundreds of thousands of times.
TEST_F(FailedStore, EveryPageWriteFailsForEver) {
    open();
    disk.faults().only_paths_ending_with(SimFault::write_error, "/data");
    disk.faults().set_odds(SimFault::write_error, 1);
    const Nanos began = store.clock().now();
    int next[kThreads] = {};
    run_all([&](int n) { return insert_many(n, next[n]); });
    const Nanos took = store.clock().now() - began;
    EXPECT_LT(took, 2 * kBound) << "milliseconds: " << took / kMillisecond;
    for (const Outcome& o : outcomes) {
        EXPECT_LT(o.longest, kBound + kMargin);
        EXPECT_TRUE(o.last.code == ErrorCode::io_error || o.last.code == ErrorCode::store_failed)
            << o.last.text();
    }
    // The pool stays full of pages that cannot be written: retries become rare.
    const uint64_t before = disk.faults().count(SimFault::write_error);
    const Nanos idle_until = store.clock().now() + 25 * kSecond;
    EXPECT_TRUE(store.step_until([&] { return store.clock().now() >= idle_until; }, kMillisecond));
    const uint64_t retries = disk.faults().count(SimFault::write_error) - before;
    EXPECT_LT(before, 4'000u);
    EXPECT_LT(retries, 26u * 64 + 64);
    const Nanos closing = store.clock().now();
    EXPECT_FALSE(store.close());
    EXPECT_LT(store.clock().now() - closing, kBound);
    RecordProperty("took_ms", static_cast<int>(took / kMillisecond));
    RecordProperty("writes", static_cast<int>(before));
    RecordProperty("retries_in_25_s", static_cast<int>(retries));

    // Nothing that was committed is lost, once the disk works again.
    disk.faults().set_odds(SimFault::write_error, 0);
    const auto again = store.open();
    ASSERT_TRUE(again) << again.error().text();
    store.on_thread([&] { EXPECT_TRUE(store->verify()->empty()); });
    EXPECT_TRUE(store.close());
}

// Most frames are dirty, and threads that only read share the rest: each one evicted the page of
// another, so none found the pool full, and none ended.
TEST_F(FailedStore, ReadersOfAPoolThatCannotBeWritten) {
    open();
    constexpr int kRecords = 6'000;  // 9 MB in a pool of 4 MB
    const auto put_all = [&](int step, size_t bytes) {
        Result<void> done;
        for (int n = 0; n < kRecords && done; n += 50 * step)
            done = store->run([&](Txn& t) -> Result<void> {
                const Index index = TRY(store->index("i"));
                for (int i = n; i < n + 50 * step; i += step)
                    TRY(index.put(t, std::to_string(100'000 + i), std::string(bytes, 'v')));
                return {};
            });
        return done;
    };
    store.on_thread([&] {
        ASSERT_TRUE(put_all(1, 1500));
        ASSERT_TRUE(store->checkpoint());
    });
    disk.faults().only_paths_ending_with(SimFault::write_error, "/data");
    disk.faults().set_odds(SimFault::write_error, 1);
    store.on_thread([&] { EXPECT_FALSE(put_all(3, 1499)); });
    const Nanos began = store.clock().now();
    const uint64_t events = disk.events();
    run_all([&](int n) {
        return store->run([&](Txn& t) -> Result<void> {
            const Index index = TRY(store->index("i"));
            std::string value;
            for (int i = n; i < kRecords; i += 37)
                TRY(index.get(t, std::to_string(100'000 + i), value));
            return {};
        });
    });
    EXPECT_LT(store.clock().now() - began, kBound + kMargin);
    EXPECT_LT(disk.events() - events, 100'000u);
    for (const Outcome& o : outcomes) {
        EXPECT_EQ(o.last.os, EIO) << o.last.text();
        EXPECT_NE(o.last.text().find("rite"), std::string::npos) << o.last.text();
    }
    const Nanos closing = store.clock().now();
    EXPECT_FALSE(store.close());
    EXPECT_LT(store.clock().now() - closing, kBound);
    disk.faults().set_odds(SimFault::write_error, 0);
    ASSERT_TRUE(store.open());
    store.on_thread([&] { EXPECT_TRUE(store->verify()->empty()); });
    EXPECT_TRUE(store.close());
}

// Writes work again after a while: the pool notices it by itself, within the longest pause.
TEST_F(FailedStore, WritesThatFailForAMomentDelayOnly) {
    open();
    disk.faults().only_paths_ending_with(SimFault::write_error, "/data");
    disk.faults().set_odds(SimFault::write_error, 1);
    const Nanos began = store.clock().now();
    int next[kThreads] = {};
    bool mended = false;
    store.after_step([&] {
        if (mended || store.clock().now() < began + 2 * kSecond) return;
        mended = true;
        disk.faults().set_odds(SimFault::write_error, 0);
    });
    run_all([&](int n) { return insert_many(n, next[n]); });
    store.after_step({});
    for (const Outcome& o : outcomes) {
        EXPECT_EQ(o.last.code, ErrorCode::none) << o.last.text();
        EXPECT_LT(o.longest, kBound);
    }
    EXPECT_TRUE(store.close());
}

// The holder of a lock and of the last places in begin sleeps for long and ends nothing.
TEST_F(FailedStore, NobodyWaitsForALockOrForBegin) {
    store.options().lock_timeout = kNever;
    store.options().transactions_max = 16;
    open();
    bool holding = false, sleeper_ended = false;
    store->start(
        [&]() -> Result<void> {
            {
                std::vector<Txn> held;
                for (int i = 0; i < 15; ++i) held.push_back(*store->begin({}));
                EXPECT_TRUE(store->index("i")->put(held[0], "k", "v"));
                holding = true;
                sleep_for(100 * kSecond);
                for (Txn& t : held) (void)t.abort();
            }
            sleeper_ended = true;
            return {};
        },
        0);
    ASSERT_TRUE(store.step_until([&] { return holding; }));
    Nanos failed_at = 0;
    store.after_step([&] {
        if (failed_at != 0 || store.clock().now() < 30 * kSecond) return;
        failed_at = store.clock().now();
        store.engine().log->fail_store(
            {.what = "test", .cause = {.code = ErrorCode::io_error, .os = EIO}});
    });
    // One of them gets the last place and waits for the lock; the others wait in begin.
    run_all([&](int) {
        return store->run(
            [&](Txn& t) -> Result<void> { return TRY(store->index("i")).put(t, "k", "w"); });
    });
    store.after_step({});
    ASSERT_NE(failed_at, 0u);
    EXPECT_LT(store.clock().now(), failed_at + kBound);
    for (const Outcome& o : outcomes)
        EXPECT_EQ(o.last.code, ErrorCode::store_failed) << o.last.text();
    ASSERT_TRUE(store.step_until([&] { return sleeper_ended; }));
    EXPECT_FALSE(store.close());
}

}  // namespace lockstep::failed_store_test
