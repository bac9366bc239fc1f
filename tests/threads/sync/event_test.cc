// labels: unit tsan
// event_test.cc - events, semaphores and completions.
#include "threads/sync/event.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "threads/runtime/runtime.h"

namespace lockstep::threads::event_test {

void spawn_or_fail(Runtime& runtime, uint32_t worker, ThreadFn fn) {
    ASSERT_TRUE(runtime.spawn(worker, "test", std::move(fn)));
}

TEST(Event, SetBeforeWaitAndTimeout) {
    auto runtime = *Runtime::start({});
    spawn_or_fail(*runtime, 0, [] {
        Event event;
        EXPECT_FALSE(event.wait_until(now() + kMillisecond));
        EXPECT_FALSE(event.is_set());
        event.set();
        event.wait();
        EXPECT_TRUE(event.wait_until(0));
        event.reset();
        // EV-2: or reset() had found a waiter.
        EXPECT_FALSE(event.wait_until(now() + kMillisecond));
        event.reset();
    });
    runtime->stop();
}

// More waiters than a wake batch holds, some of which give up early.
TEST(Event, WakesAll) {
    auto runtime = *Runtime::start({.workers = 2});
    Event event;
    std::atomic<int> in_time{0}, late{0}, waiting{0};
    for (uint32_t i = 0; i < 100; ++i)
        spawn_or_fail(*runtime, i, [&, i] {
            ++waiting;
            const bool ok = event.wait_until(i % 5 == 0 ? now() + kMillisecond : kNever);
            ++(ok ? in_time : late);
        });
    spawn_or_fail(*runtime, 0, [&] {
        while (waiting < 100 || late < 20) sleep_until(now() + kMillisecond);
        event.set();
    });
    runtime->stop();
    EXPECT_EQ(in_time, 80);
    EXPECT_EQ(late, 20);
}

// EV-3: the waiter owns the event and destroys it at once. Sanitizers watch.
TEST(Event, OnTheWaitersStack) {
    auto runtime = *Runtime::start({.workers = 2});
    std::atomic<Event*> slot{nullptr};
    std::atomic<bool> end{false};
    spawn_or_fail(*runtime, 0, [&] {
        for (int i = 0; i < 3000; ++i) {
            auto event = std::make_unique<Event>();
            slot.store(event.get(), std::memory_order_release);
            event->wait();
        }
        end = true;
    });
    spawn_or_fail(*runtime, 1, [&] {
        while (!end) {
            if (Event* event = slot.exchange(nullptr, std::memory_order_acquire)) event->set();
            else yield();
        }
    });
    runtime->stop();
}

TEST(Semaphore, FirstComeFirstServed) {
    auto runtime = *Runtime::start({});
    Semaphore semaphore(0);
    std::vector<int> order;
    for (int i = 0; i < 10; ++i)
        spawn_or_fail(*runtime, 0, [&, i] {
            // The first wants much and is not overtaken.
            EXPECT_TRUE(semaphore.acquire(i == 0 ? 5 : 1));
            order.push_back(i);
        });
    spawn_or_fail(*runtime, 0, [&] {
        yield();
        for (int i = 0; i < 14; ++i) {
            EXPECT_FALSE(semaphore.try_acquire());
            EXPECT_TRUE(i >= 5 || order.empty());
            semaphore.release();
            yield();
        }
        EXPECT_FALSE(semaphore.try_acquire());
    });
    runtime->stop();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Semaphore, NewcomersStandBehindWhoWantsMore) {
    auto runtime = *Runtime::start({});
    Semaphore semaphore(1);
    std::vector<int> order;
    spawn_or_fail(*runtime, 0, [&] {
        EXPECT_TRUE(semaphore.acquire(2));
        order.push_back(0);
    });
    spawn_or_fail(*runtime, 0, [&] {
        // There is one unit, and somebody waits for it.
        EXPECT_TRUE(semaphore.acquire(1));
        order.push_back(1);
    });
    spawn_or_fail(*runtime, 0, [&] {
        yield();
        EXPECT_TRUE(order.empty());
        semaphore.release(2);
    });
    runtime->stop();
    EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

TEST(Semaphore, LeaverLetsTheNextOneIn) {
    auto runtime = *Runtime::start({});
    Semaphore semaphore(1);
    bool second = false;
    spawn_or_fail(*runtime, 0,
                  [&] { EXPECT_FALSE(semaphore.acquire(2, now() + 5 * kMillisecond)); });
    spawn_or_fail(*runtime, 0, [&] { second = semaphore.acquire(1, now() + 10 * kSecond); });
    runtime->stop();
    EXPECT_TRUE(second);
}

TEST(Semaphore, NeverMoreThanItsUnits) {
    auto runtime = *Runtime::start({.workers = 3});
    Semaphore semaphore(4);
    std::atomic<int> inside{0}, most{0}, entered{0};
    for (uint32_t i = 0; i < 30; ++i)
        spawn_or_fail(*runtime, i, [&] {
            for (int k = 0; k < 100; ++k) {
                if (!semaphore.acquire(1, k % 7 == 0 ? now() + 20 * kMicrosecond : kNever))
                    continue;
                ++entered;
                const int n = ++inside;
                for (int m = most; m < n && !most.compare_exchange_weak(m, n);) {}
                yield();
                --inside;
                semaphore.release();
            }
        });
    runtime->stop();
    EXPECT_LE(most, 4);
    EXPECT_GE(entered, 30 * 85);
    EXPECT_TRUE(semaphore.try_acquire(4));
    EXPECT_FALSE(semaphore.try_acquire(1));
}

TEST(Completion, BothWays) {
    auto runtime = *Runtime::start({.workers = 2});
    for (int i = 0; i < 500; ++i) {
        Completion to, from, across;
        spawn_or_fail(*runtime, 0, [&] {
            to.wait();
            across.wait();
            from.set();
        });
        spawn_or_fail(*runtime, 1, [&] { across.set(); });
        to.set();
        from.wait();
    }
    runtime->stop();
}

}  // namespace lockstep::threads::event_test
