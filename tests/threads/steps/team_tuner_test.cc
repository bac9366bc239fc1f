// team_tuner_test.cc - which setting is kept, how much is tried, and what noise does to it.
#include "threads/steps/team_tuner.h"

#include <gtest/gtest.h>

#include <map>

#include "threads/base/rng.h"

namespace lockstep::threads::team_tuner_test {

using Costs = std::map<std::pair<StepsMode, uint32_t>, double>;  // of a window, in a setting

Costs costs(double size16, double size8, double size4, double prefetch, double off,
            double ctx = 1.2) {
    return {{{StepsMode::on, 16}, size16}, {{StepsMode::on, 8}, size8},
            {{StepsMode::on, 4}, size4},   {{StepsMode::prefetch, 16}, prefetch},
            {{StepsMode::off, 16}, off},   {{StepsMode::ctx, 16}, ctx}};
}

class Simulated {
public:
    Simulated(uint64_t seed, double noise) : rng_(seed), noise_(noise) {}

    // How many of `windows` were run in another setting than `best`.
    uint64_t go(const Costs& costs, uint64_t windows, TeamSetting best = {}) {
        uint64_t elsewhere = 0;
        for (uint64_t w = 0; w < windows; ++w) {
            const TeamSetting before = tuner.setting();
            elsewhere += !(before == best);
            const double spread = 1 + noise_ * (static_cast<double>(rng_.below(2001)) / 1000 - 1);
            const bool changed = tuner.window_ended(
                static_cast<Nanos>(1e6 * costs.at({before.mode, before.team_max}) * spread));
            EXPECT_EQ(changed, !(tuner.setting() == before));
        }
        return elsewhere;
    }

    TeamTuner tuner{16};

private:
    Rng rng_;
    double noise_;
};

TEST(TeamTunerTest, BeginsWithLargeTeams) {
    EXPECT_EQ(TeamTuner(16).setting(), (TeamSetting{StepsMode::on, 16}));
    EXPECT_EQ(TeamTuner(1).setting(), (TeamSetting{StepsMode::on, 1}));
    EXPECT_EQ(TeamTuner(1000).setting(), (TeamSetting{StepsMode::on, 1000}));
}

TEST(TeamTunerTest, FindsTheFastest) {
    const Costs cases[] = {costs(1, 1.2, 1.4, 1.5, 1.6), costs(1.2, 1, 1.2, 1.3, 1.4),
                           costs(1.4, 1.2, 1, 1.2, 1.2), costs(1.2, 1.3, 1.2, 1, 1.2),
                           costs(1.2, 1.4, 1.1, 1.1, 1), costs(1.2, 1.1, 1.1, 1.2, 1.3, 1)};
    const TeamSetting best[] = {{StepsMode::on, 16},  {StepsMode::on, 8},
                                {StepsMode::on, 4},   {StepsMode::prefetch, 16},
                                {StepsMode::off, 16}, {StepsMode::ctx, 16}};
    for (size_t i = 0; i < std::size(cases); ++i)
        for (uint64_t seed = 1; seed <= 20; ++seed) {
            Simulated run(seed, 0.04);
            run.go(cases[i], 400);
            EXPECT_EQ(run.tuner.stats().setting, best[i]) << "case " << i << ", seed " << seed;
        }
}

// GE-1: whatever is slower each time loses its trial, however little slower.
TEST(TeamTunerTest, NeverKeepsWhatIsAlwaysSlower) {
    Simulated run(1, 0);
    run.go(costs(1, 1.001, 1.001, 1.001, 1.001), 20000);
    EXPECT_EQ(run.tuner.stats().changes, 0u);
    EXPECT_EQ(run.tuner.stats().setting, (TeamSetting{StepsMode::on, 16}));
}

// GE-2, from when nothing changes any more.
TEST(TeamTunerTest, RestsLongerAndLonger) {
    Simulated run(1, 0.02);
    const Costs steady = costs(1, 1.2, 1.2, 1.2, 1.2);
    const TeamSetting best{StepsMode::on, 16};
    const uint64_t early = run.go(steady, 100, best), later = run.go(steady, 10000, best);
    EXPECT_GT(early, 0u);
    EXPECT_LE(later, 10000u / 65);
    EXPECT_GT(later, 0u);
}

TEST(TeamTunerTest, FollowsAChange) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
        Simulated run(seed, 0.04);
        run.go(costs(1, 1.2, 1.2, 1.3, 1.3), 2000);
        EXPECT_EQ(run.tuner.stats().setting, (TeamSetting{StepsMode::on, 16}));
        // The longest rest, and a round of trials.
        run.go(costs(1.3, 1.3, 1.3, 1, 1.2), 8400);
        EXPECT_EQ(run.tuner.stats().setting, (TeamSetting{StepsMode::prefetch, 16}));
    }
}

TEST(TeamTunerTest, ADisturbedPairIsMeasuredAnew) {
    TeamTuner tuner(16);
    while (tuner.stats().trials == 0) EXPECT_FALSE(tuner.window_ended(100));
    for (int pair = 0; pair < 100; ++pair) {
        EXPECT_EQ(tuner.setting(), (TeamSetting{StepsMode::on, 16}));
        EXPECT_FALSE(tuner.disturbed());
        EXPECT_TRUE(tuner.window_ended(100));  // first half
        EXPECT_EQ(tuner.setting(), (TeamSetting{StepsMode::on, 8}));
        EXPECT_TRUE(tuner.disturbed());
    }
    EXPECT_EQ(tuner.stats().trials, 1u);
    EXPECT_EQ(tuner.stats().changes, 0u);
}

}  // namespace lockstep::threads::team_tuner_test
