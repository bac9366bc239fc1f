// labels: unit model
// timer_test.cc - the timer heap against a sorted list; deadlines and sleeps on
// real and manual clocks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "threads/runtime/runtime.h"
#include "threads/sync/event.h"
#include "threads/thread/timer_heap.h"

namespace lockstep::threads::timer_test {

TEST(TimerHeap, BehavesLikeASortedMap) {
    Rng rng(seed_of_run(20261121));
    auto threads = std::make_unique<Thread[]>(200);
    TimerHeap heap;
    std::map<std::pair<Nanos, uint64_t>, Thread*> model;
    std::vector<std::pair<Nanos, uint64_t>> key_of(200);
    uint64_t sequence = 0;
    for (int step = 0; step < 20'000; ++step) {
        const size_t i = rng.below(200);
        Thread* thread = &threads[i];
        if (rng.chance(0.15)) {
            const Nanos now = rng.below(1000);
            Thread* due = heap.pop_due(now);
            const bool expected = !model.empty() && model.begin()->first.first <= now;
            ASSERT_EQ(due, expected ? model.begin()->second : nullptr);
            if (expected) model.erase(model.begin());
        } else if (thread->timer_index == TimerHeap::kNowhere) {
            key_of[i] = {rng.below(1000), ++sequence};
            heap.add(thread, key_of[i].first);
            model[key_of[i]] = thread;
        } else {
            heap.remove(thread);
            ASSERT_EQ(model.erase(key_of[i]), 1u);
        }
        heap.verify();
        ASSERT_EQ(heap.size(), model.size());
        ASSERT_EQ(heap.earliest(), model.empty() ? kNever : model.begin()->first.first);
    }
}

TEST(Timer, SleepersWakeInOrder) {
    auto runtime = *Runtime::start({});
    std::vector<int> order;
    const Nanos start = runtime->clock().now();
    for (int i : {5, 1, 4, 2, 3})
        ASSERT_TRUE(runtime->spawn(0, "sleeper", [&order, i, start] {
            sleep_until(start + static_cast<Nanos>(i) * 10 * kMillisecond);
            EXPECT_GE(now(), start + static_cast<Nanos>(i) * 10 * kMillisecond);
            order.push_back(i);
        }));
    runtime->stop();
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4, 5}));
}

TEST(Timer, DeadlinePassesOrWakeComesFirst) {
    auto runtime = *Runtime::start({.workers = 2});
    Thread* waiter = nullptr;
    Event ready;
    bool late = true, early = false;
    ASSERT_TRUE(runtime->spawn(0, "waiter", [&] {
        const Nanos start = now();
        while (now() < start + 20 * kMillisecond)
            late = park_until(start + 20 * kMillisecond, ParkReason::event);
        waiter = current();
        ready.set();
        early = park_until(now() + 60 * kSecond, ParkReason::event);
    }));
    ASSERT_TRUE(runtime->spawn(1, "waker", [&] {
        ready.wait();
        wake(waiter);
    }));
    runtime->stop();
    EXPECT_FALSE(late);
    EXPECT_TRUE(early);
}

TEST(Timer, PastDeadlineDoesNotPark) {
    auto runtime = *Runtime::start({});
    ASSERT_TRUE(runtime->spawn(0, "t", [] {
        EXPECT_FALSE(park_until(now(), ParkReason::event));
        wake(current());
        EXPECT_TRUE(park_until(now(), ParkReason::event));  // the token wins
        EXPECT_FALSE(park_until(now(), ParkReason::event));
    }));
    runtime->stop();
    EXPECT_EQ(runtime->stats().parks[static_cast<size_t>(ParkReason::event)], 0u);
}

TEST(Timer, ManualClockDecides) {
    ManualClock clock;
    auto runtime = *Runtime::start({.caller_driven = true, .clock = &clock});
    bool woke = false;
    ASSERT_TRUE(runtime->spawn(0, "sleeper", [&] {
        sleep_until(1000);
        woke = true;
    }));
    while (runtime->step()) {}
    EXPECT_FALSE(woke);
    EXPECT_EQ(runtime->next_deadline(), 1000u);
    clock.advance(998);
    EXPECT_FALSE(runtime->step());
    clock.advance(1);
    while (runtime->step()) {}
    EXPECT_TRUE(woke);
    EXPECT_EQ(runtime->next_deadline(), kNever);
}

TEST(Timer, ManualClockOnRealWorkers) {
    ManualClock clock;
    auto runtime = *Runtime::start({.clock = &clock});
    Completion slept;
    ASSERT_TRUE(runtime->spawn(0, "sleeper", [&] {
        sleep_until(1000);
        slept.set();
    }));
    clock.advance(2000);
    slept.wait();
    runtime->stop();
}

}  // namespace lockstep::threads::timer_test
