// labels: sim
// cursor_end_test.cc - what a cursor shows after the step that finds the end of its range.
#include "tests/code_of.h"
#include "tests/sm/store/index_on_sim_store.h"

namespace lockstep {
namespace {

class CursorEnd : public IndexOnSimStore {
protected:
    CursorEnd() : IndexOnSimStore(1) {}
    void put(Slice key, Slice value) {
        ASSERT_TRUE(store->run([&](Txn& txn) { return index.put(txn, key, value); }));
    }
    void step_over_a_rolled_back_record(bool forward, Access access);
};

// The step waits for a record that another transaction has inserted. That one rolls back, and
// another record moves to its place, behind the range.
void CursorEnd::step_over_a_rolled_back_record(bool forward, Access access) {
    open();
    store.on_thread([&] {
        put("h", "value of h");
        put(forward ? "x" : "b", "beyond the range");
    });
    bool inserted = false, stepped = false;
    (void)store->spawn([&](Txn& txn) -> Result<void> {
        TRY(index.put(txn, forward ? "k" : "f", "never committed"));
        inserted = true;
        while (!stepped) yield();
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

}  // namespace
}  // namespace lockstep
