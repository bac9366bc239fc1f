// labels: sim
// txn_watch_callback_test.cc - transactions that are ended in the middle of an operation: while it
// calls the application, and between its two parts.
#include <lockstep/secondary.h>

#include "sm/btree/btree.h"
#include "sm/catalog/catalog.h"
#include "tests/sm/observe/txn_watch_test_util.h"

namespace lockstep::txn_watch_callback_test {

class TxnWatchCallbackTest : public TxnWatchTest {};

// modify() has changed nothing while its function waits: the transaction may be ended there.
TEST_F(TxnWatchCallbackTest, AFunctionOfModifyThatSleepsMayBeEnded) {
    open();
    for (const bool many : {false, true}) {
        auto changer = writer([&, many](Txn& txn) -> Result<void> {
            std::byte room[2][16];
            const auto sleep = [&](std::span<std::byte> value) {
                sleep_for(1 * kSecond);
                value[0] = std::byte{'x'};
                return ByteRange{0, 1};
            };
            if (!many) {
                TRY(index.modify(txn, "k", room[0], sleep));
                return {};
            }
            TRY(index.put(txn, "l", "other"));
            Lookup rows[2] = {{.key = "k", .buffer = room[0]}, {.key = "l", .buffer = room[1]}};
            TRY(index.modify_many(
                txn, rows, [&](size_t, std::span<std::byte> value) { return sleep(value); }));
            return {};
        });
        ASSERT_OK(store->end_transaction(id));
        EXPECT_EQ(value(), "before");  // its lock is free at once
        join(changer, ErrorCode::ended_by_operator);
        EXPECT_EQ(value(), "before");
    }
}

// A key function runs between the changes of a statement.
TEST_F(TxnWatchCallbackTest, AKeyFunctionThatSleepsIsInsideItsOperation) {
    open();
    const auto slow = std::make_shared<bool>(false);  // the store outlives the test
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        TRY(store->create_index(
            txn, "by", {.of = index, .key = [this, slow](Slice, Slice text, SecondaryKeys& keys) {
                            if (*slow) go = true, sleep_for(1 * kSecond);
                            keys.add(text);
                        }}));
        return {};
    }));
    auto changer = writer([&](Txn& txn) -> Result<void> {
        *slow = true;
        TRY(index.put(txn, "k", "again"));
        TRY(txn.commit());
        return {};
    });
    ASSERT_TRUE(store.step_until([&] { return go; }));
    ASSERT_OK(store->end_transaction(id));
    EXPECT_EQ(find(id)->state, TransactionState::running);
    join(changer, ErrorCode::ended_by_operator);
    *slow = false;
    EXPECT_EQ(value(), "before");
}

// The step waits for the page of its entry, which comes.
TEST_F(TxnWatchCallbackTest, AStepOfASecondaryCursorEnds) {
    open();
    Index entries;
    const KeyFunction whole = [](Slice, Slice value, SecondaryKeys& keys) { keys.add(value); };
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        entries = TRY(store->create_index(txn, "s", {.of = index, .key = whole}));
        return {};
    }));
    store.on_thread([&] {
        ASSERT_OK(store->checkpoint());
        sm::Engine& engine = store.engine();
        const PageId root = engine.catalog->index_by_id(entries.id())->root();
        engine.pool->drop(std::move(*engine.pool->fix_exclusive(root)));
        ASSERT_EQ(engine.pool->resident(root), nullptr);
    });
    bool reads = false;
    disk.observe([&](const threads::SimEvent& event) {
        reads = reads || (event.kind == threads::SimEvent::submitted &&
                          event.path.ends_with("data") && event.io == threads::IoKind::read);
    });
    auto reader = store->start([&]() -> Result<void> {
        Txn txn = TRY(store->begin({.isolation = Isolation::read_committed}));
        id = txn.id();
        SecondaryCursor cursor = scan_by(txn, entries);
        return TRY(cursor.next()) ? Result<void>() : fail(ErrorCode::cancelled, "no entry");
    });
    ASSERT_TRUE(store.step_until([&] { return reads; }));
    disk.observe({});
    ASSERT_OK(store->end_transaction(id));
    join(reader, ErrorCode::ended_by_operator);
}

}  // namespace lockstep::txn_watch_callback_test
