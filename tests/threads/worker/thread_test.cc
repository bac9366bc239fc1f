// labels: unit tsan
// thread_test.cc - user threads: many of them, park and wake within and across workers, tokens.
#include "threads/thread/thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include "threads/base/sanitized.h"
#include "threads/runtime/runtime.h"
#include "threads/sync/event.h"

namespace lockstep::threads::thread_test {

// TSan knows at most some thousand fibers.
constexpr int kMany = kThreadSanitizer ? 1'000 : 10'000;

void spawn_or_fail(Runtime& runtime, uint32_t worker, ThreadFn fn) {
    ASSERT_TRUE(runtime.spawn(worker, "test", std::move(fn)));
}

TEST(Thread, RunsAndEnds) {
    auto runtime = *Runtime::start({});
    int ran = 0;
    for (int i = 0; i < 100; ++i) spawn_or_fail(*runtime, 0, [&] { ++ran; });
    runtime->stop();
    EXPECT_EQ(ran, 100);
    EXPECT_EQ(runtime->stats().threads_live, 0u);
    EXPECT_EQ(current(), nullptr);
}

TEST(Thread, PingPong) {
    auto runtime = *Runtime::start({});
    constexpr int kRounds = 10'000;
    Thread* threads[2] = {};
    int turn = 0, moves = 0;
    for (int me = 0; me < 2; ++me)
        spawn_or_fail(*runtime, 0, [&, me] {
            threads[me] = current();
            while (threads[1 - me] == nullptr) yield();
            for (int i = 0; i < kRounds; ++i) {
                while (turn != me) park(ParkReason::event);
                ASSERT_EQ(current(), threads[me]);
                ++moves;
                turn = 1 - me;
                wake(threads[turn]);
            }
        });
    runtime->stop();
    EXPECT_EQ(moves, 2 * kRounds);
}

TEST(Thread, TenThousandAtOnce) {
    auto runtime = *Runtime::start({.workers = 2});
    Event go;
    std::atomic<int> waiting{0}, passed{0};
    for (int i = 0; i < kMany; ++i)
        spawn_or_fail(*runtime, static_cast<uint32_t>(i), [&] {
            ++waiting;
            go.wait();
            ++passed;
        });
    spawn_or_fail(*runtime, 0, [&] {
        while (waiting < kMany) sleep_until(now() + kMillisecond);
        EXPECT_EQ(passed, 0);
        go.set();
    });
    runtime->stop();
    EXPECT_EQ(passed, kMany);
    EXPECT_GE(runtime->stats().threads_max, static_cast<uint64_t>(kMany));
}

TEST(Thread, StacksAndThreadsAreReused) {
    auto runtime = *Runtime::start({});
    std::vector<void*> seen;
    for (int i = 0; i < 1000; ++i) {
        Completion done;
        spawn_or_fail(*runtime, 0, [&] {
            seen.push_back(current());
            done.set();
        });
        done.wait();
        while (runtime->stats().threads_live > 0) {}
    }
    runtime->stop();
    for (void* thread : seen) EXPECT_EQ(thread, seen[0]);
}

// TH-2: a token that came before the park is consumed by it.
TEST(Thread, WakeBeforePark) {
    auto runtime = *Runtime::start({});
    bool passed = false;
    spawn_or_fail(*runtime, 0, [&] {
        wake(current());
        wake(current());
        park(ParkReason::event);
        // Two wakes, one token.
        EXPECT_FALSE(park_until(now() + kMillisecond, ParkReason::event));
        passed = true;
    });
    runtime->stop();
    EXPECT_TRUE(passed);
}

// A chain of tokens through threads of several workers: if one wake were lost, the storm would
// stand still.
void storm(uint32_t workers, int threads_per_worker, int rounds) {
    auto runtime = *Runtime::start({.workers = workers});
    const int count = static_cast<int>(workers) * threads_per_worker;
    struct alignas(64) Cell {
        std::atomic<uint64_t> inbox{0};
        Thread* thread = nullptr;
    };
    auto cells = std::make_unique<Cell[]>(static_cast<size_t>(count));
    std::atomic<int> started{0};
    std::atomic<uint64_t> received{0};
    for (int me = 0; me < count; ++me)
        spawn_or_fail(*runtime, static_cast<uint32_t>(me), [&, me] {
            cells[me].thread = current();
            ++started;
            while (started < count) yield();
            uint64_t got = 0;
            for (int round = 0; round < rounds; ++round) {
                // Every round a permutation.
                Cell& to = cells[(me + 1 + round % (count - 1)) % count];
                to.inbox.fetch_add(1, std::memory_order_relaxed);
                wake(to.thread);
                while (cells[me].inbox.load(std::memory_order_relaxed) <= got)
                    park(ParkReason::event);
                ++got;
            }
            received += got;
        });
    runtime->stop();
    EXPECT_EQ(received, static_cast<uint64_t>(count) * static_cast<uint64_t>(rounds));
}

TEST(Thread, RemoteWakeStormTwoWorkers) { storm(2, 8, 2'000); }
TEST(Thread, RemoteWakeStormFourWorkers) { storm(4, 4, 2'000); }
// One thread a worker: every wait lets the worker sleep, so the path into and out of the kernel is
// what is stormed.
TEST(Thread, RemoteWakeStormOfSleepers) { storm(4, 1, 3'000); }

TEST(Thread, ForeignKernelThreadWakes) {
    auto runtime = *Runtime::start({});
    std::atomic<Thread*> thread{nullptr};
    std::atomic<int> sent{0}, got{0};
    spawn_or_fail(*runtime, 0, [&] {
        thread = current();
        while (got < 2000) {
            while (sent.load() == got.load()) park(ParkReason::event);
            ++got;
        }
    });
    while (thread == nullptr) {}
    for (int i = 1; i <= 2000; ++i) {
        sent = i;
        wake(thread);
        while (got < i) {}
    }
    runtime->stop();
    EXPECT_EQ(got, 2000);
}

TEST(Thread, YieldIsFair) {
    auto runtime = *Runtime::start({});
    std::vector<int> trace;
    int started = 0;
    for (int me = 0; me < 3; ++me)
        spawn_or_fail(*runtime, 0, [&, me] {
            ++started;
            while (started < 3) yield();
            for (int i = 0; i < 50; ++i) {
                trace.push_back(me);
                yield();
            }
        });
    runtime->stop();
    ASSERT_EQ(trace.size(), 150u);
    for (size_t i = 10; i + 10 < trace.size(); ++i) {
        EXPECT_NE(trace[i], trace[i + 1]) << i;
        EXPECT_TRUE(i + 3 >= 140 || trace[i] == trace[i + 3]) << i;
    }
}

TEST(Thread, YieldToFewComesBackAfterThem) {
    auto runtime = *Runtime::start({});
    std::string order;
    std::atomic<bool> done{false};  // stop() lets nobody spawn any more
    spawn_or_fail(*runtime, 0, [&] {
        EXPECT_FALSE(yield_to_few(2));  // nobody there
        for (const char name : {'a', 'b', 'c', 'd', 'e'})
            spawn_or_fail(*runtime, 0, [&order, name] { order += name; });
        order += '0';
        while (yield_to_few(2)) order += '0';
        done = true;
        done.notify_one();
    });
    done.wait(false);
    runtime->stop();
    EXPECT_EQ(order, "0ab0cd0e0");
}

// Woken together with others, the one they wait for runs first; after its own yield it is one of
// them.
TEST(Thread, UrgentOnesRunBeforeTheOthers) {
    auto runtime = *Runtime::start({});
    std::string order;
    std::vector<Thread*> parked;
    for (const char name : {'a', 'u', 'b'})
        spawn_or_fail(*runtime, 0, [&, name] {
            current()->urgent = name == 'u';
            parked.push_back(current());
            park(ParkReason::event);
            order += name;
            yield();
            order += name;
        });
    spawn_or_fail(*runtime, 0, [&] {
        while (parked.size() < 3) yield();
        for (Thread* thread : parked) wake(thread);
    });
    runtime->stop();
    EXPECT_EQ(order, "uabuab");
}

// The log's flusher ends, and its Thread object serves another user thread.
TEST(Thread, AReusedThreadIsNotUrgent) {
    auto runtime = *Runtime::start({});
    Thread* first = nullptr;
    for (const bool urgent : {true, false}) {
        Completion done;
        spawn_or_fail(*runtime, 0, [&, urgent] {
            if (urgent) first = current();
            EXPECT_EQ(current(), first);
            EXPECT_FALSE(current()->urgent);
            current()->urgent = urgent;
            done.set();
        });
        done.wait();
        while (runtime->stats().threads_live > 0) {}
    }
    runtime->stop();
}

TEST(Thread, YieldingDoesNotShutOutMail) {
    auto runtime = *Runtime::start({});
    std::atomic<bool> stop{false};
    spawn_or_fail(*runtime, 0, [&] {
        while (!stop) yield();
    });
    spawn_or_fail(*runtime, 0, [&] {
        sleep_until(now() + 5 * kMillisecond);  // timers, too
        stop = true;
    });
    runtime->stop();
    EXPECT_TRUE(stop);
}

// Waits for others are timed; what a thread waits for by its own choice, and before it began, is
// not its wait.
TEST(Thread, KnowsWhatItWaitedFor) {
    ManualClock clock;
    auto runtime = *Runtime::start({.caller_driven = true, .clock = &clock});
    Thread* waiting = nullptr;
    Nanos waited_lock = 0, waited_sleep = 0, waited_next = 1;
    spawn_or_fail(*runtime, 0, [&] {
        waiting = current();
        park(ParkReason::lock);
        sleep_until(now() + 5'000);
        waited_lock = waited(ParkReason::lock);
        waited_sleep = waited(ParkReason::sleep);
    });
    while (runtime->step()) {}
    clock.advance(700);
    wake(waiting);
    while (runtime->step()) {}
    clock.advance(5'000);
    while (runtime->step()) {}
    EXPECT_EQ(waited_lock, 700);
    EXPECT_EQ(waited_sleep, 0);
    // On the same Thread object.
    spawn_or_fail(*runtime, 0, [&] { waited_next = waited(ParkReason::lock); });
    runtime->stop();
    EXPECT_EQ(waited_next, 0);
    EXPECT_EQ(waited(ParkReason::lock), 0);
}

TEST(Thread, SpawnFromUserThreads) {
    auto runtime = *Runtime::start({.workers = 3});
    std::atomic<int> leaves{0};
    std::function<void(int)> grow = [&](int depth) {
        if (depth == 0) {
            ++leaves;
            return;
        }
        for (uint32_t i = 0; i < 3; ++i)
            EXPECT_TRUE(
                runtime->spawn(worker_index() + i, "branch", [&grow, depth] { grow(depth - 1); }));
    };
    Completion started;
    spawn_or_fail(*runtime, 0, [&] {
        grow(5);
        started.set();
    });
    started.wait();
    while (leaves < 243) sched_yield();
    runtime->stop();
    EXPECT_EQ(leaves, 243);
}

// What a thread's function captured is gone when the thread has ended.
TEST(Thread, CapturesDieWithTheThread) {
    auto runtime = *Runtime::start({});
    auto held = std::make_shared<int>(1);
    spawn_or_fail(*runtime, 0, [held] { yield(); });
    runtime->stop();
    EXPECT_EQ(held.use_count(), 1);
}

}  // namespace lockstep::threads::thread_test
