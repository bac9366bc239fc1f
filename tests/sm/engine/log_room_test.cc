// labels: unit sim
// log_room_test.cc - a log that fills up: a forgotten writer is ended, loaders never meet log_full,
// and the error of a transaction that is too large names both numbers.
#include <algorithm>
#include <string>
#include <vector>

#include "sm/engine/log_room.h"
#include "sm/observe/txn_watch.h"
#include "tests/seed_of_run.h"
#include "tests/sm/api/index_on_sim_store.h"

namespace lockstep::log_room_test {

class LogRoom : public IndexOnSimStore {
protected:
    LogRoom() : IndexOnSimStore(seed_of_run()) {
        store.options().log_bytes = 16 << 20;
        store.options().pool_bytes = 32 << 20;
    }
    static std::string row(uint64_t n) {
        return std::string(1000, static_cast<char>('a' + n % 26));
    }
    // Writes `count` records in one transaction; keys from `from`.
    Result<void> load(Txn& txn, uint64_t from, uint64_t count) {
        for (uint64_t n = from; n < from + count; ++n) TRY(index.put(txn, Key().u64(n), row(n)));
        return {};
    }
};

// The forgotten transaction wrote one record. Others go on: none waits for as long as a second,
// none gets an error.
TEST_F(LogRoom, AForgottenWriterIsEndedAndNobodyElseSuffers) {
    open();
    bool stop = false;
    Error ended;
    auto forgotten = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            TRY(index.put(txn, "forgotten", "x"));
            while (!stop) sleep_for(kSecond);
            auto again = index.put(txn, "forgotten", "y");
            EXPECT_FALSE(again);
            if (!again) ended = again.error();
            return {};
        },
        1);
    Nanos longest = 0, slow = 0;
    bool ok = store.drive(
        [&] {
            for (uint64_t t = 0; t < 20'000; ++t) {
                const Nanos before = now();
                auto txn = store->begin({.durability = Durability::lazy});
                ASSERT_OK(txn);
                longest = std::max(longest, now() - before);
                if (now() - before > 100 * kMillisecond) ++slow;
                ASSERT_OK(index.put(*txn, Key().u64(t % 500), row(t)));
                ASSERT_OK(txn->commit());
            }
        },
        kMicrosecond);
    ASSERT_TRUE(ok);
    EXPECT_GT(store->stats().log_bytes, 2 * store.options().log_bytes);
    EXPECT_LT(longest, kSecond);
    EXPECT_LE(slow, 1u);
    stop = true;
    store.on_thread([&] { EXPECT_TRUE(forgotten.join()); });
    EXPECT_EQ(ended.code, ErrorCode::log_full) << ended.text();
    EXPECT_NE(ended.text().find("raise option log_bytes"), std::string::npos) << ended.text();
    EXPECT_NE(log.find("bytes of the log, of log_bytes 16777216"), std::string::npos) << log;
    EXPECT_NE(log.find("it pins the log, and others wait"), std::string::npos) << log;
    store.on_thread([&] {
        auto read = store->run([&](Txn& txn) -> Result<void> {
            std::string text;
            EXPECT_FALSE(TRY(index.get(txn, "forgotten", text)));
            return {};
        });
        EXPECT_TRUE(read);
    });
}

// Sixteen loaders, each transaction below log_bytes / 8 but all together far above the log. They
// begin and commit themselves, so nothing repeats a log_full.
TEST_F(LogRoom, LoadersBelowTheSafeSizeNeverMeetLogFull) {
    open();
    constexpr uint64_t kLoaders = 16, kTransactions = 10, kRecords = 250;
    std::vector<Handle<void>> handles;
    uint64_t most = 0;
    for (uint64_t n = 0; n < kLoaders; ++n)
        handles.push_back(store->start([&, n]() -> Result<void> {
            for (uint64_t t = 0; t < kTransactions; ++t) {
                Txn txn = TRY(store->begin({.durability = Durability::lazy}));
                for (uint64_t r = 0; r < kRecords; r += 5) {
                    TRY(load(txn, (n * kTransactions + t) * kRecords + r, 5));
                    yield();
                }
                for (const TransactionInfo& info : store->transactions())
                    if (info.id == txn.id())
                        most = std::max(most, info.log_bytes + info.undo_bytes);
                TRY(txn.commit());
            }
            return {};
        }));
    for (auto& handle : handles) {
        Result<void> done;
        store.on_thread([&] { done = handle.join(); });
        EXPECT_TRUE(done) << done.error().text();
    }
    EXPECT_LE(most, store.engine().log->safe_bytes());
    EXPECT_GT(most * kLoaders, store.engine().log->promises_max())
        << "no need to wait for anything";
    EXPECT_EQ(log.find("is ended"), std::string::npos) << log;
}

TEST_F(LogRoom, ATransactionThatIsTooLargeLearnsBothNumbers) {
    open();
    Error full;
    store.on_thread([&] {
        auto txn = store->begin();
        ASSERT_OK(txn);
        auto done = load(*txn, 0, 100'000);
        ASSERT_FALSE(done);
        full = done.error();
        ASSERT_OK(txn->abort());
    });
    EXPECT_EQ(full.code, ErrorCode::log_full);
    EXPECT_EQ(full.b, store.engine().log->promises_max());
    EXPECT_EQ(full.b, (16u << 20) - (1u << 20) - 2 * (256u << 10));
    EXPECT_EQ(full.c, 2u << 20);
    EXPECT_GT(full.a, full.b / 10 * 8);  // page splits are not part of it
    EXPECT_NE(full.text().find("raise option log_bytes (16777216)"), std::string::npos)
        << full.text();
    EXPECT_FALSE(sm::caused_by_others(full));
    // run() does not repeat it.
    int times = 0;
    auto again = store->run([&](Txn& txn) {
        ++times;
        return load(txn, 0, 100'000);
    });
    EXPECT_FALSE(again);
    EXPECT_EQ(times, 1);
    // One that needs a little less is taken.
    ASSERT_OK(store->checkpoint());
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        for (uint64_t n = 0, needs = 0; needs < full.a / 20 * 19; n += 50) {
            TRY(load(txn, n, 50));
            for (const TransactionInfo& info : store->transactions())
                if (info.id == txn.id()) needs = info.log_bytes + info.undo_bytes;
        }
        return {};
    }));
}

TEST_F(LogRoom, RunRepeatsALogFullThatOthersCaused) {
    open();
    int times = 0;
    auto done = store->run([&](Txn& txn) -> Result<void> {
        TRY(load(txn, 0, 10));
        if (++times == 1) {
            const uint64_t most = store.engine().log->promises_max();
            return fail(ErrorCode::log_full, "log_bytes", 1 << 20, most,
                        store.engine().log->safe_bytes());
        }
        return {};
    });
    EXPECT_TRUE(done) << done.error().text();
    EXPECT_EQ(times, 2);
}

// The oldest writer pins the log, but it works on: a record every 100 ms, others wait meanwhile.
TEST_F(LogRoom, ASlowWriterIsNotEnded) {
    open();
    constexpr uint64_t kRecords = 30;
    bool done = false;
    auto slow = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            for (uint64_t n = 0; n < kRecords; ++n) {
                TRY(load(txn, 1'000'000 + n, 1));
                sleep_for(100 * kMillisecond);
            }
            done = true;
            TRY(txn.commit());
            return {};
        },
        1);
    uint64_t others = 0;
    ASSERT_TRUE(store.drive(
        [&] {
            for (; !done; ++others) {
                auto txn = store->begin({.durability = Durability::lazy});
                ASSERT_OK(txn);
                ASSERT_OK(index.put(*txn, Key().u64(others % 500), row(others)));
                ASSERT_OK(txn->commit());
            }
        },
        kMicrosecond));
    Result<void> joined;
    store.on_thread([&] { joined = slow.join(); });
    EXPECT_TRUE(joined) << joined.error().text();
    EXPECT_GT(others, 1'000u);
    EXPECT_LT(others, 20'000u) << "the others did not have to wait";
    EXPECT_NE(log.find("bytes of the log, of log_bytes"), std::string::npos) << log;
    EXPECT_EQ(log.find("is ended"), std::string::npos) << log;
}

// One that works on for ever is ended nevertheless.
TEST_F(LogRoom, AnEndlessWriterIsEnded) {
    open();
    bool ended = false;
    Error why;
    auto endless = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            for (uint64_t n = 0; !ended; ++n) {
                const auto put = index.put(txn, "endless", std::to_string(n));
                if (!put) why = put.error();
                ended = !put;
                sleep_for(100 * kMillisecond);
            }
            return {};
        },
        1);
    Nanos longest = 0;
    ASSERT_TRUE(store.drive(
        [&] {
            for (uint64_t n = 0; !ended || n < 20'000; ++n) {
                const Nanos before = now();
                auto txn = store->begin({.durability = Durability::lazy});
                ASSERT_OK(txn);
                longest = std::max(longest, now() - before);
                ASSERT_OK(index.put(*txn, Key().u64(n % 500), row(n)));
                ASSERT_OK(txn->commit());
            }
        },
        kMicrosecond));
    store.on_thread([&] { EXPECT_TRUE(endless.join()); });
    EXPECT_EQ(why.code, ErrorCode::log_full) << why.text();
    EXPECT_GT(longest, 4 * kSecond);
    EXPECT_LT(longest, 7 * kSecond);
}

// The oldest writer waits for a lock. Its holder goes on, and no other writer does.
TEST_F(LogRoom, TheHolderOfALockGoesOn) {
    open();
    bool old_wrote = false, holder_wrote = false, filled = false;
    uint64_t bystander = 0, bystander_before = 0, bystander_after = 0;
    auto old = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            TRY(index.put(txn, "old", "x"));
            old_wrote = true;
            while (!filled) {
                TRY(index.put(txn, "old", "y"));
                sleep_for(10 * kMillisecond);
            }
            bystander_before = bystander;
            TRY(index.put(txn, "wanted", "by the oldest"));
            bystander_after = bystander;
            TRY(txn.commit());
            return {};
        },
        1);
    ASSERT_TRUE(store.step_until([&] { return old_wrote; }));
    auto other = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            while (!filled) {
                TRY(load(txn, 2'000'000 + bystander++, 1));
                filled = store.engine().log->scarce();
                sleep_for(kMillisecond);
            }
            for (int n = 0; n < 50; ++n, ++bystander) TRY(load(txn, 2'000'000 + bystander, 1));
            TRY(txn.commit());
            return {};
        },
        0);
    auto holder = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            TRY(index.put(txn, "wanted", "by two"));
            holder_wrote = true;
            while (!filled) sleep_for(kMillisecond);
            sleep_for(20 * kMillisecond);  // until the oldest asks
            for (uint64_t n = 0; n < 20; ++n) {
                TRY(load(txn, 3'000'000 + n, 1));
                sleep_for(5 * kMillisecond);
            }
            TRY(txn.commit());
            return {};
        },
        0);
    for (auto* handle : {&holder, &old, &other}) {
        Result<void> done;
        store.on_thread([&] { done = handle->join(); });
        EXPECT_TRUE(done) << done.error().text();
    }
    EXPECT_TRUE(holder_wrote);
    EXPECT_GT(bystander, bystander_before + 20);
    EXPECT_LE(bystander_after, bystander_before + 2);
    EXPECT_EQ(log.find("is ended"), std::string::npos) << log;
}

// The oldest writer waits for three readers, each of them for the same three of the next layer, and
// so on: a transaction that many wait for is one among those that must go on.
TEST_F(LogRoom, WhoIsWaitedForThroughOthersIsFound) {
    open();
    constexpr size_t kLayers = 4, kEach = 3;
    const auto key = [](size_t layer) { return "layer" + std::to_string(layer); };
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        for (size_t layer = 0; layer < kLayers; ++layer) TRY(index.put(txn, key(layer), "v"));
        return {};
    }));
    bool wrote = false, stop = false;
    std::vector<TxnId> ids;
    std::vector<Handle<void>> handles;
    handles.push_back(store->start([&]() -> Result<void> {
        Txn txn = TRY(store->begin());
        TRY(index.put(txn, "old", "x"));
        wrote = true;
        while (ids.size() < kLayers * kEach) sleep_for(kMillisecond);
        TRY(index.put(txn, key(0), "by the oldest"));
        TRY(txn.commit());
        return {};
    }));
    ASSERT_TRUE(store.step_until([&] { return wrote; }));
    for (size_t n = 0; n < kLayers * kEach; ++n)
        handles.push_back(store->start([&, layer = n / kEach]() -> Result<void> {
            Txn txn = TRY(store->begin());
            std::string text;
            EXPECT_TRUE(TRY(index.get(txn, key(layer), text)));
            ids.push_back(txn.id());
            while (ids.size() < kLayers * kEach) sleep_for(kMillisecond);
            if (layer + 1 < kLayers) TRY(index.put(txn, key(layer + 1), "w"));
            while (!stop) sleep_for(kMillisecond);
            TRY(txn.commit());
            return {};
        }));
    constexpr uint64_t kWaits = 1 + (kLayers - 1) * kEach;
    ASSERT_TRUE(store.step_until([&] { return store.engine().locks->stats().waits >= kWaits; }));
    store.clock().advance(kSecond);
    sm::TxnWatch& watch = *store.engine().watch;
    store.on_thread([&] { EXPECT_TRUE(watch.oldest().waits); });
    for (const TxnId id : ids) EXPECT_TRUE(watch.blocks_oldest(id)) << id.value;
    stop = true;
    for (auto& handle : handles) {
        Result<void> done;
        store.on_thread([&] { done = handle.join(); });
        EXPECT_TRUE(done) << done.error().text();
    }
}

// The delay of begin() grows with the log, from half of it on.
TEST_F(LogRoom, BackPressureIsFeltEarlyAndEvenly) {
    store.options().checkpoint_log_bytes = 8 << 20;
    open();
    bool loaded = false;
    Nanos delays[3] = {};
    auto pinner = store->start(
        [&]() -> Result<void> {
            Txn txn = TRY(store->begin());
            const uint64_t scarce = store.engine().log->promises_max() / 4 * 3;
            const uint64_t half = store.options().log_bytes / 2;
            for (uint64_t n = 0, stage = 0; stage < 3; ++n) {
                TRY(load(txn, n, 1));
                const uint64_t taken = store.engine().log->taken_bytes();
                const uint64_t want = half + (scarce - half) * stage / 3;
                if (taken < want + 200'000) continue;
                EXPECT_FALSE(store.engine().log->scarce());
                const Nanos before = now();
                Txn other = TRY(store->begin());
                delays[stage++] = now() - before;
            }
            loaded = true;
            return txn.abort();
        },
        1);
    ASSERT_TRUE(store.step_until([&] { return loaded; }));
    store.on_thread([&] { EXPECT_TRUE(pinner.join()); });
    EXPECT_GT(delays[0], 0u);
    EXPECT_LT(delays[0], 3 * kMillisecond);
    EXPECT_GT(delays[1], delays[0]);
    EXPECT_GT(delays[2], delays[1]);
    EXPECT_LT(delays[2], 12 * kMillisecond);
}

}  // namespace lockstep::log_room_test
