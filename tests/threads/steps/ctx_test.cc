// labels: unit tsan
// ctx_test.cc - where members of a team pass the CPU on, and what the fast switch keeps; CT-2.
#include "threads/steps/ctx.h"

#include <cfenv>
#include <string>

#include "tests/threads/steps/steps_test_util.h"

namespace lockstep::threads::ctx_test {

TEST(CtxTest, SetsOfPointsFromText) {
    EXPECT_EQ(*ctx_points_from("none"), 0u);
    EXPECT_EQ(*ctx_points_from("manual"), kCtxManual);
    EXPECT_EQ(*ctx_points_from("icache"),
              kCtxManual | ctx_bit(CtxPoint::located) | ctx_bit(CtxPoint::finished));
    EXPECT_EQ(*ctx_points_from("# a file\nbtree_leaf\n record#x\n\n"),
              ctx_bit(CtxPoint::btree_leaf) | ctx_bit(CtxPoint::record));
    const auto wrong = ctx_points_from("record,leaf");
    ASSERT_FALSE(wrong);
    EXPECT_EQ(wrong.error().code, ErrorCode::bad_option);
    EXPECT_EQ(wrong.error().a, 2u);
}

TEST(CtxTest, PointsAreSwitchedByBitAndModesIsolateTheirPart) {
    for (const StepsMode mode : {StepsMode::grouping, StepsMode::on}) {
        Team team({.mode = mode, .points = kCtxManual & ~ctx_bit(CtxPoint::record)});
        std::string trace;
        std::vector<ThreadFn> fns;
        for (char name : {'a', 'b', 'c'})
            fns.push_back([&trace, name] {
                boundary(OpKind::fetch, 1);
                trace += name;
                CTX(record);  // off
                trace += name;
                CTX(btree_leaf);
                trace += name;
            });
        team.run(std::move(fns));
        EXPECT_EQ(trace, mode == StepsMode::grouping ? "aaabbbccc" : "aabbccabc");
    }
}

TEST(CtxTest, AThreadThatRunsToCompletionPassesTheCpuOnNowhere) {
    Team team({.mode = StepsMode::on});
    std::string trace;
    std::vector<ThreadFn> fns;
    for (char name : {'a', 'b', 'c'})
        fns.push_back([&trace, name] {
            boundary(OpKind::fetch, 1);
            current()->to_completion = name == 'b';
            trace += name;
            CTX(btree_leaf);
            trace += name;
            boundary(OpKind::fetch, 2);
            trace += name;
            current()->to_completion = false;
        });
    team.run(std::move(fns));
    EXPECT_EQ(trace.substr(0, 5), "abbbc") << trace;
}

TEST(CtxTest, RegistersAndFloatingPointModesSurvive) {
    Team team({.mode = StepsMode::on, .float_state = true});
    bool kept = true;
    std::vector<ThreadFn> fns;
    for (unsigned i = 0; i < 8; ++i)
        fns.push_back([&kept, i] {
            const int mode = i % 2 ? FE_UPWARD : FE_DOWNWARD;
            boundary(OpKind::fetch, 1);
            std::fesetround(mode);
            uint64_t a = i, b = i * 3, c = i * 5, d = i * 7, e = i * 11;
            for (unsigned k = 0; k < 100; ++k) {
                if (k == 50) boundary(OpKind::update);  // through the scheduler, too
                asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
                CTX(btree_leaf);
                a += i, b += i, c += i, d += i, e += i;
            }
            if (kFastSwitch && std::fegetround() != mode) kept = false;
            if (a != 101 * i || b != 103 * i || c != 105 * i || d != 107 * i || e != 111 * i)
                kept = false;
            std::fesetround(FE_TONEAREST);
        });
    team.run(std::move(fns));
    EXPECT_TRUE(kept);
}

// CT-2: up to the next function, padding included; it begins a cache line, so it lies in one.
TEST(CtxTest, TheFastSwitchFitsACacheLine) {
    const auto begin = reinterpret_cast<uintptr_t>(&lockstep_ctx_swap),
               next = reinterpret_cast<uintptr_t>(&lockstep_ctx_leave);
    EXPECT_EQ(begin % kCacheLineBytes, 0u);
    ASSERT_GT(next, begin);
#if defined(__x86_64__)
    EXPECT_LE(next - begin, 64u);
#endif
}

}  // namespace lockstep::threads::ctx_test
