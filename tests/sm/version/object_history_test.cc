// labels: unit
// object_history_test.cc - the outcomes that an object keeps: each is dropped once. The address
// sanitizer finds one that is not.
#include "sm/version/object_history.h"

#include "tests/sm/engine_test_util.h"

namespace lockstep::sm::object_history_test {

class ObjectHistoryTest : public ::testing::Test {
protected:
    void load_and_roll_back(ObjectHistory& history) {
        txn::Transaction& txn = engine_.begin();
        ASSERT_OK(history.loaded_by(txn));
        engine_.abort(txn);
    }

    TestEngine engine_;
};

TEST_F(ObjectHistoryTest, ATransactionLoadsTwoObjectsThatWereLoadedBefore) {
    engine_.on_thread([&] {
        ObjectHistory one, other;
        load_and_roll_back(one);
        load_and_roll_back(other);
        txn::Transaction& txn = engine_.begin();
        ASSERT_OK(one.loaded_by(txn));
        ASSERT_OK(other.loaded_by(txn));
        engine_.commit(txn);
    });
}

// It rolls back to a savepoint and loads again.
TEST_F(ObjectHistoryTest, ATransactionLoadsAnObjectTwice) {
    engine_.on_thread([&] {
        ObjectHistory history;
        load_and_roll_back(history);
        txn::Transaction& txn = engine_.begin();
        for (int i = 0; i < 3; ++i) ASSERT_OK(history.loaded_by(txn));
        engine_.commit(txn);
    });
}

TEST_F(ObjectHistoryTest, ManyTransactionsLoadAnObjectOneAfterTheOther) {
    engine_.on_thread([&] {
        ObjectHistory history;
        for (int i = 0; i < 5; ++i) load_and_roll_back(history);
    });
}

}  // namespace lockstep::sm::object_history_test
