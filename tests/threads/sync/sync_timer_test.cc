// labels: unit tsan
// sync_timer_test.cc - the public timers: fixed distances, late waits, cancellation, restart.
#include <lockstep/timer.h>

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/code_of.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sync_timer_test {

using threads::Runtime;

// A clock that the test moves, so that the counts are exact.
struct Driven {
    ManualClock clock;
    std::unique_ptr<Runtime> runtime;
    Driven() {
        threads::RuntimeOptions options;
        options.caller_driven = true;
        options.clock = &clock;
        runtime = *Runtime::start(options);
    }
    void run(threads::ThreadFn fn) {
        ASSERT_TRUE(runtime->spawn(0, "timer", std::move(fn)));
        settle();
    }
    void settle() {
        while (runtime->step()) {}
    }
    void advance(Nanos time) {
        clock.advance(time);
        settle();
    }
};

TEST(SyncTimer, PeriodsDoNotDrift) {
    Driven d;
    Timer timer;
    std::vector<uint64_t> expiries;
    d.run([&] {
        timer.start(10, 100);
        for (int i = 0; i < 4; ++i) expiries.push_back(timer.wait().value_or(0));
        timer.cancel();
    });
    d.advance(9);
    EXPECT_TRUE(expiries.empty());
    d.advance(1);  // at 10
    EXPECT_EQ(expiries, (std::vector<uint64_t>{1}));
    d.advance(330);  // at 340: 110, 210 and 310 have passed
    EXPECT_EQ(expiries, (std::vector<uint64_t>{1, 3}));
    d.advance(70);  // at 410, and not at 440
    EXPECT_EQ(expiries, (std::vector<uint64_t>{1, 3, 1}));
    d.advance(100);
    EXPECT_EQ(expiries, (std::vector<uint64_t>{1, 3, 1, 1}));
}

TEST(SyncTimer, OnceThenTheEnd) {
    Driven d;
    Timer timer;
    std::vector<ErrorCode> ends;
    d.run([&] {
        EXPECT_EQ(code_of(timer.wait()), ErrorCode::cancelled);  // not started
        timer.start(50);
        ends.push_back(code_of(timer.wait()));
        ends.push_back(code_of(timer.wait()));
    });
    EXPECT_TRUE(ends.empty());
    d.advance(50);
    EXPECT_EQ(ends, (std::vector{ErrorCode::none, ErrorCode::cancelled}));
}

TEST(SyncTimer, StartMovesAWaitThatHasBegun) {
    Driven d;
    Timer timer;
    uint64_t expired = 0;
    d.run([&] {
        timer.start(1000);
        expired = timer.wait().value_or(99);
    });
    d.run([&] { timer.start(10); });
    EXPECT_EQ(expired, 0u);
    d.advance(10);
    EXPECT_EQ(expired, 1u);
}

TEST(SyncTimer, CancelEndsWaits) {
    Driven d;
    Timer timer;
    int cancelled = 0;
    timer.start(kNever);
    for (int i = 0; i < 3; ++i)
        d.run([&] { cancelled += code_of(timer.wait()) == ErrorCode::cancelled; });
    EXPECT_EQ(cancelled, 0);
    d.run([&] { timer.cancel(); });
    EXPECT_EQ(cancelled, 3);
}

TEST(SyncTimer, SleepUntilADeadline) {
    Driven d;
    bool awake = false;
    d.run([&] {
        sleep_until(0);  // has passed
        sleep_until(d.clock.now() + 100);
        awake = true;
    });
    d.advance(99);
    EXPECT_FALSE(awake);
    d.advance(1);
    EXPECT_TRUE(awake);
}

TEST(SyncTimer, ForeignKernelThreadsWaitToo) {
    Timer timer;
    const MonotonicClock clock;
    const Nanos start = clock.now();
    timer.start(5 * kMillisecond, 5 * kMillisecond);
    uint64_t expiries = 0;
    while (expiries < 3) expiries += *timer.wait();
    EXPECT_GE(clock.now() - start, 15 * kMillisecond);
    std::thread other([&] {
        sleep_until(clock.now() + 10 * kMillisecond);
        timer.cancel();
    });
    timer.start(kNever);
    EXPECT_EQ(code_of(timer.wait()), ErrorCode::cancelled);
    other.join();
}

}  // namespace lockstep::sync_timer_test
