// labels: unit
// icache_replay_test.cc - hand-made traces: who misses, what is counted, what a cold run is.
#include <gtest/gtest.h>

#include "tools/icache/replay.h"

namespace lockstep::icache::icache_replay_test {

constexpr uint64_t kCode = 0x400000, kStack = 0x10000000, kStackStep = 0x20000, kSwap = 0x500000;

// Builds the trace of a team or of a serial run out of pieces of code.
class Script {
public:
    Script& stack(uint32_t thread) {
        return add(trace_word(kTraceStack, 0, kStack + thread * kStackStep));
    }
    Script& begin(uint32_t thread) {
        return stack(thread).add(trace_word(kTraceMark, kMarkOpBegin, thread));
    }
    Script& end(uint32_t thread) {
        return stack(thread).add(trace_word(kTraceMark, kMarkOpEnd, thread));
    }
    Script& units(uint64_t n) { return add(trace_word(kTraceMark, kMarkUnits, n)); }
    // Lines [first, first + count) of code, one run of 16 bytes and 4 instructions in each.
    Script& code(uint32_t first, uint32_t count) {
        for (uint32_t i = first; i < first + count; ++i) add(run_word(kCode + i * 64ull, 16, 4));
        return *this;
    }
    Script& swap() { return add(trace_word(kTraceWatch, 0, kSwap)); }
    Script& add(uint64_t word) {
        words_.push_back(word);
        return *this;
    }
    const std::vector<uint64_t>& words() const { return words_; }

private:
    std::vector<uint64_t> words_;
};

ReplayOptions small(uint32_t threads, Empty empty = Empty::never) {
    // 16 lines.
    return {.machines = {{"small", {1024, 0, 64}, {65536, 4, 64}}},
            .threads = threads,
            .empty = empty,
            .swap = kSwap};
}

// One thread after the other through 32 lines: every line misses every time, warm or cold.
TEST(IcacheReplay, SerialMissesEverythingWhenTheCodeIsTwiceTheCache) {
    Script s;
    for (uint32_t round = 0; round < 3; ++round)
        for (uint32_t t = 0; t < 2; ++t) s.begin(t).code(0, 32).end(t).code(100, 50);
    const ReplayResult r = replay(s.words(), small(2));
    EXPECT_EQ(r.units, 6u);
    // What lies between operations is no part of it.
    EXPECT_EQ(r.machines[0].l1i.total(), 6u * 32);
    EXPECT_EQ(r.instructions.total(), 6u * 32 * 4);
    EXPECT_EQ(r.lines, 32u);
    EXPECT_DOUBLE_EQ(r.lines_per_unit, 32);
}

TEST(IcacheReplay, ColdMeansEmptyBeforeEachOperation) {
    Script s;
    for (uint32_t round = 0; round < 4; ++round) s.begin(0).code(0, 10).end(0);
    EXPECT_EQ(replay(s.words(), small(1)).machines[0].l1i.total(), 10u);
    EXPECT_EQ(replay(s.words(), small(1, Empty::each_operation)).machines[0].l1i.total(), 40u);
    // The second level is not emptied.
    EXPECT_EQ(replay(s.words(), small(1, Empty::each_operation)).machines[0].l2i.total(), 10u);
}

// Three threads in a team: two segments of 16 lines each; who comes after the leader misses
// nothing.
void round_of_three(Script& s) {
    for (uint32_t t = 0; t < 3; ++t) s.begin(t);  // the last one begins, then the first runs
    for (const uint32_t segment : {0u, 16u})
        for (uint32_t t = 0; t < 3; ++t) s.stack(t).code(segment, 16).swap();
    for (uint32_t t = 0; t < 3; ++t) s.end(t);
}

TEST(IcacheReplay, FollowersFindWhatTheLeaderFetched) {
    Script s;
    for (int round = 0; round < 5; ++round) round_of_three(s);
    auto options = small(3);
    options.warm_units = 3;
    const ReplayResult r = replay(s.words(), options);
    EXPECT_EQ(r.units, 12u);
    EXPECT_EQ(r.machines[0].l1i[Role::leader], 4u * 32);
    EXPECT_EQ(r.machines[0].l1i[Role::follower], 0u);
    EXPECT_EQ(r.machines[0].l1i[Role::other], 0u);
    EXPECT_EQ(r.instructions[Role::leader] * 2, r.instructions[Role::follower]);
    EXPECT_EQ(r.switches.total(), 4u * 6);
}

// Code added to the switch fills the cache in the leader's place: followers miss again.
TEST(IcacheReplay, PaddedSwitchDrivesTheSegmentOut) {
    Script s;
    for (int round = 0; round < 5; ++round) round_of_three(s);
    auto options = small(3);
    options.warm_units = 3;
    options.pad_bytes = 1024;
    const ReplayResult r = replay(s.words(), options);
    // Each segment of each thread, and each switch.
    EXPECT_EQ(r.machines[0].l1i.total(), 4u * (6 * 16 + 6 * 16));
}

// The scheduler's stack belongs to no thread; within an operation its work counts, outside it does
// not.
TEST(IcacheReplay, SchedulerWithinAnOperationIsOther) {
    Script s;
    s.begin(0)
        .code(0, 2)
        .add(trace_word(kTraceStack, 0, 0x7fff0000))
        .code(20, 3)
        .stack(0)
        .code(2, 1)
        .end(0);
    s.add(trace_word(kTraceStack, 0, 0x7fff0000)).code(40, 5);
    const ReplayResult r = replay(s.words(), small(1));
    EXPECT_EQ(r.machines[0].l1i[Role::other], 3u);
    EXPECT_EQ(r.machines[0].l1i.total(), 6u);
}

TEST(IcacheReplay, TransactionsCountFromTheEndOfTheWarmUp) {
    Script s;
    for (uint64_t n = 1; n <= 10; ++n) s.code(0, 32).units(n);
    auto options = small(0);
    options.warm_units = 4;
    const ReplayResult r = replay(s.words(), options);
    EXPECT_EQ(r.units, 6u);
    EXPECT_EQ(r.machines[0].l1i.total(), 6u * 32);
}

TEST(IcacheReplay, PredictorsLearnAndReturnsFollowTheStack) {
    Script s;
    for (int i = 0; i < 100; ++i) s.add(trace_word(kTraceBranch, 1, 0x1000)).code(0, 1);
    const ReplayResult steady = replay(s.words(), small(0));
    // The history fills once.
    for (const PredictorCounts& p : steady.predictors) EXPECT_LE(p.branches.total(), 20u) << p.name;

    Script calls;
    // Returns home.
    calls.add(trace_word(kTraceCall, 0, kCode + 640))
        .code(0, 1)
        .add(trace_word(kTraceReturn, 0, 0x1000))
        .code(10, 1);
    // And elsewhere.
    calls.add(trace_word(kTraceCall, 0, kCode + 640))
        .code(0, 1)
        .add(trace_word(kTraceReturn, 0, 0x1000))
        .code(11, 1);
    const ReplayResult r = replay(calls.words(), small(0));
    EXPECT_EQ(r.predictors[0].returns.total(), 0u);  // gshare's returns are always right
    EXPECT_EQ(r.predictors[1].returns.total(), 1u);
}

// A branch target buffer: who is not in it is guessed by direction, enters when taken, and is
// driven out by later ones.
TEST(IcacheReplay, TheTargetBufferForgetsWhatManyBranchesDriveOut) {
    Predictor p(kP6);
    EXPECT_TRUE(p.branch(0x1000, true, false));    // unknown and forward: not taken
    EXPECT_FALSE(p.branch(0x1000, true, false));   // known now
    EXPECT_FALSE(p.branch(0x2010, true, true));    // unknown and backward: taken
    EXPECT_FALSE(p.branch(0x3020, false, false));  // not taken: does not enter
    EXPECT_TRUE(p.branch(0x3020, true, false));
    // Its set has four places.
    for (uint64_t i = 1; i <= 3; ++i) p.branch(0x1000 + i * 128 * 16, true, false);
    EXPECT_FALSE(p.branch(0x1000, true, false));
    for (uint64_t i = 1; i <= 4; ++i) p.branch(0x1000 + i * 128 * 16, true, false);
    EXPECT_TRUE(p.branch(0x1000, true, false));
    EXPECT_TRUE(p.indirect(0x5000, 1));
    EXPECT_FALSE(p.indirect(0x5000, 1));
    EXPECT_TRUE(p.indirect(0x5000, 2));
    p.forget();
    EXPECT_TRUE(p.branch(0x1000, true, false));
}

// The direction of a branch is that which the trace shows when it is taken.
TEST(IcacheReplay, ABranchThatLeadsBackIsExpectedToBeTaken) {
    Script back, on;
    back.code(5, 1).add(trace_word(kTraceBranch, 1, kCode + 5 * 64 + 14)).code(1, 1);
    on.code(1, 1).add(trace_word(kTraceBranch, 1, kCode + 1 * 64 + 14)).code(5, 1);
    const auto p6 = [](const Script& s) { return replay(s.words(), small(0)).predictors[2]; };
    EXPECT_EQ(p6(back).name, "p6");
    EXPECT_EQ(p6(back).branches.total(), 0u);
    EXPECT_EQ(p6(on).branches.total(), 1u);
}

// RP-2.
TEST(IcacheReplay, EqualTracesGiveEqualStats) {
    Script s;
    for (int round = 0; round < 5; ++round) round_of_three(s);
    const ReplayResult a = replay(s.words(), small(3)), b = replay(s.words(), small(3));
    EXPECT_EQ(a.machines[0].l1i.by, b.machines[0].l1i.by);
    EXPECT_EQ(a.instructions.by, b.instructions.by);
}

}  // namespace lockstep::icache::icache_replay_test
