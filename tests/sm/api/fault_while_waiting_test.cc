// labels: sim
// fault_while_waiting_test.cc - each fault while several threads wait at each place: after it all
// calls and close() end within the bound, and what was acknowledged is there at the next open.
//
// Concepts   The disk is simulated and time is virtual. A place arranges its waiters and is shown
//            to have them. Then the disk stands still or time passes, as the place needs it, and
//            the fault strikes. Whoever holds what others wait for lets it go some time later, as
//            an application does. A thread that never ends is a failure, and no hang: the watchdog
//            is virtual time.
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "tests/sm/test_util.h"
#include "threads/base/try.h"

namespace lockstep::fault_while_waiting_test {

using threads::SimDisk;
using threads::SimFault;

enum class Place { lock, log_space, ring, durable, checkpoint, page, slot, admission, backup };
enum class Event {
    nothing,
    log_write_fails,
    log_sync_fails,
    data_write_fails,
    read_fails,
    disk_full,
    ends_transactions,
    cancels,
    closes,
};
constexpr const char* kPlaces[] = {"Lock", "LogSpace", "Ring",      "Durable", "Checkpoint",
                                   "Page", "Slot",     "Admission", "Backup"};
constexpr const char* kEvents[] = {"Nothing",        "LogWriteFails", "LogSyncFails",
                                   "DataWriteFails", "ReadFails",     "DiskFull",
                                   "EndTransaction", "Cancel",        "Close"};

// Of all waits of a thread together that end in an error (explanation/durability.md: 5 seconds).
constexpr Nanos kBound = 5 * kSecond, kMargin = kSecond;
constexpr Nanos kHeld = 400 * kMillisecond;  // what others wait for is let go then
constexpr size_t kWaiters = 5;
constexpr uint32_t kKeys = 4'000, kFewKeys = 200;  // more than the pool holds; less

class FaultWhileWaiting : public testing::TestWithParam<std::tuple<int, int>> {
protected:
    struct Thread {
        bool begun = false, ended = false;
        Handle<void> handle;
        std::optional<Error> error;
    };
    Place place() const { return static_cast<Place>(std::get<0>(GetParam())); }
    Event event() const { return static_cast<Event>(std::get<1>(GetParam())); }

    SimDisk disk{{.seed = seed_of_run()}};
    SimStore store{disk, seed_of_run()};
    std::deque<Thread> holders, waiters;
    std::map<std::string, std::string> acknowledged;
    Nanos let_go_at = kNever;

    void open_and_fill() {
        Options& options = store.options();
        options.lock_timeout = kSecond;
        if (place() == Place::log_space) options.log_bytes = 8 << 20;
        if (place() == Place::slot) options.transactions_max = 16;
        if (place() == Place::admission) options.executors = 1;
        ASSERT_OK(store.open());
        store.on_thread([&] {
            ASSERT_OK(store->run([&](Txn& txn) { return store->create_index(txn, "i"); }));
            const uint32_t keys = place() == Place::page ? kKeys : kFewKeys;
            for (uint32_t key = 0; key < keys; key += 50)
                ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
                    const Index index = TRY(store->index("i"));
                    for (uint32_t k = key; k < key + 50; ++k)
                        TRY(index.put(txn, Key().u32(k), std::string(1500, 'f')));
                    return {};
                }));
            ASSERT_OK(store->checkpoint());
        });
    }

    void start(std::deque<Thread>& threads, std::function<Result<void>()> body) {
        Thread& thread = threads.emplace_back();
        thread.handle = store->start([&thread, body = std::move(body)]() -> Result<void> {
            thread.begun = true;
            if (auto done = body(); !done) thread.error = done.error();
            thread.ended = true;
            return {};
        });
    }
    void hold() {
        while (store.clock().now() < let_go_at) sleep_for(5 * kMillisecond);
    }
    // A transaction that writes one record and stays open.
    void start_holder() {
        start(holders, [this]() -> Result<void> {
            Txn txn = TRY(store->begin());
            TRY(TRY(store->index("i")).put(txn, "held", "by the holder"));
            hold();
            TRY(txn.commit());
            return {};
        });
        settle();
    }
    Result<void> write(const std::string& key, size_t bytes) {
        const std::string value(bytes, 'w');
        Txn txn = TRY(store->begin());
        TRY(TRY(store->index("i")).put(txn, key, value));
        TRY(txn.commit());
        acknowledged[key] = value;
        return {};
    }
    void settle() {
        while (store.engine().runtime->step()) {}
    }
    void pass(Nanos time) {
        const Nanos until = store.clock().now() + time;
        ASSERT_TRUE(store.step_until([&] { return store.clock().now() >= until; }));
    }

    // What each of the waiters does.
    Result<void> wait_there(size_t n) {
        const std::string key = "of " + std::to_string(n);
        switch (place()) {
            case Place::lock:
            case Place::admission:
                return store->run([&](Txn& txn) -> Result<void> {
                    std::string value;
                    TRY(TRY(store->index("i")).get(txn, "held", value));
                    return {};
                });
            case Place::log_space:
                for (int i = 0; i < 400; ++i) TRY(write(key + " " + std::to_string(i), 10'000));
                return {};
            case Place::ring: return write(key, 500'000);
            case Place::durable: return write(key, 100);
            case Place::checkpoint: return store->checkpoint();
            case Place::page:
                return store->run(
                    [&](Txn& txn) -> Result<void> {
                        const Index index = TRY(store->index("i"));
                        std::string value;
                        for (uint32_t i = 0; i < 60; ++i)
                            TRY(index.get(txn, Key().u32(static_cast<uint32_t>(n) + i * 61),
                                          value));
                        return {};
                    },
                    {.durability = Durability::lazy});
            case Place::slot: return write(key, 100);
            case Place::backup: {
                const auto made = store->backup("/backup " + std::to_string(n));
                if (!made) return std::unexpected(made.error());
                return {};
            }
        }
        __builtin_unreachable();
    }
    void arrange() {
        const bool held =
            place() == Place::lock || place() == Place::log_space || place() == Place::admission;
        if (held) start_holder();
        if (place() == Place::slot)
            for (int i = 0; i < 16; ++i)
                start(holders, [this]() -> Result<void> {
                    Txn txn = TRY(store->begin());
                    hold();
                    return txn.abort();
                });
        settle();
        for (size_t n = 0; n < kWaiters; ++n) start(waiters, [this, n] { return wait_there(n); });
        settle();
        // The others wait with the disk standing still.
        if (place() == Place::log_space) {
            const auto scarce = [&] { return store->stats().transactions_waiting > 0; };
            ASSERT_TRUE(store.step_until(scarce));
        }
        size_t waiting = 0;
        for (const Thread& waiter : waiters) waiting += !waiter.ended;
        ASSERT_EQ(waiting, kWaiters) << "the test is blind";
    }

    void fail(SimFault fault, const char* path_part = "") {
        disk.faults().only_paths_with(fault, path_part);
        disk.faults().set_odds(fault, 1);
    }
    void strike() {
        switch (event()) {
            case Event::nothing:
            case Event::closes: return;
            case Event::log_write_fails: return fail(SimFault::write_error, "/log.");
            case Event::log_sync_fails: return fail(SimFault::sync_error, "/log.");
            case Event::data_write_fails: return fail(SimFault::write_error, "/data");
            case Event::read_fails: return fail(SimFault::read_error);
            case Event::disk_full:
                fail(SimFault::no_space_write);
                return fail(SimFault::no_space_allocate);
            case Event::ends_transactions:
                for (const TransactionInfo& info : store->transactions())
                    if (!info.internal) (void)store->end_transaction(info.id);
                return;
            case Event::cancels:
                for (Thread& waiter : waiters) {
                    EXPECT_TRUE(waiter.handle.cancel());
                    waiter.ended |= !waiter.begun;  // and never will
                }
                return;
        }
    }
    bool all_ended() const {
        return std::ranges::all_of(waiters, &Thread::ended) &&
               std::ranges::all_of(holders, &Thread::ended);
    }
    void expect_errors() {
        for (const Thread& waiter : waiters) {
            if (!waiter.error) continue;
            const ErrorCode code = waiter.error->code;
            bool fits = code == ErrorCode::lock_timeout || code == ErrorCode::log_full;
            if (event() == Event::ends_transactions) fits |= code == ErrorCode::ended_by_operator;
            if (event() == Event::cancels) fits |= code == ErrorCode::cancelled;
            if (event() == Event::closes) fits |= code == ErrorCode::store_closed;
            if (event() >= Event::log_write_fails && event() <= Event::disk_full)
                fits |= code == ErrorCode::io_error || code == ErrorCode::no_space ||
                        code == ErrorCode::store_failed;
            EXPECT_TRUE(fits) << waiter.error->text();
            EXPECT_FALSE(waiter.error->text().empty());
        }
    }
};

TEST_P(FaultWhileWaiting, EverythingEnds) {
    open_and_fill();
    arrange();
    if (HasFatalFailure()) return;
    let_go_at = store.clock().now() + kHeld;
    strike();
    const Nanos struck = store.clock().now();
    if (event() != Event::closes) {
        ASSERT_TRUE(store.step_until(
            [&] { return all_ended() || store.clock().now() > struck + 60 * kSecond; }));
        for (size_t n = 0; n < waiters.size(); ++n) {
            EXPECT_TRUE(waiters[n].ended) << n << (waiters[n].begun ? "" : " has not begun");
        }
        EXPECT_TRUE(all_ended());
        EXPECT_LT(store.clock().now() - struck, kHeld + kBound + kMargin);
        for (const Thread& waiter : waiters)
            EXPECT_TRUE(event() != Event::nothing || !waiter.error) << waiter.error->text();
        if (!all_ended()) std::abort();  // its threads use this frame
    }
    const Nanos closing = store.clock().now();
    const auto closed = store.close();
    EXPECT_LT(store.clock().now() - closing, kHeld + kBound + kMargin);
    EXPECT_TRUE(all_ended());
    if (event() == Event::nothing || event() >= Event::ends_transactions) {
        EXPECT_TRUE(closed) << closed.error().text();
    }
    expect_errors();
    for (size_t kind = 0; kind < static_cast<size_t>(SimFault::kCount); ++kind)
        disk.faults().set_odds(static_cast<SimFault>(kind), 0);
    ASSERT_OK(store.open());
    store.on_thread([&] {
        const auto faults = store->verify();
        ASSERT_OK(faults);
        EXPECT_TRUE(faults->empty()) << faults->front();
        ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store->index("i"));
            std::string value;
            for (const auto& [key, wanted] : acknowledged) {
                EXPECT_TRUE(TRY(index.get(txn, key, value))) << key;
                EXPECT_EQ(value, wanted) << key;
            }
            return {};
        }));
        EXPECT_TRUE(write("after all", 10));
    });
    ASSERT_OK(store.close());
}

// Hundreds of durable commits wait for one flush, and nothing comes after it that could wake one
// that was left out.
TEST(ManyCommits, WaitForOneFlushAndAllEnd) {
    for (const int threads : {1, 2, 63, 64, 65, 300}) {
        SCOPED_TRACE(threads);
        SimDisk disk{{.seed = seed_of_run()}};
        SimStore store(disk, seed_of_run());
        store.options().transactions_max = 1024;
        ASSERT_OK(store.open());
        Index index;
        store.on_thread([&] {
            ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
                index = TRY(store->create_index(txn, "i"));
                return {};
            }));
        });
        const uint64_t flushes = store->stats().log_flushes;
        int ended = 0;
        for (int n = 0; n < threads; ++n)
            store->start([&, n]() -> Result<void> {
                const auto done =
                    store->run([&](Txn& txn) { return index.put(txn, Key().i32(n), "v"); });
                EXPECT_TRUE(done) << done.error().text();
                ++ended;
                return {};
            });
        while (store.engine().runtime->step()) {}
        EXPECT_EQ(ended, 0) << "the test is blind";
        const Nanos began = store.clock().now();
        ASSERT_TRUE(store.step_until(
            [&] { return ended == threads || store.clock().now() > began + 10 * kSecond; }));
        EXPECT_EQ(ended, threads);
        EXPECT_LT(store.clock().now() - began, 100 * kMillisecond);
        EXPECT_LE(store->stats().log_flushes - flushes, 4u) << "they did not wait for one flush";
        ASSERT_OK(store.close());
    }
}

std::string name_of(const testing::TestParamInfo<std::tuple<int, int>>& info) {
    const auto [place, event] = info.param;
    return std::string(kPlaces[place]) + kEvents[event];
}
INSTANTIATE_TEST_SUITE_P(Each, FaultWhileWaiting,
                         testing::Combine(testing::Range(0, static_cast<int>(std::size(kPlaces))),
                                          testing::Range(0, static_cast<int>(std::size(kEvents)))),
                         name_of);

}  // namespace lockstep::fault_while_waiting_test
