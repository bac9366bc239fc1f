// labels: unit
// lock_line_test.cc - repetitions of deadlock victims: who is the victim, who waits in which line,
// and what ends that wait.
#include "txn/lock/lock_line.h"
#include "tests/txn/lock/lock_test_util.h"

namespace lockstep::txn::lock_line_test {

using enum LockMode;
LockName odd(uint64_t i) { return LockName{mix64(i + 1) | 1}; }

// The owner repeats on a user thread of its own. True once it has begun.
std::shared_ptr<bool> repeats(Scene& s, size_t who, const Retry& retry) {
    auto begun = std::make_shared<bool>(false);
    s.go([&s, who, retry, begun] {
        s.locks.repeat(s.owner[who], retry);
        *begun = true;
    });
    return begun;
}
void let_pass(Scene& s, Nanos time) {
    s.clock.advance(time);
    s.run_until_idle();
}

// `winner` and `victim` hold a record each and want the other one. Returns what the victim leaves.
Retry defeat(Scene& s, size_t winner, size_t victim, uint64_t record) {
    EXPECT_TRUE(granted(s.lock(winner, odd(record), X)));
    EXPECT_TRUE(granted(s.lock(victim, odd(record + 1), X)));
    s.owner[winner].work = 100;
    auto one = s.lock(winner, odd(record + 1), X);
    auto two = s.lock(victim, odd(record), X);
    EXPECT_EQ(error_of(two), ErrorCode::deadlock);
    const Retry retry = LockManager::retry_of(s.owner[victim], true);
    s.release(victim);
    EXPECT_TRUE(granted(one));
    return retry;
}

TEST(LockLine, NamesOfLinesAreEven) {
    for (uint64_t i = 0; i < 10'000; ++i) {
        EXPECT_TRUE(is_line(line_of_record(odd(i))));
        EXPECT_TRUE(is_line(line_of_object(ObjectId{static_cast<uint32_t>(i)})));
        EXPECT_FALSE(is_line(key_lock_name(ObjectId{1}, std::to_string(i))));
    }
    EXPECT_TRUE(is_line(line_of_store()));
}

TEST(LockLine, ARepetitionBeginsWhenItsWinnerHasEnded) {
    Scene s;
    const Retry retry = defeat(s, 0, 1, 10);
    EXPECT_EQ(retry.first, TxnId{101});
    EXPECT_EQ(retry.deadlocks, 1u);
    EXPECT_EQ(retry.lock, odd(10).value);
    const auto begun = repeats(s, 1, retry);
    EXPECT_FALSE(*begun);
    EXPECT_EQ(s.check(), "");
    s.release(0);
    EXPECT_TRUE(*begun);
    EXPECT_EQ(s.check(), "");
    s.release(1);
    EXPECT_EQ(s.locks.stats().granted_at_once, 2u);  // places in line are waits
}

// The place in line and the lock for which the winner waits need a place each in its list of names.
TEST(LockLine, TheWinnersListOfNamesMayHaveAnyLength) {
    constexpr uint64_t kNames = LockOwner::Chunk::kNames;
    for (uint64_t held = 0; held <= 2 * kNames + 2; ++held) {
        Scene s;
        for (uint64_t i = 0; i < held; ++i) ASSERT_TRUE(granted(s.lock(0, odd(100 + i), S)));
        (void)defeat(s, 0, 1, 10);
        EXPECT_EQ(s.owner[0].locks_held, held + 3) << held;
        uint64_t listed = 0;
        for (const LockOwner::Chunk* c = s.owner[0].chunk; c; c = c->before) {
            EXPECT_LE(s.owner[0].used_in(c), kNames) << held;
            listed += s.owner[0].used_in(c);
        }
        EXPECT_EQ(listed, held + 3) << held;
        EXPECT_EQ(s.check(), "") << held;
        s.release(0);
        EXPECT_EQ(s.check(), "") << held;
    }
}

TEST(LockLine, VictimsOfOneRecordBeginOneAfterTheOther) {
    Scene s;
    ASSERT_TRUE(granted(s.lock(0, odd(1), S)));
    ASSERT_TRUE(granted(s.lock(1, odd(1), S)));
    ASSERT_TRUE(granted(s.lock(2, odd(1), S)));
    s.owner[0].work = 9;
    auto first = s.lock(0, odd(1), X);
    Retry retry[3];
    for (size_t who : {1, 2}) {
        EXPECT_EQ(error_of(s.lock(who, odd(1), X)), ErrorCode::deadlock);
        retry[who] = LockManager::retry_of(s.owner[who], true);
        s.release(who);
    }
    EXPECT_TRUE(granted(first));
    const auto one = repeats(s, 1, retry[1]), two = repeats(s, 2, retry[2]);
    EXPECT_FALSE(*one || *two);
    s.release(0);
    EXPECT_TRUE(*one);
    EXPECT_FALSE(*two);
    s.release(1);
    EXPECT_TRUE(*two);
}

TEST(LockLine, ARepetitionWinsAgainstWorkAndTheElderAgainstTheYounger) {
    for (const bool elder_closes : {false, true}) {
        Scene s;
        (void)repeats(s, 1, {.first = TxnId{5}, .deadlocks = 1});
        (void)repeats(s, 2, {.first = TxnId{7}, .deadlocks = 1});
        for (size_t i = 0; i < 3; ++i) ASSERT_TRUE(granted(s.lock(i, odd(i), X)));
        s.owner[0].work = 1000;  // a first attempt
        s.owner[2].work = 10;
        auto first = s.lock(0, odd(1), X);
        auto elder = s.lock(1, odd(0), X);
        EXPECT_EQ(error_of(first), ErrorCode::deadlock);
        EXPECT_TRUE(waits(elder));
        s.release(0);
        EXPECT_TRUE(granted(elder));
        std::shared_ptr<Scene::Outcome> young, old;
        if (elder_closes) young = s.lock(2, odd(1), X), old = s.lock(1, odd(2), X);
        else old = s.lock(1, odd(2), X), young = s.lock(2, odd(1), X);
        EXPECT_EQ(error_of(young), ErrorCode::deadlock);
        EXPECT_TRUE(waits(old));
        s.release(2);
    }
}

// The age of an earlier use of the object does not count.
TEST(LockLine, ALaterTransactionInTheSamePlaceIsAFirstAttempt) {
    Scene s;
    (void)repeats(s, 0, {.first = TxnId{1}, .deadlocks = 3});
    s.release(0);
    s.owner[0].txn = TxnId{500};
    EXPECT_EQ(LockManager::retry_of(s.owner[0], true).first, TxnId{500});
    ASSERT_TRUE(granted(s.lock(0, odd(0), X)));
    ASSERT_TRUE(granted(s.lock(1, odd(1), X)));
    auto b = s.lock(1, odd(0), X);
    EXPECT_EQ(error_of(s.lock(0, odd(1), X)), ErrorCode::deadlock);
    s.release(0);
    EXPECT_TRUE(granted(b));
}

TEST(LockLine, TheLevelSaysHowManyLinesAreTaken) {
    Scene s;
    const ObjectId object{7};
    const LockName lines[] = {line_of_record(odd(3)), line_of_object(object), line_of_store()};
    for (uint32_t deadlocks = 1; deadlocks <= 5; ++deadlocks) {
        const Retry retry{
            .first = TxnId{3}, .deadlocks = deadlocks, .object = object, .lock = odd(3).value};
        EXPECT_TRUE(*repeats(s, 0, retry));
        for (uint32_t i = 0; i < 3; ++i)
            EXPECT_EQ(s.locks.held(s.owner[0], lines[i]), i < deadlocks ? X : none) << deadlocks;
        EXPECT_EQ(LockManager::retry_of(s.owner[0], true).deadlocks, std::min(deadlocks, 3u) + 1);
        s.release(0);
    }
}

// Two victims of different records of one object meet at the second level.
TEST(LockLine, OfTheThirdLevelOnlyOneRuns) {
    Scene s;
    Retry retry{.first = TxnId{3}, .deadlocks = 3, .object = ObjectId{7}, .lock = odd(3).value};
    EXPECT_TRUE(*repeats(s, 0, retry));
    retry = {.first = TxnId{2}, .deadlocks = 3, .object = ObjectId{8}, .lock = odd(4).value};
    const auto other = repeats(s, 1, retry);
    EXPECT_FALSE(*other);
    s.release(0);
    EXPECT_TRUE(*other);
}

// The winner waits for its application. The line moves again before the patience of the others
// has ended, and then stands still again.
TEST(LockLine, NobodyWaitsLongWhileTheLineStandsStill) {
    Scene s;
    const Retry retry{.first = TxnId{3}, .deadlocks = 1, .lock = odd(3).value};
    EXPECT_TRUE(*repeats(s, 0, retry));
    const auto one = repeats(s, 1, retry), two = repeats(s, 2, retry), three = repeats(s, 3, retry);
    let_pass(s, kPatience / 2);
    EXPECT_FALSE(*one || *two);
    s.release(0);
    EXPECT_TRUE(*one);
    let_pass(s, kPatience / 2);
    EXPECT_FALSE(*two || *three);  // the line has moved meanwhile
    s.release(1);
    let_pass(s, kPatience + kMillisecond);
    EXPECT_TRUE(*two);
    let_pass(s, kPatience + kMillisecond);
    let_pass(s, kPatience + kMillisecond);
    EXPECT_TRUE(*three);
    EXPECT_EQ(s.locks.stats().timeouts, 0u);
    EXPECT_EQ(s.check(), "");
}

TEST(LockLine, ALockTimeoutBoundsTheWait) {
    Scene s;
    const Retry retry{.first = TxnId{3}, .deadlocks = 1, .lock = odd(3).value};
    EXPECT_TRUE(*repeats(s, 0, retry));
    s.owner[1].timeout = 5 * kMillisecond;
    const auto begun = repeats(s, 1, retry);
    EXPECT_FALSE(*begun);
    let_pass(s, 6 * kMillisecond);
    EXPECT_TRUE(*begun);
    EXPECT_EQ(s.owner[1].timeout, 5 * kMillisecond);  // as before
}

TEST(LockLine, CancellationEndsTheWait) {
    Scene s;
    const Retry retry{.first = TxnId{3}, .deadlocks = 3, .lock = odd(3).value};
    EXPECT_TRUE(*repeats(s, 0, retry));
    const auto begun = repeats(s, 1, retry);
    s.locks.cancel(s.owner[1]);
    s.run_until_idle();
    EXPECT_TRUE(*begun);
}

TEST(LockLine, OneThatStaysLetsOthersPass) {
    Scene s;
    const Retry retry{.first = TxnId{3}, .deadlocks = 2, .object = {}, .lock = odd(3).value};
    EXPECT_TRUE(*repeats(s, 0, retry));
    ASSERT_TRUE(granted(s.lock(0, odd(1), X)));
    const auto begun = repeats(s, 1, retry);
    EXPECT_FALSE(*begun);
    s.locks.leave_lines(s.owner[0]);
    s.run_until_idle();
    EXPECT_TRUE(*begun);
    EXPECT_EQ(s.locks.held(s.owner[0], odd(1)), X);
    EXPECT_EQ(s.locks.list(s.owner[0]).names.size(), 1u);
}

// The winner is the owner that the victim waited for, also if it waits for nothing itself because
// its thread runs another transaction.
TEST(LockLine, TheWinnerOfANestedCycleStandsInLine) {
    LockOptions options;
    options.owners_have_threads = true;
    Scene s(options);
    auto inner = std::make_shared<Scene::Outcome>();
    bool go_on = false;
    s.go([&] {
        s.owner[0].thread = s.owner[1].thread = threads::current();
        EXPECT_TRUE(s.locks.lock(s.owner[0], odd(0), X));  // the outer one
        while (!go_on) threads::park(threads::ParkReason::event);
        *inner = s.locks.lock(s.owner[1], odd(1), X);
    });
    s.owner[0].work = 50;
    std::shared_ptr<Scene::Outcome> victim = std::make_shared<Scene::Outcome>();
    s.go([&] {
        s.owner[2].thread = threads::current();
        EXPECT_TRUE(s.locks.lock(s.owner[2], odd(1), X));
        go_on = true;
        threads::wake(s.owner[0].thread);
        *victim = s.locks.lock(s.owner[2], odd(0), X);
        EXPECT_EQ(s.locks.held(s.owner[0], line_of_record(odd(0))), X);
        s.locks.release_all(s.owner[2]);
    });
    EXPECT_EQ(error_of(victim), ErrorCode::deadlock);
    EXPECT_TRUE(granted(inner));
    EXPECT_EQ(s.check(), "");
}

}  // namespace lockstep::txn::lock_line_test
