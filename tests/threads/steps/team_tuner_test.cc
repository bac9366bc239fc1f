// gears_test.cc - which gear is kept, how much is tried, and what noise does to it.
#include "threads/steps/team_tuner.h"

#include <gtest/gtest.h>

#include <map>

#include "threads/base/rng.h"

namespace lockstep::threads {
namespace {

using Costs = std::map<std::pair<StepsMode, uint32_t>, double>;  // of a window, in a gear

Costs costs(double size16, double size8, double size4, double prefetch, double off) {
    return {{{StepsMode::on, 16}, size16},
            {{StepsMode::on, 8}, size8},
            {{StepsMode::on, 4}, size4},
            {{StepsMode::prefetch, 16}, prefetch},
            {{StepsMode::off, 16}, off}};
}

class Simulated {
public:
    Simulated(uint64_t seed, double noise) : rng_(seed), noise_(noise) {}

    // How many of `windows` were run in another gear than `best`.
    uint64_t go(const Costs& costs, uint64_t windows, Gear best = {}) {
        uint64_t elsewhere = 0;
        for (uint64_t w = 0; w < windows; ++w) {
            const Gear before = gears.gear();
            elsewhere += !(before == best);
            const double spread = 1 + noise_ * (static_cast<double>(rng_.below(2001)) / 1000 - 1);
            const bool changed = gears.window_ended(
                static_cast<Nanos>(1e6 * costs.at({before.mode, before.team_max}) * spread));
            EXPECT_EQ(changed, !(gears.gear() == before));
        }
        return elsewhere;
    }

    Gears gears{16};

private:
    Rng rng_;
    double noise_;
};

TEST(GearsTest, BeginsWithLargeTeams) {
    EXPECT_EQ(Gears(16).gear(), (Gear{StepsMode::on, 16}));
    EXPECT_EQ(Gears(1).gear(), (Gear{StepsMode::on, 1}));
    EXPECT_EQ(Gears(1000).gear(), (Gear{StepsMode::on, 1000}));
}

TEST(GearsTest, FindsTheFastest) {
    const Costs cases[] = {costs(1, 1.2, 1.4, 1.5, 1.6), costs(1.2, 1, 1.2, 1.3, 1.4),
                           costs(1.4, 1.2, 1, 1.2, 1.2), costs(1.2, 1.3, 1.2, 1, 1.2),
                           costs(1.2, 1.4, 1.1, 1.1, 1)};
    const Gear best[] = {{StepsMode::on, 16},
                         {StepsMode::on, 8},
                         {StepsMode::on, 4},
                         {StepsMode::prefetch, 16},
                         {StepsMode::off, 16}};
    for (size_t i = 0; i < std::size(cases); ++i)
        for (uint64_t seed = 1; seed <= 20; ++seed) {
            Simulated run(seed, 0.04);
            run.go(cases[i], 400);
            EXPECT_EQ(run.gears.stats().gear, best[i]) << "case " << i << ", seed " << seed;
        }
}

// GE-1: whatever is slower each time loses its trial, however little slower.
TEST(GearsTest, NeverKeepsWhatIsAlwaysSlower) {
    Simulated run(1, 0);
    run.go(costs(1, 1.001, 1.001, 1.001, 1.001), 20000);
    EXPECT_EQ(run.gears.stats().changes, 0u);
    EXPECT_EQ(run.gears.stats().gear, (Gear{StepsMode::on, 16}));
}

// GE-2, from when nothing changes any more.
TEST(GearsTest, RestsLongerAndLonger) {
    Simulated run(1, 0.02);
    const Costs steady = costs(1, 1.2, 1.2, 1.2, 1.2);
    const Gear best{StepsMode::on, 16};
    const uint64_t early = run.go(steady, 100, best), later = run.go(steady, 10000, best);
    EXPECT_GT(early, 0u);
    EXPECT_LE(later, 10000u / 65);
    EXPECT_GT(later, 0u);
}

TEST(GearsTest, FollowsAChange) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        Simulated run(seed, 0.04);
        run.go(costs(1, 1.2, 1.2, 1.3, 1.3), 2000);
        EXPECT_EQ(run.gears.stats().gear, (Gear{StepsMode::on, 16}));
        // The longest rest, and a round of trials.
        run.go(costs(1.3, 1.3, 1.3, 1, 1.2), 8400);
        EXPECT_EQ(run.gears.stats().gear, (Gear{StepsMode::prefetch, 16}));
    }
}

TEST(GearsTest, ADisturbedPairIsMeasuredAnew) {
    Gears gears(16);
    while (gears.stats().trials == 0) EXPECT_FALSE(gears.window_ended(100));
    for (int pair = 0; pair < 100; ++pair) {
        EXPECT_EQ(gears.gear(),
                  pair % 2 == 0 ? (Gear{StepsMode::on, 16}) : (Gear{StepsMode::on, 8}));
        EXPECT_TRUE(gears.window_ended(100));  // first half
        gears.disturbed();
    }
    EXPECT_EQ(gears.stats().trials, 1u);
    EXPECT_EQ(gears.stats().changes, 0u);
}

}  // namespace
}  // namespace lockstep::threads
