// labels: sim
// cursor_end_test.cc - what a cursor shows after the step that finds the end of its range.
#include "tests/code_of.h"
#include "tests/sm/api/index_on_sim_store.h"

namespace lockstep::cursor_end_test {

class CursorEnd : public IndexOnSimStore {
protected:
    CursorEnd() : IndexOnSimStore(1) {}
    void put(Slice key, Slice value) {
        ASSERT_TRUE(store->run([&](Txn& txn) { return index.put(txn, key, value); }));
    }
    void step_over_a_rolled_back_record(bool forward, Access access);
};

// The step waits for a record that another transaction has inserted. Meanwhile records below the
// range move another one to its place, and the insert is rolled back. So the step copies a value
// that is none of the range's before it sees that the leaf has changed.
void CursorEnd::step_over_a_rolled_back_record(bool forward, Access access) {
    open();
    store.on_thread([&] {
        for (const char* key : {"b", "h", "x"}) put(key, std::string("value of ") + key);
    });
    bool inserted = false, stepped = false, moved = false;
    (void)store->spawn([&](Txn& txn) -> Result<void> {
        while (!stepped) sleep_for(kMillisecond);
        sleep_for(10 * kMillisecond);
        for (const char* key : {"a1", "a2", "a3"}) TRY(index.put(txn, key, "below the range"));
        moved = true;
        return {};
    });
    (void)store->spawn([&](Txn& txn) -> Result<void> {
        TRY(index.put(txn, forward ? "k" : "f", "never committed"));
        inserted = true;
        while (!moved) sleep_for(kMillisecond);
        sleep_for(10 * kMillisecond);
        return fail(ErrorCode::rolled_back, "test");
    });
    ASSERT_TRUE(store.step_until([&] { return inserted; }));
    store.on_thread([&] {
        const auto done = store->run([&](Txn& txn) -> Result<void> {
            Cursor cursor = index.scan(txn, "c", "m", access);
            EXPECT_TRUE(TRY(forward ? cursor.next() : cursor.prev()));
            EXPECT_EQ(cursor.key(), "h");
            EXPECT_EQ(cursor.value(), "value of h");
            stepped = true;
            EXPECT_FALSE(TRY(forward ? cursor.next() : cursor.prev()));
            EXPECT_EQ(cursor.key(), "h");
            EXPECT_EQ(cursor.value(), "value of h");
            return {};
        });
        EXPECT_TRUE(done) << done.error().text();
    });
}

TEST_F(CursorEnd, TheLastRecordStaysAfterALockWaitForwards) {
    step_over_a_rolled_back_record(true, Access::read);
}
TEST_F(CursorEnd, TheLastRecordStaysAfterALockWaitBackwards) {
    step_over_a_rolled_back_record(false, Access::read);
}
TEST_F(CursorEnd, TheLastRecordStaysForAWriter) {
    step_over_a_rolled_back_record(true, Access::write);
}

}  // namespace lockstep::cursor_end_test
