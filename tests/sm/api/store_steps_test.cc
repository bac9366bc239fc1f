// labels: unit
// store_steps_test.cc - teams as an application sees them: switched while it runs,
// statistics with names, their differences; and I/O statistics.
#include <algorithm>
#include <thread>

#include <lockstep/io_stats.h>
#include "tests/sm/store_crash_util.h"
#include "threads/thread/ctx_points.h"
#include "threads/thread/worker_local.h"

namespace lockstep::store_steps_test {

class StoreSteps : public StoreCrash {
protected:
    void open_one() {
        Options options = small_options();
        options.steps = {};
        store_.emplace(open("a", options));
        make(*store_, "rows", "records");
    }
    // The same operations in each, on rows of its own.
    Handle<void> start_one(int n) {
        return store_->spawn(
            [this, n](Txn& txn) -> Result<void> {
                (threads::worker_local.steps != nullptr ? ran_in_teams_ : ran_alone_) = true;
                const Index rows = TRY(store_->index("rows"));
                for (int i = 0; i < 6; ++i) {
                    const std::string key = "k" + std::to_string(1000 + n * 10 + i);
                    TRY(rows.put(txn, key, std::string(100, 'v')));
                    std::string value;
                    TRY(rows.get(txn, key, value));
                }
                return {};
            },
            {.durability = txn::Durability::lazy}, 0);
    }
    // So many at once.
    void work(int transactions) {
        std::vector<Handle<void>> handles;
        on_thread(*store_, [&] {  // they are all ready before the first one runs
            for (int n = 0; n < transactions; ++n) handles.push_back(start_one(n));
        });
        for (auto& handle : handles) EXPECT_TRUE(handle.join());
    }
    static const TeamStats* find(const StepsStats& stats, const std::string& operation) {
        const auto found = std::ranges::find(stats.teams, operation, &TeamStats::operation);
        return found == stats.teams.end() ? nullptr : &*found;
    }

    std::optional<Store> store_;
    bool ran_in_teams_ = false, ran_alone_ = false;  // operations; all on one worker
};

TEST_F(StoreSteps, AreSwitchedWhileItRunsAndTellObjectsByName) {
    open_one();
    EXPECT_TRUE(store_->steps_stats().teams.empty());
    StepsOptions on;
    on.mode = StepsMode::on;
    on.points = threads::kCtxIcache;
    ASSERT_TRUE(store_->set_steps(on));
    work(40);
    const StepsStats first = store_->steps_stats();
    const TeamStats* fetch = find(first, "fetch (rows)");
    ASSERT_NE(fetch, nullptr);
    EXPECT_EQ(fetch->entered, 40u * 6);
    EXPECT_GT(fetch->entered, fetch->teams);  // more than one in a team
    EXPECT_LE(fetch->left + fetch->strays.sum(), fetch->entered);
    EXPECT_FALSE(first.points.empty());

    work(40);
    const StepsStats rest = store_->steps_stats() - first;
    ASSERT_NE(find(rest, "fetch (rows)"), nullptr);
    EXPECT_EQ(find(rest, "fetch (rows)")->entered, 40u * 6);
    uint64_t taken = 0;
    for (const CtxPointStats& point : rest.points) taken += point.taken;
    EXPECT_GT(taken, 0u);

    ASSERT_TRUE(store_->set_steps({}));  // and off: statistics begin anew
    work(10);
    for (const TeamStats& team : store_->steps_stats().teams)
        EXPECT_EQ(team.entered, 0u) << team.operation;
    ASSERT_OK(store_->close());
}

// Workers change their team size while transactions run; the results stay the same.
TEST_F(StoreSteps, FindTheirSettingWhileTheyWork) {
    open_one();
    StepsOptions on;
    on.mode = StepsMode::on;
    on.window_records = 64;
    ASSERT_TRUE(store_->set_steps(on));
    EXPECT_EQ(store_->steps_stats().tuner.size(), store_->options().workers);
    for (int round = 0; round < 40; ++round) work(40);
    uint64_t windows = 0, trials = 0;
    for (const TunerStats& g : store_->steps_stats().tuner) {
        windows += g.windows;
        trials += g.trials;
        EXPECT_LE(g.team_max, 16u);
    }
    EXPECT_GT(windows, 10u);
    EXPECT_GT(trials, 1u);
    EXPECT_TRUE(ran_in_teams_);
    EXPECT_TRUE(ran_alone_);  // some worker tried a setting without teams
    on_thread(*store_, [&] {
        const auto rows = store_->index("rows");
        ASSERT_OK(rows);
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            std::string value;
            for (int key = 1000; key < 1400; ++key)
                EXPECT_EQ(TRY(rows->get(txn, "k" + std::to_string(key), value)), key % 10 < 6)
                    << key;
            return {};
        }));
    });

    on.window_records = 0;  // teams of team_max, always
    ASSERT_TRUE(store_->set_steps(on));
    work(40);
    EXPECT_TRUE(store_->steps_stats().tuner.empty());
    ASSERT_OK(store_->close());
}

// set_steps() clears the counts, so a difference across it is what has come since.
TEST(StepsStats, ADifferenceDoesNotWrapAround) {
    StepsStats before, now;
    before.teams = {{.operation = "begin", .teams = 9, .entered = 90, .strays = {.lock = 3}}};
    now.teams = {{.operation = "begin", .teams = 10, .entered = 20, .strays = {.lock = 1}}};
    before.points = {{"leaf", 7, 5, 0, 0}};
    now.points = {{"leaf", 2, 6, 0, 0}};
    const StepsStats since = now - before;
    EXPECT_EQ(since.teams[0].teams, 1u);
    EXPECT_EQ(since.teams[0].entered, 20u);
    EXPECT_EQ(since.teams[0].strays.lock, 1u);
    EXPECT_EQ(since.points[0].taken, 2u);
    EXPECT_EQ(since.points[0].off, 1u);
}

// Calls that meet take effect one after the other, on all workers in the same order.
TEST_F(StoreSteps, AreTheSameOnAllWorkersAfterTwoCalls) {
    Options options = small_options(2);
    options.steps = {};
    Store store = open("a", options);
    const auto set = [&](uint32_t team_max) {
        ASSERT_OK(store.set_steps({.mode = StepsMode::on, .team_max = team_max}));
    };
    for (int round = 0; round < 100; ++round) {
        std::thread other(set, 8);
        set(16);
        other.join();
        const auto tuner = store.steps_stats().tuner;
        ASSERT_EQ(tuner.size(), 2u);
        ASSERT_EQ(tuner[0].team_max, tuner[1].team_max) << "round " << round;
        ASSERT_EQ(store.steps_options().team_max, tuner[0].team_max) << "round " << round;
    }
    // Others may hold a reference to them.
    EXPECT_EQ(store.options().steps.mode, StepsMode::off);
    EXPECT_EQ(store.steps_options().mode, StepsMode::on);
    ASSERT_OK(store.close());
    EXPECT_EQ(store.steps_options().mode, StepsMode::off);
}

TEST_F(StoreSteps, AreRefusedWhereTheyCannotBeSet) {
    open_one();
    StepsOptions wrong;
    wrong.mode = StepsMode::on;
    wrong.team_max = 0;
    const auto refused = store_->set_steps(wrong);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::bad_option);
    on_thread(*store_, [&] {
        const auto inside = store_->set_steps({});
        ASSERT_FALSE(inside);
        EXPECT_EQ(inside.error().code, ErrorCode::wrong_thread);
    });
    ASSERT_OK(store_->close());
    const auto closed = store_->set_steps({});
    ASSERT_FALSE(closed);
    EXPECT_EQ(closed.error().code, ErrorCode::store_closed);
    EXPECT_TRUE(store_->steps_stats().teams.empty());
}

TEST_F(StoreSteps, DifferencesOfIoStatsAreWhatCameBetween) {
    open_one();
    const threads::IoStats before = store_->stats().io;
    work(5);
    ASSERT_OK(store_->checkpoint());
    const threads::IoStats after = store_->stats().io, between = after.since(before);
    EXPECT_GT(between.packets(), 0u);
    EXPECT_EQ(between.packets() + before.packets(), after.packets());
    EXPECT_EQ(between.transfers() + before.transfers(), after.transfers());
    EXPECT_EQ(between.merged() + before.merged(), after.merged());
    EXPECT_EQ(between.joined() + before.joined(), after.joined());
    EXPECT_EQ(between.batches + before.batches, after.batches);
    EXPECT_EQ(between.stage.entered + before.stage.entered, after.stage.entered);
    EXPECT_EQ(between.depth.count + before.depth.count, after.depth.count);
    const threads::IoStats none = after.since(after);
    EXPECT_EQ(none.packets(), 0u);
    EXPECT_EQ(none.stage.wait.count, 0u);
    EXPECT_EQ(none.stage.batch.sum, 0u);
    ASSERT_OK(store_->close());
}

}  // namespace lockstep::store_steps_test
