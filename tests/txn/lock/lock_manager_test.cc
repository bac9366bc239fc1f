// labels: unit
// lock_manager_test.cc - grants, queues, conversions, timeouts and releases, one user
// thread per lock call.
#include "txn/lock/lock_manager.h"

#include "tests/txn/lock/lock_test_util.h"

namespace lockstep::txn::lock_manager_test {

using enum LockMode;
constexpr LockName kA{0x1111111111111111}, kB{0x2222222222222223};

TEST(LockManager, EveryPairOfModes) {
    for (LockMode first : kElementary)
        for (LockMode second : kElementary) {
            Scene s;
            ASSERT_TRUE(granted(s.lock(0, kA, first)));
            EXPECT_EQ(s.locks.grantable(s.owner[1], kA, second), compatible(second, first));
            EXPECT_EQ(s.locks.grantable(kA, second), compatible(second, first));
            auto outcome = s.lock(1, kA, second);
            EXPECT_EQ(granted(outcome), compatible(second, first))
                << lock_mode_name(second) << " after " << lock_mode_name(first);
            EXPECT_EQ(waits(outcome), !compatible(second, first));
            EXPECT_EQ(s.check(), "");
            s.release(0);
            EXPECT_TRUE(granted(outcome));
            EXPECT_EQ(s.locks.held(s.owner[1], kA), second);
            EXPECT_EQ(s.check(), "");
            s.release(1);
            EXPECT_EQ(s.locks.held(s.owner[1], kA), none);
            EXPECT_EQ(s.check(), "");
        }
}

TEST(LockManager, RepeatedRequestsJoinTheirRights) {
    Scene s;
    for (LockMode mode : {S, S, IS, gap_read, X}) ASSERT_TRUE(granted(s.lock(0, kA, mode)));
    EXPECT_EQ(s.owner[0].locks_held, 1u);
    EXPECT_EQ(s.locks.held(s.owner[0], kA), S | IS | gap_read | X);
    EXPECT_EQ(s.check(), "");
}

// A holder of S asks again while another holds U, which admits no new S: it has what it wants.
TEST(LockManager, RepeatedShareBesideUpdateDoesNotWait) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, S)));
    ASSERT_TRUE(granted(s.lock(1, kA, U)));
    EXPECT_TRUE(granted(s.lock(0, kA, S)));
    EXPECT_TRUE(waits(s.lock(2, kA, S)));
    EXPECT_EQ(s.check(), "");
    s.release(0);
    s.release(1);
}

TEST(LockManager, FirstComeFirstServedInGroups) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, X)));
    auto r1 = s.lock(1, kA, S), r2 = s.lock(2, kA, S), w3 = s.lock(3, kA, X), r4 = s.lock(4, kA, S);
    EXPECT_TRUE(waits(r1) && waits(r2) && waits(w3) && waits(r4));
    EXPECT_EQ(s.check(), "");
    s.release(0);
    EXPECT_TRUE(granted(r1) && granted(r2));
    EXPECT_TRUE(waits(w3) && waits(r4));   // the reader does not pass the writer
    EXPECT_TRUE(waits(s.lock(5, kA, S)));  // nor does a newcomer
    EXPECT_EQ(s.check(), "");
    s.release(1);
    EXPECT_TRUE(waits(w3));
    s.release(2);
    EXPECT_TRUE(granted(w3) && waits(r4));
    s.release(3);
    EXPECT_TRUE(granted(r4));
    EXPECT_EQ(s.locks.held(s.owner[5], kA), S);
    EXPECT_EQ(s.check(), "");
}

// Who takes nothing that a waiter needs may pass it.
TEST(LockManager, PassingAWaiterThatDoesNotFeelIt) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, gap_read)));
    auto insert = s.lock(1, kA, gap_insert);
    EXPECT_TRUE(waits(insert));
    EXPECT_TRUE(granted(s.lock(2, kA, S)));       // the key, not the gap
    EXPECT_TRUE(waits(s.lock(3, kA, gap_read)));  // would starve the insert
    EXPECT_EQ(s.check(), "");
    s.release(0);
    EXPECT_TRUE(granted(insert));
    s.release(1);
    EXPECT_EQ(s.locks.held(s.owner[3], kA), gap_read);
}

TEST(LockManager, ConversionsGoFirst) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, S)));
    ASSERT_TRUE(granted(s.lock(1, kA, S)));
    auto stranger = s.lock(2, kA, X);
    auto upgrade = s.lock(0, kA, X);
    EXPECT_TRUE(waits(stranger) && waits(upgrade));
    EXPECT_EQ(s.check(), "");
    s.release(1);
    EXPECT_TRUE(granted(upgrade) && waits(stranger));
    EXPECT_EQ(s.owner[0].locks_held, 1u);
    s.release(0);
    EXPECT_TRUE(granted(stranger));
    EXPECT_EQ(s.check(), "");
}

TEST(LockManager, UpdateModeUpgradesWithoutDeadlock) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, S)));
    ASSERT_TRUE(granted(s.lock(1, kA, U)));
    auto second = s.lock(2, kA, U);  // a second updater waits from the start
    auto upgrade = s.lock(1, kA, X);
    EXPECT_TRUE(waits(second) && waits(upgrade));
    s.release(0);
    EXPECT_TRUE(granted(upgrade) && waits(second));
    s.release(1);
    EXPECT_TRUE(granted(second));
    EXPECT_TRUE(granted(s.lock(2, kA, X)));
    EXPECT_EQ(s.locks.stats().deadlocks, 0u);
}

TEST(LockManager, TryNeverWaits) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, S)));
    EXPECT_TRUE(*s.locks.try_lock(s.owner[1], kA, S));
    EXPECT_FALSE(*s.locks.try_lock(s.owner[1], kA, X));
    EXPECT_EQ(s.locks.held(s.owner[1], kA), S);
    EXPECT_FALSE(*s.locks.try_lock(s.owner[2], kA, X));
    EXPECT_EQ(s.owner[2].locks_held, 0u);
    s.release(0);
    EXPECT_TRUE(*s.locks.try_lock(s.owner[1], kA, X));
    EXPECT_EQ(s.check(), "");
}

TEST(LockManager, UnlockGivesBackSomeRights) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, key_scan)));
    s.locks.unlock(s.owner[0], kA, S);
    EXPECT_EQ(s.locks.held(s.owner[0], kA), gap_read);
    EXPECT_EQ(s.owner[0].locks_held, 1u);
    EXPECT_TRUE(granted(s.lock(1, kA, X)));
    s.locks.unlock(s.owner[0], kA, gap_read);
    EXPECT_EQ(s.owner[0].locks_held, 0u);
    EXPECT_EQ(s.locks.held(s.owner[0], kA), none);
    EXPECT_EQ(s.check(), "");
    s.locks.unlock(s.owner[0], kB, X);  // not held: nothing happens
    EXPECT_EQ(s.check(), "");
}

TEST(LockManager, UnlockWakesWaiters) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, X)));
    auto reader = s.lock(1, kA, S);
    s.locks.unlock(s.owner[0], kA, X);
    s.run_until_idle();
    EXPECT_TRUE(granted(reader));
    EXPECT_EQ(s.check(), "");
}

TEST(LockManager, UnlockInAnyOrderForgetsTheName) {
    Scene s({}, 2);
    constexpr uint64_t kMany = 300;  // five chunks of names
    const auto name = [](uint64_t i) { return LockName{mix64(i) | 1}; };
    for (uint64_t i = 0; i < kMany; ++i) ASSERT_TRUE(*s.locks.try_lock(s.owner[0], name(i), X));
    EXPECT_EQ(s.check(), "");
    for (uint64_t i = 0; i < kMany; ++i) {
        s.locks.unlock(s.owner[0], name((i * 7) % kMany), X);
        EXPECT_EQ(s.locks.held(s.owner[0], name((i * 7) % kMany)), none);
        if (i % 50 == 0) {
            ASSERT_EQ(s.check(), "");
        }
    }
    EXPECT_EQ(s.check(), "");
    s.release(0);
    EXPECT_EQ(s.owner[0].locks_held, 0u);
}

// A refusal leaves an empty chunk on top of the list that grew for it.
TEST(LockManager, UnlockBelowAnEmptyChunkForgetsTheName) {
    Scene s;
    constexpr uint64_t kFull = LockOwner::Chunk::kNames;
    const auto name = [](uint64_t i) { return LockName{mix64(i) | 1}; };
    ASSERT_TRUE(granted(s.lock(1, kA, X)));
    for (uint64_t i = 0; i < kFull; ++i) ASSERT_TRUE(*s.locks.try_lock(s.owner[0], name(i), X));
    EXPECT_FALSE(*s.locks.try_lock(s.owner[0], kA, X));
    EXPECT_EQ(s.owner[0].chunk->used, 0u);  // the test is not blind
    s.locks.unlock(s.owner[0], name(0), X);
    EXPECT_EQ(s.locks.held(s.owner[0], name(0)), none);
    EXPECT_EQ(s.owner[0].locks_held, kFull - 1);
    EXPECT_EQ(s.check(), "");
    s.release(0);
    EXPECT_EQ(s.check(), "");
}

// All names share bucket 0: overflow buckets come and go.
TEST(LockManager, ManyNamesInOneBucket) {
    Scene s;
    for (uint64_t i = 1; i <= 50; ++i)
        ASSERT_TRUE(*s.locks.try_lock(s.owner[i % 4], LockName{i}, i % 2 ? S : X));
    EXPECT_EQ(s.check(), "");
    for (uint64_t i = 1; i <= 50; i += 2)
        ASSERT_TRUE(*s.locks.try_lock(s.owner[5], LockName{i}, S));
    for (uint64_t i = 2; i <= 50; i += 2)
        ASSERT_FALSE(*s.locks.try_lock(s.owner[5], LockName{i}, S));
    EXPECT_EQ(s.check(), "");
    for (size_t i : {2, 0, 5, 1, 3}) {
        s.release(i);
        EXPECT_EQ(s.check(), "");
    }
    for (uint64_t i = 1; i <= 50; ++i)
        EXPECT_TRUE(s.locks.grantable(s.owner[6], LockName{i}, X | gap_insert));
}

TEST(LockManager, WaitUntilGrantableTakesNothing) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, key_scan)));
    std::optional<Result<void>> done;
    s.go([&] { done = s.locks.wait_until_grantable(s.owner[1], kA, gap_insert); });
    EXPECT_FALSE(done);
    // Queues behind, so that inserts do not starve.
    EXPECT_TRUE(waits(s.lock(2, kA, gap_read)));
    EXPECT_EQ(s.check(), "");
    s.release(0);
    ASSERT_TRUE(done && *done);
    EXPECT_EQ(s.locks.held(s.owner[1], kA), none);
    EXPECT_EQ(s.locks.held(s.owner[2], kA), gap_read);
    EXPECT_EQ(s.owner[1].locks_held, 0u);
    s.release(2);
    s.go([&] { done = s.locks.wait_until_grantable(s.owner[1], kA, gap_insert); });
    EXPECT_EQ(s.check(), "");
    // The owner's own rights are no obstacle.
    ASSERT_TRUE(granted(s.lock(1, kA, gap_read)));
    done.reset();
    s.go([&] { done = s.locks.wait_until_grantable(s.owner[1], kA, gap_insert); });
    EXPECT_TRUE(done && *done);
}

TEST(LockManager, TimeoutLeavesTheQueue) {
    Scene s({.timeout = 10 * kMillisecond});
    ASSERT_TRUE(granted(s.lock(0, kA, S)));
    auto writer = s.lock(1, kA, X);
    auto reader = s.lock(2, kA, S);  // behind the writer
    s.owner[3].timeout = 1 * kMillisecond;
    auto impatient = s.lock(3, kA, X);
    EXPECT_TRUE(waits(writer) && waits(reader) && waits(impatient));
    s.clock.advance(2 * kMillisecond);
    s.run_until_idle();
    EXPECT_EQ(error_of(impatient), ErrorCode::lock_timeout);
    EXPECT_EQ((*impatient)->error().a, kA.value);
    EXPECT_TRUE(waits(writer) && waits(reader));
    s.clock.advance(9 * kMillisecond);
    s.run_until_idle();
    EXPECT_EQ(error_of(writer), ErrorCode::lock_timeout);
    EXPECT_TRUE(granted(reader) || error_of(reader) == ErrorCode::lock_timeout);
    EXPECT_EQ(s.owner[1].locks_held, 0u);
    EXPECT_GE(s.locks.stats().timeouts, 2u);
    EXPECT_EQ(s.check(), "");
}

TEST(LockManager, TimeoutOfAConversionKeepsWhatWasHeld) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, S)));
    ASSERT_TRUE(granted(s.lock(1, kA, S)));
    s.owner[1].timeout = kMillisecond;
    auto upgrade = s.lock(1, kA, X);
    s.clock.advance(2 * kMillisecond);
    s.run_until_idle();
    EXPECT_EQ(error_of(upgrade), ErrorCode::lock_timeout);
    EXPECT_EQ(s.locks.held(s.owner[1], kA), S);
    EXPECT_EQ(s.check(), "");
}

TEST(LockManager, CancelWakesTheWaiterAndThoseBehind) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, S)));
    auto writer = s.lock(1, kA, X);
    auto reader = s.lock(2, kA, S);
    s.locks.cancel(s.owner[0]);  // does not wait: nothing happens
    s.locks.cancel(s.owner[1]);
    s.run_until_idle();
    EXPECT_EQ(error_of(writer), ErrorCode::cancelled);
    EXPECT_TRUE(granted(reader));
    EXPECT_EQ(s.check(), "");
}

TEST(LockManager, WaitingNeedsAUserThread) {
    Scene s;
    ASSERT_TRUE(s.locks.lock(s.owner[0], kA, X));
    auto refused = s.locks.lock(s.owner[1], kA, S);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::wrong_thread);
    EXPECT_EQ(s.check(), "");
}

TEST(LockManager, ReleaseSharedKeepsWrites) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, key_scan)));
    ASSERT_TRUE(granted(s.lock(0, kB, S)));
    ASSERT_TRUE(granted(s.lock(0, kB, key_insert)));
    auto writer = s.lock(1, kA, X), reader = s.lock(2, kB, S);
    s.locks.release_shared(s.owner[0]);
    s.run_until_idle();
    EXPECT_TRUE(granted(writer) && waits(reader));
    EXPECT_EQ(s.locks.held(s.owner[0], kA), none);
    EXPECT_EQ(s.locks.held(s.owner[0], kB), key_insert);
    EXPECT_EQ(s.owner[0].locks_held, 1u);
    EXPECT_EQ(s.check(), "");
    s.release(0);
    EXPECT_TRUE(granted(reader));
}

TEST(LockManager, PolicyOrdersWaitersAndAgeingBoundsIt) {
    Scene s({.stage = {.policy = LockPolicy::short_first, .bypass_max = 2}});
    ASSERT_TRUE(granted(s.lock(0, kA, X)));
    for (size_t i = 1; i <= 5; ++i) s.owner[i].operations = i == 1 ? 10 : 1;
    auto slow = s.lock(1, kA, X);
    auto q2 = s.lock(2, kA, X), q3 = s.lock(3, kA, X), q4 = s.lock(4, kA, X);
    EXPECT_EQ(s.check(), "");
    s.release(0);
    EXPECT_TRUE(granted(q2) && waits(slow));
    s.release(2);
    EXPECT_TRUE(granted(q3) && waits(slow));
    s.release(3);
    EXPECT_TRUE(granted(slow) && waits(q4));  // overtaken twice: not a third time
    s.release(1);
    EXPECT_TRUE(granted(q4));
    EXPECT_EQ(s.check(), "");
}

TEST(LockManager, PriorityOrdersWaitersAndConversionsStayFirst) {
    Scene s({.stage = {.policy = LockPolicy::priority, .bypass_max = 8}});
    for (size_t i = 1; i <= 4; ++i) s.owner[i].priority = i == 3 ? 9 : 1;
    ASSERT_TRUE(granted(s.lock(0, kA, S)));
    ASSERT_TRUE(granted(s.lock(4, kA, S)));
    auto low = s.lock(1, kA, X), low_too = s.lock(2, kA, X), high = s.lock(3, kA, X);
    auto conversion = s.lock(4, kA, X);  // of low priority, but it holds the lock
    EXPECT_EQ(s.check(), "");
    s.release(0);
    EXPECT_TRUE(granted(conversion) && waits(high));
    s.release(4);
    EXPECT_TRUE(granted(high) && waits(low) && waits(low_too));
    s.release(3);
    EXPECT_TRUE(granted(low) && waits(low_too));
    const StageStats stage = s.locks.stage_stats();
    EXPECT_EQ(stage.bypasses, 2u);
    EXPECT_EQ(stage.queued, 1u);
    EXPECT_TRUE(stage.conserved());
    s.locks.cancel(s.owner[2]);
    s.run_until_idle();
    EXPECT_EQ(error_of(low_too), ErrorCode::cancelled);
    EXPECT_EQ(s.locks.stage_stats().cancelled, 1u);
    EXPECT_EQ(s.check(), "");
}

// A holder that waits for something else lets a queue form at a hot lock; afterwards nobody needs
// to wait, and soon nobody does.
TEST(LockManager, AConvoyDissolves) {
    constexpr uint32_t kThreads = 10, kRounds = 200;
    Scene s({}, kThreads);
    uint32_t done = 0;
    for (uint32_t t = 0; t < kThreads; ++t)
        ASSERT_TRUE(s.runtime->spawn(0, "test", [&, t] {
            s.owner[t].thread = threads::current();
            for (uint32_t round = 0; round < kRounds; ++round, ++done) {
                EXPECT_TRUE(s.locks.lock(s.owner[t], kA, X));
                if (t == 0 && round == 0) threads::sleep_until(threads::now() + kMillisecond);
                s.locks.release_all(s.owner[t]);
            }
        }));
    s.run_until_idle();
    EXPECT_EQ(s.locks.stage_stats().queued, kThreads - 1);  // all queue behind the sleeper
    s.clock.advance(2 * kMillisecond);
    s.run_until_idle();
    EXPECT_EQ(done, kThreads * kRounds);
    EXPECT_LT(s.locks.stats().waits, 3 * kThreads);
    EXPECT_EQ(s.check(), "");
}

// Readers that can have the lock together get it together, and are counted as one group.
TEST(LockManager, GrantsComeInGroups) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, kA, X)));
    auto a = s.lock(1, kA, S), b = s.lock(2, kA, S), c = s.lock(3, kA, S),
         writer = s.lock(4, kA, X);
    s.clock.advance(5 * kMicrosecond);
    s.go([&] { s.locks.release_all(s.owner[0]); });  // on a user thread, which has a clock
    EXPECT_TRUE(granted(a) && granted(b) && granted(c) && waits(writer));
    const StageStats stage = s.locks.stage_stats();
    EXPECT_EQ(stage.batch.max, 3u);
    EXPECT_EQ(stage.wait.count, 3u);
    EXPECT_GE(stage.wait.sum, 15 * kMicrosecond);
}

// A policy may put a request before the one in whose favour it was refused: then it is granted at
// once.
TEST(LockManager, PolicyMayLetARequestThrough) {
    Scene s({.stage = {.policy = LockPolicy::short_first}});
    for (size_t i = 0; i < 3; ++i) s.owner[i].operations = i == 2 ? 1 : 10;
    ASSERT_TRUE(granted(s.lock(0, kA, S)));
    auto writer = s.lock(1, kA, X);
    EXPECT_TRUE(waits(writer));
    EXPECT_TRUE(granted(s.lock(2, kA, S)));
    EXPECT_EQ(s.check(), "");
}

TEST(LockManager, MemoryIsReportedAndReused) {
    Scene s;
    const auto churn = [&] {
        for (uint64_t i = 0; i < 500; ++i) {
            ASSERT_TRUE(*s.locks.try_lock(s.owner[0], LockName{mix64(i) | 1}, S));
            ASSERT_TRUE(*s.locks.try_lock(s.owner[1], LockName{mix64(i) | 1}, S));
        }
        s.release(0);
        s.release(1);
    };
    const size_t before = s.locks.memory_bytes();
    churn();
    const size_t after = s.locks.memory_bytes();
    EXPECT_GT(after, before);
    for (int i = 0; i < 10; ++i) churn();
    EXPECT_EQ(s.locks.memory_bytes(), after);
    EXPECT_EQ(s.locks.stats().granted_at_once, 11000u);
    EXPECT_EQ(s.check(), "");
}

// The name that a search key has from its padded words.
TEST(LockNames, AShortKeyIsPaddedWithZeros) {
    for (size_t n = 0; n <= 16; ++n) {
        char key[16];
        for (size_t i = 0; i < n; ++i) key[i] = static_cast<char>(200 + 7 * i);
        uint64_t words[2] = {0, 0};
        std::memcpy(words, key, n);
        const ObjectId object{7};
        EXPECT_EQ(key_lock_name(object, {key, n}),
                  short_key_lock_name(object, words[0], words[1], n))
            << n;
    }
}

}  // namespace lockstep::txn::lock_manager_test
