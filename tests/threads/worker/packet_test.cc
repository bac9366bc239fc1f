// labels: unit tsan
// packet_test.cc - packets of one worker: the order in which they begin, the limits, the threads
// that run them, waits, teams, and the end of a runtime.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/seed_of_run.h"
#include "tests/threads/worker/packet_util.h"
#include "threads/base/rng.h"
#include "threads/sync/event.h"

namespace lockstep::threads::packet_test {

// One worker that the test drives.
class PacketTest : public testing::Test {
protected:
    Runtime& start(RuntimeOptions options = {}) {
        options.caller_driven = true;
        options.clock = &clock_;
        runtime_ = *Runtime::start(options);
        return *runtime_;
    }
    void submit(Packet& packet) { submit_or_fail(*runtime_, 0, packet); }
    void submit(std::function<void()> fn) { submit(works_.add(std::move(fn))); }
    void step_all() { threads::step_all(*runtime_, clock_); }

    ManualClock clock_;
    Works works_;
    std::unique_ptr<Runtime> runtime_;
    std::vector<int> order_;
};

TEST_F(PacketTest, BeginInTheOrderOfTheirSubmission) {
    start();
    for (int n = 0; n < 100; ++n) submit([this, n] { order_.push_back(n); });
    EXPECT_TRUE(order_.empty());  // submit() runs nothing
    step_all();
    ASSERT_EQ(order_.size(), 100u);
    EXPECT_TRUE(std::is_sorted(order_.begin(), order_.end()));
    EXPECT_EQ(runtime_->packets(), 0u);
    const StageStats stats = runtime_->admission_stats();
    EXPECT_EQ(stats.entered, 100u);
    EXPECT_EQ(stats.finished, 100u);
    EXPECT_TRUE(stats.conserved());
}

// Higher priorities first; a lower one comes first once after it was passed over 16 times.
TEST_F(PacketTest, BeginByPriority) {
    for (const bool fifo : {false, true}) {
        start({.packet_policy = fifo ? PacketPolicy::fifo : PacketPolicy::priority});
        order_.clear();
        for (int n = 0; n < 80; ++n) {
            Work& work = works_.add([this, n] { order_.push_back(n < 40 ? 0 : 3); });
            work.priority = n < 40 ? 0 : 3;
            submit(work);
        }
        step_all();
        ASSERT_EQ(order_.size(), 80u);
        EXPECT_EQ(order_[0], fifo ? 0 : 3);
        if (fifo) {
            EXPECT_TRUE(std::is_sorted(order_.begin(), order_.end()));
            continue;
        }
        EXPECT_EQ(std::count(order_.begin(), order_.begin() + 34, 0), 2);  // the age of a line
        EXPECT_EQ(std::count(order_.begin(), order_.begin() + 42, 0), 2);
        runtime_.reset();
    }
}

TEST_F(PacketTest, MoreThanThePacketsMaxAreRefused) {
    start({.packets_max = 16});
    for (int n = 0; n < 16; ++n) submit([this] { order_.push_back(1); });
    Work more([this] { order_.push_back(2); });
    const auto refused = runtime_->submit(0, more);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::too_many);
    EXPECT_NE(refused.error().text().find("packets_max"), std::string::npos);
    step_all();
    EXPECT_EQ(order_.size(), 16u);
    submit(more);  // there is room again
    step_all();
    EXPECT_EQ(order_.back(), 2);
}

// What waits for locks is bounded, and the packets behind it wait without a stack.
TEST_F(PacketTest, AtMostSoManyWaitForLocks) {
    start({.executors = 4});
    Event released;
    int begun = 0;
    bool over = false;
    // Something that can run: otherwise one more packet would begin at a time.
    ASSERT_TRUE(runtime_->spawn(0, "test", [&] {
        while (!over) yield();
    }));
    for (int n = 0; n < 50; ++n)
        submit([&] {
            ++begun;
            released.wait(ParkReason::lock);
        });
    for (int n = 0; n < 500; ++n) runtime_->step();
    EXPECT_EQ(begun, 4);
    over = true;
    released.set();
    step_all();
    EXPECT_EQ(begun, 50);
    EXPECT_LE(runtime_->stats().threads_max, 6u);
}

// While nothing else can run, one more packet begins at a time: the others may wait for it.
TEST_F(PacketTest, PacketsThatWaitForOneAnotherGoOn) {
    start({.executors = 2});
    Event last_began;
    int ended = 0;
    for (int n = 0; n < 20; ++n)
        submit([&, n] {
            if (n == 19) last_began.set();
            else last_began.wait(ParkReason::lock);
            ++ended;
        });
    step_all();
    EXPECT_EQ(ended, 20);
}

// Of four packets for two threads, the first ones wait until the last one has begun.
class LastOfFourBegins : public PacketTest {
protected:
    LastOfFourBegins() { start({.executors = 2}); }
    void submit_four() {
        for (int n = 0; n < 4; ++n)
            submit([&, n] {
                if (n == 3) last_began_ = true;
                else released_.wait(ParkReason::lock);
                ++ended_;
            });
    }
    void expect_ended(int all) {
        for (int n = 0; n < 1000 && ended_ < all; ++n) {
            runtime_->step();
            clock_.advance(10 * kMicrosecond);
        }
        EXPECT_EQ(ended_, all);
        last_began_ = true;
        step_all();
    }

    Event released_;
    bool last_began_ = false;
    int ended_ = 0;
};

// A packet that the others wait for polls with yield().
TEST_F(LastOfFourBegins, WhileAPacketYields) {
    submit([&] {
        while (!last_began_) yield();
        released_.set();
        ++ended_;
    });
    submit_four();
    expect_ended(5);
}

// The same for a thread that runs no packet, as the function of Store::run() on a foreign thread.
TEST_F(LastOfFourBegins, WhileAThreadYields) {
    ASSERT_TRUE(runtime_->spawn(0, "test", [&] {
        while (!last_began_) yield();
        released_.set();
    }));
    submit_four();
    expect_ended(4);
}

// Two threads wake each other for ever, so the worker never sleeps, and no thread yields.
TEST_F(LastOfFourBegins, OnAWorkerThatNeverSleeps) {
    Thread* pair[2] = {};
    for (const int who : {0, 1})
        pair[who] = *runtime_->spawn(0, "test", [&, who] {
            while (!last_began_) {
                wake(pair[1 - who]);
                park(ParkReason::event);
            }
            wake(pair[1 - who]);
            released_.set();
        });
    submit_four();
    expect_ended(4);
}

// All commits of 64 packets wait for the log together, whatever the limit.
TEST_F(PacketTest, WaitsForTheLogDoNotCount) {
    start({.executors = 2});
    Event flushed;
    int waiting = 0, waiting_max = 0;
    bool over = false;
    // Something that can run: otherwise one more packet would begin at a time, whatever counts.
    ASSERT_TRUE(runtime_->spawn(0, "test", [&] {
        while (!over) yield();
    }));
    for (int n = 0; n < 64; ++n)
        submit([&] {
            waiting_max = std::max(waiting_max, ++waiting);
            flushed.wait(ParkReason::log);
            --waiting;
        });
    for (int n = 0; n < 1000; ++n) runtime_->step();
    EXPECT_EQ(waiting_max, 64);
    over = true;
    flushed.set();
    step_all();
    EXPECT_EQ(waiting, 0);
}

TEST_F(PacketTest, NoMoreThanTheUserThreadsMaxBegin) {
    start({.executors = 2, .begun_max = 8});
    Event go;
    int begun = 0;
    for (int n = 0; n < 20; ++n)
        submit([&] {
            ++begun;
            go.wait();
        });
    for (int n = 0; n < 100; ++n) runtime_->step();
    EXPECT_EQ(begun, 8);
    Work more([] {});
    const auto refused = runtime_->submit(0, more);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text().find("user_threads_max"), std::string::npos);
    go.set();
    step_all();
    EXPECT_EQ(begun, 20);
}

// The thread that rested last runs next, so a stack is warm.
TEST_F(PacketTest, TheLastThreadToRestRunsFirst) {
    start({.executors = 4});
    Event go;
    std::vector<Thread*> rested;
    for (int n = 0; n < 4; ++n)
        submit([&] {
            go.wait();
            rested.push_back(current());
        });
    for (int n = 0; n < 20; ++n) runtime_->step();
    go.set();
    step_all();
    ASSERT_EQ(rested.size(), 4u);
    EXPECT_EQ(std::set(rested.begin(), rested.end()).size(), 4u);
    for (int n = 0; n < 10; ++n) {
        Thread* ran = nullptr;
        submit([&] { ran = current(); });
        step_all();
        EXPECT_EQ(ran, rested.back());
    }
    EXPECT_EQ(runtime_->stats().threads_max, 4u);
}

// To the layers above each packet is a thread of its own.
TEST_F(PacketTest, EachHasItsOwnIdAndItsOwnWaits) {
    start();
    std::set<uint64_t> ids;
    for (int n = 0; n < 300; ++n)
        submit([&, n] {
            ids.insert(current()->id);
            EXPECT_EQ(waited(ParkReason::lock), 0u);
            EXPECT_NE(current()->packet, nullptr);
            if (n % 7 == 0) {
                Event never;
                never.wait_until(now() + 5, ParkReason::lock);
                EXPECT_EQ(waited(ParkReason::lock), 5u);
            }
        });
    step_all();
    EXPECT_EQ(ids.size(), 300u);
    EXPECT_FALSE(ids.contains(0));
}

// A late wake() of a thread that rests does no harm.
TEST_F(PacketTest, AThreadThatRestsMayBeWoken) {
    start();
    Thread* thread = nullptr;
    int ran = 0;
    submit([&] { thread = current(), ++ran; });
    step_all();
    for (int n = 0; n < 10; ++n) {
        wake(thread);
        if (n % 2 == 0) submit([&] { ++ran; });
        if (n % 3 == 0) wake(thread);
        step_all();
    }
    EXPECT_EQ(ran, 6);
}

// --- packets that wait for a time

TEST_F(PacketTest, BeginInTheOrderOfTheirTimes) {
    start();
    Rng rng(seed_of_run());
    std::vector<Nanos> times;
    for (int n = 0; n < 500; ++n) {
        const Nanos at = clock_.now() + rng.below(100);
        Work& work = works_.add([this, &times, at] {
            EXPECT_GE(clock_.now(), at);
            times.push_back(at);
        });
        work.not_before = at;
        submit(work);
    }
    EXPECT_LE(runtime_->packets_timed(), 500u);
    step_all();
    ASSERT_EQ(times.size(), 500u);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_EQ(runtime_->packets_timed(), 0u);
}

TEST_F(PacketTest, WhatIsWithdrawnDoesNotRun) {
    start();
    std::vector<Work*> timed, queued;
    for (int n = 0; n < 100; ++n) {
        Work& work = works_.add([this, n] { order_.push_back(n); });
        work.not_before = n % 2 ? clock_.now() + static_cast<Nanos>(1000 + n) : 0;
        submit(work);
        (n % 2 ? timed : queued).push_back(&work);
    }
    for (size_t n = 0; n < 50; n += 2) {
        EXPECT_TRUE(runtime_->withdraw(*timed[n]));
        EXPECT_FALSE(runtime_->withdraw(*timed[n]));
        EXPECT_TRUE(runtime_->withdraw(*queued[n]));
    }
    EXPECT_EQ(runtime_->packets(), 50u);
    step_all();
    EXPECT_EQ(order_.size(), 50u);
    EXPECT_FALSE(runtime_->withdraw(*timed[1]));  // it has run
    EXPECT_EQ(runtime_->admission_stats().cancelled, 25u);
    EXPECT_TRUE(runtime_->admission_stats().conserved());
    timed[0]->not_before = 0;
    submit(*timed[0]);  // and may be submitted again
    step_all();
    EXPECT_EQ(order_.size(), 51u);
}

// Packets that submit themselves again, and wait meanwhile without a stack.
TEST(PacketMemory, ManyThatWaitTakeLittle) {
    constexpr size_t kPackets = 50'000;
    ManualClock clock;
    auto runtime = *Runtime::start({.caller_driven = true, .clock = &clock});
    struct Terminal final : Packet {
        void run() override {
            not_before = now() + kSecond;
            if (++runs < 3) submit_or_fail(*runtime, 0, *this);
        }
        Runtime* runtime = nullptr;
        int runs = 0;
    };
    static_assert(sizeof(Packet) <= 80);
    std::vector<Terminal> terminals(kPackets);
    for (Terminal& terminal : terminals) {
        terminal.runtime = runtime.get();
        terminal.not_before = clock.now() + kMillisecond;
        ASSERT_TRUE(runtime->submit(0, terminal));
    }
    EXPECT_EQ(runtime->packets_timed(), kPackets);
    step_all(*runtime, clock);
    for (const Terminal& terminal : terminals) ASSERT_EQ(terminal.runs, 3);
    EXPECT_EQ(runtime->stats().threads_max, 1u);  // stacks
}

// --- teams

// Shows up to `most` packets, and prepares those with an even number together.
struct FakeHook final : TeamHook {
    size_t team_max() override { return most; }
    size_t prepare(Packet* const* packets, size_t n) override {
        DCHECK(n >= 1 && n <= most);
        if (suspends) yield();
        size_t k = 0;
        for (; k < n && (k == 0 || packets[k]->priority == packets[0]->priority); ++k)
            prepared.push_back(packets[k]);
        teams.push_back(k);
        return k;
    }
    size_t most = 1;
    bool suspends = false;
    std::vector<Packet*> prepared;
    std::vector<size_t> teams;
};

TEST_F(PacketTest, TheHookSeesEachPacketBeforeItRuns) {
    FakeHook hook;
    start({.packet_policy = PacketPolicy::fifo});
    runtime_->set_team_hook(&hook);
    for (const size_t most : {1u, 3u, 8u, 64u}) {
        hook = {};
        hook.most = most;
        order_.clear();
        for (int n = 0; n < 100; ++n) {
            Work& work = works_.add([this, &hook, n] {
                EXPECT_GT(hook.prepared.size(), order_.size());
                order_.push_back(n);
            });
            work.priority = n % 10 == 0;  // ends a team
            submit(work);
        }
        step_all();
        ASSERT_EQ(order_.size(), 100u);
        EXPECT_TRUE(std::is_sorted(order_.begin(), order_.end()));
        EXPECT_EQ(hook.prepared.size(), 100u);
        EXPECT_EQ(*std::max_element(hook.teams.begin(), hook.teams.end()),
                  std::min(most, size_t{9}));
    }
    runtime_->set_team_hook(nullptr);
    submit([this] { order_.push_back(1000); });
    step_all();
    EXPECT_EQ(order_.back(), 1000);
    EXPECT_EQ(hook.prepared.size(), 100u);
}

// A member waits: the next thread runs the rest of the team, before it looks at later packets.
TEST_F(PacketTest, TheRestOfATeamGoesOnWhileAMemberWaits) {
    FakeHook hook;
    hook.most = 8;
    for (const bool suspends : {false, true}) {
        hook.suspends = suspends;
        start();
        runtime_->set_team_hook(&hook);
        order_.clear();
        Event go;
        for (int n = 0; n < 8; ++n)
            submit([&, n] {
                if (n == 2) go.wait(ParkReason::lock);
                order_.push_back(n);
            });
        for (int n = 0; n < 100; ++n) runtime_->step();
        EXPECT_EQ(order_, (std::vector{0, 1, 3, 4, 5, 6, 7}));
        go.set();
        step_all();
        EXPECT_EQ(order_.size(), 8u);
        runtime_.reset();
    }
}

// --- the end

TEST_F(PacketTest, AbandonTellsThePacketsThatDidNotEnd) {
    start();
    Event never;
    submit([&] { never.wait(); });
    submit([] {});
    step_all();
    Work timed([] {});
    timed.not_before = clock_.now() + kSecond;
    submit(timed);
    submit([] {});
    runtime_->abandon();
    EXPECT_TRUE(works_.all[0].was_dropped);
    EXPECT_FALSE(works_.all[1].was_dropped);
    EXPECT_TRUE(timed.was_dropped);
    EXPECT_TRUE(works_.all[2].was_dropped);
}

}  // namespace lockstep::threads::packet_test
