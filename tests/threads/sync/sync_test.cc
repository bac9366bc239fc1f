// labels: unit tsan
// sync_test.cc - the public mutex, condition, event, semaphore and channel on one worker, where the
// order of user threads is known.
#include <lockstep/sync.h>

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/code_of.h"
#include "threads/base/rng.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sync_test {

using threads::Runtime;

void spawn(Runtime& runtime, uint32_t worker, threads::ThreadFn fn) {
    ASSERT_TRUE(runtime.spawn(worker, "test", std::move(fn)));
}

// One worker runs them in this order, each up to its first wait or yield.
template <class... Fn>
void run_in_order(Fn... fns) {
    auto runtime = *Runtime::start({});
    threads::Completion spawned;
    spawn(*runtime, 0, [&] {
        (spawn(*runtime, 0, std::move(fns)), ...);
        spawned.set();
    });
    spawned.wait();
    runtime->stop();
}

// Each wait is short, so a thread that does not come ends the test and not the test run.
constexpr Nanos kLong = 60 * kSecond;

TEST(Mutex, PassesToTheLongestWaiting) {
    auto runtime = *Runtime::start({});
    Mutex mutex;
    std::vector<int> order;
    for (int i = 0; i < 20; ++i)
        spawn(*runtime, 0, [&, i] {
            const std::lock_guard guard(mutex);
            order.push_back(i);
            for (int k = 0; k < 3; ++k) threads::yield();
        });
    runtime->stop();
    for (int i = 0; i < 20; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
}

TEST(Mutex, ANewcomerDoesNotOvertake) {
    Mutex mutex;
    std::string order;
    run_in_order(
        [&] {
            mutex.lock();
            threads::yield();  // the next thread waits now
            mutex.unlock();
            EXPECT_FALSE(mutex.try_lock());
            EXPECT_FALSE(mutex.try_lock_for(0));
            mutex.lock();
            order += "a";
            mutex.unlock();
        },
        [&] {
            mutex.lock();
            order += "b";
            mutex.unlock();
        });
    EXPECT_EQ(order, "ba");
}

TEST(Mutex, ATimeoutLeavesTheQueue) {
    Mutex mutex;
    bool third = false;
    run_in_order(
        [&] {
            const std::lock_guard guard(mutex);
            threads::sleep_until(threads::now() + 20 * kMillisecond);
        },
        [&] { EXPECT_FALSE(mutex.try_lock_for(kMillisecond)); },
        [&] {
            third = mutex.try_lock_for(kLong);
            mutex.unlock();
        });
    EXPECT_TRUE(third);
}

TEST(MutexDeath, MisuseStopsTheProcess) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            Mutex mutex;
            mutex.lock();
            mutex.lock();
        },
        "owner_ != self");
    EXPECT_DEATH(
        {
            Mutex mutex;
            mutex.unlock();
        },
        "owner_ == self");
}

TEST(Condition, WakesInOrder) {
    auto runtime = *Runtime::start({});
    Mutex mutex;
    Condition condition;
    int turns = 0;
    std::vector<int> order;
    for (int i = 0; i < 10; ++i)
        spawn(*runtime, 0, [&, i] {
            const std::lock_guard guard(mutex);
            condition.wait(mutex);
            order.push_back(i);
            ++turns;
        });
    spawn(*runtime, 0, [&] {
        for (int i = 0; i < 4; ++i) {
            condition.notify_one();
            threads::yield();
            EXPECT_EQ(turns, i + 1);
        }
        condition.notify_all();
        condition.notify_all();
    });
    runtime->stop();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Condition, TimesOutWithTheMutex) {
    auto runtime = *Runtime::start({});
    Mutex mutex;
    Condition condition;
    spawn(*runtime, 0, [&] {
        std::unique_lock guard(mutex);
        EXPECT_FALSE(condition.wait_for(mutex, kMillisecond));
        EXPECT_FALSE(mutex.try_lock());  // the wait has locked it again
    });
    runtime->stop();
    EXPECT_TRUE(mutex.try_lock());
    int calls = 0;
    EXPECT_FALSE(condition.wait_for(mutex, kMillisecond, [&] { return ++calls > 100; }));
    EXPECT_TRUE(condition.wait_for(mutex, kLong, [&] { return ++calls > 0; }));
    mutex.unlock();
}

TEST(SyncEvent, SetResetCloseTimeout) {
    auto runtime = *Runtime::start({});
    spawn(*runtime, 0, [] {
        Event event;
        EXPECT_EQ(code_of(event.wait(0)), ErrorCode::timeout);
        EXPECT_EQ(code_of(event.wait(kMillisecond)), ErrorCode::timeout);
        event.set();
        EXPECT_TRUE(event.is_set() && event.wait(0) && event.wait());
        event.reset();
        EXPECT_EQ(code_of(event.wait(0)), ErrorCode::timeout);
        event.close();
        EXPECT_EQ(code_of(event.wait()), ErrorCode::cancelled);
        event.set();
        EXPECT_TRUE(event.wait());
    });
    runtime->stop();
}

TEST(SyncEvent, CloseEndsWaits) {
    auto runtime = *Runtime::start({.workers = 2});
    Event event;
    std::atomic<int> cancelled{0};
    for (uint32_t i = 0; i < 40; ++i)
        spawn(*runtime, i, [&] { cancelled += code_of(event.wait()) == ErrorCode::cancelled; });
    spawn(*runtime, 0, [&] {
        for (int i = 0; i < 20; ++i) threads::yield();
        event.close();
    });
    runtime->stop();
    EXPECT_EQ(cancelled, 40);
}

TEST(SyncSemaphore, UnitsInOrderOfArrival) {
    Semaphore semaphore(1);
    std::string order;
    run_in_order(
        [&] {
            EXPECT_TRUE(semaphore.acquire(3));
            order += "a";
        },
        [&] {
            // There is one unit, and a thread waits for it.
            EXPECT_FALSE(semaphore.try_acquire());
            EXPECT_TRUE(semaphore.acquire());
            order += "b";
        },
        [&] {
            EXPECT_EQ(code_of(semaphore.acquire(1, kMillisecond)), ErrorCode::timeout);
            semaphore.release(2);
            threads::yield();
            EXPECT_EQ(order, "a");
            semaphore.release();
        });
    EXPECT_EQ(order, "ab");
    EXPECT_EQ(code_of(semaphore.acquire(0)), ErrorCode::bad_argument);
}

TEST(SyncSemaphore, LeaverLetsTheNextOneIn) {
    Semaphore semaphore(1);
    bool second = false;
    run_in_order(
        [&] { EXPECT_EQ(code_of(semaphore.acquire(2, 5 * kMillisecond)), ErrorCode::timeout); },
        [&] { second = semaphore.acquire(1, kLong).has_value(); });
    EXPECT_TRUE(second);
}

TEST(SyncSemaphore, CloseLeavesUnitsThatAreFree) {
    Semaphore semaphore(2);
    run_in_order([&] { EXPECT_EQ(code_of(semaphore.acquire(3)), ErrorCode::cancelled); },
                 [&] {
                     semaphore.close();
                     EXPECT_TRUE(semaphore.acquire(2));
                     EXPECT_EQ(code_of(semaphore.acquire()), ErrorCode::cancelled);
                 });
}

TEST(Channel, FirstInFirstOutAndTheEnd) {
    Channel<std::unique_ptr<int>> channel(3);
    std::vector<int> received;
    run_in_order(
        [&] {
            for (int i = 0; i < 10; ++i) EXPECT_TRUE(channel.send(std::make_unique<int>(i)));
            channel.close();
            EXPECT_EQ(code_of(channel.send(nullptr)), ErrorCode::cancelled);
        },
        [&] {
            for (;;) {
                EXPECT_LE(channel.size(), 3u);
                auto value = channel.receive();
                ASSERT_TRUE(value);
                if (!value->has_value()) break;
                received.push_back(***value);
            }
            EXPECT_TRUE(channel.closed());
        });
    EXPECT_EQ(received, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Channel, WithoutCapacityTheSenderWaitsForAReceiver) {
    Channel<int> channel(0);
    bool sent = false;
    run_in_order(
        [&] {
            EXPECT_EQ(code_of(channel.send(1, 0)), ErrorCode::timeout);
            EXPECT_EQ(code_of(channel.send(2, kMillisecond)), ErrorCode::timeout);
            sent = channel.send(3).has_value();
        },
        [&] {
            threads::sleep_until(threads::now() + 10 * kMillisecond);
            EXPECT_FALSE(sent);
            EXPECT_EQ(channel.receive()->value_or(0), 3);
            EXPECT_EQ(code_of(channel.receive(0)), ErrorCode::timeout);
            EXPECT_EQ(code_of(channel.receive(kMillisecond)), ErrorCode::timeout);
        });
    EXPECT_TRUE(sent);
}

TEST(Channel, CloseEndsWaitsOfBothSides) {
    auto runtime = *Runtime::start({.workers = 2});
    Channel<int> empty(1), full(1);
    std::atomic<int> ended{0};
    EXPECT_TRUE(full.send(7));
    for (uint32_t i = 0; i < 10; ++i) {
        spawn(*runtime, i, [&] {
            const auto value = empty.receive(kLong);
            ended += value && !value->has_value();
        });
        spawn(*runtime, i, [&] { ended += code_of(full.send(8)) == ErrorCode::cancelled; });
    }
    spawn(*runtime, 1, [&] {
        for (int i = 0; i < 50; ++i) threads::yield();
        empty.close();
        full.close();
    });
    runtime->stop();
    EXPECT_EQ(ended, 20);
    EXPECT_EQ(full.receive()->value_or(0), 7);  // what was sent is still there
    EXPECT_FALSE(full.receive()->has_value());
}

TEST(Channel, DestroysWhatWasNotReceived) {
    auto value = std::make_shared<int>(1);
    {
        Channel<std::shared_ptr<int>> channel(4);
        EXPECT_TRUE(channel.send(value));
        EXPECT_TRUE(channel.send(value));
        EXPECT_EQ(value.use_count(), 3);
    }
    EXPECT_EQ(value.use_count(), 1);
}

}  // namespace lockstep::sync_test
