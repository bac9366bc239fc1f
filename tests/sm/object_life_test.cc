// labels: unit
// object_life_test.cc - objects made and dropped around savepoints and within one transaction; cursors at the end of what was erased.
#include "tests/sm/store_crash_util.h"

namespace lockstep {
namespace {

class ObjectLife : public StoreCrash {};

TEST_F(ObjectLife, ARollbackToASavepointTakesADropBack) {
    Store store = open("s");
    make(store, "i", "h");
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        ASSERT_OK(store.index("i")->put(txn, "k", "v"));
        const Savepoint before = *txn.savepoint();
        ASSERT_OK(store.drop(txn, "i"));
        ASSERT_OK(txn.roll_back_to(before));
        ASSERT_OK(txn.commit());
    });
    EXPECT_EQ(index_content(store, "i").size(), 1u);
    expect_sound(store);
}

TEST_F(ObjectLife, ARollbackToASavepointTakesACreationBack) {
    Store store = open("s");
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Savepoint before = *txn.savepoint();
        ASSERT_OK(store.create_index(txn, "i"));
        ASSERT_OK(txn.roll_back_to(before));
        ASSERT_OK(txn.commit());
    });
    EXPECT_FALSE(store.index("i"));
    make(store, "i", "h");
    expect_sound(store);
}

TEST_F(ObjectLife, WhatATransactionMadeItCanDrop) {
    Store store = open("s");
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        ASSERT_OK(store.create_index(txn, "i"));
        ASSERT_OK(store.drop(txn, "i"));
        ASSERT_OK(txn.commit());
    });
    EXPECT_FALSE(store.index("i"));
    expect_sound(store);
}

// The catalogue's lock must not escalate: the next creation would wait for its own transaction.
TEST_F(ObjectLife, ManyObjectsInOneTransaction) {
    Options options = small_options();
    options.escalate_at = 3;
    options.lock_timeout = kSecond;
    Store store = open("s", options);
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        for (int n = 0; n < 20; ++n) TRY(store.create_index(txn, "i" + std::to_string(n)));
        return {};
    }));
    EXPECT_EQ(store.list().size(), 20u);
}

// At its end a cursor stands on the last record it gave, whatever was erased behind it.
TEST_F(ObjectLife, ACursorAtTheEndDoesNotStandOnAnErasedRecord) {
    Store store = open("s");
    make(store, "i", "h");
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index index = *store.index("i");
        for (const char* key : {"a", "b", "c", "d"}) ASSERT_OK(index.put(txn, key, key));
        ASSERT_TRUE(*index.erase(txn, "c"));
        ASSERT_TRUE(*index.erase(txn, "d"));
        Cursor cursor = index.scan(txn);
        while (*cursor.next()) continue;
        EXPECT_EQ(cursor.key(), "b");
        ASSERT_TRUE(*cursor.prev());
        EXPECT_EQ(cursor.key(), "a");
        ASSERT_OK(txn.commit());
    });
}

}  // namespace
}  // namespace lockstep
