// labels: unit
// savepoint_test.cc - which savepoints a transaction can be rolled back to.
#include "sm/api/engine_of.h"
#include "sm/change/savepoints.h"
#include "tests/sm/secondary/secondary_util.h"
#include "threads/thread/thread.h"

namespace lockstep::savepoint_test {

class Savepoints : public SecondaryStore {
protected:
    static std::string value_of(Txn& txn, const Index& index, Slice key) {
        std::string value;
        const auto found = index.get(txn, key, value);
        EXPECT_TRUE(found.has_value());
        return found.has_value() && *found ? value : "-";
    }
};

TEST_F(Savepoints, OfWhatWasRolledBackAreRefused) {
    Store store = open_both();
    on_thread(store, [&] {
        const Index index = *store.index("i");
        Txn txn = std::move(*store.begin());
        const Savepoint first = *txn.savepoint();
        ASSERT_OK(index.put(txn, "a", "2|"));
        const Savepoint second = *txn.savepoint();
        ASSERT_OK(txn.rollback_to(first));
        ASSERT_OK(index.put(txn, "z", "9|"));
        EXPECT_EQ(code_of(txn.rollback_to(second)), ErrorCode::bad_argument);
        EXPECT_EQ(value_of(txn, index, "a") + value_of(txn, index, "z"), "-9|");
        const Savepoint third = *txn.savepoint();
        ASSERT_OK(index.put(txn, "z", "10|"));
        ASSERT_OK(txn.rollback_to(third));
        ASSERT_OK(txn.rollback_to(third));
        EXPECT_EQ(value_of(txn, index, "z"), "9|");
        ASSERT_OK(txn.rollback_to(first));
        EXPECT_EQ(code_of(txn.rollback_to(third)), ErrorCode::bad_argument);
        EXPECT_EQ(value_of(txn, index, "z"), "-");
        ASSERT_OK(txn.commit());
    });
    EXPECT_TRUE(pairs_of(store).empty());
    expect_sound(store);
}

// Savepoints of one state share their memory.
TEST_F(Savepoints, TakeMemoryForChangesOnly) {
    Store store = open_both();
    on_thread(store, [&] {
        const Index index = *store.index("i");
        Txn txn = std::move(*store.begin());
        const txn::Transaction* t = nullptr;
        for (const auto& seen : sm::engine_of(store).txns->seen())
            if (seen.id == txn.id()) t = &sm::engine_of(store).txns->at(seen.slot);
        ASSERT_NE(t, nullptr);
        const auto bytes = [&] { return sm::savepoint_bytes(*t); };
        EXPECT_EQ(bytes(), 0u);
        Savepoint first = *txn.savepoint(), last = first;
        for (int n = 0; n < 100'000; ++n) last = *txn.savepoint();
        EXPECT_EQ(bytes(), 16u);
        for (int n = 0; n < 100; ++n) {
            ASSERT_OK(index.put(txn, "a", std::to_string(n) + "|"));
            EXPECT_EQ(code_of(index.insert(txn, "a", "|")), ErrorCode::duplicate_key);
            for (int again = 0; again < 10; ++again) last = *txn.savepoint();
        }
        EXPECT_EQ(bytes(), 101u * 16);
        ASSERT_OK(txn.rollback_to(first));
        EXPECT_EQ(bytes(), 16u);
        EXPECT_EQ(code_of(txn.rollback_to(last)), ErrorCode::bad_argument);
        EXPECT_EQ(value_of(txn, index, "a"), "-");
        // Nothing has changed in between, yet what was rolled back stays so.
        const Savepoint one = *txn.savepoint(), two = *txn.savepoint(), three = *txn.savepoint();
        ASSERT_OK(txn.rollback_to(one));
        const Savepoint four = *txn.savepoint(), five = *txn.savepoint();
        for (const Savepoint& gone : {two, three})
            EXPECT_EQ(code_of(txn.rollback_to(gone)), ErrorCode::bad_argument);
        ASSERT_OK(txn.rollback_to(five));
        ASSERT_OK(txn.rollback_to(four));
        EXPECT_EQ(code_of(txn.rollback_to(five)), ErrorCode::bad_argument);
        ASSERT_OK(txn.rollback_to(one));
        ASSERT_OK(txn.commit());
    });
    expect_sound(store);
}

TEST_F(Savepoints, ThatWereNeverTakenAreRefused) {
    Store store = open_both();
    on_thread(store, [&] {
        const Index index = *store.index("i");
        Txn txn = std::move(*store.begin());
        EXPECT_EQ(code_of(txn.rollback_to({})), ErrorCode::bad_argument);
        ASSERT_OK(index.put(txn, "a", "1|"));
        const Savepoint one = *txn.savepoint();
        ASSERT_OK(index.put(txn, "a", "2|"));
        const Savepoint two = *txn.savepoint();
        for (const Savepoint& unknown :
             {Savepoint{TxnId{one.txn.value - 1}, one.number},
              Savepoint{TxnId{one.txn.value + 1}, one.number}, Savepoint{kTxnNone, one.number},
              Savepoint{one.txn, 0}, Savepoint{one.txn, two.number + 1}})
            EXPECT_EQ(code_of(txn.rollback_to(unknown)), ErrorCode::bad_argument);
        ASSERT_OK(txn.rollback_to(two));
        ASSERT_OK(txn.rollback_to(one));
        ASSERT_OK(txn.commit());
    });
    EXPECT_EQ(pairs_of(store), (Pairs{{"1", "a"}}));
}

// Neither had changed anything.
TEST_F(Savepoints, TheFirstOfAnotherTransactionIsRefused) {
    Store store = open_both();
    on_thread(store, [&] {
        Txn one = std::move(*store.begin());
        Txn two = std::move(*store.begin());
        const Savepoint of_one = *one.savepoint(), of_two = *two.savepoint();
        EXPECT_EQ(code_of(two.rollback_to(of_one)), ErrorCode::bad_argument);
        ASSERT_OK(two.rollback_to(of_two));
        ASSERT_OK(one.rollback_to(of_one));
    });
}

// The other transaction takes it while a statement of this one has changed its record and waits for
// the lock of an entry.
TEST_F(Savepoints, OfAnotherTransactionWithinAStatementAreRefused) {
    Store store = open_both("a", true);
    on_thread(store, [&] {
        const Index index = *store.index("i");
        Savepoint foreign;
        Txn other = std::move(*store.begin());
        ASSERT_OK(index.insert(other, "1", "b|"));
        auto statement = store.start([&]() -> Result<void> {
            Txn txn = TRY(store.begin());
            TRY(index.insert(txn, "2", "b|"));
            for (int n = 0; n < 5; ++n) TRY(txn.savepoint());
            EXPECT_EQ(code_of(txn.rollback_to(foreign)), ErrorCode::bad_argument);
            TRY(txn.commit());
            return {};
        });
        const auto waits = [&] {
            for (const TransactionInfo& of : store.transactions())
                if (of.state == TransactionState::lock_wait) return true;
            return false;
        };
        while (!waits()) sleep_for(kMillisecond);
        ASSERT_OK(index.insert(other, "9", "z|"));
        foreign = *other.savepoint();
        ASSERT_OK(other.abort());
        ASSERT_OK(statement.join());
    });
    EXPECT_EQ(pairs_of(store), (Pairs{{"b", "2"}}));
    expect_sound(store);
}

TEST_F(Savepoints, StayWhenAPrepareIsRefused) {
    Store store = open_both();
    on_thread(store, [&] {
        const Index index = *store.index("i");
        Txn prepared = std::move(*store.begin());
        ASSERT_OK(index.put(prepared, "a", "1|"));
        ASSERT_OK(prepared.savepoint());
        ASSERT_OK(prepared.prepare("g"));
        Txn txn = std::move(*store.begin());
        const Savepoint point = *txn.savepoint();
        ASSERT_OK(index.put(txn, "b", "2|"));
        EXPECT_EQ(code_of(txn.prepare("g")), ErrorCode::already_exists);
        ASSERT_OK(txn.rollback_to(point));
        ASSERT_OK(txn.commit());
    });
    EXPECT_TRUE(*store.commit_prepared("g"));
    EXPECT_EQ(pairs_of(store), (Pairs{{"1", "a"}}));
}

}  // namespace lockstep::savepoint_test
