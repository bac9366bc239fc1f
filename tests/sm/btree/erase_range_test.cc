// labels: model
// erase_range_test.cc - erasing ranges: what is gone, what others see meanwhile, and what the log,
// rollbacks, secondary indexes and snapshots make of it.
#include <set>

#include <lockstep/secondary.h>
#include "sm/api/engine_of.h"
#include "sm/api/operation.h"
#include "sm/btree/btree.h"
#include "sm/catalog/catalog.h"
#include "sm/services/ghost_cleaner.h"
#include "tests/code_of.h"
#include "tests/seed_of_run.h"
#include "tests/sm/store_crash_util.h"
#include "threads/base/rng.h"

namespace lockstep::erase_range_test {

using Content = std::map<std::string, std::string>;

std::string key_of(uint64_t n) { return "key " + std::to_string(10'000 + n); }

Content part_of(const Content& all, const std::string& low, const std::string& high) {
    return {all.lower_bound(low), high.empty() ? all.end() : all.lower_bound(high)};
}
Content without(Content all, const Content& part) {
    for (const auto& [key, value] : part) all.erase(key);
    return all;
}

class EraseRange : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        store_.emplace(open("a"));
        make(*store_, "i", "h");
        index_ = *store_->index("i");
    }
    void TearDown() override {
        if (store_) {
            expect_sound(*store_);
            ASSERT_OK(store_->close());
        }
        StoreCrash::TearDown();
    }
    Content scan(Txn& txn) {
        Content seen;
        Cursor cursor = index_.scan(txn);
        for (auto more = cursor.next(); more.has_value() && *more; more = cursor.next())
            seen.emplace(cursor.key(), cursor.value());
        return seen;
    }
    Content content() {
        Content seen;
        EXPECT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
            seen = scan(txn);
            return {};
        }));
        return seen;
    }
    // `bytes`: of each value; every `large`th, unless that is 0, is too long for its leaf.
    Content fill(uint64_t n, size_t bytes, uint64_t large = 0) {
        Content all;
        for (uint64_t i = 0; i < n; ++i)
            all[key_of(i)] = std::string(large != 0 && i % large == 0 ? 5000 : bytes, 'v');
        EXPECT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
            for (const auto& [key, value] : all) TRY(index_.put(txn, key, value));
            return {};
        }));
        return all;
    }
    void clean() {
        on_thread(*store_, [&] { ASSERT_OK(sm::engine_of(*store_).ghosts->run_once()); });
    }
    // Log records of a kind that the transaction has written.
    std::vector<Lsn> records_of(Txn& txn, sm::LogKind kind) {
        std::vector<Lsn> found;
        std::string buffer;
        for (Lsn at = sm::TxnAccess::usable(txn)->last_lsn; at != kLsnNone;) {
            const auto record = sm::engine_of(*store_).log->read(at, buffer);
            EXPECT_TRUE(record);
            if (record->header->kind == static_cast<uint16_t>(kind)) found.push_back(at);
            at = Lsn{record->header->prev};
        }
        return found;
    }
    uint64_t leaves() {
        uint64_t pages = 0;
        on_thread(*store_, [&] {
            const auto report = sm::engine_of(*store_).catalog->index_by_id(index_.id())->verify();
            ASSERT_OK(report);
            pages = report->pages_leaf;
        });
        return pages;
    }

    std::optional<Store> store_;
    Index index_;
};

TEST_F(EraseRange, TakesWhatTheBoundsSay) {
    const Content all = fill(300, 100);
    const std::string cases[][2] = {{key_of(10), key_of(10)},   {key_of(10), key_of(11)},
                                    {key_of(20), key_of(5)},    {key_of(290), "zzz"},
                                    {key_of(100), key_of(250)}, {"", key_of(3)},
                                    {key_of(280), ""},          {"", ""}};
    Content left = all;
    for (const auto& [low, high] : cases) {
        SCOPED_TRACE(low + " to " + high);
        const Content part = !high.empty() && high < low ? Content{} : part_of(left, low, high);
        const auto erased = index_.erase_range(low, high);
        ASSERT_OK(erased);
        EXPECT_EQ(*erased, part.size());
        left = without(left, part);
        EXPECT_EQ(content(), left);
        EXPECT_EQ(*index_.erase_range(low, high), 0u);  // they are ghosts
    }
    EXPECT_TRUE(left.empty());
}

TEST_F(EraseRange, RefusesBeforeItErases) {
    const Content all = fill(3, 10);
    const std::string longer(kKeyBytesMax + 1, 'k');
    EXPECT_EQ(code_of(index_.erase_range("", longer)), ErrorCode::key_too_long);
    EXPECT_EQ(code_of(index_.erase_range(longer, "")), ErrorCode::key_too_long);
    EXPECT_EQ(code_of(Index().erase_range("", "")), ErrorCode::no_such_object);
    EXPECT_EQ(code_of(store_->run(
                  [&](Txn& txn) -> Result<void> {
                      TRY(index_.erase_range(txn, "", ""));
                      return {};
                  },
                  {.read_only = true})),
              ErrorCode::read_only);
    EXPECT_EQ(content(), all);
}

// Its records lie in about as many log records as there are leaves, and without the values.
TEST_F(EraseRange, LogsALeafAtATime) {
    constexpr uint64_t kRows = 2000;
    fill(kRows, 300);
    const uint64_t leaves_before = leaves();
    ASSERT_GT(leaves_before, 50u);
    on_thread(*store_, [&] {
        auto txn = store_->begin();
        ASSERT_OK(txn);
        const Lsn begin = sm::engine_of(*store_).log->tail();
        ASSERT_EQ(*index_.erase_range(*txn, "", ""), kRows);
        EXPECT_EQ(records_of(*txn, sm::LogKind::btree_erase_many).size(), leaves_before);
        EXPECT_TRUE(records_of(*txn, sm::LogKind::btree_erase).empty());
        EXPECT_LT(sm::engine_of(*store_).log->tail().value - begin.value, kRows * 40);
        ASSERT_OK(txn->commit());
    });
    for (int rounds = 0; rounds < 20; ++rounds) clean();
    EXPECT_LT(leaves(), leaves_before / 4);
}

TEST_F(EraseRange, RollbackAndSavepointsGiveAllBack) {
    const Content all = fill(500, 120, 40);
    on_thread(*store_, [&] {
        auto txn = store_->begin();
        ASSERT_OK(txn);
        ASSERT_EQ(*index_.erase_range(*txn, key_of(100), key_of(200)), 100u);
        const Content first = scan(*txn);
        EXPECT_EQ(first, without(all, part_of(all, key_of(100), key_of(200))));
        const auto savepoint = txn->savepoint();
        ASSERT_OK(savepoint);
        ASSERT_EQ(*index_.erase_range(*txn, "", key_of(300)), 200u);
        ASSERT_OK(index_.insert(*txn, key_of(150), "again"));
        ASSERT_OK(txn->rollback_to(*savepoint));
        EXPECT_EQ(scan(*txn), first);
        ASSERT_OK(txn->abort());
    });
    EXPECT_EQ(content(), all);
}

// The leaves of a range may be split before the range comes back: into more than one compensation.
TEST_F(EraseRange, RollbackFindsKeysThatSplitsHaveMoved) {
    Content all = fill(200, 100);
    on_thread(*store_, [&] {
        auto txn = store_->begin({.isolation = Isolation::read_committed});
        ASSERT_OK(txn);
        ASSERT_EQ(*index_.erase_range(*txn, "", ""), 200u);
        // A range without bounds has locked the whole index.
        ASSERT_OK(txn->abort());
        auto again = store_->begin({.isolation = Isolation::read_committed});
        ASSERT_OK(again);
        ASSERT_EQ(*index_.erase_range(*again, key_of(0), key_of(199)), 199u);
        auto records = records_of(*again, sm::LogKind::btree_erase_many);
        const auto inserts = [&](Txn& other) -> Result<void> {
            for (uint64_t n = 0; n < 199; ++n) {
                all[key_of(n) + "b"] = std::string(700, 'b');
                TRY(index_.insert(other, key_of(n) + "b", all[key_of(n) + "b"]));
            }
            return {};
        };
        ASSERT_OK(store_->start([&] { return store_->run(inserts); }, 0).join());
        ASSERT_OK(again->abort());
        EXPECT_FALSE(records.empty());
    });
    EXPECT_EQ(content(), all);
}

// At serializable nothing comes into the range; below, only the records are locked.
TEST_F(EraseRange, ProtectsTheRangeAtSerializable) {
    fill(300, 100);
    on_thread(*store_, [&] {
        for (const Isolation level : {Isolation::serializable, Isolation::repeatable_read}) {
            auto txn = store_->begin({.isolation = level});
            ASSERT_OK(txn);
            ASSERT_GT(*index_.erase_range(*txn, key_of(50), key_of(250)), 0u);
            const bool protects = level == Isolation::serializable;
            for (const uint64_t n : {50u, 51u, 100u, 180u, 248u}) {
                const auto inserted =
                    store_
                        ->start(
                            [&]() -> Result<void> {
                                return store_->run(
                                    [&](Txn& other) {
                                        return index_.insert(other, key_of(n) + "+", "phantom");
                                    },
                                    {.lock_timeout = kMillisecond});
                            },
                            0)
                        .join();
                EXPECT_EQ(code_of(inserted), protects ? ErrorCode::lock_timeout : ErrorCode::none)
                    << n;
            }
            ASSERT_OK(txn->abort());
        }
    });
}

// A record that another transaction has locked is waited for, and erased if it is there then.
TEST_F(EraseRange, WaitsForWhatOthersHaveOpen) {
    const Content all = fill(300, 100);
    on_thread(*store_, [&] {
        auto one = store_->begin();
        ASSERT_OK(one);
        ASSERT_OK(index_.insert(*one, key_of(40) + "a", "open"));
        ASSERT_TRUE(*index_.erase(*one, key_of(200)));
        size_t erased = 0;
        bool ended = false;
        auto two = store_->start(
            [&]() -> Result<void> {
                erased = TRY(index_.erase_range(key_of(10), key_of(290)));
                ended = true;
                return {};
            },
            0);
        for (int turns = 0; turns < 20; ++turns) threads::yield();
        EXPECT_FALSE(ended);
        ASSERT_OK(one->commit());
        ASSERT_OK(two.join());
        EXPECT_EQ(erased, 280u);
    });
    EXPECT_EQ(content(), without(all, part_of(all, key_of(10), key_of(290))));
}

TEST_F(EraseRange, SnapshotsSeeWhatWasThere) {
    const Content all = fill(400, 100, 50);
    on_thread(*store_, [&] {
        auto before = store_->begin({.isolation = Isolation::snapshot});
        ASSERT_OK(before);
        ASSERT_OK(index_.erase_range(key_of(100), key_of(300)));
        EXPECT_EQ(scan(*before), all);
        clean();
        EXPECT_EQ(scan(*before), all);
        // One that begins beside an open erase, and one beside its rollback.
        auto txn = store_->begin();
        ASSERT_OK(txn);
        ASSERT_OK(index_.erase_range(*txn, key_of(0), key_of(50)));
        auto beside = store_->begin({.isolation = Isolation::snapshot});
        ASSERT_OK(beside);
        const Content seen = without(all, part_of(all, key_of(100), key_of(300)));
        EXPECT_EQ(scan(*beside), seen);
        ASSERT_OK(txn->abort());
        EXPECT_EQ(scan(*beside), seen);
        EXPECT_EQ(scan(*before), all);
        ASSERT_OK(beside->commit());
        ASSERT_OK(before->commit());
    });
}

TEST_F(EraseRange, SecondaryIndexesFollow) {
    const Content all = fill(300, 60);
    const auto last_digit = [](Slice key, Slice, SecondaryKeys& keys) {
        keys.add(key.substr(key.size() - 1));
    };
    const auto by = store_->run([&](Txn& txn) {
        return store_->create_index(txn, "by end", {.of = index_, .key = last_digit});
    });
    ASSERT_OK(by);
    ASSERT_EQ(*index_.erase_range(key_of(20), key_of(220)), 200u);
    const auto entries = store_->run([&](Txn& txn) -> Result<size_t> {
        size_t n = 0;
        SecondaryCursor cursor = scan_by(txn, *by, {}, {});
        while (TRY(cursor.next())) {
            EXPECT_TRUE(all.contains(std::string(cursor.key())));
            ++n;
        }
        return n;
    });
    ASSERT_OK(entries);
    EXPECT_EQ(*entries, 100u);
    const auto refused = store_->run([&](Txn& txn) -> Result<void> {
        TRY(index_.erase_range(txn, "", ""));
        return Error::user(1, "back");
    });
    EXPECT_EQ(code_of(refused), ErrorCode::user_error);
    EXPECT_EQ(content(), without(all, part_of(all, key_of(20), key_of(220))));
}

// Random ranges beside other changes, against a map; the store is opened again now and then.
TEST_F(EraseRange, RandomTransactions) {
    const uint64_t seed = seed_of_run();
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    Rng rng(seed);
    Content all = fill(600, 80, 30);
    for (int round = 0; round < 60 && !HasFailure(); ++round) {
        const auto level = static_cast<Isolation>(rng.below(3));
        Content now = all;
        const bool commits = rng.chance(0.6);
        const auto done = store_->run(
            [&](Txn& txn) -> Result<void> {
                now = all;
                for (uint64_t n = rng.below(6) + 1; n > 0; --n) {
                    const uint64_t at = rng.below(620);
                    if (rng.chance(0.5)) {
                        for (uint64_t i = 0; i < 30; ++i) {
                            const std::string key =
                                key_of(at + rng.below(60)) + (rng.chance(0.3) ? "x" : "");
                            now[key] = std::string(rng.chance(0.05) ? 4000 : rng.below(200), 'n');
                            TRY(index_.put(txn, key, now[key]));
                        }
                        continue;
                    }
                    const std::string low = rng.chance(0.05) ? "" : key_of(at),
                                      high = rng.chance(0.05) ? "" : key_of(at + rng.below(200));
                    const Content part =
                        part_of(now, low, high.empty() || high >= low ? high : low);
                    const size_t erased = TRY(index_.erase_range(txn, low, high));
                    EXPECT_EQ(erased, part.size());
                    now = without(now, part);
                }
                EXPECT_EQ(scan(txn), now);
                if (!commits) return Error::user(7, "rolled back");
                return {};
            },
            {.isolation = level});
        if (commits) {
            ASSERT_OK(done);
            all = now;
        } else {
            ASSERT_FALSE(done);
            EXPECT_EQ(done.error().code, ErrorCode::user_error);
            EXPECT_EQ(done.error().a, 7u);
        }
        EXPECT_EQ(content(), all);
        if (rng.chance(0.2)) clean();
        if (!rng.chance(0.1)) continue;
        const std::string image = "image" + std::to_string(round);
        on_thread(*store_, [&] {
            ASSERT_OK(store_->wait_durable(sm::engine_of(*store_).log->tail()));
            copy("a", image);
        });
        Store other = open(image);
        EXPECT_EQ(index_content(other, "i"), all);
        expect_sound(other);
        ASSERT_OK(other.close());
    }
}

TEST_F(EraseRange, ApproximateSizes) {
    EXPECT_EQ(index_.approximate_size()->records, 0u);
    fill(40, 20);
    EXPECT_EQ(index_.approximate_size()->records, 40u);  // one leaf
    EXPECT_EQ(index_.approximate_size(key_of(5), key_of(9))->records, 4u);
    fill(20'000, 100);
    const uint64_t pages = leaves();
    const auto near = [](uint64_t is, uint64_t wanted) {
        return is * 10 >= wanted * 9 && is * 10 <= wanted * 11;
    };
    const struct {
        std::string low, high;
        uint64_t records;
    } cases[] = {{"", "", 20'000},
                 {key_of(5000), "", 15'000},
                 {"", key_of(5000), 5000},
                 {key_of(7000), key_of(9000), 2000},
                 {key_of(7000), key_of(7300), 300}};
    for (const auto& c : cases) {
        SCOPED_TRACE(c.low + " to " + c.high);
        const auto size = index_.approximate_size(c.low, c.high);
        ASSERT_OK(size);
        EXPECT_TRUE(near(size->records, c.records)) << size->records;
        EXPECT_TRUE(near(size->bytes, pages * kPageBytes * c.records / 20'000)) << size->bytes;
    }
    EXPECT_EQ(index_.approximate_size(key_of(9), key_of(5))->records, 0u);
    EXPECT_EQ(code_of(index_.approximate_size(std::string(kKeyBytesMax + 1, 'k'))),
              ErrorCode::key_too_long);
    // None of it is in memory: it reads one leaf, and the nodes above. One leaf tells less.
    ASSERT_OK(store_->close());
    store_.reset();
    store_.emplace(open("a"));
    index_ = *store_->index("i");
    const uint64_t reads = store_->stats().page_reads;
    const uint64_t records = index_.approximate_size()->records;
    EXPECT_GT(records, 20'000u / 3) << records;
    EXPECT_LT(records, 20'000u * 3) << records;
    EXPECT_LT(store_->stats().page_reads - reads, 10u);
}

}  // namespace lockstep::erase_range_test
