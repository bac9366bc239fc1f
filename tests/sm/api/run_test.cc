// labels: unit
// run_test.cc - what run(), start() and begin() promise besides the transaction itself: which
// errors are repeated, which workers exist, which transactions are counted.
#include <atomic>
#include <optional>

#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"
#include "threads/sync/event.h"

namespace lockstep::run_test {

class Run : public StoreCrash {
protected:
    // Holds X on "k" of `rows` while `other` runs on a thread of its own.
    static void with_key_locked(Store& store, Index rows, std::function<void()> other) {
        on_thread(store, [&] {
            Result<Txn> holder = store.begin();
            ASSERT_TRUE(holder);
            ASSERT_TRUE(rows.put(*holder, "k", "held"));
            auto done = store.start([&]() -> Result<void> {
                other();
                return {};
            });
            EXPECT_TRUE(done.join());
            EXPECT_TRUE(holder->abort());
        });
    }
    static Index make_rows(Store& store) {
        Index rows;
        EXPECT_TRUE(store.run([&](Txn& txn) -> Result<void> {
            rows = TRY(store.create_index(txn, "rows"));
            return rows.put(txn, "k", "0");
        }));
        return rows;
    }
};

constexpr TxnOptions kHasty{.lock_timeout = 5 * kMillisecond};

// The timeout is the caller's bound on its wait; a repetition would wait many times as long.
TEST_F(Run, LockTimeoutIsReturnedAndNotRepeated) {
    Store store = open("a");
    const Index rows = make_rows(store);
    int tries = 0;
    with_key_locked(store, rows, [&] {
        const Result<void> done = store.run(
            [&](Txn& txn) {
                ++tries;
                return rows.put(txn, "k", "1");
            },
            kHasty);
        EXPECT_EQ(code_of(done), ErrorCode::lock_timeout);
    });
    EXPECT_EQ(tries, 1);
    EXPECT_EQ(store.stats().deadlock_retries, 0u);
}

// The same if the function drops the error: the cause decides, not how the commit fails.
TEST_F(Run, DroppedLockTimeoutIsNotRepeatedEither) {
    Store store = open("a");
    const Index rows = make_rows(store);
    int tries = 0;
    with_key_locked(store, rows, [&] {
        const Result<void> done = store.run(
            [&](Txn& txn) -> Result<void> {
                ++tries;
                EXPECT_EQ(code_of(rows.put(txn, "k", "1")), ErrorCode::lock_timeout);
                return {};
            },
            kHasty);
        EXPECT_EQ(code_of(done), ErrorCode::txn_aborting);
    });
    EXPECT_EQ(tries, 1);
    EXPECT_EQ(store.stats().deadlock_retries, 0u);
}

TEST_F(Run, DeadlockVictimIsRepeatedEvenIfItDropsTheError) {
    Store store = open("a");
    const Index rows = make_rows(store);
    std::atomic<int> tries{0}, hold_one{0};
    const auto both = [&](const char* first, const char* second) {
        return [&, first, second](Txn& txn) -> Result<void> {
            ++tries;
            TRY(rows.put(txn, first, "1"));
            ++hold_one;
            while (hold_one < 2) sleep_for(kMillisecond);
            (void)rows.put(txn, second, "1");
            return {};
        };
    };
    auto one = store.spawn(both("a", "b")), two = store.spawn(both("b", "a"));
    EXPECT_TRUE(one.join());
    EXPECT_TRUE(two.join());
    EXPECT_GE(tries, 3);
    EXPECT_EQ(store.stats().deadlock_retries, static_cast<uint64_t>(tries.load()) - 2);
}

// Also one that takes the place of a deadlock.
TEST_F(Run, AnErrorOfTheApplicationComesOutUnchanged) {
    Store store = open("a");
    const Index rows = make_rows(store);
    int calls = 0;
    const auto refused = store.run([&](Txn& txn) -> Result<int> {
        ++calls;
        TRY(rows.put(txn, "k", "gone"));
        return Error::user(77, "account 12 is closed");
    });
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::user_error);
    EXPECT_EQ(refused.error().a, 77u);
    EXPECT_EQ(refused.error().text(), "user_error: error of the application: account 12 is closed");
    EXPECT_EQ(calls, 1);
    std::string value;
    ASSERT_TRUE(*rows.get("k", value));
    EXPECT_EQ(value, "0");
    const auto instead = store.run([&](Txn&) -> Result<void> {
        ++calls;
        const Result<void> deadlock = fail(ErrorCode::deadlock, "of another store");
        return deadlock ? deadlock : Result<void>(Error::user(78, "gave up"));
    });
    EXPECT_EQ(code_of(instead), ErrorCode::user_error);
    EXPECT_EQ(calls, 2);
    // Within an operation that fails, the transaction can only end; the error is still the same.
    with_key_locked(store, rows, [&] {
        const auto behind = store.run(
            [&](Txn& txn) -> Result<void> {
                EXPECT_EQ(code_of(rows.put(txn, "k", "1")), ErrorCode::lock_timeout);
                return Error::user(79, "too busy");
            },
            kHasty);
        EXPECT_EQ(code_of(behind), ErrorCode::user_error);
        EXPECT_EQ(behind.error().a, 79u);
    });
    ASSERT_OK(store.close());
}

TEST_F(Run, WorkersOutOfRangeAreRefused) {
    Store store = open("a", small_options(2));
    const auto nothing = []() -> Result<int> { return 1; };
    for (const int worker : {Store::kAnyWorker, 0, 1})
        EXPECT_EQ(code_of(store.start(nothing, worker).join()), ErrorCode::none) << worker;
    for (const int worker : {2, 3, 64, INT_MAX, -2, INT_MIN}) {
        const Result<int> started = store.start(nothing, worker).join();
        ASSERT_EQ(code_of(started), ErrorCode::bad_argument) << worker;
        EXPECT_NE(started.error().text().find("worker"), std::string::npos);
        EXPECT_NE(started.error().text().find("2"), std::string::npos) << started.error().text();
        EXPECT_EQ(code_of(store.spawn([](Txn&) -> Result<void> { return {}; }, {}, worker).join()),
                  ErrorCode::bad_argument);
    }
}

TEST_F(Run, StatisticsTellBegunTransactionsFromWaitingOnes) {
    Options options = small_options();
    options.transactions_max = 16;
    Store store = open("a", options);
    EXPECT_EQ(store.stats().transactions_live, 0u);
    bool let_go = false;
    std::vector<Handle<void>> handles;
    on_thread(store, [&] {
        for (int i = 0; i < 20; ++i)
            handles.push_back(store.spawn([&](Txn&) -> Result<void> {
                while (!let_go) sleep_for(kMillisecond);
                return {};
            }));
        sleep_for(20 * kMillisecond);
        const StoreStats full = store.stats();
        EXPECT_EQ(full.transactions_live, 16u);
        EXPECT_EQ(full.transactions_waiting, 4u);
        let_go = true;
    });
    for (auto& handle : handles) EXPECT_TRUE(handle.join());
    EXPECT_EQ(store.stats().transactions_live, 0u);
    EXPECT_EQ(store.stats().transactions_waiting, 0u);
}

TEST_F(Run, TransactionOptionsOutOfRangeAreRefused) {
    Store store = open("a");
    const auto refused = [&](const TxnOptions& options, const char* name) {
        const auto done = store.run([](Txn&) -> Result<void> { return {}; }, options);
        ASSERT_EQ(code_of(done), ErrorCode::bad_option) << name;
        EXPECT_STREQ(done.error().what, name);
        EXPECT_EQ(done.error().a, 9u);
        on_thread(store,
                  [&] { EXPECT_EQ(code_of(store.begin(options)), ErrorCode::bad_option) << name; });
    };
    refused({.isolation = static_cast<Isolation>(9)}, "isolation");
    refused({.durability = static_cast<Durability>(9)}, "durability");
    EXPECT_EQ(store.stats().transactions_live, 0u);
}

// run() cannot commit a transaction that its function has moved away. It must not say that it has,
// nor leave it behind.
TEST_F(Run, AMovedTransactionIsRolledBackAndReported) {
    Store store = open("a");
    const Index rows = make_rows(store);
    std::optional<Txn> kept;
    const auto keep = [&](Txn& txn) -> Result<void> {
        TRY(rows.put(txn, "k", "1"));
        kept.emplace(std::move(txn));
        return {};
    };
    const auto expect_refused = [&] {
        const Result<void> done = store.run(keep);
        ASSERT_EQ(code_of(done), ErrorCode::bad_argument);
        EXPECT_NE(done.error().text().find("moved its Txn"), std::string::npos);
    };
    expect_refused();
    kept.reset();
    on_thread(store, [&] {
        expect_refused();
        EXPECT_EQ(code_of(kept->commit()), ErrorCode::txn_ended);
        kept.reset();
    });
    EXPECT_EQ(store.stats().transactions_live, 0u);
    // One that moves it and ends it gets what it returns.
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        Txn mine = std::move(txn);
        TRY(rows.put(mine, "k", "2"));
        TRY(mine.commit());
        return {};
    }));
    std::string value;
    ASSERT_OK(store.run([&](Txn& txn) { return rows.get(txn, "k", value); }));
    EXPECT_EQ(value, "2");
    ASSERT_OK(store.close());
}

TEST_F(Run, APatchBeyondAValueSaysWhereItEnds) {
    Store store = open("a");
    const Index rows = make_rows(store);
    const auto done = store.run([&](Txn& txn) { return rows.patch(txn, "k", 7, "ab"); });
    ASSERT_EQ(code_of(done), ErrorCode::bad_argument);
    EXPECT_NE(done.error().text().find("offset 7 and length 2, of a value of length 1"),
              std::string::npos)
        << done.error().text();
}

}  // namespace lockstep::run_test
