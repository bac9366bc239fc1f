// labels: unit
// lock_deadlock_test.cc - cycles of 2, 3 and n owners, the choice of the victim, the
// text, and what is no deadlock.
#include "tests/seed_of_run.h"
#include "tests/txn/lock/lock_test_util.h"
#include "threads/base/rng.h"

namespace lockstep::txn::lock_deadlock_test {

using enum LockMode;
LockName name_of(uint64_t i) { return LockName{mix64(i + 1) | 1}; }

TEST(LockDeadlock, TwoOwners) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, name_of(0), X)));
    ASSERT_TRUE(granted(s.lock(1, name_of(1), X)));
    s.owner[0].work = 10;
    auto a = s.lock(0, name_of(1), X);
    EXPECT_TRUE(waits(a));
    auto b = s.lock(1, name_of(0), X);
    EXPECT_EQ(error_of(b), ErrorCode::deadlock);
    EXPECT_EQ((*b)->error().a, name_of(0).value);
    EXPECT_TRUE(waits(a));
    EXPECT_EQ(s.check(), "");
    s.release(1);
    EXPECT_TRUE(granted(a));
    EXPECT_EQ(s.locks.stats().deadlocks, 1u);
}

TEST(LockDeadlock, VictimHasTheLeastWorkEvenIfItCameFirst) {
    for (int light = 0; light < 3; ++light) {
        Scene s;
        std::shared_ptr<Scene::Outcome> outcome[3];
        for (size_t i = 0; i < 3; ++i) {
            ASSERT_TRUE(granted(s.lock(i, name_of(i), X)));
            s.owner[i].work = static_cast<int>(i) == light ? 1 : 50;
        }
        for (size_t i = 0; i < 3; ++i) outcome[i] = s.lock(i, name_of((i + 1) % 3), S);
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(error_of(outcome[i]), i == light ? ErrorCode::deadlock : ErrorCode::none)
                << i << " " << light;
        EXPECT_EQ(s.check(), "");
        s.release(light);
        EXPECT_TRUE(granted(outcome[(light + 2) % 3]));
        s.release((light + 2) % 3);
        EXPECT_TRUE(granted(outcome[(light + 1) % 3]));
    }
}

TEST(LockDeadlock, AmongEqualsTheYoungestDies) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, name_of(0), X)));
    ASSERT_TRUE(granted(s.lock(1, name_of(1), X)));
    s.owner[0].txn = TxnId{900};
    auto b = s.lock(1, name_of(0), X);
    auto a = s.lock(0, name_of(1), X);
    EXPECT_EQ(error_of(a), ErrorCode::deadlock);
    EXPECT_TRUE(waits(b));
    s.release(0);
}

TEST(LockDeadlock, RingsOfManyOwners) {
    for (size_t n : {2, 5, 17, 200}) {
        Scene s({}, 200);
        std::vector<std::shared_ptr<Scene::Outcome>> outcome;
        for (size_t i = 0; i < n; ++i) ASSERT_TRUE(granted(s.lock(i, name_of(i), X)));
        for (size_t i = 0; i < n; ++i) outcome.push_back(s.lock(i, name_of((i + 1) % n), X));
        size_t victims = 0, last = 0;
        for (size_t i = 0; i < n; ++i)
            if (error_of(outcome[i]) == ErrorCode::deadlock) ++victims, last = i;
        EXPECT_EQ(victims, 1u);
        EXPECT_EQ(last, n - 1);  // equal work: the highest id
        EXPECT_EQ(s.check(), "");
        const std::string text = s.locks.describe_cycle((*outcome[last])->error().b);
        if (n > 16) {
            EXPECT_NE(text.find("and " + std::to_string(n - 16) + " more"), std::string::npos)
                << text;
        }
        for (size_t i = n; i-- > 0;) s.release(i);
        for (size_t i = 0; i + 1 < n; ++i) EXPECT_TRUE(granted(outcome[i]));
    }
}

TEST(LockDeadlock, TwoUpgradesOfOneShare) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, name_of(0), S)));
    ASSERT_TRUE(granted(s.lock(1, name_of(0), S)));
    auto a = s.lock(0, name_of(0), X);
    auto b = s.lock(1, name_of(0), X);
    EXPECT_EQ(error_of(b), ErrorCode::deadlock);
    EXPECT_EQ(s.locks.held(s.owner[1], name_of(0)), S);  // keeps what it had until it rolls back
    s.release(1);
    EXPECT_TRUE(granted(a));
}

// 2 waits for nobody's lock but for its turn: behind 1, which waits for 0, which waits for 2.
TEST(LockDeadlock, ThroughTheQueue) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(2, name_of(1), X)));
    ASSERT_TRUE(granted(s.lock(0, name_of(0), S)));
    s.owner[0].work = s.owner[2].work = 100;
    auto writer = s.lock(1, name_of(0), X);
    auto reader = s.lock(2, name_of(0), S);
    EXPECT_TRUE(waits(writer) && waits(reader));
    auto closing = s.lock(0, name_of(1), S);
    EXPECT_EQ(error_of(writer), ErrorCode::deadlock);  // the least work, a mere waiter
    EXPECT_TRUE(granted(reader));
    EXPECT_TRUE(waits(closing));
    const std::string text = s.locks.describe_cycle((*writer)->error().b);
    EXPECT_NE(text.find("behind"), std::string::npos) << text;
    EXPECT_EQ(s.check(), "");
    s.release(2);
    EXPECT_TRUE(granted(closing));
}

// One request may close several cycles: all must be broken. A conversion that stands behind another
// is granted before it if its rights allow that (LK-2): they do not wait for each other.
TEST(LockDeadlock, ConversionsStandBehindNobody) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, name_of(0), IS)));
    ASSERT_TRUE(granted(s.lock(1, name_of(0), IS)));
    ASSERT_TRUE(granted(s.lock(2, name_of(0), S)));
    // Both because of the S; the X because of the IS, too.
    auto all = s.lock(0, name_of(0), X), some = s.lock(1, name_of(0), IX);
    EXPECT_TRUE(waits(all) && waits(some));
    EXPECT_EQ(s.locks.stats().deadlocks, 0u);
    s.release(2);
    EXPECT_TRUE(waits(all) && granted(some));
    s.release(1);
    EXPECT_TRUE(granted(all));
    EXPECT_EQ(s.check(), "");
}

// Who locks in one order is never in a cycle. On several kernel threads a search that mixes two
// moments sees some all the same: an owner as it waited a moment ago, and as it holds now, in its
// next life.
TEST(LockDeadlock, NobodyDiesAmongThoseWhoLockInOrder) {
    constexpr uint32_t kThreads = 64, kNames = 8, kRounds = 6000;
    LockManager locks({.buckets_log2 = 4, .owners_max = kThreads});
    Owners owners(locks, kThreads);
    const uint64_t seed = seed_of_run();
    auto runtime = *threads::Runtime::start({.workers = 4});
    std::atomic<uint32_t> refused{0};
    for (uint32_t t = 0; t < kThreads; ++t)
        ASSERT_TRUE(runtime->spawn(t, "locker", [&, t] {
            Rng rng = Rng(seed).fork(t);
            for (uint32_t round = 0; round < kRounds; ++round) {
                for (uint32_t i = 0; i < kNames; ++i) {
                    if (rng.chance(0.4)) continue;
                    if (!locks.lock(owners[t], name_of(i), rng.chance(0.3) ? S : X)) {
                        ++refused;
                        break;
                    }
                    if (rng.chance(0.2)) threads::yield();
                }
                locks.release_all(owners[t]);
            }
        }));
    runtime->stop();
    EXPECT_EQ(refused.load(), 0u);
    EXPECT_EQ(locks.stats().deadlocks, 0u);
    EXPECT_GT(locks.stats().waits, 1000u);
    EXPECT_EQ(locks.verify(), "");
}

TEST(LockDeadlock, SeveralCyclesAtOnce) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, name_of(9), X)));
    std::vector<std::shared_ptr<Scene::Outcome>> readers;
    for (size_t i = 1; i <= 4; ++i) {
        ASSERT_TRUE(granted(s.lock(i, name_of(0), S)));
        readers.push_back(s.lock(i, name_of(9), S));
    }
    s.owner[0].work = 1000;
    auto writer = s.lock(0, name_of(0), X);
    for (auto& reader : readers) EXPECT_EQ(error_of(reader), ErrorCode::deadlock);
    EXPECT_TRUE(waits(writer));
    EXPECT_EQ(s.locks.stats().deadlocks, 4u);
    for (size_t i = 1; i <= 4; ++i) s.release(i);
    EXPECT_TRUE(granted(writer));
    EXPECT_EQ(s.check(), "");
}

TEST(LockDeadlock, WaitUntilGrantableTakesPart) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, name_of(0), gap_read)));
    ASSERT_TRUE(granted(s.lock(1, name_of(0), gap_read)));
    s.owner[0].work = 5;
    std::optional<Result<void>> first, second;
    s.go([&] { first = s.locks.wait_until_grantable(s.owner[0], name_of(0), gap_insert); });
    EXPECT_FALSE(first);
    s.go([&] { second = s.locks.wait_until_grantable(s.owner[1], name_of(0), gap_insert); });
    ASSERT_TRUE(second);
    EXPECT_EQ(second->error().code, ErrorCode::deadlock);
    s.release(1);
    EXPECT_TRUE(first && *first);
}

TEST(LockDeadlock, LongChainsAreNoDeadlock) {
    Scene s({}, 100);
    std::vector<std::shared_ptr<Scene::Outcome>> outcome;
    for (size_t i = 0; i < 100; ++i) ASSERT_TRUE(granted(s.lock(i, name_of(i), X)));
    for (size_t i = 1; i < 100; ++i) outcome.push_back(s.lock(i, name_of(i - 1), X));
    EXPECT_EQ(s.locks.stats().deadlocks, 0u);
    for (size_t i = 0; i < 100; ++i) {
        if (i) {
            EXPECT_TRUE(granted(outcome[i - 1]));
        }
        s.release(i);
    }
    EXPECT_EQ(s.check(), "");
}

TEST(LockDeadlock, TextNamesEveryMember) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, LockName{0xabc1}, X)));
    ASSERT_TRUE(granted(s.lock(1, LockName{0xabc3}, S)));
    auto a = s.lock(0, LockName{0xabc3}, X);
    auto b = s.lock(1, LockName{0xabc1}, S);
    ASSERT_EQ(error_of(b), ErrorCode::deadlock);
    EXPECT_EQ(s.locks.describe_cycle((*b)->error().b),
              "txn 101 waits for S on 0xabc1 held by txn 100 (X); txn 100 waits for X on 0xabc3 "
              "held by txn 101 (S); victim txn 101");
    EXPECT_EQ(s.locks.describe_cycle(0), "");
    EXPECT_EQ(s.locks.describe_cycle(77), "");
    s.release(1);
    EXPECT_TRUE(granted(a));
}

// LM-7. The outer owner cannot end while its thread waits for the inner one.
class NestedOwners : public ::testing::Test {
protected:
    NestedOwners() : s({.owners_have_threads = true}) { s.owner[2].work = 1000; }
    ~NestedOwners() override {
        for (size_t i = 0; i < 3; ++i) s.release(i);
    }
    // On one user thread: the outer owner, 0, takes name 0. The inner one, 1, then asks for `name`.
    void nest(uint64_t name) {
        s.go([this, name] {
            s.owner[0].thread = s.owner[1].thread = threads::current();
            ASSERT_TRUE(s.locks.lock(s.owner[0], name_of(0), X));
            inner = s.locks.lock(s.owner[1], name_of(name), X);
        });
    }

    Scene s;
    std::optional<Result<void>> inner;
};

TEST_F(NestedOwners, WaitForTheOuterOwnerEndsAtOnce) {
    nest(0);
    ASSERT_TRUE(inner && !*inner);
    EXPECT_EQ(inner->error().code, ErrorCode::self_deadlock);
    EXPECT_EQ(inner->error().a, name_of(0).value);
    EXPECT_NE(inner->error().text().find("held by txn 100 (X), whose user thread runs txn 101"),
              std::string::npos)
        << inner->error().text();
    EXPECT_EQ(s.check(), "");
}

// The inner owner would meet the same cycle again, so the other thread's owner gives way.
TEST_F(NestedOwners, CycleThatTheInnerOwnerCloses) {
    s.go([this] { ASSERT_TRUE(s.locks.lock(s.owner[2], name_of(2), X)); });
    std::shared_ptr<Scene::Outcome> other;
    s.go([&, this] {
        s.owner[0].thread = s.owner[1].thread = threads::current();
        ASSERT_TRUE(s.locks.lock(s.owner[0], name_of(0), X));
        while (!other) threads::park(threads::ParkReason::event);
        inner = s.locks.lock(s.owner[1], name_of(2), X);
    });
    threads::Thread* const thread = s.owner[0].thread;
    other = s.lock(2, name_of(0), X);
    EXPECT_TRUE(waits(other));
    threads::wake(thread);
    s.run_until_idle();
    EXPECT_EQ(error_of(other), ErrorCode::deadlock);
    EXPECT_FALSE(inner);
    s.release(2);
    EXPECT_TRUE(inner && *inner);
}

TEST_F(NestedOwners, CycleThatTheOtherThreadCloses) {
    s.go([this] { ASSERT_TRUE(s.locks.lock(s.owner[2], name_of(2), X)); });
    nest(2);
    EXPECT_FALSE(inner);
    auto other = s.lock(2, name_of(0), X);
    EXPECT_EQ(error_of(other), ErrorCode::deadlock);
    EXPECT_FALSE(inner);
    s.release(2);
    EXPECT_TRUE(inner && *inner);
}

TEST_F(NestedOwners, WaitForOthersIsNoDeadlock) {
    s.go([this] { ASSERT_TRUE(s.locks.lock(s.owner[2], name_of(2), X)); });
    nest(2);
    EXPECT_FALSE(inner);
    s.release(2);
    EXPECT_TRUE(inner && *inner);
    EXPECT_EQ(s.locks.stats().deadlocks, 0u);
}

TEST(LockDeadlock, KeepsTheLastSixtyFourTexts) {
    Scene s;
    s.owner[0].work = 10;
    for (int round = 1; round <= 70; ++round) {
        ASSERT_TRUE(granted(s.lock(0, name_of(0), X)));
        ASSERT_TRUE(granted(s.lock(1, name_of(1), X)));
        auto a = s.lock(0, name_of(1), X), b = s.lock(1, name_of(0), X);
        ASSERT_EQ(error_of(b), ErrorCode::deadlock);
        s.release(1);
        s.release(0);
    }
    EXPECT_EQ(s.locks.describe_cycle(6), "");
    EXPECT_NE(s.locks.describe_cycle(7), "");
    EXPECT_NE(s.locks.describe_cycle(70), "");
}

}  // namespace lockstep::txn::lock_deadlock_test
