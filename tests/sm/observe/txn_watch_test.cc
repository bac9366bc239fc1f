// labels: unit sim
// txn_watch_test.cc - transactions seen and ended from outside: by an operator, by age.
#include <lockstep/need.h>
#include <lockstep/secondary.h>

#include <algorithm>

#include "sm/api/operation.h"
#include "sm/observe/txn_watch.h"
#include "tests/sm/observe/txn_watch_test_util.h"

namespace lockstep::txn_watch_test {

TEST_F(TxnWatchTest, ListsWhatTransactionsDo) {
    open();
    auto holder = writer([&](Txn& txn) -> Result<void> {
        while (!go) sleep_for(10 * kMillisecond);
        return txn.abort();
    });
    const TxnId first = id;
    bool asked = false;
    TxnId second;
    auto waiter = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin({.read_only = true}));
            second = txn.id();
            asked = true;
            std::string text;
            EXPECT_TRUE(TRY(index.get(txn, "k", text)));
            EXPECT_EQ(text, "before");
            TRY(txn.commit());
            return {};
        },
        0);
    ASSERT_TRUE(store.step_until([&] { return asked && store.engine().locks->stats().waits > 0; }));
    store.clock().advance(3 * kSecond);
    const TransactionInfo* info = find(first);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->state, TransactionState::idle);
    EXPECT_EQ(info->worker, 1u);
    EXPECT_GE(info->age, 3 * kSecond);
    EXPECT_GT(info->locks, 0u);
    EXPECT_GT(info->log_bytes, 0u);
    EXPECT_GT(info->undo_bytes, 0u);
    EXPECT_GT(info->log_pinned_bytes, 0u);
    EXPECT_FALSE(info->read_only || info->marked || info->internal);
    EXPECT_EQ(info->waits_for, "");
    const uint64_t thread = info->thread;
    info = find(second);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->state, TransactionState::lock_wait);
    EXPECT_TRUE(info->read_only);
    EXPECT_NE(info->thread, thread);
    EXPECT_EQ(info->log_pinned_bytes, 0u);
    EXPECT_GE(info->waited, 2 * kSecond);
    EXPECT_TRUE(info->waits_for.starts_with("S on index \"i\"")) << info->waits_for;
    ASSERT_EQ(info->waits_for_transactions.size(), 1u);
    EXPECT_EQ(info->waits_for_transactions[0], first);
    go = true;
    join(holder, ErrorCode::none);
    join(waiter, ErrorCode::none);
    EXPECT_TRUE(store->transactions().empty());
    EXPECT_STREQ(transaction_state_name(TransactionState::lock_wait), "lock_wait");
}

// TW-1: its thread sleeps and never calls again; the locks are free at once.
TEST_F(TxnWatchTest, AnIdleTransactionIsRolledBackForIt) {
    open();
    auto holder = writer([&](Txn& txn) -> Result<void> {
        while (!go) sleep_for(10 * kMillisecond);
        std::string text;
        auto again = index.get(txn, "k", text);
        EXPECT_FALSE(again.has_value());
        EXPECT_TRUE(txn.live());
        auto commit = txn.commit();
        EXPECT_EQ(commit.error().code, ErrorCode::ended_by_operator);
        EXPECT_TRUE(txn.abort());
        EXPECT_FALSE(txn.live());
        return std::unexpected(again.error());
    });
    const uint64_t aborts = store->stats().aborts;
    ASSERT_OK(store->end_transaction(id));
    EXPECT_EQ(value(), "before");
    EXPECT_EQ(store->stats().aborts, aborts + 1);
    const TransactionInfo* info = find(id);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->state, TransactionState::ended);
    EXPECT_TRUE(info->marked);
    EXPECT_EQ(info->locks, 0u);
    EXPECT_EQ(info->undo_bytes, 0u);
    EXPECT_NE(log.find("is ended by an operator"), std::string::npos) << log;
    EXPECT_EQ(store->end_transaction(id).error().code, ErrorCode::txn_ended);
    go = true;
    join(holder, ErrorCode::ended_by_operator);
    EXPECT_EQ(store->end_transaction(id).error().code, ErrorCode::txn_ended);
    EXPECT_EQ(store->stats().aborts, aborts + 1);
}

// The handle may simply go: its destructor ends what is left.
TEST_F(TxnWatchTest, TheHandleOfAnEndedTransactionMayBeDropped) {
    open();
    auto holder = writer([&](Txn&) -> Result<void> {
        while (!go) yield();
        return {};
    });
    ASSERT_OK(store->end_transaction(id));
    go = true;
    join(holder, ErrorCode::none);
    EXPECT_EQ(value(), "before");
    EXPECT_TRUE(store->transactions().empty());
}

TEST_F(TxnWatchTest, AWaitForALockEnds) {
    open();
    auto holder = writer([&](Txn& txn) -> Result<void> {
        while (!go) sleep_for(10 * kMillisecond);
        TRY(txn.commit());
        return {};
    });
    TxnId second;
    bool asked = false;
    auto waiter = store->start(
        [&]() -> Result<void> {
            return store->run([&](Txn& txn) -> Result<void> {
                second = txn.id();
                TRY(index.put(txn, "other", "1"));
                asked = true;
                return index.put(txn, "k", "2");
            });
        },
        0);
    ASSERT_TRUE(store.step_until([&] { return asked && store.engine().locks->stats().waits > 0; }));
    ASSERT_OK(store->end_transaction(second));
    join(waiter, ErrorCode::ended_by_operator);
    go = true;
    join(holder, ErrorCode::none);
    EXPECT_EQ(value(), "changed");
}

// Its thread has ended and left the transaction behind.
TEST_F(TxnWatchTest, AnOrphanIsRolledBack) {
    open();
    std::optional<Txn> kept;
    leave_behind(kept);
    ASSERT_OK(store->end_transaction(id));
    EXPECT_EQ(value(), "before");
    EXPECT_TRUE(store->transactions().empty());
    kept.reset();
}

// What it has read may be forgotten then.
TEST_F(TxnWatchTest, AnOrphansSnapshotIsClosed) {
    open();
    std::optional<Txn> kept;
    auto holder = store->start(
        [&]() -> Result<void> {
            kept.emplace(TRY(store->begin({.isolation = Isolation::snapshot})));
            id = kept->id();
            const Need need{.index = index, .key = "k"};
            kept->will_need({&need, 1});
            return {};
        },
        1);
    join(holder, ErrorCode::none);
    EXPECT_EQ(store->stats().snapshots_open, 1u);
    ASSERT_OK(store->end_transaction(id));
    EXPECT_TRUE(store->transactions().empty());
    EXPECT_EQ(store->stats().snapshots_open, 0u);
    kept.reset();
}

// Its thread may sleep for long. Until it calls, no version stays for it.
TEST_F(TxnWatchTest, AnIdleTransactionsSnapshotIsGivenUp) {
    open();
    auto sleeper = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin({.isolation = Isolation::snapshot}));
            Cursor cursor = index.scan(txn);
            EXPECT_TRUE(TRY(cursor.next()));
            id = txn.id();
            ready = true;
            while (!go) sleep_for(10 * kMillisecond);
            TRY(cursor.next());
            return {};
        },
        1);
    ASSERT_TRUE(store.step_until([&] { return ready; }));
    EXPECT_EQ(store->stats().snapshots_open, 1u);
    ASSERT_OK(store->end_transaction(id));
    EXPECT_EQ(store->stats().snapshots_open, 0u);
    go = true;
    join(sleeper, ErrorCode::ended_by_operator);
    EXPECT_EQ(store->stats().snapshots_open, 0u);
}

// A sleep below an operation is not between two operations: the mark waits for the next call.
TEST_F(TxnWatchTest, ACallbackThatSleepsIsInsideItsOperation) {
    open();
    auto loader = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            const Index fresh = TRY(store->create_index(txn, "fresh"));
            id = txn.id();
            int n = 0;
            std::string text;
            TRY(store->bulk_load(txn, fresh, [&](Slice& key, Slice& out) {
                if (++n == 2) {
                    ready = true;
                    sleep_for(1 * kSecond);
                }
                text = "key" + std::to_string(n);
                key = out = text;
                return n < 4;
            }));
            TRY(txn.commit());
            return {};
        },
        1);
    ASSERT_TRUE(store.step_until([&] { return ready; }));
    const TransactionInfo* info = find(id);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->state, TransactionState::running);
    ASSERT_OK(store->end_transaction(id));
    EXPECT_EQ(find(id)->state, TransactionState::running);
    join(loader, ErrorCode::ended_by_operator);
    EXPECT_EQ(store->index("fresh").error().code, ErrorCode::no_such_object);
}

// The callback waits within the creation of a secondary index.
TEST_F(TxnWatchTest, ABuildThatSleepsIsInsideItsOperation) {
    open();
    auto builder = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            id = txn.id();
            TRY(store->create_index(
                txn, "by",
                {.of = index,
                 .key = [](Slice, Slice value, SecondaryKeys& keys) { keys.add(value); },
                 .progress =
                     [&](const BuildProgress&) {
                         ready = true;
                         sleep_for(1 * kSecond);
                     }}));
            TRY(txn.commit());
            return {};
        },
        1);
    ASSERT_TRUE(store.step_until([&] { return ready; }));
    EXPECT_EQ(find(id)->state, TransactionState::running);
    ASSERT_OK(store->end_transaction(id));
    EXPECT_EQ(find(id)->state, TransactionState::running);
    join(builder, ErrorCode::ended_by_operator);
    EXPECT_EQ(store->index("by").error().code, ErrorCode::no_such_object);
}

// The reaper that the log has sent gives up a thread inside an operation. An operator does not.
TEST_F(TxnWatchTest, AnOperatorsOrderIsNotGivenUp) {
    open();
    auto holder = writer([&](Txn& txn) -> Result<void> {
        while (!go) sleep_for(10 * kMillisecond);
        return txn.abort();
    });
    TxnId waiting;
    auto waiter = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            TRY(index.put(txn, "other", "changed"));
            waiting = txn.id();
            return index.put(txn, "k", "again");
        },
        1);
    ASSERT_TRUE(store.step_until([&] { return store.engine().locks->stats().waits > 0; }));
    store.on_thread([&] {
        sm::TxnWatch& watch = *store.engine().watch;
        const auto all = store.engine().txns->seen();
        const auto at = std::ranges::find(all, waiting, &txn::TransactionTable::Seen::id);
        ASSERT_NE(at, all.end());
        watch.relieve_log(*at, sm::TxnWatch::kIdleMax, sm::TxnWatch::kIdleMax);
        ASSERT_OK(store->end_transaction(waiting));
    });
    join(waiter, ErrorCode::ended_by_operator);
    go = true;
    join(holder, ErrorCode::none);
}

// A commit that has begun wins.
TEST_F(TxnWatchTest, ACommittingTransactionIsNotEnded) {
    open();
    auto committer = writer([&](Txn& txn) -> Result<void> {
        TRY(txn.commit());
        return {};
    });
    ASSERT_TRUE(store.step_until([&] { return any_in(txn::TxnState::committed); }));
    const TransactionInfo* info = find(id);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->state, TransactionState::committing);
    EXPECT_EQ(store->end_transaction(id).error().code, ErrorCode::txn_ended);
    join(committer, ErrorCode::none);
    EXPECT_EQ(value(), "changed");
}

TEST_F(TxnWatchTest, ARollbackGoesOn) {
    open();
    auto loser = writer([&](Txn& txn) -> Result<void> {
        for (int n = 0; n < 3000; ++n)
            TRY(index.put(txn, "key" + std::to_string(n), std::string(1000, 'x')));
        return txn.abort();
    });
    ASSERT_TRUE(store.step_until([&] { return any_in(txn::TxnState::aborting); }));
    EXPECT_TRUE(store->end_transaction(id));
    join(loser, ErrorCode::none);
    EXPECT_EQ(value(), "before");
}

// It waits for a page, a latch or the log, at any moment: the mark stays, the operation ends.
TEST_F(TxnWatchTest, AnOperationThatWaitsForAPageEndsFirst) {
    open();
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        for (int n = 0; n < 6000; ++n)
            TRY(index.put(txn, "key" + std::to_string(n), std::string(1000, 'x')));
        return {};
    }));
    ASSERT_OK(store->checkpoint());
    Error why;
    auto reader = writer([&](Txn& txn) -> Result<void> {
        std::string text;
        for (int n = 0; n < 1'000'000; ++n) {
            const auto got = index.get(txn, "key" + std::to_string(n * 997 % 6000), text);
            if (!got.has_value()) return std::unexpected(got.error());
            EXPECT_TRUE(*got);
        }
        return {};
    });
    const uint64_t before = store->stats().page_reads;
    ASSERT_TRUE(store.step_until([&] { return store->stats().page_reads > before + 10; }));
    EXPECT_EQ(find(id)->state, TransactionState::running);
    ASSERT_OK(store->end_transaction(id));
    join(reader, ErrorCode::ended_by_operator);
    EXPECT_EQ(value(), "before");
}

// The rollback of the reaper finds a store that has failed.
TEST_F(TxnWatchTest, AStoreThatFails) {
    open();
    auto holder = writer([&](Txn& txn) -> Result<void> {
        while (!go) sleep_for(10 * kMillisecond);
        std::string text;
        EXPECT_FALSE(index.get(txn, "k", text).has_value());
        return txn.abort();
    });
    store.engine().log->fail_store(
        {.what = "test", .cause = {.code = ErrorCode::io_error, .os = EIO}});
    EXPECT_TRUE(store->end_transaction(id));
    ASSERT_NE(find(id), nullptr);
    go = true;
    Result<void> done;
    store.on_thread([&] { done = holder.join(); });
    EXPECT_FALSE(done);
    EXPECT_TRUE(store->transactions().empty());
    EXPECT_FALSE(store.close());
    closed = true;
}

// Nobody rolls it back any more, and its reaper does not wait for that: close() would wait as well.
TEST_F(TxnWatchTest, AnOrphanOfAStoreThatFails) {
    open();
    std::optional<Txn> kept;
    leave_behind(kept);
    store.engine().log->fail_store(
        {.what = "test", .cause = {.code = ErrorCode::io_error, .os = EIO}});
    EXPECT_TRUE(store->end_transaction(id));
    kept.reset();
    EXPECT_FALSE(store.close());
    closed = true;
}

// It was rolled back for its thread, which then ended and left the handle behind.
TEST_F(TxnWatchTest, CloseTakesWhatIsLeft) {
    open();
    std::optional<Txn> kept;
    auto holder = store->start(
        [&]() -> Result<void> {
            kept.emplace(TRY(store->begin()));
            TRY(index.put(*kept, "k", "changed"));
            id = kept->id();
            ready = true;
            while (!go) sleep_for(10 * kMillisecond);
            return {};
        },
        1);
    ASSERT_TRUE(store.step_until([&] { return ready; }));
    ASSERT_OK(store->end_transaction(id));
    EXPECT_EQ(find(id)->state, TransactionState::ended);
    go = true;
    join(holder, ErrorCode::none);
    kept.reset();
    EXPECT_TRUE(store.close());
    EXPECT_EQ(store.errors(), "");
    ASSERT_OK(store.open());
    index = *store->index("i");
    EXPECT_EQ(value(), "before");
}

TEST_F(TxnWatchTest, RunIsNotRepeatedAndReturnsTheReason) {
    open();
    int times = 0;
    auto runner = store->start(
        [&]() -> Result<void> {
            return store->run([&](Txn& txn) -> Result<void> {
                ++times;
                id = txn.id();
                TRY(index.put(txn, "k", "changed"));
                ready = true;
                sleep_for(kSecond);
                return {};  // it did not notice
            });
        },
        1);
    ASSERT_TRUE(store.step_until([&] { return ready; }));
    ASSERT_OK(store->end_transaction(id));
    join(runner, ErrorCode::ended_by_operator);
    EXPECT_EQ(times, 1);
    EXPECT_EQ(value(), "before");
}

TEST_F(TxnWatchTest, AThreadMayEndItsOwnTransaction) {
    open();
    auto handle = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            TRY(index.put(txn, "k", "changed"));
            EXPECT_TRUE(store->end_transaction(txn.id()));
            return index.put(txn, "k", "again");
        },
        1);
    join(handle, ErrorCode::ended_by_operator);
    EXPECT_EQ(value(), "before");
}

TEST_F(TxnWatchTest, OldTransactionsEndByThemselves) {
    store.options().transaction_age_max = 10 * kSecond;
    open();
    Error old;
    auto holder = writer([&](Txn& txn) -> Result<void> {
        while (!go) sleep_for(kSecond);
        std::string text;
        auto again = index.get(txn, "k", text);
        EXPECT_FALSE(again.has_value());
        if (!again.has_value()) old = again.error();
        return {};
    });
    const Nanos began = store.clock().now();
    // The reader must not be too old as well when the holder is.
    auto pause = store->start([&]() -> Result<void> {
        sleep_for(5 * kSecond);
        return {};
    });
    join(pause, ErrorCode::none);
    EXPECT_EQ(value(), "before");  // waits for the lock until then
    EXPECT_GE(store.clock().now() - began, 9 * kSecond);
    EXPECT_LE(store.clock().now() - began, 13 * kSecond);
    go = true;
    join(holder, ErrorCode::none);
    EXPECT_EQ(old.code, ErrorCode::transaction_too_old);
    EXPECT_NE(old.text().find("raise option transaction_age_max"), std::string::npos) << old.text();
    EXPECT_NE(log.find("older than transaction_age_max"), std::string::npos) << log;
}

// run() repeats deadlock victims, so the reason must not hide behind such an error.
TEST_F(TxnWatchTest, ADeadlockVictimThatWasEndedIsNotRepeated) {
    open();
    txn::Transaction ended;
    ended.heed = txn::Heed::by_operator;
    for (const ErrorCode code : {ErrorCode::deadlock, ErrorCode::lock_timeout, ErrorCode::log_full,
                                 ErrorCode::cancelled, ErrorCode::txn_aborting}) {
        Error error = fail(code, "lock").error();
        sm::note_error(ended, error);
        EXPECT_EQ(error.code, ErrorCode::ended_by_operator);
    }
    Error error = fail(ErrorCode::duplicate_key, "key").error();
    sm::note_error(ended, error);
    EXPECT_EQ(error.code, ErrorCode::duplicate_key);
    EXPECT_EQ(ended.heed, txn::Heed::by_operator);
}

TEST_F(TxnWatchTest, NothingToEnd) {
    open();
    EXPECT_EQ(store->end_transaction(TxnId{123456}).error().code, ErrorCode::txn_ended);
    EXPECT_EQ(store->end_transaction(kTxnNone).error().code, ErrorCode::txn_ended);
    EXPECT_TRUE(store->transactions().empty());
    ASSERT_OK(store->close());
    EXPECT_EQ(store->end_transaction(TxnId{1}).error().code, ErrorCode::store_closed);
    EXPECT_TRUE(store->transactions().empty());
    closed = true;
}

}  // namespace lockstep::txn_watch_test
