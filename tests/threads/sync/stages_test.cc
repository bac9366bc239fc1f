// labels: unit tsan
// stages_test.cc - a server's stages: batches by each gate, back-pressure, and long requests beside
// short ones in virtual time.
#include <lockstep/stages.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "tests/seed_of_run.h"
#include "threads/base/rng.h"
#include "threads/runtime/runtime.h"
#include "threads/sync/completion.h"
#include "threads/sync/event.h"

namespace lockstep::stages_test {

using threads::Runtime;

// Starts all threads on worker 0 before the first one runs, and waits for their end.
void run_together(std::vector<threads::ThreadFn> fns, const Clock* clock = nullptr) {
    auto runtime = *Runtime::start({.clock = clock});
    threads::Completion spawned;
    ASSERT_TRUE(runtime->spawn(0, "first", [&] {
        for (auto& fn : fns) EXPECT_TRUE(runtime->spawn(0, "request", std::move(fn)));
        spawned.set();
    }));
    spawned.wait();
    runtime->stop();
}

// What two stages do, in order, when four requests arrive together and a fifth arrives while the
// first one is in service: stage a or b, and the number of the request.
std::string order(const StagesOptions& options) {
    Stages stages(std::array<uint64_t, 2>{}, options);
    std::string order;
    std::vector<threads::ThreadFn> fns;
    threads::Event late;
    for (char number = '0'; number < '5'; ++number)
        fns.emplace_back([&, number] {
            if (number == '4') late.wait();
            StagedRequest request;
            for (size_t stage = 0; stage < 2; ++stage) {
                stages.enter(request, stage);
                order += {"ab"[stage], number, ' '};
                if (stage == 0 && number == '0') {
                    late.set();
                    for (int i = 0; i < 2; ++i) stages.pause(request);
                }
            }
            stages.leave(request);
        });
    run_together(std::move(fns));
    EXPECT_EQ(stages.verify(), "");
    EXPECT_EQ(stages.stats(0).entered, 5u);
    EXPECT_EQ(stages.stats(1).finished, 5u);
    return order;
}

TEST(Stages, EachGateFormsItsBatches) {
    EXPECT_EQ(order({.gate = StageGate::fcfs}), "a0 b0 a1 b1 a2 b2 a3 b3 a4 b4 ");
    EXPECT_EQ(order({.gate = StageGate::t_gated, .batch_max = 2}),
              "a0 a1 b0 b1 a2 a3 b2 b3 a4 b4 ");
    EXPECT_EQ(order({.gate = StageGate::d_gated}), "a0 a1 a2 a3 b0 b1 b2 b3 a4 b4 ");
    EXPECT_EQ(order({.gate = StageGate::non_gated}), "a0 a1 a2 a3 a4 b0 b1 b2 b3 b4 ");
    EXPECT_EQ(order({.gate = StageGate::c_gated, .cutoff = kSecond}),
              "a0 a1 a2 a3 b0 b1 b2 b3 a4 b4 ");
    // Request 0 stays behind at its second pause, and passes with the next batch.
    EXPECT_EQ(order({.gate = StageGate::c_gated, .cutoff = 0}), "a0 a1 a2 a3 b1 b2 b3 a4 b4 b0 ");
    // Each goes on until it pauses.
    EXPECT_EQ(order({.gate = StageGate::sharing}), "a0 a1 b1 a2 b2 a3 b3 a4 b4 b0 ");
}

TEST(Stages, WhatWaitsDoesNotKeepItsStage) {
    Stages stages(std::array<uint64_t, 1>{}, {});
    threads::Event event;
    std::string order;
    std::vector<threads::ThreadFn> fns;
    for (int i = 0; i < 3; ++i)
        fns.emplace_back([&, i] {
            StagedRequest request;
            stages.enter(request, 0);
            if (i < 2) event.wait();  // the third request ends both waits
            else event.set();
            order += static_cast<char>('0' + i);
            stages.leave(request);
        });
    run_together(std::move(fns));
    EXPECT_EQ(order, "201");
    EXPECT_EQ(stages.verify(), "");
}

// The middle stage has room for two requests. A third one that wants to go there keeps its place in
// the first stage; those that go to the last stage do not notice.
TEST(Stages, AFullStageFreezesItsProducerOnly) {
    Stages stages(std::array<uint64_t, 3>{0, 2, 0}, {});
    threads::Event release;
    size_t through = 0, passed_by = 0;
    std::vector<threads::ThreadFn> fns;
    for (size_t i = 0; i < 3; ++i)
        fns.emplace_back([&] {
            StagedRequest request;
            stages.enter(request, 0);
            stages.enter(request, 1);
            release.wait();
            stages.enter(request, 2);
            EXPECT_EQ(request.visited(), 0x123u);
            stages.leave(request);
            ++through;
        });
    fns.emplace_back([&] {
        for (; passed_by < 50; ++passed_by) {
            StagedRequest request;
            stages.enter(request, 0);
            stages.enter(request, 2);
            EXPECT_EQ(request.visited(), 0x13u);
            stages.leave(request);
        }
        EXPECT_EQ(through, 0u);
        const StageStats first = stages.stats(0), full = stages.stats(1);
        EXPECT_EQ(first.in_service, 1u);
        EXPECT_EQ(full.in_service, 2u);
        EXPECT_EQ(full.suspended, 1u);
        release.set();
    });
    run_together(std::move(fns));
    EXPECT_EQ(through, 3u);
    EXPECT_EQ(passed_by, 50u);
    EXPECT_EQ(stages.verify(), "");
}

// 95th percentile of the response of short requests beside one that needs 20 ms and comes again and
// again. Time is virtual: it passes with the work.
Nanos short_p95(StageGate gate) {
    ManualClock clock;
    Stages stages(std::array<uint64_t, 2>{}, {.gate = gate, .cutoff = kMillisecond});
    std::vector<Nanos> responses;
    const auto works = [&](StagedRequest& request, int slices) {
        for (int i = 0; i < slices; ++i) {
            clock.advance(100 * kMicrosecond);
            if (i + 1 < slices) stages.pause(request);
        }
    };
    const auto asks = [&](int slices) {
        StagedRequest request;
        const Nanos begin = clock.now();
        stages.enter(request, 0);
        works(request, 1);
        stages.enter(request, 1);
        works(request, slices);
        stages.leave(request);
        return clock.now() - begin;
    };
    std::vector<threads::ThreadFn> fns;
    size_t clients = 8;
    fns.emplace_back([&] {
        while (clients > 0) asks(200);
    });
    for (size_t i = 0; i < 8; ++i)
        fns.emplace_back([&] {
            for (int k = 0; k < 50; ++k) {
                responses.push_back(asks(1));
                threads::yield();  // think
            }
            --clients;
        });
    run_together(std::move(fns), &clock);
    EXPECT_EQ(responses.size(), 400u);
    EXPECT_EQ(stages.verify(), "");
    std::ranges::sort(responses);
    return responses[responses.size() * 95 / 100];
}

TEST(Stages, TheCutoffKeepsShortRequestsShortBesideALongOne) {
    const Nanos d = short_p95(StageGate::d_gated), c = short_p95(StageGate::c_gated);
    EXPECT_GE(d, 2 * c);
    EXPECT_GE(d, 20 * kMillisecond);  // of the long one
    EXPECT_LE(c, 5 * kMillisecond);
}

// Requests with random routes, waits and pauses, on two workers and with small stages.
TEST(Stages, EveryRequestVisitsItsRoute) {
    Rng rng(seed_of_run(7));
    for (const StageGate gate : {StageGate::fcfs, StageGate::t_gated, StageGate::d_gated,
                                 StageGate::c_gated, StageGate::non_gated, StageGate::sharing}) {
        constexpr uint32_t kThreads = 30, kRounds = 20;
        Stages stages(std::array<uint64_t, 4>{0, 3, 2, 0},
                      {.gate = gate, .batch_max = 3, .cutoff = kMicrosecond, .workers = 2});
        std::atomic<uint64_t> visits[4] = {};
        auto runtime = *Runtime::start({.workers = 2});
        for (uint32_t i = 0; i < kThreads; ++i)
            ASSERT_TRUE(runtime->spawn(i, "request", [&, seed = rng.next()] {
                Rng draws(seed);
                for (uint32_t round = 0; round < kRounds; ++round) {
                    StagedRequest request;
                    uint64_t route = 0;
                    for (size_t stage = 0; stage < 4; ++stage) {
                        if (stage > 0 && draws.below(3) == 0) continue;
                        stages.enter(request, stage);
                        route = route << 4 | (stage + 1);
                        ++visits[stage];
                        for (uint64_t k = draws.below(3); k > 0; --k) stages.pause(request);
                        if (draws.below(8) == 0)
                            threads::sleep_until(threads::now() + 10 * kMicrosecond);
                        if (draws.below(4) == 0) threads::yield();
                    }
                    EXPECT_EQ(request.visited(), route);
                    if (draws.below(2) == 0) stages.leave(request);
                    stages.leave(request);
                }
            }));
        runtime->stop();
        EXPECT_EQ(stages.verify(), "");
        for (size_t stage = 0; stage < 4; ++stage) {
            const StageStats stats = stages.stats(stage);
            EXPECT_EQ(stats.entered, visits[stage].load());
            EXPECT_EQ(stats.finished + stats.forwarded, stats.entered);
        }
    }
}

}  // namespace lockstep::stages_test
