// labels: unit
// commit_notes_test.cc - LM-8: a reader learns of every commit that held X on what it has locked,
// and of no commit elsewhere.
#include <thread>

#include "tests/txn/lock/lock_test_util.h"

namespace lockstep::txn::commit_notes_test {

constexpr LockName kName{1}, kElsewhere{(1 << 7) | 1};  // in two buckets
constexpr Lsn kEnd{8000};

struct CommitNotes : ::testing::Test {
    // Owner 0 has committed a change under X on `name`.
    void committed(LockName name = kName, Lsn end = kEnd) {
        ASSERT_TRUE(scene.locks.lock(scene.owner[0], name, LockMode::X));
        scene.locks.release_all(scene.owner[0], end);
    }
    Lsn seen(size_t who = 1) { return scene.locks.release_all_of_reader(scene.owner[who]); }
    void lock(LockName name, LockMode mode = LockMode::S, size_t who = 1) {
        ASSERT_TRUE(scene.locks.lock(scene.owner[who], name, mode));
    }
    Scene scene;
};

TEST_F(CommitNotes, AreSeenByThoseThatLockTheName) {
    committed();
    lock(kElsewhere);
    EXPECT_EQ(seen(), kLsnNone);
    for (const LockMode mode : {LockMode::S, LockMode::U, LockMode::X, LockMode::gap_read}) {
        lock(kName, mode);
        EXPECT_EQ(seen(), kEnd) << lock_mode_name(mode);
    }
}

TEST_F(CommitNotes, NeverFall) {
    committed(kName, Lsn{(uint64_t{3} << 40) + 16});
    committed(kName, Lsn{24});  // a commit of another worker, which releases its locks late
    lock(kName);
    EXPECT_EQ(seen(), Lsn{(uint64_t{3} << 40) + 16});
}

TEST_F(CommitNotes, AreLeftNeitherByReadLocksNorByRollbacks) {
    lock(kName, LockMode::S, 0);
    lock(kElsewhere, LockMode::U, 0);
    scene.locks.release_all(scene.owner[0], kEnd);
    lock(kName, LockMode::X, 0);
    scene.locks.release_all(scene.owner[0]);
    lock(kName);
    lock(kElsewhere);
    EXPECT_EQ(seen(), kLsnNone);
}

TEST_F(CommitNotes, OfALockThatWasReleasedBeforeTheEnd) {
    committed();
    lock(kName);
    scene.locks.unlock(scene.owner[1], kName, LockMode::S);
    EXPECT_EQ(seen(), kEnd);
    EXPECT_EQ(seen(), kLsnNone);  // forgotten with the transaction
}

TEST_F(CommitNotes, OfALockThatOthersWaitFor) {
    lock(kName, LockMode::X, 0);
    const auto waiter = scene.lock(1, kName, LockMode::S);
    ASSERT_TRUE(waits(waiter));
    scene.locks.release_all(scene.owner[0], kEnd);
    scene.run_until_idle();
    ASSERT_TRUE(granted(waiter));
    EXPECT_EQ(seen(), kEnd);
}

// More names than a bucket has entries; the note is that of the whole chain.
TEST_F(CommitNotes, OfNamesInAnOverflowBucket) {
    for (uint64_t n = 1; n <= 9; ++n) lock(LockName{n}, LockMode::X, 0);
    scene.locks.release_all(scene.owner[0], kEnd);
    lock(LockName{9});
    EXPECT_EQ(seen(), kEnd);
}

// Each of them alone: the other names of the chain stay locked.
TEST_F(CommitNotes, OfOneNameInAnOverflowBucket) {
    for (uint64_t n = 1; n <= 9; ++n) lock(LockName{n}, n <= 6 ? LockMode::S : LockMode::X, 0);
    for (uint64_t n = 10; n <= 14; ++n) {
        const Lsn end{kEnd.value + 8 * n};
        lock(LockName{n}, LockMode::X, 2);
        scene.locks.release_all(scene.owner[2], end);
        lock(LockName{n});
        EXPECT_EQ(seen(), end) << n;
    }
}

TEST_F(CommitNotes, OfAWholeObject) {
    ObjectLock& object = scene.object(7);
    ASSERT_TRUE(scene.locks.lock_object(scene.owner[0], object, LockMode::X));
    scene.locks.release_all(scene.owner[0], kEnd);
    ASSERT_TRUE(scene.locks.lock_record(scene.owner[1], object, kName, LockMode::S));
    EXPECT_EQ(seen(), kEnd);
    ObjectLock& other = scene.object(8);
    ASSERT_TRUE(scene.locks.lock_record(scene.owner[1], other, kElsewhere, LockMode::S));
    EXPECT_EQ(seen(), kLsnNone);
}

// Further objects than an owner can note.
TEST_F(CommitNotes, OfAnObjectWithoutIntent) {
    ObjectLock& object = scene.object(1000);
    for (const size_t who : {0, 1})
        for (uint32_t id = 0; id < LockOwner::kIntentsMax; ++id)
            ASSERT_TRUE(
                scene.locks.lock_object(scene.owner[who], scene.object(100 + id), LockMode::IS));
    ASSERT_TRUE(scene.locks.lock_object(scene.owner[0], object, LockMode::X));
    scene.locks.release_all(scene.owner[0], kEnd);
    ASSERT_TRUE(scene.locks.lock_object(scene.owner[2], object, LockMode::IS));
    EXPECT_EQ(seen(2), kEnd);
    ASSERT_TRUE(scene.locks.lock_object(scene.owner[1], object, LockMode::IS));
    EXPECT_EQ(seen(1), kEnd);
}

// A reader that waits for such an object is granted, and ends, while the writer releases its other
// locks.
TEST(CommitNotesWorkers, OfAnObjectWithoutIntentBeforeItIsReleased) {
    constexpr uint64_t kNames = 200'000;
    std::deque<ObjectLock> objects(LockOwner::kIntentsMax + 1);
    LockManager locks({.owners_max = 4});
    Owners owners(locks, 2);
    for (uint32_t i = 0; i < objects.size(); ++i) objects[i].id = ObjectId{100 + i};
    auto runtime = *threads::Runtime::start({.workers = 2});
    LockOwner& writer = owners[0];
    for (uint64_t n = 1; n <= kNames; ++n)
        ASSERT_TRUE(locks.lock(writer, LockName{mix64(n) | 1}, LockMode::X));
    for (ObjectLock& object : objects) ASSERT_TRUE(locks.lock_object(writer, object, LockMode::IX));
    ASSERT_TRUE(locks.lock_object(writer, objects.back(), LockMode::X));
    threads::Completion ended;
    Lsn seen{};
    ASSERT_TRUE(runtime->spawn(1, "reader", [&] {
        EXPECT_TRUE(locks.lock_object(owners[1], objects.back(), LockMode::IS));
        seen = locks.release_all_of_reader(owners[1]);
        ended.set();
    }));
    while (locks.stats().waits == 0) std::this_thread::yield();
    locks.release_all(writer, kEnd);
    ended.wait();
    EXPECT_EQ(seen, kEnd);
    runtime->stop();
}

// It has no names of what it read.
TEST_F(CommitNotes, AreUnknownToAnOwnerOfAWholeObject) {
    ObjectLock& object = scene.object(7);
    ASSERT_TRUE(scene.locks.lock_object(scene.owner[1], object, LockMode::S));
    EXPECT_EQ(seen(), kLsnMax);
}

TEST_F(CommitNotes, AreUnknownToAnOwnerThatMetADroppedObject) {
    ObjectLock& object = scene.object(7);
    scene.locks.bar_object(object);
    ASSERT_FALSE(scene.locks.lock_record(scene.owner[1], object, kName, LockMode::S));
    EXPECT_EQ(seen(), kLsnMax);
}

TEST_F(CommitNotes, CountForAllWhenTheNameVanishes) {
    committed();
    EXPECT_EQ(seen(), kLsnNone);
    scene.locks.keep_note(kElsewhere);
    EXPECT_EQ(seen(), kLsnNone);
    scene.locks.keep_note(kName);
    EXPECT_EQ(seen(), kEnd);
    scene.locks.keep_note(Lsn{kEnd.value + 8});
    EXPECT_EQ(seen(), Lsn{kEnd.value + 8});
}

TEST(CommitNote, RoundsUpAndSaturates) {
    EXPECT_EQ(lsn_of_note(commit_note(Lsn{1})), Lsn{8});
    EXPECT_EQ(lsn_of_note(commit_note(Lsn{8})), Lsn{8});
    EXPECT_EQ(lsn_of_note(commit_note(Lsn{(kNoteMax - 1) * 8})), Lsn{(kNoteMax - 1) * 8});
    EXPECT_EQ(lsn_of_note(commit_note(Lsn{kNoteMax * 8})), kLsnMax);
    EXPECT_EQ(lsn_of_note(commit_note(kLsnMax)), kLsnMax);
}

}  // namespace lockstep::txn::commit_notes_test
