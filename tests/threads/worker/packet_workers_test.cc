// labels: unit tsan
// packet_workers_test.cc - packets of several workers, and of all schedules of a simulation.
#include <gtest/gtest.h>

#include <cstdio>
#include <thread>
#include <vector>

#include "tests/seed_of_run.h"
#include "tests/threads/worker/packet_util.h"
#include "threads/base/rng.h"
#include "threads/sync/completion.h"
#include "threads/sync/event.h"
#include "threads/worker/io_wait.h"

namespace lockstep::threads::packet_workers_test {

// While nothing else can run, one more packet begins at a time: the others may wait for it.
TEST(PacketWorkers, PacketsThatWaitForOneAnotherGoOn) {
    auto runtime = *Runtime::start({.executors = 2});
    Works works;
    Event last_began;
    std::atomic<int> ended{0};
    for (int n = 0; n < 20; ++n)
        submit_or_fail(*runtime, 0, works.add([&, n] {
            if (n == 19) last_began.set();
            else last_began.wait(ParkReason::lock);
            ++ended;
        }));
    runtime->stop();
    EXPECT_EQ(ended, 20);
}

// stop() runs what waits, also what waits for a time, and refuses the rest.
TEST(PacketWorkers, StopRunsAll) {
    for (int round = 0; round < 20; ++round) {
        auto runtime = *Runtime::start({.workers = 2});
        Works works;
        std::atomic<int> ran{0};
        for (int n = 0; n < 40; ++n) {
            Work& work = works.add([&, n] {
                if (n % 5 == 0) sleep_until(now() + 50 * kMicrosecond);
                ++ran;
            });
            work.not_before = n % 3 == 0 ? MonotonicClock().now() + 3600 * kSecond : 0;
            submit_or_fail(*runtime, static_cast<uint32_t>(n), work);
        }
        runtime->stop();
        EXPECT_EQ(ran, 40);
        EXPECT_EQ(runtime->packets(), 0u);
        EXPECT_EQ(runtime->stats().threads_live, 0u);
        Work late([&] { ++ran; });
        const auto late_one = runtime->submit(0, late);
        ASSERT_FALSE(late_one);
        EXPECT_EQ(late_one.error().code, ErrorCode::store_closed);
    }
}

// A foreign thread submits to two workers that fall asleep between packets: none is overlooked.
TEST(PacketWorkers, NoPacketIsOverlooked) {
    auto runtime = *Runtime::start({.workers = 2});
    for (int round = 0; round < 1000; ++round) {
        Completion done[2];
        Work first([&] { done[0].set(); }), second([&] { done[1].set(); });
        first.pinned = second.pinned = round % 2 == 0;
        if (round % 3 == 0) second.not_before = MonotonicClock().now() + 20 * kMicrosecond;
        submit_or_fail(*runtime, 0, first);
        submit_or_fail(*runtime, 1, second);
        done[0].wait();
        done[1].wait();
        while (runtime->packets() != 0) std::this_thread::yield();  // they are on this stack
    }
    runtime->stop();
}

// Worker 0 takes packets of worker 1 for ever, and reads a file meanwhile (WK-5).
TEST(PacketWorkers, AWorkerThatTakesPacketsFinishesItsReads) {
    constexpr int kCirculating = 64;
    FILE* const file = tmpfile();
    ASSERT_NE(file, nullptr);
    ASSERT_GE(fputs("content", file), 0);
    ASSERT_EQ(fflush(file), 0);
    // `automatic` is the ring, where it is not refused.
    for (const IoBackend backend : {IoBackend::automatic, IoBackend::pool}) {
        const auto disk = make_disk(backend);
        auto runtime = *Runtime::start({.workers = 2, .disk = disk.get()});
        std::atomic<bool> over{false}, holds{false};
        std::atomic<int> taken{0};
        Works works, circulating;
        Work& holder = works.add([&] {
            holds = true;
            while (!over) std::this_thread::yield();
        });
        holder.pinned = true;
        submit_or_fail(*runtime, 1, holder);
        while (!holds) std::this_thread::yield();
        for (size_t n = 0; n < kCirculating; ++n)
            circulating.add([&, n] {
                taken += worker_index() == 0;
                // Refused when the runtime stops.
                if (!over) (void)runtime->submit(1, circulating.all[n]);
            });
        for (Work& work : circulating.all) submit_or_fail(*runtime, 1, work);
        while (taken < 100 * kCirculating) std::this_thread::yield();
        Completion read;
        char data[8] = {};
        Work& reader = works.add([&] {
            const auto bytes = io_read(FileId{fileno(file)}, 0, data, 7, "file");
            EXPECT_TRUE(bytes && *bytes == 7);
            read.set();
        });
        reader.pinned = true;
        submit_or_fail(*runtime, 0, reader);
        const Nanos deadline = MonotonicClock().now() + 5 * kSecond;
        while (!read.is_set() && MonotonicClock().now() < deadline) std::this_thread::yield();
        EXPECT_TRUE(read.is_set()) << (backend == IoBackend::pool ? "pool" : "io_uring");
        over = true;
        runtime->stop();
        EXPECT_STREQ(data, "content");
    }
    fclose(file);
}

// What waits behind a packet that keeps its worker goes to the other worker, except pinned packets.
// Up to four may stay, as few packets wake nobody.
TEST(PacketWorkers, AnIdleWorkerTakesPackets) {
    constexpr int kFew = 4;
    auto runtime = *Runtime::start({.workers = 2});
    Works works;
    std::atomic<bool> hold{true};
    std::atomic<int> ran[2] = {}, pinned{0};
    Work& holder = works.add([&] {
        while (hold) std::this_thread::yield();
    });
    holder.pinned = true;
    submit_or_fail(*runtime, 0, holder);
    for (int n = 0; n < 100; ++n) {
        Work& work = works.add([&, n] {
            if (n % 2 != 0) {
                ++ran[worker_index()];
                return;
            }
            EXPECT_EQ(worker_index(), 0u);
            ++pinned;
        });
        work.pinned = n % 2 == 0;
        submit_or_fail(*runtime, 0, work);
    }
    while (ran[1] < 50 - kFew) std::this_thread::yield();
    EXPECT_EQ(pinned, 0);
    hold = false;
    runtime->stop();
    EXPECT_EQ(pinned, 50);
    EXPECT_EQ(ran[0] + ran[1], 50);
    EXPECT_LE(ran[0], kFew);
    const StageStats stats = runtime->admission_stats();
    EXPECT_GE(stats.forwarded, 50u - kFew);
    EXPECT_TRUE(stats.conserved());
}

// Seeds, schedules and interruptions: each packet runs once, whoever takes it.
TEST(PacketSimulated, EverySchedule) {
    const uint64_t first = seed_of_run(5);
    for (uint64_t seed = first; seed < first + 100; ++seed) {
        ManualClock clock;
        RuntimeOptions options{.workers = 3,
                               .caller_driven = true,
                               .seed = seed,
                               .interrupt_one_in = 4,
                               .clock = &clock,
                               .executors = 3};
        if (seed % 2 == 0)
            options.policy = [seed](uint32_t w) { return make_random_policy(seed * 64 + w); };
        auto runtime = *Runtime::start(options);
        Rng rng(seed);
        Works works;
        Event go;
        std::vector<int> runs(60, 0);
        for (int& count : runs) {
            const uint64_t what = rng.below(5);
            Work& work = works.add([&count, &go, what] {
                ++count;
                if (what == 0) yield();
                if (what == 1) sleep_until(now() + 3);
                if (what == 2) go.wait(ParkReason::lock);
                if (what == 3) go.set();
            });
            work.pinned = rng.below(4) == 0;
            work.not_before = rng.below(3) == 0 ? clock.now() + rng.below(20) : 0;
            submit_or_fail(*runtime, static_cast<uint32_t>(rng.below(3)), work);
        }
        works.add([&] { go.set(); });
        submit_or_fail(*runtime, 0, works.all.back());
        step_all(*runtime, clock);
        EXPECT_EQ(runtime->packets(), 0u) << "seed " << seed;
        for (const int n : runs) ASSERT_EQ(n, 1) << "seed " << seed;
        EXPECT_TRUE(runtime->admission_stats().conserved()) << "seed " << seed;
    }
}

// A packet submits itself to the workers in turn while another thread withdraws it and submits it
// again. No queue loses its other packets. Builds without SIM_POINT() meet few of these schedules.
TEST(PacketSimulated, AWithdrawalMeetsASubmissionElsewhere) {
    constexpr uint32_t kSubmissions = 20, kWithdrawals = 200, kOthers = 8;
    const uint64_t first = seed_of_run(5);
    for (uint64_t seed = first; seed < first + 50; ++seed) {
        ManualClock clock;
        auto runtime = *Runtime::start({.workers = 2,
                                        .caller_driven = true,
                                        .seed = seed,
                                        .interrupt_one_in = 4,
                                        .clock = &clock});
        Works works;
        uint32_t runs = 0, others = 0, withdrawn = 0;
        Work* self = nullptr;
        Work& moving = works.add([&] {
            ++runs;
            if (runs < kSubmissions) submit_or_fail(*runtime, runs, *self);
        });
        self = &moving;
        submit_or_fail(*runtime, 0, moving);
        Work& withdrawer = works.add([&] {
            for (; withdrawn < kWithdrawals && runs < kSubmissions; yield())
                if (runtime->withdraw(moving)) submit_or_fail(*runtime, ++withdrawn, moving);
        });
        submit_or_fail(*runtime, 1, withdrawer);
        for (uint32_t n = 0; n < kOthers; ++n)
            submit_or_fail(*runtime, n, works.add([&others] { ++others; }));
        step_all(*runtime, clock);
        EXPECT_EQ(others, kOthers) << "seed " << seed;
        EXPECT_EQ(runtime->packets(), 0u) << "seed " << seed;
        EXPECT_EQ(runs, kSubmissions) << "seed " << seed << ", withdrawn " << withdrawn;
        ASSERT_TRUE(runtime->admission_stats().conserved()) << "seed " << seed;
    }
}

TEST(PacketWorkers, ManySubmittersAndWithdrawals) {
    auto runtime = *Runtime::start({.workers = 2});
    constexpr int kEach = 3000;
    std::atomic<int> ran{0}, back{0};
    std::vector<std::thread> submitters;
    std::vector<Works> works(3);
    for (Works& own : works)
        submitters.emplace_back([&] {
            for (int n = 0; n < kEach; ++n) {
                Work& work = own.add([&] { ++ran; });
                work.not_before = n % 4 == 0 ? MonotonicClock().now() + kMillisecond : 0;
                work.priority = static_cast<uint8_t>(n % 4);
                submit_or_fail(*runtime, static_cast<uint32_t>(n), work);
                if (n % 5 == 0 && runtime->withdraw(work)) ++back;
            }
        });
    for (auto& submitter : submitters) submitter.join();
    runtime->stop();
    EXPECT_EQ(ran + back, 3 * kEach);
    EXPECT_TRUE(runtime->admission_stats().conserved());
}

}  // namespace lockstep::threads::packet_workers_test
