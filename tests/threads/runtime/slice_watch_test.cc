// labels: unit
// slice_watch_test.cc - a user thread that keeps the CPU is reported with its stack; others are
// not.
#include "threads/runtime/slice_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/end_child.h"
#include "threads/runtime/runtime.h"
#include "threads/runtime/slice_time.h"

namespace lockstep::threads {

// Not exported: the names come from the symbol table of the program.
[[gnu::noinline]] static uint64_t compute_for_long(Nanos time) {
    // Time on the CPU: the machine may be busy.
    const auto used = [] {
        timespec now{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return static_cast<Nanos>(now.tv_sec) * kSecond + static_cast<Nanos>(now.tv_nsec);
    };
    const Nanos end = used() + time;
    uint64_t rounds = 0;
    while (used() < end) ++rounds;
    return rounds;
}
[[gnu::noinline]] static void block_for_long(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    asm volatile("" ::: "memory");  // not a tail call
}

#ifdef __x86_64__
// Counts `rounds` down with `frame_pointer` in the register of that name.
extern "C" void spin_with_frame_pointer(uint64_t rounds, uintptr_t frame_pointer);
asm(R"(
    .text
    .type spin_with_frame_pointer, @function
spin_with_frame_pointer:
    push %rbp
    mov %rsi, %rbp
1:  dec %rdi
    jnz 1b
    pop %rbp
    ret
    .size spin_with_frame_pointer, . - spin_with_frame_pointer
)");
#endif

namespace {

// What was reported.
class Reports {
public:
    SliceReport sink() {
        return [this](int level, std::string_view text) {
            const std::lock_guard guard(mutex_);
            ++count_[level];
            text_ += std::string(text) + "\n";
        };
    }
    int warnings() {
        const std::lock_guard guard(mutex_);
        return count_[1];
    }
    int ends() {
        const std::lock_guard guard(mutex_);
        return count_[2];
    }
    std::string text() {
        const std::lock_guard guard(mutex_);
        return text_;
    }
    bool says(const char* what) { return text().find(what) != std::string::npos; }

private:
    std::mutex mutex_;
    int count_[3] = {};
    std::string text_;
};

void spawn(Runtime& runtime, const char* name, ThreadFn fn) {
    ASSERT_TRUE(runtime.spawn(0, name, std::move(fn)));
}

// On a busy machine both the watch and the worker often wait for a CPU.
TEST(SliceTime, LooksThatComeLateStillCount) {
    constexpr Nanos kMost = 7 * kMillisecond;
    Nanos held = 0;
    const SliceLook late{
        .elapsed = 50 * kMillisecond, .computed = 0, .queued = 44 * kMillisecond, .asleep = true};
    for (int looks = 0; looks < 4; ++looks) held = held_after(held, late, kMost);
    EXPECT_EQ(held, 24 * kMillisecond);
    // The process was stopped.
    EXPECT_EQ(held_after(held, {.elapsed = 60 * kSecond, .asleep = true}, kMost), held + kMost);
    // What was computed is certain, however late the look.
    EXPECT_EQ(held_after(0, {.elapsed = kSecond, .computed = kSecond / 2}, kMost), kSecond / 2);
}

// The kernel counts a wait for a CPU when it ends. A thread that is ready may still be in one.
TEST(SliceTime, AWaitForACpuDoesNotCount) {
    constexpr Nanos kMost = 7 * kMillisecond;
    Nanos held = 3 * kMillisecond;
    for (int looks = 0; looks < 40; ++looks)
        held = held_after(held, {.elapsed = 5 * kMillisecond}, kMost);
    EXPECT_EQ(held, 3 * kMillisecond);
    const SliceLook ended{
        .elapsed = 5 * kMillisecond, .computed = 0, .queued = 200 * kMillisecond, .asleep = true};
    EXPECT_EQ(held_after(held, ended, kMost), 3 * kMillisecond);
}

TEST(SliceWatch, NamesAThreadThatComputes) {
    Reports reports;
    auto runtime = *Runtime::start({});
    ASSERT_TRUE(runtime->watch_slices(50 * kMillisecond, reports.sink()));
    spawn(*runtime, "innocent", [] { yield(); });
    spawn(*runtime, "busy", [] {
        for (int i = 0; i < 10; ++i) yield();
        EXPECT_GT(compute_for_long(300 * kMillisecond), 0u);
        sleep_until(now() + 100 * kMillisecond);
    });
    runtime->stop();
    EXPECT_EQ(reports.warnings(), 1) << reports.text();  // SL-1
    EXPECT_EQ(reports.ends(), 1) << reports.text();
    EXPECT_TRUE(reports.says("user thread 2 \"busy\"")) << reports.text();
    EXPECT_TRUE(reports.says("compute_for_long")) << reports.text();
    EXPECT_FALSE(reports.says("innocent")) << reports.text();
    EXPECT_TRUE(reports.says("user thread 2 gave up the CPU")) << reports.text();
}

TEST(SliceWatch, NamesAThreadThatBlocks) {
    Reports reports;
    auto runtime = *Runtime::start({.workers = 2});
    ASSERT_TRUE(runtime->watch_slices(50 * kMillisecond, reports.sink()));
    spawn(*runtime, "blocked", [] { block_for_long(300); });
    runtime->stop();
    EXPECT_EQ(reports.warnings(), 1) << reports.text();
    EXPECT_TRUE(reports.says("\"blocked\"")) << reports.text();
    EXPECT_TRUE(reports.says("block_for_long")) << reports.text();
}

// The kernel ends these calls at any signal, whatever SA_RESTART says.
TEST(SliceWatch, InterruptsNoSystemCall) {
    Reports reports;
    auto runtime = *Runtime::start({});
    ASSERT_TRUE(runtime->watch_slices(20 * kMillisecond, reports.sink()));
    int pipes[2];
    ASSERT_EQ(pipe(pipes), 0);
    static constexpr int kSleeps = 10, kMilliseconds = 60;
    int interrupted = 0;
    std::vector<const char*> calls;
    spawn(*runtime, "sleeper", [&] {
        const auto call = [&](const char* name, auto sleep) {
            for (int i = 0; i < kSleeps; ++i) {
                const auto begin = std::chrono::steady_clock::now();
                sleep();
                const auto slept = std::chrono::steady_clock::now() - begin;
                interrupted += slept < std::chrono::milliseconds(kMilliseconds);
                yield();
            }
            calls.push_back(name);
        };
        call("usleep", [] { usleep(kMilliseconds * 1000); });
        call("poll", [&] {
            pollfd one{.fd = pipes[0], .events = POLLIN, .revents = 0};
            poll(&one, 1, kMilliseconds);
        });
        call("select", [] {
            timeval time{.tv_sec = 0, .tv_usec = kMilliseconds * 1000};
            select(0, nullptr, nullptr, nullptr, &time);
        });
        call("epoll_wait", [] {
            const int set = epoll_create1(0);
            epoll_event event{};
            epoll_wait(set, &event, 1, kMilliseconds);
            close(set);
        });
    });
    runtime->stop();
    close(pipes[0]);
    close(pipes[1]);
    EXPECT_EQ(interrupted, 0);
    // Each is reported, unless this machine was so busy that the watch never looked meanwhile.
    EXPECT_EQ(calls.size(), 4u);
    EXPECT_GE(reports.warnings(), 4 * kSleeps * 3 / 4) << reports.text();
    EXPECT_EQ(reports.warnings(), reports.ends());
    EXPECT_TRUE(reports.says("\"sleeper\"")) << reports.text();
    EXPECT_TRUE(reports.says("InterruptsNoSystemCall")) << reports.text();
}

// Many kernel threads want the CPU of the worker, which computes little and waits for it.
TEST(SliceWatch, AThreadWithoutACpuDoesNotBlock) {
    Reports reports;
    auto runtime = *Runtime::start({});
    ASSERT_TRUE(runtime->watch_slices(30 * kMillisecond, reports.sink()));
    std::atomic<bool> end{false};
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    std::vector<std::thread> hogs;
    for (int i = 0; i < 4; ++i)
        hogs.emplace_back([&] {
            (void)sched_setaffinity(0, sizeof one, &one);
            while (!end) {}
        });
    spawn(*runtime, "starved", [&] {
        (void)sched_setaffinity(0, sizeof one, &one);
        for (int i = 0; i < 15; ++i) {
            (void)compute_for_long(3 * kMillisecond);
            yield();
        }
    });
    runtime->stop();
    end = true;
    for (std::thread& hog : hogs) hog.join();
    EXPECT_EQ(reports.warnings(), 0) << reports.text();
}

#ifdef __x86_64__
// Code without frame pointers has any number in the register.
TEST(SliceWatch, TheFramePointerMayBeAnyNumber) {
    const uintptr_t numbers[] = {0, 8, UINTPTR_MAX - 15, UINTPTR_MAX - 7, UINTPTR_MAX};
    for (const uintptr_t number : numbers) {
        Reports reports;
        auto runtime = *Runtime::start({});
        ASSERT_TRUE(runtime->watch_slices(20 * kMillisecond, reports.sink()));
        spawn(*runtime, "spinner", [&] {
            while (reports.warnings() == 0) spin_with_frame_pointer(10'000'000, number);
        });
        runtime->stop();
        EXPECT_TRUE(reports.says("\"spinner\"")) << reports.text();
    }
}
#endif

// Sleeps, waits, yields and an idle worker are no slices.
TEST(SliceWatch, SaysNothingOfGoodThreads) {
    Reports reports;
    auto runtime = *Runtime::start({});
    ASSERT_TRUE(runtime->watch_slices(60 * kMillisecond, reports.sink()));
    spawn(*runtime, "sleeper", [] { sleep_until(now() + 400 * kMillisecond); });
    runtime->stop();
    EXPECT_EQ(reports.warnings(), 0) << reports.text();
    runtime = *Runtime::start({});
    ASSERT_TRUE(runtime->watch_slices(60 * kMillisecond, reports.sink()));
    // Alone on its worker: its yields switch to no other thread.
    spawn(*runtime, "polite", [] {
        for (int i = 0; i < 60; ++i) {
            (void)compute_for_long(5 * kMillisecond);
            yield();
        }
    });
    runtime->stop();
    EXPECT_EQ(reports.warnings(), 0) << reports.text();
}

TEST(SliceWatch, EachLongSliceIsReportedOnce) {
    Reports reports;
    auto runtime = *Runtime::start({});
    ASSERT_TRUE(runtime->watch_slices(20 * kMillisecond, reports.sink()));
    spawn(*runtime, "twice", [] {
        for (int i = 0; i < 2; ++i) {
            block_for_long(150);
            sleep_until(now() + 60 * kMillisecond);
        }
    });
    runtime->stop();
    EXPECT_EQ(reports.warnings(), 2) << reports.text();
    EXPECT_EQ(reports.ends(), 2) << reports.text();
}

TEST(SliceWatch, ASimulationIsNotWatched) {
    Reports reports;
    auto runtime = *Runtime::start({.caller_driven = true});
    ASSERT_TRUE(runtime->watch_slices(5 * kMillisecond, reports.sink()));
    spawn(*runtime, "busy", [] { block_for_long(50); });
    runtime->stop();
    EXPECT_EQ(reports.warnings(), 0);
}

// --- the signal, in a child of its own

std::atomic<int> urgent{0};
void count_urgent(int) { ++urgent; }

void* installed() {
    struct sigaction action {};
    sigaction(SIGURG, nullptr, &action);
    return reinterpret_cast<void*>(action.sa_handler);
}

// Exit status: 0, or the number of the broken promise.
[[noreturn]] void signals() {
    Reports reports;
    struct sigaction own {};
    own.sa_handler = count_urgent;
    sigaction(SIGURG, &own, nullptr);
    auto first = *Runtime::start({}), second = *Runtime::start({});
    if (installed() != reinterpret_cast<void*>(count_urgent)) end_child(1);
    if (!first->watch_slices(20 * kMillisecond, reports.sink())) end_child(2);
    if (!second->watch_slices(20 * kMillisecond, reports.sink())) end_child(2);
    if (installed() == reinterpret_cast<void*>(count_urgent)) end_child(3);
    raise(SIGURG);  // not ours: to the handler before
    if (urgent != 1) end_child(4);
    for (Runtime* runtime : {first.get(), second.get()})
        if (!runtime->spawn(0, "blocked", [] { block_for_long(200); })) end_child(5);
    first.reset();
    if (installed() == reinterpret_cast<void*>(count_urgent)) end_child(6);
    second.reset();
    if (installed() != reinterpret_cast<void*>(count_urgent)) end_child(7);
    if (reports.warnings() != 2 || urgent != 1) end_child(8);
    // A handler that comes later stays, and gets no signal of ours.
    auto third = *Runtime::start({});
    if (!third->watch_slices(20 * kMillisecond, reports.sink())) end_child(9);
    sigaction(SIGURG, &own, nullptr);
    if (!third->spawn(0, "busy", [] { (void)compute_for_long(200 * kMillisecond); })) end_child(5);
    third.reset();
    if (installed() != reinterpret_cast<void*>(count_urgent) || urgent != 1) end_child(10);
    if (reports.warnings() != 3 || !reports.says("did not answer")) end_child(11);
    end_child(0);
}

TEST(SliceWatchDeath, TheSignalIsPolite) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(signals(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lockstep::threads
