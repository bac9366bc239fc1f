// labels: model
// one_call_test.cc - calls on an index without a transaction: on every kind of thread, beside
// transactions, within one, and on stores that are closed or read-only.
#include <lockstep/store.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

#include "sm/api/engine_of.h"
#include "sm/engine/engine.h"
#include "sm/services/ghost_cleaner.h"
#include "tests/code_of.h"
#include "tests/seed_of_run.h"
#include "tests/sm/store_crash_util.h"
#include "threads/base/rng.h"

namespace lockstep::one_call_test {

constexpr CallOptions kLazy{.durability = Durability::lazy};

class OneCall : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        open_with(small_options(2));
    }
    void TearDown() override {
        if (store_) ASSERT_OK(store_->close());
        store_.reset();
        StoreCrash::TearDown();
    }
    void open_with(const Options& options) {
        if (store_) ASSERT_OK(store_->close());
        store_.reset();
        store_.emplace(open("s", options));
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            index_ = TRY(store_->open_or_create_index(txn, "i"));
            return {};
        }));
    }
    // On a user thread of the store, and on a kernel thread that it has never seen.
    void on_both(const std::function<void()>& fn) {
        on_thread(*store_, fn);
        std::thread(fn).join();
    }
    std::string value_of(Slice key) const {
        std::string value;
        const Result<bool> found = index_.get(key, value);
        EXPECT_TRUE(found.has_value()) << found.error().text();
        return found.value_or(false) ? value : "none";
    }
    // Transactions that have committed or rolled back.
    uint64_t ended() const {
        const StoreStats stats = store_->stats();
        return stats.commits + stats.aborts;
    }

    mutable std::optional<Store> store_;
    Index index_;
};

TEST_F(OneCall, EachCallDoesItsWork) {
    on_both([&] {
        ASSERT_OK(index_.insert("b", "one"));
        EXPECT_EQ(code_of(index_.insert("b", "two")), ErrorCode::duplicate_key);
        EXPECT_EQ(value_of("b"), "one");
        ASSERT_OK(index_.put("b", "two"));
        ASSERT_OK(index_.put("a", "first"));
        EXPECT_EQ(value_of("b"), "two");
        EXPECT_EQ(value_of("c"), "none");

        std::byte room[3];
        const auto bytes = index_.get("a", std::span(room));
        ASSERT_OK(bytes);
        EXPECT_EQ(bytes->value_or(0), 5u);
        EXPECT_EQ(std::memcmp(room, "fir", sizeof room), 0);
        EXPECT_FALSE(index_.get("c", std::span(room))->has_value());

        std::byte rooms[3][8];
        Lookup rows[] = {{.key = "b", .buffer = rooms[0]},
                         {.key = "c", .buffer = rooms[1]},
                         {.key = "a", .buffer = rooms[2]}};
        EXPECT_EQ(index_.get_many(rows).value_or(9), 2u);
        EXPECT_TRUE(rows[0].found && !rows[1].found && rows[2].found);

        EXPECT_TRUE(index_
                        .modify("b", rooms[0],
                                [](std::span<std::byte> value) {
                                    value[0] = std::byte{'T'};
                                    return ByteRange{0, 1};
                                })
                        .value_or(false));
        EXPECT_EQ(value_of("b"), "Two");
        EXPECT_TRUE(index_.erase("b").value_or(false));
        EXPECT_FALSE(index_.erase("b").value_or(true));
        EXPECT_EQ(value_of("b"), "none");
        EXPECT_TRUE(index_.erase("a", kLazy).value_or(false));
    });
}

TEST_F(OneCall, ScansCountAndStop) {
    for (const char* key : {"a1", "a2", "a\xff", "b1", "\xff", "\xff\xff"})
        ASSERT_OK(index_.put(key, key, kLazy));
    on_both([&] {
        std::string seen;
        const auto add = [&](Slice key, Slice value) {
            EXPECT_EQ(key, value);
            seen += std::string(key) + " ";
            return seen.size() < 6;
        };
        EXPECT_EQ(index_.scan("a2", {}, add).value_or(0), 2u);
        EXPECT_EQ(seen, "a2 a\xff ");
        EXPECT_EQ(index_.count().value_or(0), 6u);
        EXPECT_EQ(index_.count("a2", "b1").value_or(0), 2u);
        EXPECT_EQ(index_.scan_prefix("a", [](Slice, Slice) { return true; }).value_or(0), 3u);
        EXPECT_EQ(index_.scan_prefix("\xff", [](Slice, Slice) { return true; }).value_or(0), 2u);
        EXPECT_EQ(index_.scan_prefix("", [](Slice, Slice) { return true; }).value_or(0), 6u);
        EXPECT_EQ(index_.scan_prefix("c", [](Slice, Slice) { return true; }).value_or(9), 0u);
    });
    ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
        Cursor cursor = index_.scan_prefix(txn, "a");
        EXPECT_TRUE(TRY(cursor.prev()));
        EXPECT_EQ(cursor.key(), "a\xff");
        EXPECT_EQ(TRY(index_.count(txn, "a2")), 5u);
        return {};
    }));
}

TEST_F(OneCall, SumsAreKept) {
    int64_t number = 5;
    std::string value(300, 'x');
    std::memcpy(value.data() + 4, &number, sizeof number);
    std::memcpy(value.data() + 290, &number, sizeof number);
    ASSERT_OK(index_.put("n", value));
    on_both([&] {
        EXPECT_EQ(index_.add("n", 4, 10)->value_or(0), number + 10);
        EXPECT_EQ(index_.add("n", 4, -10)->value_or(0), number);
        EXPECT_EQ(index_.add("n", 290, -7)->value_or(0), -2);  // needs a larger buffer
        EXPECT_EQ(index_.add("n", 290, 7)->value_or(0), number);
        EXPECT_FALSE(index_.add("m", 0, 1)->has_value());
        for (const size_t offset : {size_t{293}, size_t{1000}, SIZE_MAX - 3})
            EXPECT_EQ(code_of(index_.add("n", offset, 1)), ErrorCode::bad_argument);
    });
    EXPECT_EQ(value_of("n"), value);
}

// The issue of the call: a record in memory that nobody changes costs no transaction.
TEST_F(OneCall, AReadTakesNoTransaction) {
    ASSERT_OK(index_.put("k", "v"));
    on_both([&] {
        const uint64_t before = ended();
        for (int n = 0; n < 100; ++n) EXPECT_EQ(value_of("k"), "v");
        EXPECT_EQ(value_of("none"), "none");
        EXPECT_EQ(ended(), before);
    });
    // A large value needs one.
    const uint64_t before = ended();
    ASSERT_OK(index_.put("large", std::string(100'000, 'l')));
    EXPECT_EQ(value_of("large"), std::string(100'000, 'l'));
    EXPECT_EQ(ended(), before + 2);
}

// A call within a transaction stays apart from it, and never waits for it.
TEST_F(OneCall, WithinATransactionItIsAnother) {
    ASSERT_OK(index_.put("mine", "old"));
    const auto body = [&](Txn& txn) -> Result<void> {
        TRY(index_.put(txn, "mine", "new"));
        std::string value;
        EXPECT_EQ(code_of(index_.get("mine", value)), ErrorCode::self_deadlock);
        EXPECT_EQ(code_of(index_.put("mine", "other")), ErrorCode::self_deadlock);
        EXPECT_EQ(code_of(index_.erase("mine")), ErrorCode::self_deadlock);
        EXPECT_EQ(index_.count().value_or(0), 1u);  // a snapshot waits for nobody
        EXPECT_TRUE(index_.put("other", "stays"));
        return fail(ErrorCode::rolled_back, "on purpose");
    };
    EXPECT_EQ(code_of(store_->run(body)), ErrorCode::rolled_back);
    EXPECT_EQ(value_of("mine"), "old");
    EXPECT_EQ(value_of("other"), "stays");
}

// A read waits for an open change of its key, and then sees how it ended.
TEST_F(OneCall, AReadWaitsForAnOpenChange) {
    ASSERT_OK(index_.put("k", "old"));
    std::atomic<bool> changed{false}, go{false};
    auto writer = store_->spawn([&](Txn& txn) -> Result<void> {
        TRY(index_.put(txn, "k", "new"));
        changed = true;
        while (!go) sleep_for(kMillisecond);
        return {};
    });
    await([&] { return changed.load(); });
    std::string value;
    EXPECT_EQ(code_of(index_.get("k", value, {.lock_timeout = 5 * kMillisecond})),
              ErrorCode::lock_timeout);
    EXPECT_EQ(value_of("unlocked"), "none");
    std::thread reader([&] { value = value_of("k"); });
    sleep_for(10 * kMillisecond);
    go = true;
    reader.join();
    EXPECT_EQ(value, "new");
    ASSERT_OK(writer.join());
}

// An owner of the whole index has no lock on the key.
TEST_F(OneCall, AReadWaitsForALockOfTheWholeIndex) {
    std::atomic<bool> changed{false}, go{false};
    auto writer = store_->spawn([&](Txn& txn) -> Result<void> {
        bool given = false;
        TRY(store_->bulk_load(txn, index_, [&](Slice& key, Slice& value) {
            key = "k";
            value = "loaded";
            return !std::exchange(given, true);
        }));
        changed = true;
        while (!go) sleep_for(kMillisecond);
        return fail(ErrorCode::rolled_back, "on purpose");
    });
    await([&] { return changed.load(); });
    std::string value;
    EXPECT_EQ(code_of(index_.get("k", value, {.lock_timeout = 5 * kMillisecond})),
              ErrorCode::lock_timeout);
    go = true;
    EXPECT_EQ(code_of(writer.join()), ErrorCode::rolled_back);
    EXPECT_EQ(value_of("k"), "none");
}

TEST_F(OneCall, ADurableReadWaitsForTheCommitThatItHasSeen) {
    Options slow = small_options(1);
    slow.lazy_flush_interval = 3600 * kSecond;  // nothing becomes durable by itself
    open_with(slow);
    ASSERT_OK(index_.put("k", "v"));
    on_both([&] {
        const auto durable = [&] { return sm::engine_of(*store_).log->durable(); };
        std::string value;
        const Lsn before = durable();
        ASSERT_OK(index_.put("k", "w", kLazy));
        const Lsn point = sm::engine_of(*store_).txns->newest_commit();
        ASSERT_GT(point, before);
        ASSERT_OK(index_.get("k", value, kLazy));
        EXPECT_LT(durable(), point);
        ASSERT_OK(index_.get("k", value));
        EXPECT_GE(durable(), point);
        ASSERT_OK(index_.erase("k", kLazy));
        EXPECT_LT(durable(), sm::engine_of(*store_).txns->newest_commit());
        EXPECT_FALSE(index_.get("k", value).value_or(true));
        EXPECT_GE(durable(), sm::engine_of(*store_).txns->newest_commit());
    });
}

// LM-9. Each commit leaves the rows equal to each other. Readers on a worker and on a foreign
// kernel thread get one row twice: a value is a committed one, and none comes back that was gone.
TEST_F(OneCall, ReadsSeeNoOpenChange) {
    constexpr uint64_t kRows = 16;
    const auto key = [](uint64_t row) { return "row " + std::to_string(100 + row); };
    const auto number = [](uint64_t n) { return std::to_string(1'000'000 + n); };
    for (uint64_t row = 0; row < kRows; ++row) ASSERT_OK(index_.put(key(row), number(0), kLazy));
    std::atomic<bool> done{false};
    std::atomic<uint64_t> committed{0}, begun{0}, wrong{0}, reads{0};
    const uint64_t seed = seed_of_run(7);
    auto writer = store_->start([&]() -> Result<void> {
        Rng rng(seed);
        for (uint64_t n = 1; !done; ++n) {
            Txn txn = TRY(store_->begin({.durability = Durability::lazy}));
            for (uint64_t row = 0; row < kRows; ++row)
                TRY(index_.put(txn, key(row), rng.chance(0.5) ? "open" : "open" + number(n)));
            TRY(index_.erase(txn, key(rng.below(kRows))));
            yield();
            if (rng.chance(0.3)) {
                TRY(txn.abort());
                continue;
            }
            for (uint64_t row = 0; row < kRows; ++row) TRY(index_.put(txn, key(row), number(n)));
            begun = n;
            TRY(txn.commit());
            committed = n;
            if (rng.chance(0.1)) (void)sm::engine_of(*store_).ghosts->run_once();
            sleep_for(20 * kMicrosecond);
        }
        return {};
    });
    const auto read = [&](uint64_t seed_of_reader) {
        Rng rng(seed_of_reader);
        std::string value;
        for (uint64_t last = 0; !done; ++reads) {
            const uint64_t least = committed;
            const Result<bool> found = index_.get(key(rng.below(kRows)), value, kLazy);
            const uint64_t most = begun;
            if (!found.value_or(false) || value.size() != 7 || value[0] != '1') {
                ++wrong;
                continue;
            }
            const uint64_t n = std::stoull(value) - 1'000'000;
            wrong += n < least || n > most || n < last;
            last = n;
            if (reads % 16 == 0) yield();
        }
    };
    auto on_worker =
        store_->start([&]() -> Result<void> { return read(seed + 1), Result<void>(); });
    std::thread foreign([&] { read(seed + 2); });
    for (int n = 0; n < 600 && reads < 200'000; ++n) sleep_for(kMillisecond);
    done = true;
    foreign.join();
    ASSERT_OK(on_worker.join());
    ASSERT_OK(writer.join());
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(committed, 0u);
    EXPECT_GT(reads, 0u);
    expect_sound(*store_);
}

// Many threads add: nothing is lost, and each call sees the sum at one moment.
TEST_F(OneCall, ChangesOfManyThreadsAddUp) {
    constexpr int kThreads = 4, kAdds = 50;
    ASSERT_OK(index_.put("n", std::string(8, '\0')));
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&] {
            int64_t last = 0;
            for (int n = 0; n < kAdds; ++n) {
                const auto sum = index_.add("n", 0, 1, kLazy);
                ASSERT_OK(sum);
                EXPECT_GT(sum->value_or(0), last);
                last = sum->value_or(0);
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(index_.add("n", 0, 0)->value_or(0), kThreads * kAdds);
}

TEST_F(OneCall, WhatIsRefusedSaysWhy) {
    std::string value;
    const std::string long_key(kKeyBytesMax + 1, 'k');
    on_both([&] {
        std::string text;
        EXPECT_EQ(code_of(Index().get("k", text)), ErrorCode::no_such_object);
        EXPECT_EQ(code_of(Index().put("k", "v")), ErrorCode::no_such_object);
        EXPECT_EQ(code_of(Index().count()), ErrorCode::no_such_object);
        EXPECT_EQ(code_of(index_.get(long_key, text)), ErrorCode::key_too_long);
        EXPECT_EQ(code_of(index_.put(long_key, "v")), ErrorCode::key_too_long);
        EXPECT_EQ(code_of(index_.scan_prefix(long_key, [](Slice, Slice) { return true; })),
                  ErrorCode::key_too_long);
        const CallOptions bad{.durability = static_cast<Durability>(7)};
        EXPECT_EQ(code_of(index_.get("k", text, bad)), ErrorCode::bad_option);
        EXPECT_EQ(code_of(index_.put("k", "v", bad)), ErrorCode::bad_option);
    });
    ASSERT_OK(index_.put("k", "v"));
    ASSERT_OK(store_->run([&](Txn& txn) { return store_->drop(txn, "i"); }));
    EXPECT_EQ(code_of(index_.get("k", value)), ErrorCode::no_such_object);
    EXPECT_EQ(code_of(index_.put("k", "v")), ErrorCode::no_such_object);
    ASSERT_OK(store_->close());
    EXPECT_EQ(code_of(index_.get("k", value)), ErrorCode::store_closed);
    EXPECT_EQ(code_of(index_.put("k", "v")), ErrorCode::store_closed);
    EXPECT_EQ(code_of(index_.count()), ErrorCode::store_closed);
}

TEST_F(OneCall, AReadOnlyStoreIsRead) {
    ASSERT_OK(index_.put("k", "v"));
    ASSERT_OK(store_->close());
    store_.reset();
    Options options = small_options(1);
    options.read_only = true;
    store_.emplace(open("s", options));
    index_ = *store_->index("i");
    on_both([&] {
        EXPECT_EQ(value_of("k"), "v");
        EXPECT_EQ(index_.count().value_or(0), 1u);
        EXPECT_EQ(code_of(index_.put("k", "w")), ErrorCode::read_only);
        EXPECT_EQ(code_of(index_.erase("k")), ErrorCode::read_only);
    });
}

}  // namespace lockstep::one_call_test
