// labels: unit tsan
// completion_test.cc - a Completion between user threads of two runtimes.
#include "threads/sync/completion.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "threads/runtime/runtime.h"

namespace lockstep::threads::completion_test {

// The waiter may see the event before it parks. Its runtime must not end while set() still wakes
// it. The sanitizers notice it, if the schedule is such; the next test makes one.
TEST(Completion, TheRuntimeOfTheWaiterOutlivesTheWake) {
    constexpr int kRounds = 300;
    auto setters = *Runtime::start({});
    for (int round = 0; round < kRounds; ++round) {
        auto waiters = *Runtime::start({});
        std::atomic<Completion*> offered{nullptr};
        ASSERT_TRUE(setters->spawn(0, "setter", [&] {
            Completion* done = nullptr;
            while ((done = offered.load()) == nullptr) {}
            done->set();
        }));
        ASSERT_TRUE(waiters->spawn(0, "waiter", [&] {
            Completion done;
            offered = &done;
            done.wait();
        }));
        waiters->stop();
        waiters.reset();
    }
    setters->stop();
}

#ifdef LOCKSTEP_SIM_POINTS
// The setter is interrupted between its store and its wake; the waiter sees the event meanwhile.
TEST(Completion, APinKeepsTheRuntimeOfTheWaiter) {
    auto setters = *Runtime::start({.caller_driven = true, .interrupt_one_in = 1});
    auto waiters = *Runtime::start({});
    const auto live = [&] { return waiters->stats().threads_live; };
    std::atomic<Completion*> offered{nullptr};
    std::atomic<bool> ended{false};
    Thread* const waiter = *waiters->spawn(0, "waiter", [&] {
        Completion done;
        offered = &done;
        done.wait();
    });
    while (waiter->state.load() != Thread::kParked) std::this_thread::yield();
    ASSERT_TRUE(setters->spawn(0, "setter", [&] {
        offered.load()->set();
        ended = true;
    }));
    while (!offered.load()->is_set()) ASSERT_TRUE(setters->step());
    EXPECT_FALSE(ended);
    EXPECT_EQ(live(), 2u);  // the waiter and the pin
    wake(waiter);
    while (live() > 1) std::this_thread::yield();
    EXPECT_EQ(live(), 1u);  // stop() would wait
    while (!ended) ASSERT_TRUE(setters->step());
    EXPECT_EQ(live(), 0u);
    waiters->stop();
    setters->stop();
}
#endif

// stop() of the waiter's runtime waits for the wake only, not for the thread that sets.
TEST(Completion, TheSetterGoesOn) {
    auto setters = *Runtime::start({}), waiters = *Runtime::start({});
    std::atomic<Completion*> offered{nullptr};
    std::atomic<bool> ended{false};
    ASSERT_TRUE(setters->spawn(0, "setter", [&] {
        while (offered.load() == nullptr) yield();
        offered.load()->set();
        while (!ended) yield();
    }));
    ASSERT_TRUE(waiters->spawn(0, "waiter", [&] {
        Completion done;
        offered = &done;
        done.wait();
        EXPECT_TRUE(done.is_set());
    }));
    waiters->stop();
    ended = true;
    setters->stop();
}

}  // namespace lockstep::threads::completion_test
