// labels: unit tsan
// sync_workers_test.cc - the public mutex, condition, event, semaphore and channel: user threads of
// several workers, foreign kernel threads, and random schedules of a simulation.
#include <lockstep/sync.h>

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sync_workers_test {

using threads::Runtime;
using threads::RuntimeOptions;

void spawn(Runtime& runtime, uint32_t worker, threads::ThreadFn fn) {
    ASSERT_TRUE(runtime.spawn(worker, "test", std::move(fn)));
}

// Each wait is short, so a thread that does not come ends the test and not the test run.
constexpr Nanos kLong = 60 * kSecond;

// --- several workers and foreign kernel threads

// Runs body(i) on `users` user threads of three workers and `foreign` kernel threads.
template <class Body>
void everywhere(uint32_t users, uint32_t foreign, Body body) {
    auto runtime = *Runtime::start({.workers = 3});
    for (uint32_t i = 0; i < users; ++i) spawn(*runtime, i, [body, i] { body(i); });
    std::vector<std::thread> kernel_threads;
    for (uint32_t i = 0; i < foreign; ++i)
        kernel_threads.emplace_back([body, i, users] { body(users + i); });
    for (auto& thread : kernel_threads) thread.join();
    runtime->stop();
}

TEST(SyncWorkers, MutexExcludes) {
    Mutex mutex;
    const uint64_t seed = seed_of_run(15);
    uint64_t count = 0;  // not atomic
    everywhere(12, 4, [&](uint32_t i) {
        Rng rng(seed + i);
        for (int k = 0; k < 500; ++k) {
            if (rng.chance(0.2)) {
                if (!mutex.try_lock_for(rng.below(50) * kMicrosecond)) continue;
            } else {
                mutex.lock();
            }
            ++count;
            if (threads::current() != nullptr && rng.chance(0.1)) threads::yield();
            mutex.unlock();
        }
    });
    EXPECT_GT(count, 0u);
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
}

TEST(SyncWorkers, ConditionLosesNoNotify) {
    Mutex mutex;
    Condition ready, taken;
    std::vector<int> values;
    uint64_t sum = 0, got = 0;
    constexpr uint32_t kPairs = 8, kValues = 300;
    everywhere(kPairs, kPairs, [&](uint32_t i) {
        for (uint32_t k = 0; k < kValues; ++k) {
            const std::lock_guard guard(mutex);
            if (i % 2 == 0) {
                taken.wait(mutex, [&] { return values.size() < 4; });
                values.push_back(1);
                ready.notify_one();
            } else {
                EXPECT_TRUE(ready.wait_for(mutex, kLong, [&] { return !values.empty(); }));
                sum += static_cast<uint64_t>(values.back());
                values.pop_back();
                ++got;
                taken.notify_one();
            }
        }
    });
    EXPECT_EQ(got, uint64_t{kPairs} * kValues);
    EXPECT_EQ(sum, got);
    EXPECT_TRUE(values.empty());
}

TEST(SyncWorkers, SemaphoreLosesNoUnit) {
    const uint64_t seed = seed_of_run(16);
    Semaphore semaphore(5);
    std::atomic<int> inside{0};
    std::atomic<bool> too_many{false};
    everywhere(20, 4, [&](uint32_t i) {
        Rng rng(seed + i);
        for (int k = 0; k < 200; ++k) {
            const uint64_t units = 1 + rng.below(5);
            const Nanos timeout = rng.chance(0.3) ? rng.below(40) * kMicrosecond : kNever;
            if (!semaphore.acquire(units, timeout)) continue;
            if (inside.fetch_add(static_cast<int>(units)) + static_cast<int>(units) > 5)
                too_many = true;
            if (threads::current() != nullptr) threads::yield();
            inside.fetch_sub(static_cast<int>(units));
            semaphore.release(units);
        }
    });
    EXPECT_FALSE(too_many);
    EXPECT_TRUE(semaphore.try_acquire(5));
}

TEST(SyncWorkers, ChannelDeliversEachValueOnce) {
    const uint64_t seed = seed_of_run(17);
    for (const size_t capacity : {size_t{0}, size_t{1}, size_t{16}}) {
        Channel<uint64_t> channel(capacity);
        std::atomic<uint64_t> sent{0}, received{0}, senders{10};
        everywhere(14, 6, [&](uint32_t i) {
            Rng rng(seed + i);
            if (i % 2 == 0) {
                for (uint64_t k = 1; k <= 200; ++k) {
                    const Nanos timeout = rng.chance(0.2) ? 20 * kMicrosecond : kNever;
                    if (channel.send(k, timeout)) sent += k;
                }
                if (--senders == 0) channel.close();
                return;
            }
            for (;;) {
                const auto value = channel.receive(rng.chance(0.2) ? 20 * kMicrosecond : kNever);
                if (!value) continue;  // timeout
                if (!value->has_value()) break;
                received += **value;
            }
        });
        EXPECT_EQ(sent, received) << capacity;
        EXPECT_EQ(channel.size(), 0u);
    }
}

// SY-3: the waiter destroys the object as soon as its wait has returned.
TEST(SyncWorkers, TheWaiterMayDestroyTheObject) {
    auto runtime = *Runtime::start({.workers = 2});
    for (int round = 0; round < 300; ++round) {
        std::atomic<Event*> shared{nullptr};
        spawn(*runtime, 0, [&] {
            auto event = std::make_unique<Event>();
            shared = event.get();
            EXPECT_TRUE(event->wait());
        });
        std::atomic<bool> done{false};
        const auto set = [&] {
            while (shared == nullptr) {}
            shared.load()->set();
            done = true;
        };
        if (round % 2 == 0) spawn(*runtime, 1, set);
        else set();
        while (!done) std::this_thread::yield();
        // And a foreign kernel thread waits.
        auto event = std::make_unique<Event>();
        spawn(*runtime, 1, [&event = *event] { event.set(); });
        EXPECT_TRUE(event->wait());
    }
    runtime->stop();
}

// A waker from outside is not done with the runtime when the thread that it woke ends.
TEST(SyncWorkers, TheRuntimeMayEndWithTheWaiter) {
    for (int round = 0; round < 100; ++round) {
        Event begun, event;
        auto runtime = *Runtime::start({});
        spawn(*runtime, 0, [&] {
            begun.set();
            (void)event.wait(round % 3 == 0 ? 20 * kMicrosecond : kNever);
        });
        EXPECT_TRUE(begun.wait(kLong));
        std::thread waker([&] { event.set(); });
        runtime->stop();
        runtime.reset();
        waker.join();
    }
}

// --- simulation

// Random schedules, where the build allows also in the middle of a step.
template <class Start>
void simulate(uint64_t seed, Start start) {
    ManualClock clock;
    RuntimeOptions options;
    options.workers = 3;
    options.caller_driven = true;
    options.seed = seed;
    options.interrupt_one_in = 4;
    options.clock = &clock;
    options.policy = [seed](uint32_t worker) {
        return threads::make_random_policy(seed * 64 + worker);
    };
    auto runtime = *Runtime::start(options);
    start(*runtime);
    for (;;) {
        if (runtime->step()) continue;
        const Nanos next = runtime->next_deadline();
        if (next == kNever) break;
        clock.advance(next > clock.now() ? next - clock.now() : 1);
    }
    EXPECT_EQ(runtime->stats().threads_live, 0u) << "seed " << seed;
}

TEST(SyncSimulated, EverySchedule) {
    const uint64_t first = seed_of_run(18);
    for (uint64_t seed = first; seed < first + 150; ++seed) {
        Mutex mutex;
        Condition condition;
        Semaphore semaphore(2);
        Channel<int> channel(seed % 3);
        int inside = 0, ready = 0, sum = 0;
        simulate(seed, [&](Runtime& runtime) {
            for (uint32_t i = 0; i < 9; ++i)
                spawn(runtime, i, [&, i] {
                    Rng rng(seed * 100 + i);
                    for (int k = 0; k < 3; ++k) {
                        const uint64_t units = 1 + i % 2;
                        if (semaphore.acquire(units, rng.chance(0.3) ? 1000 : kNever))
                            semaphore.release(units);
                        {
                            const std::lock_guard guard(mutex);
                            EXPECT_EQ(++inside, 1);
                            if (rng.chance(0.5)) threads::yield();
                            --inside;
                            ++ready;
                            condition.notify_one();
                        }
                        EXPECT_TRUE(channel.send(1));
                    }
                });
            spawn(runtime, 0, [&] {
                const std::lock_guard guard(mutex);
                condition.wait(mutex, [&] { return ready == 27; });
                ++ready;
            });
            spawn(runtime, 1, [&] {
                for (int k = 0; k < 27; ++k) sum += channel.receive()->value_or(100);
                channel.close();
                EXPECT_FALSE(channel.receive()->has_value());
            });
        });
        EXPECT_EQ(ready, 28) << "seed " << seed;
        EXPECT_EQ(sum, 27) << "seed " << seed;
    }
}

TEST(SyncSimulated, ACloseEndsEveryReceiver) {
    const uint64_t first = seed_of_run(19);
    for (uint64_t seed = first; seed < first + 100; ++seed) {
        Channel<int> channel(2);
        int ends = 0;
        simulate(seed, [&](Runtime& runtime) {
            for (uint32_t i = 0; i < 5; ++i)
                spawn(runtime, i, [&] {
                    while (channel.receive()->has_value()) {}
                    ++ends;
                });
            spawn(runtime, 2, [&] {
                for (int k = 0; k < 4; ++k) EXPECT_TRUE(channel.send(k));
                channel.close();
            });
        });
        EXPECT_EQ(ends, 5) << "seed " << seed;
    }
}

}  // namespace lockstep::sync_workers_test
