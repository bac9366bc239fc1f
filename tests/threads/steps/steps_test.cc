// labels: unit tsan
// steps_test.cc - teams and strays: which thread runs when, and that none is lost or starves;
// invariants ST-1 to ST-6 and CT-1.
#include <deque>
#include <tuple>

#include "tests/threads/steps/steps_test_util.h"
#include "threads/base/rng.h"
#include "threads/sync/event.h"
#include "threads/sync/latch.h"

namespace lockstep::threads::steps_test {

TEST(StepsTest, MembersPassTheCpuOnAtEveryPoint) {
    Team team;
    std::string trace;
    std::vector<ThreadFn> fns;
    for (char name : {'a', 'b', 'c'})
        fns.push_back([&trace, name] {
            boundary(OpKind::fetch, 7);
            for (int i = 0; i < 3; ++i) {
                trace += name;
                CTX(btree_leaf);
            }
            boundary(OpKind::commit);
        });
    team.run(std::move(fns));
    EXPECT_EQ(trace, "abcabcabc");
    const TeamStats s = team.stats(OpKind::fetch, 7);
    EXPECT_EQ(s.teams, 1u);
    EXPECT_EQ(s.entered, 3u);
    EXPECT_EQ(s.left, 3u);
}

TEST(StepsTest, OperationsAreGroupedWhateverTheOrderOfArrival) {
    Team team;
    std::string trace;
    std::vector<ThreadFn> fns;
    for (int i = 0; i < 6; ++i)
        fns.push_back([&trace, i] {
            boundary(OpKind::fetch, i % 2 ? 1 : 2);
            trace += i % 2 ? '1' : '2';
            CTX(btree_leaf);
            trace += i % 2 ? '1' : '2';
        });
    team.run(std::move(fns));
    EXPECT_TRUE(trace == "111111222222" || trace == "222222111111") << trace;
}

TEST(StepsTest, ATeamIsCappedAndTheRestMakesTheNext) {
    Team team({.mode = StepsMode::on, .team_max = 4});
    std::vector<ThreadFn> fns(10);
    for (auto& fn : fns)
        fn = [] {
            boundary(OpKind::begin);
            CTX(btree_leaf);
            // Again the same operation: the next generation.
            boundary(OpKind::begin);
            CTX(btree_leaf);
        };
    team.run(std::move(fns));
    const TeamStats s = team.stats(OpKind::begin);
    EXPECT_EQ(s.entered, 20u);
    EXPECT_GE(s.teams, 5u);
    // The others ended inside their second operation.
    EXPECT_EQ(s.left, 10u);
}

TEST(StepsTest, EveryCauseOfAStrayLeavesTheOthersGoing) {
    for (const ParkReason cause : {ParkReason::lock, ParkReason::page_read, ParkReason::latch,
                                   ParkReason::log, ParkReason::yield, ParkReason::sleep}) {
        Team team;
        Event released;
        std::string trace;
        std::vector<ThreadFn> fns;
        for (char name : {'a', 'b', 'c', 'd'})
            fns.push_back([&, name] {
                boundary(OpKind::update);
                CTX(btree_leaf);
                if (name == 'b') {
                    if (cause == ParkReason::yield) yield();
                    else if (cause == ParkReason::sleep) sleep_until(now() + kMillisecond);
                    else released.wait(cause);
                    // ST-2: a stray, until its next boundary.
                    EXPECT_EQ(current()->next, nullptr);
                    CTX(btree_leaf);  // CT-1
                }
                CTX(btree_leaf);
                trace += name;
                if (name == 'd') released.set();
                boundary(OpKind::commit);
                CTX(btree_leaf);
            });
        team.run(std::move(fns));
        EXPECT_EQ(trace, "acdb") << "cause " << static_cast<int>(cause);
        const TeamStats s = team.stats(OpKind::update);
        EXPECT_EQ(s.entered, 4u);
        EXPECT_EQ(s.left, 3u);
        EXPECT_EQ(s.strays[static_cast<size_t>(cause)], 1u);
        EXPECT_EQ(team.stats(OpKind::commit).entered, 4u);  // it has joined again
    }
}

// The mutex counter: CTX with an exclusive latch held would make every other member a stray at that
// latch.
TEST(StepsTest, AMisplacedPointMakesStraysOnlyWithoutTheLatchCounter) {
    for (const bool ignore : {false, true}) {
        Team team({.mode = StepsMode::on, .points = ~0u >> 1, .ignore_latches = ignore});
        Latch latch(1, "test");
        std::vector<ThreadFn> fns(8);
        for (auto& fn : fns)
            fn = [&] {
                boundary(OpKind::update);
                for (int i = 0; i < 10; ++i) {
                    latch.lock();
                    CTX(misplaced);
                    latch.unlock();
                    CTX(btree_leaf);
                }
                boundary(OpKind::commit);
            };
        team.run(std::move(fns));
        const uint64_t strays =
            team.stats(OpKind::update).strays[static_cast<size_t>(ParkReason::latch)];
        const CtxStats ctx = team.runtime->ctx_stats();
        const auto at = static_cast<unsigned>(CtxPoint::misplaced);
        if (ignore) {
            EXPECT_GT(strays, 0u);
        } else {
            EXPECT_EQ(strays, 0u);
            EXPECT_GT(ctx.latched[at], 0u);
            EXPECT_EQ(ctx.taken[at], 0u);
        }
    }
}

TEST(StepsTest, ARareOperationAmong200ThreadsIsServedWithinABound) {
    for (const auto& [policy, op] : {std::pair{TeamPolicy::last_leaver, OpKind::fetch},
                                     {TeamPolicy::largest, OpKind::fetch},
                                     {TeamPolicy::oldest, OpKind::fetch},
                                     {TeamPolicy::last_leaver, OpKind::update}}) {
        Team team({.mode = StepsMode::on, .policy = policy});
        bool rare_done = false;
        uint64_t others = 0;
        std::vector<ThreadFn> fns(200);
        for (auto& fn : fns)
            fn = [&, op = op] {
                while (!rare_done && others < 200'000) {
                    boundary(op, 1);
                    CTX(btree_leaf);
                    ++others;
                }
            };
        fns.push_back([&] {
            boundary(OpKind::erase, 99);
            rare_done = true;
        });
        team.run(std::move(fns));
        EXPECT_TRUE(rare_done);
        // kAgeMax teams, and those before it arrived; who changes does so up to kStaysMax times
        // more in a team.
        EXPECT_LE(others, (64 + 24) * 16u * (op == OpKind::update ? 17 : 1))
            << "policy " << static_cast<int>(policy);
    }
}

TEST(StepsTest, TransactionsUnderWayAreBounded) {
    for (const TeamPolicy policy :
         {TeamPolicy::last_leaver, TeamPolicy::largest, TeamPolicy::oldest}) {
        Team team({.mode = StepsMode::on, .team_max = 8, .policy = policy});
        uint32_t under_way = 0, most = 0, ended = 0;
        std::vector<ThreadFn> fns(100);
        for (auto& fn : fns)
            fn = [&] {
                for (int n = 0; n < 20; ++n) {
                    boundary(OpKind::begin);
                    most = std::max(most, ++under_way);
                    for (uint32_t object = 1; object <= 3; ++object) {
                        boundary(OpKind::fetch, object);
                        CTX(btree_leaf);
                        boundary(OpKind::update);
                    }
                    boundary(OpKind::commit);
                    --under_way;
                    ++ended;
                }
            };
        team.run(std::move(fns));
        EXPECT_EQ(ended, 2000u);
        EXPECT_LE(most, 8u) << "policy " << static_cast<int>(policy);
        EXPECT_GE(most, 7u) << "policy " << static_cast<int>(policy);
    }
}

// A hundred threads want one of two rows: whoever waits for one has begun, and keeps others from
// it.
TEST(StepsTest, TransactionsThatWaitForLocksAreUnderWay) {
    Team team({.mode = StepsMode::on, .team_max = 8});
    struct Row {
        Thread* holder = nullptr;
        std::deque<Thread*> waiting;
        void lock() {
            if (holder == nullptr) holder = current();
            else waiting.push_back(current());
            while (holder != current()) park(ParkReason::lock);
        }
        void unlock() {
            holder = nullptr;
            if (waiting.empty()) return;
            holder = waiting.front();
            waiting.pop_front();
            wake(holder);
        }
    } rows[2];
    uint32_t begun = 0, most = 0, ended = 0;
    std::vector<ThreadFn> fns;
    for (uint32_t t = 0; t < 100; ++t)
        fns.push_back([&, t] {
            for (int n = 0; n < 20; ++n) {
                boundary(OpKind::begin);
                most = std::max(most, ++begun);
                boundary(OpKind::fetch, 1);
                rows[t % 2].lock();
                boundary(OpKind::update);
                boundary(OpKind::commit);
                rows[t % 2].unlock();
                --begun;
                ++ended;
            }
        });
    team.run(std::move(fns));
    EXPECT_EQ(ended, 2000u);
    EXPECT_GE(most, 8u);
    EXPECT_LE(most, 2 * 8u + 1);
}

// Changes of one kind in a row keep a member's place in the team, but not for ever; fetches form a
// new team each time.
TEST(StepsTest, ChangesInARowAreMadeInOneTeam) {
    for (const auto& [op, changes, teams] : {std::tuple{OpKind::update, 10, 1u},
                                             {OpKind::insert, 10, 1u},
                                             {OpKind::update, 40, 3u},
                                             {OpKind::fetch, 10, 10u}}) {
        Team team;
        std::string trace;
        std::vector<ThreadFn> fns;
        for (char name : {'a', 'b', 'c'})
            fns.push_back([&trace, name, op = op, changes = changes] {
                boundary(OpKind::begin);
                for (int i = 0; i < changes; ++i) {
                    boundary(op, 7);
                    trace += name;
                }
                boundary(OpKind::commit);
            });
        team.run(std::move(fns));
        const TeamStats s = team.stats(op, op == OpKind::update ? 0 : 7);
        // The last one is alone in the ring, and forms its own teams with whoever has come
        // meanwhile.
        EXPECT_GE(s.teams, teams) << op_kind_name(op) << ' ' << changes;
        EXPECT_LE(s.teams, teams == 10 ? 10u : teams + static_cast<unsigned>(changes))
            << op_kind_name(op) << ' ' << changes;
        if (changes == 10) {
            EXPECT_EQ(trace.substr(0, 10), op == OpKind::fetch ? "abcabcabca" : "aaaaaaaaaa")
                << op_kind_name(op);
        } else {
            // The first and sixteen more.
            EXPECT_EQ(trace.substr(0, 20), "aaaaaaaaaaaaaaaaabbb");
        }
    }
}

TEST(StepsTest, ATransactionBeginsAmongOthersThatNeverEnd) {
    Team team({.mode = StepsMode::on});
    bool begun = false;
    uint64_t others = 0;
    std::vector<ThreadFn> fns(40);
    for (auto& fn : fns)
        fn = [&] {
            while (!begun && others < 2'000'000) {
                boundary(OpKind::fetch, 1);
                CTX(btree_leaf);
                ++others;
            }
        };
    fns.push_back([&] {
        boundary(OpKind::begin);
        begun = true;
    });
    team.run(std::move(fns));
    EXPECT_TRUE(begun);
    EXPECT_LE(others, (1024 + 24) * 16u);  // kBeginAgeMax teams, and those before it arrived
}

TEST(StepsTest, AnOverlongMemberStaysBehindUnderCGate) {
    Team team({.mode = StepsMode::on, .gate = TeamGate::c_gated, .rounds_max = 5});
    std::string order;
    std::vector<ThreadFn> fns;
    for (int i = 0; i < 4; ++i)
        fns.push_back([&, i] {
            boundary(OpKind::scan);
            for (int k = 0; k < (i == 0 ? 40 : 3); ++k) CTX(btree_leaf);
            order += static_cast<char>('0' + i);
            boundary(OpKind::commit);
        });
    team.run(std::move(fns));
    EXPECT_EQ(order.size(), 4u);
    EXPECT_EQ(order.back(), '0');
}

// 40 threads that all work on different objects: teams of one until the lists become one. When a
// single thread is left, they are split again.
TEST(StepsTest, ListsOfOneKindMergeWhileTeamsAreSmall) {
    Team team;
    constexpr uint32_t kThreads = 40;
    uint32_t working = kThreads;
    std::vector<ThreadFn> fns;
    for (uint32_t t = 0; t < kThreads; ++t)
        fns.push_back([&, t] {
            for (int k = 0; k < 4000; ++k) boundary(OpKind::fetch, t);
            --working;
            if (t != 0) return;
            while (working > 0) boundary(OpKind::fetch, t);
            for (int k = 0; k < 50'000; ++k) boundary(OpKind::fetch, t);
        });
    team.run(std::move(fns));
    uint64_t merged_teams = 0, merged_entered = 0, alone = 0;
    for (const TeamStats& s : team.runtime->team_stats()) {
        if (s.merged) merged_teams += s.teams, merged_entered += s.entered;
        else if (s.object == 0) alone = s.teams;
    }
    ASSERT_GT(merged_teams, 0u);
    EXPECT_GT(merged_entered, 100'000u);
    EXPECT_GT(merged_entered / merged_teams, 4u);
    EXPECT_GT(alone, 20'000u);  // the last thread's own list again
}

// Points, modes and team sizes change while threads work; nobody is lost.
TEST(StepsTest, EverythingChangesWhileThreadsWork) {
    Team team;
    std::vector<ThreadFn> fns;
    uint32_t done = 0;
    for (uint32_t t = 0; t < 30; ++t)
        fns.push_back([&, t] {
            Rng rng(t);
            for (int k = 0; k < 2000; ++k) {
                if (Steps* steps = worker_local.steps)
                    steps->boundary(*current(), OpKind::fetch, static_cast<uint32_t>(rng.below(3)));
                CTX(btree_leaf);
                if (rng.below(50) == 0) yield();
                if (t == 0 && k % 20 == 0)
                    set_steps({.mode = static_cast<StepsMode>(rng.below(6)),
                               .team_max = static_cast<uint32_t>(1 + rng.below(20)),
                               .gate = static_cast<TeamGate>(rng.below(3)),
                               .rounds_max = 3,
                               .points = static_cast<uint32_t>(rng.below(16))});
            }
            ++done;
        });
    team.run(std::move(fns));
    EXPECT_EQ(done, 30u);
}

TEST(StepsTest, TeamsOfSeveralWorkersAreIndependent) {
    Team team({.mode = StepsMode::on}, 3);
    std::atomic<uint64_t> done{0};
    for (uint32_t i = 0; i < 60; ++i)
        team.spawn(
            [&] {
                for (int k = 0; k < 200; ++k) {
                    boundary(OpKind::fetch, static_cast<uint32_t>(k % 3));
                    CTX(btree_leaf);
                    if (k % 50 == 7) yield();
                    boundary(OpKind::update);
                    CTX(record);
                }
                done.fetch_add(1);
            },
            i % 3);
    team.runtime->stop();
    EXPECT_EQ(done.load(), 60u);
    EXPECT_EQ(team.stats(OpKind::update).entered, 60u * 200u);
}

// Random lives on virtual workers: threads work, yield, wait for one another and end inside or
// outside of teams.
TEST(StepsTest, RandomLivesLoseNobody) {
    const char* given = std::getenv("LOCKSTEP_SEED");
    const uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
    for (uint64_t seed = first; seed < first + (given != nullptr ? 1 : 30); ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        ManualClock clock;
        auto runtime = Runtime::start(
            {.workers = 2,
             .caller_driven = true,
             .seed = seed,
             .clock = &clock,
             .steps = {.mode = StepsMode::on, .team_max = static_cast<uint32_t>(1 + seed % 7)}});
        ASSERT_TRUE(runtime);
        Semaphore units(3);
        uint32_t ended = 0;
        constexpr uint32_t kThreads = 40;
        for (uint32_t t = 0; t < kThreads; ++t)
            ASSERT_TRUE((*runtime)->spawn(t, "life", [&, t] {
                Rng rng(seed * 1000 + t);
                for (uint64_t ops = rng.below(30); ops > 0; --ops) {
                    boundary(static_cast<OpKind>(rng.below(7)),
                             static_cast<uint32_t>(rng.below(3)));
                    for (uint64_t k = rng.below(4); k > 0; --k) CTX(btree_leaf);
                    if (rng.below(6) == 0) yield();
                    if (rng.below(5) == 0) {
                        units.acquire();
                        CTX(record);
                        if (rng.below(2) == 0) yield();
                        units.release();
                    }
                    CTX(record);
                }
                ++ended;
            }));
        while ((*runtime)->step()) {}
        EXPECT_EQ(ended, kThreads);
    }
}

}  // namespace lockstep::threads::steps_test
