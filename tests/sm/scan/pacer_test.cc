// labels: unit
// pacer_test.cc - the share of a worker that a pass takes (RB-7), in virtual time.
#include "sm/scan/pacer.h"

#include <gtest/gtest.h>

namespace lockstep::sm::scan::pacer_test {

constexpr Nanos kSlice = 50 * kMicrosecond, kTime = 400 * kMillisecond;

// The part of kTime that paced threads use. `busy`: how much of it another one has work, in slices
// of `slice`. `own`: the other is a function of the paced threads' scans.
double used_beside(double share, Nanos busy, bool own = false, Nanos slice = 100 * kMicrosecond,
                   size_t paced = 1) {
    ManualClock clock;
    const Nanos begin = clock.now();
    auto runtime = *threads::Runtime::start({.caller_driven = true, .clock = &clock});
    Nanos used = 0;
    Budget budget;
    for (size_t i = 0; i < paced; ++i)
        EXPECT_TRUE(runtime->spawn(0, "paced", [&] {
            Pacer pacer(share, budget);
            while (clock.now() < begin + kTime) {
                clock.advance(kSlice);
                used += kSlice;
                pacer.rest();
            }
        }));
    EXPECT_TRUE(runtime->spawn(0, "other", [&] {
        while (clock.now() < begin + busy) {
            clock.advance(slice);
            if (own) budget.use(slice);
            threads::yield();
        }
    }));
    while (clock.now() < begin + kTime) {
        if (runtime->step()) continue;
        const Nanos next = runtime->next_deadline();
        if (next == kNever) break;
        clock.advance(next - clock.now());
    }
    runtime->stop();
    return static_cast<double>(used) / static_cast<double>(kTime);
}

TEST(Pacer, KeepsItsShareBesideOthers) {
    for (const double share : {0.05, 0.25, 0.3})
        EXPECT_NEAR(used_beside(share, kTime), share, 0.02) << share;
    // Taking turns gives it a third; a larger share is not enforced upon others.
    EXPECT_NEAR(used_beside(0.9, kTime), 1.0 / 3, 0.02);
}

TEST(Pacer, LeavesNoWorkerIdle) {
    EXPECT_GT(used_beside(0.05, 0), 0.99);
    EXPECT_NEAR(used_beside(0.1, kTime / 2), 0.55, 0.04);
    // Its own functions take turns with it.
    EXPECT_NEAR(used_beside(0.05, kTime, true), 1.0 / 3, 0.02);
    // Others that use 6 in 100 are not in need of more.
    EXPECT_NEAR(used_beside(0.05, kTime, false, 3 * kMicrosecond), 50.0 / 53, 0.02);
}

// As one: with a share each they would take nearly all, and take each other for others.
TEST(Pacer, ThreadsOfAWorkerShareABudget) {
    for (const size_t paced : {2, 8}) {
        EXPECT_NEAR(used_beside(0.25, kTime, false, 100 * kMicrosecond, paced), 0.25, 0.05)
            << paced;
        EXPECT_GT(used_beside(0.05, 0, false, 0, paced), 0.99) << paced;
        // Others that need 1 in 20 of the time leave the rest.
        EXPECT_GT(used_beside(0.05, kTime, false, 2 * paced * kMicrosecond, paced), 0.94) << paced;
    }
}

// Time that passes while nobody else is ready, as when the worker ends transfers, is not work of
// others.
TEST(Pacer, TimeOfNobodyDoesNotCount) {
    // It goes on with each look at it.
    class : public Clock {
    public:
        Nanos now() const override { return now_ += 10 * kMicrosecond; }
        bool moves_by_itself() const override { return false; }

    private:
        mutable Nanos now_ = 1;
    } clock;
    auto runtime = *threads::Runtime::start({.caller_driven = true, .clock = &clock});
    Budget budget;
    Nanos took = 0;
    unsigned looks = 0;
    EXPECT_TRUE(runtime->spawn(0, "paced", [&] {
        Pacer pacer(0.01, budget);
        const Nanos begin = clock.now();
        for (; looks < 5000; ++looks) pacer.rest();
        took = clock.now() - begin;
    }));
    while (runtime->step()) {}
    runtime->stop();
    EXPECT_EQ(looks, 5000u);  // it has never slept
    EXPECT_GT(took, 5000 * 20 * kMicrosecond);
}

}  // namespace lockstep::sm::scan::pacer_test
