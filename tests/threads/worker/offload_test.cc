// labels: unit tsan
// offload_test.cc - functions that block run on the pool, and the worker goes on meanwhile.
#include <lockstep/offload.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "threads/runtime/runtime.h"
#include "threads/thread/thread.h"

namespace lockstep::offload_test {

using threads::Runtime;

void spawn(Runtime& runtime, uint32_t worker, threads::ThreadFn fn) {
    ASSERT_TRUE(runtime.spawn(worker, "test", std::move(fn)));
}

TEST(Offload, OtherUserThreadsRunMeanwhile) {
    auto runtime = *Runtime::start({});
    std::atomic<bool> over{false};
    uint64_t turns = 0;
    spawn(*runtime, 0, [&] {
        const pid_t worker = gettid();
        const auto result = offload([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            return gettid() != worker;
        });
        EXPECT_TRUE(result.value_or(false));
        EXPECT_EQ(gettid(), worker);
        over = true;
    });
    spawn(*runtime, 0, [&] {
        for (; !over; ++turns) threads::sleep_until(threads::now() + kMillisecond);
    });
    runtime->stop();
    EXPECT_GE(turns, 5u);
}

TEST(Offload, ResultsOfEveryKind) {
    auto runtime = *Runtime::start({});
    spawn(*runtime, 0, [] {
        int done = 0;
        const Result<void> nothing = offload([&] { ++done; });
        EXPECT_TRUE(nothing);
        EXPECT_EQ(done, 1);
        Result<std::unique_ptr<int>> moved = offload([] { return std::make_unique<int>(7); });
        EXPECT_EQ(**moved, 7);
        const Result<std::string> same = offload([]() -> Result<std::string> { return "text"; });
        EXPECT_EQ(*same, "text");
        const Result<void> error =
            offload([]() -> Result<void> { return fail(ErrorCode::no_space, "here"); });
        EXPECT_EQ(error.error().code, ErrorCode::no_space);
    });
    runtime->stop();
}

TEST(Offload, ThePoolHasABoundAndRunsAll) {
    auto runtime = *Runtime::start({.workers = 2, .offload_threads = 3});
    std::atomic<int> inside{0}, most{0}, sum{0};
    for (uint32_t i = 0; i < 60; ++i)
        spawn(*runtime, i, [&] {
            const auto one = offload([&] {
                const int n = ++inside;
                for (int m = most; m < n && !most.compare_exchange_weak(m, n);) {}
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                --inside;
                return 1;
            });
            sum += one.value_or(0);
        });
    runtime->stop();
    EXPECT_EQ(sum, 60);
    EXPECT_LE(most, 3);
    EXPECT_GE(most, 2);
}

TEST(Offload, ForeignThreadsAndSimulationsRunItOnTheSpot) {
    const pid_t here = gettid();
    EXPECT_EQ(offload([] { return gettid(); }).value_or(0), here);
    auto runtime = *Runtime::start({.caller_driven = true});
    pid_t there = 0;
    spawn(*runtime, 0, [&] { there = offload([] { return gettid(); }).value_or(0); });
    runtime->stop();
    EXPECT_EQ(there, here);
}

TEST(OffloadDeath, AnExceptionEndsTheProcess) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH((void)offload([]() -> int { throw 1; }), "terminate");
}

}  // namespace lockstep::offload_test
