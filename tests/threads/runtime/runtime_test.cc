// labels: unit sim
// runtime_test.cc - starting and stopping, idleness, caller-driven runs, scheduler policies.
#include "threads/runtime/runtime.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <time.h>

#include <memory>
#include <vector>

#include "threads/sync/event.h"

namespace lockstep::threads::runtime_test {

void spawn_or_fail(Runtime& runtime, uint32_t worker, ThreadFn fn) {
    ASSERT_TRUE(runtime.spawn(worker, "test", std::move(fn)));
}

TEST(Runtime, RefusesBadOptions) {
    for (RuntimeOptions options : {RuntimeOptions{.workers = 0}, RuntimeOptions{.workers = 65},
                                   RuntimeOptions{.stack_bytes = 100}}) {
        auto runtime = Runtime::start(options);
        ASSERT_FALSE(runtime);
        EXPECT_EQ(runtime.error().code, ErrorCode::bad_option);
    }
}

TEST(Runtime, StartAndStopManyTimes) {
    for (int i = 0; i < 50; ++i) {
        auto runtime = *Runtime::start(
            {.workers = 1 + static_cast<uint32_t>(i) % 4, .pin_workers = i % 2 == 0});
        int ran = 0;
        spawn_or_fail(*runtime, 0, [&] { ++ran; });
        runtime->stop();
        runtime->stop();
        EXPECT_EQ(ran, 1);
    }
}

TEST(Runtime, SpawnAfterStopFails) {
    auto runtime = *Runtime::start({});
    runtime->stop();
    auto thread = runtime->spawn(0, "late", [] {});
    ASSERT_FALSE(thread);
    EXPECT_EQ(thread.error().code, ErrorCode::store_closed);
}

TEST(Runtime, TwoInOneProcess) {
    auto a = *Runtime::start({.workers = 2});
    auto b = *Runtime::start({.workers = 2});
    Event a_to_b, b_to_a;
    spawn_or_fail(*a, 0, [&] {
        a_to_b.set();
        b_to_a.wait();
    });
    spawn_or_fail(*b, 1, [&] {
        a_to_b.wait();
        b_to_a.set();
    });
    a->stop();
    b->stop();
    EXPECT_TRUE(b_to_a.is_set());
}

Nanos cpu_time() {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<Nanos>(t.tv_sec) * kSecond + static_cast<Nanos>(t.tv_nsec);
}

TEST(Runtime, IdleWorkersUseNoCpu) {
    auto runtime = *Runtime::start({.workers = 4});
    Event never;
    for (uint32_t i = 0; i < 8; ++i)
        spawn_or_fail(*runtime, i, [&] { EXPECT_TRUE(never.wait_until(now() + 60 * kSecond)); });
    usleep(20'000);
    const Nanos before = cpu_time();
    const uint64_t sleeps = runtime->stats().sleeps;
    usleep(200'000);
    EXPECT_LT(cpu_time() - before, 20 * kMillisecond);
    EXPECT_LE(runtime->stats().sleeps - sleeps, 8u);
    spawn_or_fail(*runtime, 0, [&] { never.set(); });
    runtime->stop();
}

// Threads on three virtual workers that wake one another; the order in which they move is the
// trace.
std::vector<int> trace_of(uint64_t seed, bool random_policy) {
    ManualClock clock;
    RuntimeOptions options{.workers = 3, .caller_driven = true, .seed = seed, .clock = &clock};
    if (random_policy)
        options.policy = [seed](uint32_t worker) { return make_random_policy(seed * 64 + worker); };
    auto runtime = *Runtime::start(options);
    std::vector<int> trace;
    Semaphore semaphore(2);
    for (int i = 0; i < 12; ++i)
        spawn_or_fail(*runtime, static_cast<uint32_t>(i), [&, i] {
            for (int k = 0; k < 5; ++k) {
                semaphore.acquire();
                trace.push_back(i);
                if (k % 2) yield();
                else sleep_until(now() + static_cast<Nanos>(i));
                trace.push_back(-i);
                semaphore.release();
            }
        });
    while (runtime->stats().threads_live > 0) {
        if (runtime->step()) continue;
        EXPECT_NE(runtime->next_deadline(), kNever);
        clock.advance(runtime->next_deadline() - clock.now());
    }
    EXPECT_EQ(trace.size(), 120u);
    return trace;
}

TEST(CallerDriven, EqualSeedsGiveEqualTraces) {
    for (const bool random : {false, true}) {
        EXPECT_EQ(trace_of(7, random), trace_of(7, random));
        EXPECT_NE(trace_of(7, random), trace_of(8, random));
    }
}

TEST(CallerDriven, StepSaysWhenNothingCanHappen) {
    auto runtime = *Runtime::start({.workers = 2, .caller_driven = true});
    EXPECT_FALSE(runtime->step());
    Event event;
    int passed = 0;
    spawn_or_fail(*runtime, 0, [&] { event.wait(), ++passed; });
    while (runtime->step()) {}
    EXPECT_EQ(passed, 0);
    EXPECT_EQ(current(), nullptr);
    event.set();  // from outside any worker: through the mailbox
    EXPECT_TRUE(runtime->step());
    EXPECT_EQ(passed, 1);
    EXPECT_FALSE(runtime->step());
}

TEST(CallerDriven, WholeTurnsRunMoreThanOneSlice) {
    for (const bool whole : {false, true}) {
        auto runtime = *Runtime::start({.caller_driven = true, .whole_turns = whole});
        int slices = 0;
        for (int i = 0; i < 2; ++i)
            spawn_or_fail(*runtime, 0, [&] {
                for (int k = 0; k < 4; ++k) ++slices, yield();
            });
        EXPECT_TRUE(runtime->step());
        EXPECT_EQ(slices, whole ? 8 : 1);
        while (runtime->step()) {}
        EXPECT_EQ(slices, 8);
    }
}

TEST(CallerDriven, AbandonedInMidFlight) {
    auto held = std::make_shared<int>(1);
    ManualClock clock;
    {
        auto runtime = *Runtime::start({.workers = 2, .caller_driven = true, .clock = &clock});
        for (uint32_t i = 0; i < 10; ++i)
            spawn_or_fail(*runtime, i, [&held, i] {
                if (i % 2) sleep_until(1000);
                else
                    for (;;) yield();
                held.reset();
            });
        for (int i = 0; i < 100; ++i) EXPECT_TRUE(runtime->step());
        runtime->abandon();
    }
    EXPECT_EQ(held.use_count(), 1);
}

TEST(Policy, FifoObjectBehavesLikeTheBuiltInQueue) {
    auto run = [](bool object) {
        RuntimeOptions options{.caller_driven = true};
        if (object) options.policy = [](uint32_t) { return make_fifo_policy(); };
        auto runtime = *Runtime::start(options);
        std::vector<int> trace;
        for (int i = 0; i < 5; ++i)
            spawn_or_fail(*runtime, 0, [&, i] {
                for (int k = 0; k < i; ++k) {
                    trace.push_back(i);
                    yield();
                }
            });
        runtime->stop();
        return trace;
    };
    const auto expected = std::vector<int>{1, 2, 3, 4, 2, 3, 4, 3, 4, 4};
    EXPECT_EQ(run(false), expected);
    EXPECT_EQ(run(true), expected);
}

TEST(Policy, RandomRunsEverythingOnRealWorkers) {
    RuntimeOptions options{.workers = 2};
    options.policy = [](uint32_t worker) { return make_random_policy(worker); };
    auto runtime = *Runtime::start(options);
    std::atomic<int> ran{0};
    for (uint32_t i = 0; i < 100; ++i)
        spawn_or_fail(*runtime, i, [&] {
            for (int k = 0; k < 20; ++k) yield();
            ++ran;
        });
    runtime->stop();
    EXPECT_EQ(ran, 100);
}

}  // namespace lockstep::threads::runtime_test
