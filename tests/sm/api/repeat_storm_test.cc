// labels: unit
// repeat_storm_test.cc - many user threads that make each other deadlock victims: each transaction
// of run(), or of a loop of the application with Txn::retry(), commits after few attempts.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"
#include "threads/base/rng.h"

namespace lockstep::repeat_storm_test {

struct Storm {
    const char* name;
    uint32_t threads = 200, rounds = 20, keys = 4, workers = 1;
    // What one transaction does; the random numbers are its own.
    Result<void> (*body)(const Storm&, Index, Txn&, Rng&);
    bool by_hand = false;
};

std::string key_of(uint64_t i) { return "key" + std::to_string(1000 + i); }

Result<void> add_one(Index rows, Txn& txn, const std::string& key) {
    std::string value;
    TRY(rows.get(txn, key, value));
    return rows.put(txn, key, std::to_string(std::stoull(value) + 1));
}
// S, then X on the same record.
Result<void> upgrade(const Storm& storm, Index rows, Txn& txn, Rng& rng) {
    const std::string key = key_of(rng.below(storm.keys));
    std::string value;
    TRY(rows.get(txn, key, value));
    yield();
    return add_one(rows, txn, key);
}
// X on several records, in any order.
Result<void> in_any_order(const Storm& storm, Index rows, Txn& txn, Rng& rng) {
    const uint64_t first = rng.below(storm.keys);
    const uint64_t step = 1 + 2 * rng.below(2);  // 1 or 3: both orders of four records
    for (uint64_t i = 0; i < 3; ++i) {
        TRY(rows.put(txn, key_of((first + i * step) % storm.keys), "1"));
        yield();
    }
    return {};
}
// A scan that protects a range, then a change inside it.
Result<void> ranges(const Storm& storm, Index rows, Txn& txn, Rng& rng) {
    const uint64_t from = rng.below(storm.keys);
    Cursor cursor = rows.scan(txn, key_of(from), key_of(from + 3));
    while (TRY(cursor.next())) yield();
    TRY(rows.put(txn, key_of(from + rng.below(3)) + "." + std::to_string(rng.below(3)), "1"));
    return add_one(rows, txn, key_of(from));
}
Result<void> any_of_them(const Storm& storm, Index rows, Txn& txn, Rng& rng) {
    switch (rng.below(3)) {
        case 0: return upgrade(storm, rows, txn, rng);
        case 1: return in_any_order(storm, rows, txn, rng);
        default: return ranges(storm, rows, txn, rng);
    }
}

class RepeatStorm : public StoreCrash, public testing::WithParamInterface<Storm> {};

// Attempts of each transaction that has committed.
struct Attempts {
    std::vector<uint32_t> of;
    uint32_t failed = 0;
    double mean() const {
        uint64_t sum = 0;
        for (const uint32_t one : of) sum += one;
        return of.empty() ? 0 : static_cast<double>(sum) / static_cast<double>(of.size());
    }
    uint32_t at(double part) {
        std::sort(of.begin(), of.end());
        return of.empty() ? 0 : of[static_cast<size_t>(part * static_cast<double>(of.size() - 1))];
    }
};

Result<void> repeat_by_hand(Store& store, FunctionRef<Result<void>(Txn&)> body) {
    TxnOptions options;
    for (;;) {
        Txn txn = TRY(store.begin(options));
        Result<void> done = body(txn);
        if (done) {
            TRY(txn.commit());
            return {};
        }
        if (done.error().code != ErrorCode::deadlock) return done;
        options.retry = txn.retry();
        TRY(txn.abort());
    }
}

TEST_P(RepeatStorm, EachTransactionCommitsAfterFewAttempts) {
    const Storm& storm = GetParam();
    Options options = small_options(storm.workers);
    options.user_threads_max = 4096;
    options.transactions_max = 4096;
    Store store = open("a", options);
    Index rows;
    ASSERT_TRUE(store.run([&](Txn& txn) -> Result<void> {
        rows = TRY(store.create_index(txn, "rows"));
        for (uint64_t i = 0; i < storm.keys + 3; ++i) TRY(rows.put(txn, key_of(i), "0"));
        return {};
    }));
    std::vector<Attempts> attempts(storm.threads);
    std::vector<Handle<void>> threads;
    for (uint32_t t = 0; t < storm.threads; ++t)
        threads.push_back(store.start([&, t]() -> Result<void> {
            Rng rng(7 * t + 1);
            for (uint32_t round = 0; round < storm.rounds; ++round) {
                uint32_t tries = 0;
                const auto body = [&](Txn& txn) -> Result<void> {
                    ++tries;
                    return storm.body(storm, rows, txn, rng);
                };
                const TxnOptions lazy{.durability = Durability::lazy};
                const Result<void> done =
                    storm.by_hand ? repeat_by_hand(store, body) : store.run(body, lazy);
                if (done) attempts[t].of.push_back(tries);
                else ++attempts[t].failed;
            }
            return {};
        }));
    for (auto& thread : threads) EXPECT_TRUE(thread.join());
    Attempts all;
    for (Attempts& one : attempts) {
        all.of.insert(all.of.end(), one.of.begin(), one.of.end());
        all.failed += one.failed;
    }
    RecordProperty("mean", std::to_string(all.mean()));
    EXPECT_EQ(all.failed, 0u);
    EXPECT_EQ(all.of.size(), size_t{storm.threads} * storm.rounds);
    EXPECT_LE(all.mean(), 4.0);
    EXPECT_LE(all.at(0.999), 5u);
    EXPECT_LE(all.at(1), 8u);
    if (std::getenv("LOCKSTEP_SHOW_ATTEMPTS") != nullptr)
        std::printf("%s: mean %.2f, p50 %u, p99 %u, p99.9 %u, max %u\n", storm.name, all.mean(),
                    all.at(0.5), all.at(0.99), all.at(0.999), all.at(1));
}

INSTANTIATE_TEST_SUITE_P(
    Mixes, RepeatStorm,
    testing::Values(Storm{.name = "Upgrade", .body = upgrade},
                    Storm{.name = "UpgradeOnTwoWorkers", .workers = 2, .body = upgrade},
                    Storm{.name = "UpgradeOfOneRecord", .keys = 1, .body = upgrade},
                    Storm{.name = "AnyOrder", .body = in_any_order},
                    Storm{.name = "AnyOrderOnTwoWorkers", .workers = 2, .body = in_any_order},
                    Storm{.name = "Ranges", .keys = 30, .body = ranges},
                    Storm{.name = "RangesOnTwoWorkers", .keys = 30, .workers = 2, .body = ranges},
                    Storm{.name = "AllKinds", .keys = 8, .workers = 2, .body = any_of_them},
                    Storm{.name = "FewThreads", .threads = 20, .rounds = 100, .body = any_of_them},
                    Storm{.name = "ManyThreads", .threads = 2000, .rounds = 2, .body = any_of_them},
                    Storm{.name = "ByHand", .body = any_of_them, .by_hand = true}),
    [](const auto& one) { return std::string(one.param.name); });

class Repetition : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        store_.emplace(open("a"));
        ASSERT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
            rows_ = TRY(store_->create_index(txn, "rows"));
            TRY(rows_.put(txn, "a", "0"));
            return rows_.put(txn, "b", "0");
        }));
    }
    // Ends a transaction that has changed "b", by a deadlock with `winner`, which has changed "a"
    // and much else. The winner goes on and holds both.
    Retry defeat_by(Txn& winner) {
        Retry retry;
        for (int i = 0; i < 20; ++i)
            EXPECT_TRUE(rows_.put(winner, "other" + std::to_string(i), std::string(100, 'x')));
        EXPECT_TRUE(rows_.put(winner, "a", "1"));
        auto victim = store_->start([&]() -> Result<void> {
            Txn txn = TRY(store_->begin());
            TRY(rows_.put(txn, "b", "1"));
            EXPECT_EQ(code_of(rows_.put(txn, "a", "1")), ErrorCode::deadlock);
            retry = txn.retry();
            return txn.abort();
        });
        while (store_->stats().lock_waits == 0) sleep_for(kMillisecond);
        EXPECT_TRUE(rows_.put(winner, "b", "1"));
        EXPECT_TRUE(victim.join());
        EXPECT_EQ(retry.deadlocks, 1u);
        return retry;
    }
    // Begins a repetition on a thread of its own, and ends it.
    Handle<void> begin_again(const TxnOptions& options, bool& begun) {
        return store_->start([&, options]() -> Result<void> {
            Txn txn = TRY(store_->begin(options));
            begun = true;
            return txn.abort();
        });
    }
    std::optional<Store> store_;
    Index rows_;
};

TEST_F(Repetition, BeginsWhenTheWinnerHasEndedAndSaysWhatItWaitsFor) {
    on_thread(*store_, [&] {
        Txn winner = *store_->begin();
        const Retry retry = defeat_by(winner);
        bool begun = false;
        auto again = begin_again({.retry = retry}, begun);
        sleep_for(20 * kMillisecond);
        EXPECT_FALSE(begun);
        std::string waits_for;
        for (const TransactionInfo& one : store_->transactions())
            if (one.id != winner.id()) waits_for = one.waits_for;
        EXPECT_NE(waits_for.find("its turn to repeat"), std::string::npos) << waits_for;
        EXPECT_NE(waits_for.find("rows"), std::string::npos) << waits_for;
        EXPECT_TRUE(winner.commit());
        EXPECT_TRUE(again.join());
        EXPECT_TRUE(begun);
    });
}

// A packet that waits for its turn leaves the worker to others, and so do 200 of them.
TEST_F(Repetition, WaitsWithoutTheWorker) {
    on_thread(*store_, [&] {
        Txn winner = *store_->begin();
        const Retry retry = defeat_by(winner);
        bool begun[200] = {};
        std::vector<Handle<void>> all;
        for (bool& one : begun) all.push_back(begin_again({.retry = retry}, one));
        EXPECT_TRUE(store_->run([&](Txn& txn) { return rows_.put(txn, "c", "1"); }));
        EXPECT_EQ(std::count(std::begin(begun), std::end(begun), true), 0);
        EXPECT_TRUE(winner.commit());
        for (auto& one : all) EXPECT_TRUE(one.join());
    });
}

TEST_F(Repetition, DoesNotWaitLongForOneThatStays) {
    on_thread(*store_, [&] {
        Txn winner = *store_->begin();
        const Retry retry = defeat_by(winner);
        const Nanos start = now();
        bool begun = false;
        EXPECT_TRUE(begin_again({.lock_timeout = 5 * kMillisecond, .retry = retry}, begun).join());
        EXPECT_TRUE(begin_again({.retry = retry}, begun).join());
        EXPECT_LT(now() - start, 5 * kSecond);
        EXPECT_TRUE(winner.prepare("in doubt"));
        const Nanos prepared = now();
        EXPECT_TRUE(begin_again({.retry = retry}, begun).join());
        EXPECT_LT(now() - prepared, 500 * kMillisecond);
        EXPECT_EQ(code_of(store_->rollback_prepared("in doubt")), ErrorCode::none);
    });
}

TEST_F(Repetition, CanBeEndedWhileItWaits) {
    on_thread(*store_, [&] {
        Txn winner = *store_->begin();
        const Retry retry = defeat_by(winner);
        ErrorCode code{};
        auto again = store_->start([&]() -> Result<void> {
            Txn txn = TRY(store_->begin({.retry = retry}));
            code = code_of(rows_.put(txn, "c", "1"));
            return txn.abort();
        });
        sleep_for(5 * kMillisecond);
        for (const TransactionInfo& one : store_->transactions())
            if (one.id != winner.id()) {
                EXPECT_TRUE(store_->end_transaction(one.id));
            }
        EXPECT_TRUE(again.join());
        EXPECT_EQ(code, ErrorCode::ended_by_operator);
    });
}

// The winner waits for a lock of the thread that wants to repeat an inner transaction.
TEST_F(Repetition, WaitsForNobodyWhoWaitsForItsThread) {
    on_thread(*store_, [&] {
        Txn outer = *store_->begin();
        EXPECT_TRUE(rows_.put(outer, "outer", "1"));
        std::optional<Retry> retry;
        auto other = store_->start([&]() -> Result<void> {
            Txn winner = TRY(store_->begin());
            retry = defeat_by(winner);
            TRY(rows_.put(winner, "outer", "2"));
            TRY(winner.commit());
            return {};
        });
        while (!retry) sleep_for(kMillisecond);
        sleep_for(5 * kMillisecond);
        const Nanos start = now();
        Txn inner = *store_->begin({.retry = *retry});  // ends the cycle
        EXPECT_LT(now() - start, 500 * kMillisecond);
        EXPECT_TRUE(inner.abort());
        EXPECT_TRUE(outer.commit());
        EXPECT_TRUE(other.join());
    });
}

}  // namespace lockstep::repeat_storm_test
