// labels: unit
// lock_object_test.cc - noted intentions against strong locks, escalation, and what
// lies beyond the notes.
#include "tests/txn/lock/lock_test_util.h"
#include "txn/lock/lock_intent.h"

namespace lockstep::txn::lock_object_test {

using enum LockMode;
LockName record(uint64_t i) { return LockName{mix64(i + 1) | 1}; }
LockName table_name(const ObjectLock& object) { return page_lock_name(object.id, kPageNone); }

TEST(LockStore, IntentionsStayOutOfTheTable) {
    Scene s;
    ObjectLock& object = s.object(7);
    ASSERT_TRUE(granted(s.lock_object(0, object, IS)));
    ASSERT_TRUE(granted(s.lock_object(1, object, IX)));
    ASSERT_TRUE(granted(s.lock_object(0, object, IX)));
    EXPECT_EQ(s.locks.held(s.owner[0], table_name(object)), none);
    EXPECT_EQ(s.owner[0].intents_used, 1u);
    EXPECT_EQ(object.strong.load(), 0u);
    EXPECT_EQ(s.check(), "");
}

TEST(LockStore, EveryPairOfModesInBothOrders) {
    for (LockMode first : {IS, IX, S, SIX, U, X})
        for (LockMode second : {IS, IX, S, SIX, U, X}) {
            Scene s;
            ObjectLock& object = s.object(1);
            ASSERT_TRUE(granted(s.lock_object(0, object, first)));
            auto outcome = s.lock_object(1, object, second);
            EXPECT_EQ(granted(outcome), compatible(second, first))
                << lock_mode_name(second) << " after " << lock_mode_name(first);
            EXPECT_EQ(s.check(), "");
            s.release(0);
            EXPECT_TRUE(granted(outcome));
            EXPECT_EQ(s.check(), "");
            s.release(1);
            EXPECT_EQ(object.strong.load(), 0u);
            EXPECT_TRUE(s.locks.grantable(s.owner[2], table_name(object), X));
            EXPECT_EQ(s.check(), "");
        }
}

TEST(LockStore, StrongLockWaitsForEveryNotedIntention) {
    Scene s;
    ObjectLock &object = s.object(3), &other = s.object(4);
    for (size_t i = 0; i < 4; ++i) {
        ASSERT_TRUE(granted(s.lock_object(i, other, IX)));
        ASSERT_TRUE(granted(s.lock_object(i, object, i % 2 ? IX : IS)));
    }
    auto reader = s.lock_object(5, object, S);
    EXPECT_TRUE(waits(reader));
    EXPECT_EQ(s.locks.held(s.owner[0], table_name(object)), IS);
    EXPECT_EQ(s.locks.held(s.owner[1], table_name(object)), IX);
    EXPECT_EQ(s.check(), "");
    auto late = s.lock_object(6, object, IX);  // behind the reader
    EXPECT_TRUE(waits(late));
    s.release(1);
    EXPECT_TRUE(waits(reader));
    s.release(3);
    EXPECT_TRUE(granted(reader) && waits(late));
    EXPECT_TRUE(granted(s.lock_object(7, object, IS)));
    EXPECT_TRUE(granted(s.lock_object(8, other, IX)));  // another object is not concerned
    EXPECT_EQ(s.locks.held(s.owner[8], table_name(other)), none);
    s.release(5);
    EXPECT_TRUE(granted(late));
    EXPECT_EQ(object.strong.load(), 0u);
    EXPECT_EQ(s.check(), "");
}

// S on the object spares read locks on its records; a write needs its own, because others may read
// with IS.
TEST(LockStore, WhoHoldsSharedLocksWhatItWrites) {
    for (const LockMode held : {S, SIX, U}) {
        Scene s;
        ObjectLock& object = s.object(1);
        ASSERT_TRUE(granted(s.lock_object(0, object, held)));
        const auto take = [&](size_t who, LockName name, LockMode mode) {
            Result<bool> got = false;
            s.go([&] { got = s.locks.try_lock_record(s.owner[who], object, name, mode); });
            return got.has_value() && *got;
        };
        EXPECT_TRUE(take(0, record(1), S));
        EXPECT_TRUE(take(0, record(2), X));
        EXPECT_TRUE(take(1, record(1), S)) << lock_mode_name(held);
        EXPECT_FALSE(take(1, record(2), S)) << lock_mode_name(held);
        EXPECT_EQ(s.check(), "");
        s.release(0);
        EXPECT_TRUE(take(1, record(2), S));
    }
}

// The materialised request stays when the strong locker gives up, and goes with its owner.
TEST(LockStore, AFailedStrongLockLeavesNothingBehind) {
    Scene s;
    ObjectLock& object = s.object(3);
    ASSERT_TRUE(granted(s.lock_object(0, object, IX)));
    EXPECT_FALSE(*s.locks.try_lock_object(s.owner[1], object, X));
    EXPECT_EQ(object.strong.load(), 0u);
    s.owner[2].timeout = kMillisecond;
    auto impatient = s.lock_object(2, object, S);
    EXPECT_EQ(object.strong.load(), 1u);
    s.clock.advance(2 * kMillisecond);
    s.run_until_idle();
    EXPECT_EQ(error_of(impatient), ErrorCode::lock_timeout);
    EXPECT_EQ(object.strong.load(), 0u);
    EXPECT_EQ(s.locks.held(s.owner[0], table_name(object)), IX);
    EXPECT_EQ(s.check(), "");
    for (size_t i = 0; i < 3; ++i) s.release(i);
    EXPECT_TRUE(s.locks.grantable(s.owner[3], table_name(object), X));
    EXPECT_EQ(s.check(), "");
    ASSERT_TRUE(granted(s.lock_object(0, object, IX)));  // noted again, as if nothing had been
    EXPECT_EQ(s.locks.held(s.owner[0], table_name(object)), none);
}

TEST(LockStore, ConversionsWithinAnOwner) {
    Scene s;
    ObjectLock& object = s.object(3);
    ASSERT_TRUE(granted(s.lock_object(0, object, IX)));
    ASSERT_TRUE(granted(s.lock_object(0, object, S)));  // now as good as SIX
    EXPECT_TRUE(waits(s.lock_object(1, object, S)));
    EXPECT_TRUE(granted(s.lock_object(2, object, IS)));
    ASSERT_TRUE(waits(s.lock_object(0, object, X)));
    s.release(2);
    EXPECT_TRUE(covers(s.locks.held(s.owner[0], table_name(object)), X));
    EXPECT_EQ(object.strong.load(), 2u);  // holder and the waiting reader
    EXPECT_EQ(s.check(), "");
    s.release(0);
    EXPECT_EQ(s.locks.held(s.owner[1], table_name(object)), S);
}

TEST(LockStore, DeadlockThroughNotedIntentionsIsSeen) {
    Scene s;
    ObjectLock &a = s.object(1), &b = s.object(2);
    ASSERT_TRUE(granted(s.lock_object(0, a, IX)));
    ASSERT_TRUE(granted(s.lock_object(1, b, IX)));
    auto first = s.lock_object(0, b, X);
    EXPECT_TRUE(waits(first));
    auto second = s.lock_object(1, a, X);
    EXPECT_EQ(error_of(second), ErrorCode::deadlock);
    EXPECT_EQ(a.strong.load(), 0u);
    s.release(1);
    EXPECT_TRUE(granted(first));
    EXPECT_EQ(s.check(), "");
}

TEST(LockStore, MoreStoresThanNotes) {
    Scene s;
    std::vector<ObjectLock*> objects;
    for (uint32_t i = 0; i < LockOwner::kIntentsMax + 8; ++i) {
        objects.push_back(&s.object(i));
        ASSERT_TRUE(granted(s.lock_object(0, *objects[i], i % 2 ? IX : IS)));
        ASSERT_TRUE(s.locks.try_lock_record(s.owner[0], *objects[i], record(i), S));
    }
    EXPECT_EQ(s.owner[0].intents_used, LockOwner::kIntentsMax);
    EXPECT_EQ(s.check(), "");
    ObjectLock& noted = *objects[3];
    ObjectLock& unlisted = *objects[LockOwner::kIntentsMax + 3];
    EXPECT_EQ(s.locks.held(s.owner[0], table_name(noted)), none);
    EXPECT_EQ(s.locks.held(s.owner[0], table_name(unlisted)), IX | IS);
    EXPECT_FALSE(*s.locks.try_lock_object(s.owner[1], noted, S));
    EXPECT_FALSE(*s.locks.try_lock_object(s.owner[1], unlisted, S));
    ASSERT_TRUE(granted(s.lock_object(0, unlisted, X)));  // a strong one without a note
    EXPECT_EQ(unlisted.strong.load(), 1u);
    EXPECT_TRUE(waits(s.lock_object(2, unlisted, IS)));
    EXPECT_EQ(s.check(), "");
    s.release(0);
    EXPECT_EQ(unlisted.strong.load(), 0u);
    EXPECT_TRUE(*s.locks.try_lock_object(s.owner[1], noted, S));
    EXPECT_EQ(s.check(), "");
}

TEST(LockStore, RecordsTakeTheirIntention) {
    Scene s;
    ObjectLock& object = s.object(5);
    ASSERT_TRUE(s.locks.lock_record(s.owner[0], object, record(1), S));
    EXPECT_EQ(s.owner[0].intents[0].held, IS);
    ASSERT_TRUE(s.locks.lock_record(s.owner[0], object, record(2), X));
    EXPECT_TRUE(covers(s.owner[0].intents[0].held, IX));
    EXPECT_EQ(s.owner[0].intents[0].left, 4998u);
    ASSERT_TRUE(s.locks.lock_record(s.owner[0], object, record(2), X));
    EXPECT_EQ(s.owner[0].intents[0].left, 4998u);  // counted once
    EXPECT_TRUE(waits(s.lock_object(1, object, S)));
    // Would pass the waiting reader.
    EXPECT_FALSE(s.locks.try_lock_record(s.owner[2], object, record(9), X));
    EXPECT_EQ(s.check(), "");
    s.release(0);
}

TEST(LockStore, RecordsUnderAStrongLockNeedNoLock) {
    Scene s;
    ObjectLock& object = s.object(5);
    ASSERT_TRUE(granted(s.lock_object(0, object, S)));
    ASSERT_TRUE(s.locks.lock_record(s.owner[0], object, record(1), key_scan));
    EXPECT_EQ(s.owner[0].locks_held, 0u);
    // S does not cover it: IX, then X.
    ASSERT_TRUE(s.locks.lock_record(s.owner[0], object, record(1), X));
    EXPECT_EQ(s.locks.held(s.owner[0], record(1)), X);
    EXPECT_EQ(s.check(), "");
}

TEST(LockStore, EscalationSucceedsWhenAlone) {
    for (LockMode mode : {S, X}) {
        Scene s({.escalate_at = 100});
        ObjectLock& object = s.object(5);
        // A reader does not hinder S.
        ASSERT_TRUE(s.locks.lock_object(s.owner[1], object, IS));
        if (mode == X) s.release(1);
        for (uint64_t i = 0; i < 1000; ++i)
            ASSERT_TRUE(s.locks.lock_record(s.owner[0], object, record(i), mode));
        EXPECT_EQ(s.owner[0].locks_held, 100u);
        EXPECT_EQ(s.locks.stats().escalations, 1u);
        EXPECT_TRUE(covers(s.locks.held(s.owner[0], table_name(object)), mode));
        EXPECT_FALSE(s.locks.try_lock_record(s.owner[2], object, record(5000), X));
        EXPECT_EQ(s.check(), "");
        s.release(0);
        EXPECT_EQ(object.strong.load(), 0u);
        EXPECT_TRUE(s.locks.try_lock_record(s.owner[2], object, record(5), X));
    }
}

TEST(LockStore, EscalationRefusedGoesOnWithRecords) {
    Scene s({.escalate_at = 100});
    ObjectLock& object = s.object(5);
    ASSERT_TRUE(s.locks.lock_record(s.owner[1], object, record(5000), X));
    for (uint64_t i = 0; i < 350; ++i)
        ASSERT_TRUE(s.locks.lock_record(s.owner[0], object, record(i), X));
    EXPECT_EQ(s.owner[0].locks_held, 350u);
    EXPECT_EQ(s.owner[0].intents[0].doubled, 2u);  // tried at 100 and 200
    EXPECT_EQ(s.locks.stats().escalations, 0u);
    EXPECT_EQ(object.strong.load(), 0u);
    s.release(1);
    for (uint64_t i = 350; i < 450; ++i)
        ASSERT_TRUE(s.locks.lock_record(s.owner[0], object, record(i), X));
    EXPECT_EQ(s.owner[0].locks_held, 400u);
    EXPECT_EQ(s.locks.stats().escalations, 1u);
    EXPECT_EQ(s.check(), "");
}

// LM-6, the moment between a note and the look at `strong`, staged by hand: another strong locker's
// scan meets a note that conflicts with a granted lock, and must leave it to its owner.
TEST(LockStore, UnconfirmedIntentionsAreNotMaterialised) {
    Scene s;
    ObjectLock& object = s.object(9);
    ASSERT_TRUE(granted(s.lock_object(0, object, X)));
    s.owner[1].noted[0].store((uint64_t{object.id.value} + 1) << 32 | static_cast<uint8_t>(IX));
    EXPECT_FALSE(*s.locks.try_lock_object(s.owner[2], object, S));
    EXPECT_EQ(s.locks.held(s.owner[1], table_name(object)), none);
    s.owner[1].noted[0].store(0);
    EXPECT_EQ(s.check(), "");
    EXPECT_TRUE(waits(s.lock_object(1, object, IX)));  // as the owner goes on: it asks the table
    s.release(0);
    EXPECT_EQ(s.locks.held(s.owner[1], table_name(object)), IX);
}

// IL-5: between an owner's note and its withdrawal, the thread that frees the object has turned the
// note into a request.
TEST(LockStore, AnUnconfirmedNoteIsNoRightOnABarredObject) {
    for (const LockMode mode : {IS, IX, S, X}) {
        SCOPED_TRACE(lock_mode_name(mode));
        Scene s;
        ObjectLock& object = s.object(7);
        const LockMode intention = mode == IS || mode == S ? IS : IX;
        ASSERT_NE(add_intent(s.owner[0], object, intention, 0), nullptr);
        std::optional<Result<void>> freed;
        s.go([&] { freed = s.locks.lock_object_to_free(s.owner[1], object); });
        EXPECT_FALSE(freed);
        EXPECT_EQ(s.locks.held(s.owner[0], table_name(object)), intention);
        const auto late = s.lock_object(0, object, mode);
        EXPECT_EQ(error_of(late), ErrorCode::no_such_object);
        EXPECT_EQ(s.locks.held(s.owner[0], table_name(object)), none);
        ASSERT_TRUE(freed && *freed);
        s.release(0);
        EXPECT_EQ(s.check(), "");
        s.release(1);
        EXPECT_EQ(s.check(), "");
    }
}

// Read committed: many locks one after the other are not many locks.
TEST(LockStore, LocksGivenBackDoNotEscalate) {
    Scene s({.escalate_at = 100});
    ObjectLock& object = s.object(5);
    for (uint64_t i = 0; i < 1000; ++i) {
        ASSERT_TRUE(s.locks.lock_record(s.owner[0], object, record(i), S));
        s.locks.unlock(s.owner[0], record(i), S);
    }
    EXPECT_EQ(s.locks.stats().escalations, 0u);
    EXPECT_EQ(object.strong.load(), 0u);
    EXPECT_EQ(s.owner[0].locks_held, 0u);
    EXPECT_EQ(s.check(), "");
}

TEST(LockStore, ReleaseSharedKeepsIntentionsOfWriters) {
    Scene s;
    ObjectLock &read = s.object(5), &written = s.object(6), &scanned = s.object(7),
               &both = s.object(8);
    ASSERT_TRUE(granted(s.lock_object(0, read, IS)));
    ASSERT_TRUE(granted(s.lock_object(0, written, IX)));
    ASSERT_TRUE(granted(s.lock_object(0, scanned, S)));
    ASSERT_TRUE(granted(s.lock_object(0, both, SIX)));
    s.locks.release_shared(s.owner[0]);
    EXPECT_EQ(s.check(), "");
    EXPECT_EQ(scanned.strong.load() + both.strong.load(), 0u);
    EXPECT_TRUE(*s.locks.try_lock_object(s.owner[1], read, X));
    EXPECT_FALSE(*s.locks.try_lock_object(s.owner[1], written, S));
    EXPECT_TRUE(*s.locks.try_lock_object(s.owner[1], scanned, X));
    EXPECT_FALSE(*s.locks.try_lock_object(s.owner[1], both, S));
    EXPECT_TRUE(*s.locks.try_lock_object(s.owner[2], both, IX));
    EXPECT_EQ(s.check(), "");
    s.release(0);
    EXPECT_TRUE(*s.locks.try_lock_object(s.owner[1], written, S));
}

// The name of a record may be that of another record or even of an object: rights join, nothing
// breaks.
TEST(LockStore, EqualNamesCostConcurrencyOnly) {
    Scene s;
    ObjectLock& object = s.object(5);
    ASSERT_TRUE(s.locks.lock_record(s.owner[0], object, table_name(object), X));
    ASSERT_TRUE(s.locks.lock_object(s.owner[0], object, S));
    EXPECT_EQ(s.check(), "");
    EXPECT_TRUE(waits(s.lock_object(1, object, IS)));  // the record's X is in its way
    s.release(0);
    EXPECT_EQ(s.check(), "");
    EXPECT_TRUE(granted(s.lock_object(2, object, IX)));
}

}  // namespace lockstep::txn::lock_object_test
