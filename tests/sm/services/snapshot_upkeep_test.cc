// labels: unit
// snapshot_upkeep_test.cc - snapshot transactions: what they keep alive, what they cost others, and
// when they become too old.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sm/catalog/catalog.h"
#include "tests/sm/services/snapshot_test_util.h"

namespace lockstep::snapshot_upkeep_test {

std::string numbered(int n) { return "key" + std::to_string(10'000 + n); }

// EK-1: ghosts go although a snapshot sees the records, and its scans still find them in order.
TEST_F(SnapshotTest, ErasedRecordsLeaveTheirLeaves) {
    constexpr int kRows = 2'000;
    static_assert(kRows > 10 * sm::ErasedKeys::kFoundMax);
    on_thread(*store_, [&] {
        Content all;
        for (int i = 0; i < kRows; ++i) all[numbered(i)] = "v" + std::to_string(i);
        for (const auto& [key, value] : all) put(key, value);
        Txn first = begin(kSnapshot);
        Content odd = all;
        for (int i = 0; i < kRows; i += 2) {
            erase(numbered(i));
            odd.erase(numbered(i));
        }
        Txn second = begin(kSnapshot);
        for (int i = 1; i < kRows; i += 2) erase(numbered(i));
        for (int round = 0; round < 5; ++round) clean();
        auto* const tree = sm::engine_of(*store_).catalog->index_by_id(index().id());
        EXPECT_GT(tree->stats().ghosts_removed, kRows - 20u);
        EXPECT_TRUE(versions().erased().any());
        EXPECT_EQ(scan(first), all);
        EXPECT_EQ(scan(second), odd);
        EXPECT_EQ(get(first, numbered(8)), "v8");
        EXPECT_EQ(get(second, numbered(8)), "-");
        EXPECT_EQ(scan(first, numbered(300), numbered(700)).size(), 400u);
        EXPECT_EQ(scan(second, numbered(301), numbered(700)).size(), 200u);
        // Some come back, with other values, and new ones stand between them.
        for (int i = 100; i < 300; i += 3) put(numbered(i), "again");
        for (int i = 0; i < 300; ++i) put(numbered(i) + "x", std::string(50, 'n'));
        EXPECT_EQ(scan(first), all);
        EXPECT_EQ(scan(second), odd);
        // To and fro over the ends of the copies.
        Cursor cursor = index().scan(first);
        auto at = all.begin();
        ASSERT_TRUE(*cursor.next());
        for (int step = 0; step < 3 * kRows; ++step) {
            const bool back = step % 7 >= 4;
            if (back ? at == all.begin() : std::next(at) == all.end()) continue;
            back ? --at : ++at;
            ASSERT_TRUE(*(back ? cursor.prev() : cursor.next()));
            ASSERT_EQ(cursor.key(), at->first);
            ASSERT_EQ(cursor.value(), at->second);
        }
        ASSERT_OK(first.commit());
        ASSERT_OK(second.commit());
        sweep(versions());
        EXPECT_FALSE(versions().erased().any());
    });
}

// Options::version_bytes: none follows the pool.
TEST_F(SnapshotTest, TheBoundFollowsThePool) {
    Options options = small_options();
    for (const auto [pool, given, limit] :
         {std::array{16ull, 0ull, 64ull}, {512, 0, 128}, {16, 5, 5}}) {
        options.pool_bytes = pool << 20;
        options.version_bytes = given == 0 ? std::nullopt : std::optional(given << 20);
        reopen(options);
        EXPECT_EQ(versions().limit(), limit << 20);
    }
}

// VB-1: a small table, so that many records share a bucket.
TEST_F(SnapshotTest, AVersionThatGoesHidesNoOther) {
    constexpr int kRows = 4'000;
    Options options = small_options();
    options.version_bytes = 1 << 20;
    reopen(options);
    on_thread(*store_, [&] {
        Content old;
        for (int i = 0; i < kRows; ++i) put(numbered(i), old[numbered(i)] = "old");
        Txn first = begin(kSnapshot);
        for (int i = 0; i < kRows; i += 2) put(numbered(i), old[numbered(i)] = "new");
        Txn second = begin(kSnapshot);
        for (int i = 1; i < kRows; i += 2) put(numbered(i), "new");
        const uint64_t kept = versions().bytes();
        ASSERT_OK(first.commit());
        versions().sweep(kRows);
        EXPECT_LT(versions().bytes(), kept * 2 / 3);
        EXPECT_EQ(scan(second), old);
        for (const auto& [key, value] : old) ASSERT_EQ(get(second, key), value) << key;
        ASSERT_OK(second.commit());
        sweep(versions());
    });
}

// A load would make the snapshot forget what was erased before.
TEST_F(SnapshotTest, ALoadWaitsForErasedRecords) {
    on_thread(*store_, [&] {
        for (int i = 0; i < 3; ++i) put(numbered(i), "old");
        Txn snapshot = begin(kSnapshot);
        for (int i = 0; i < 3; ++i) erase(numbered(i));
        clean();
        const auto load = [&] {
            Txn txn = begin(kWriter);
            int n = 0;
            const auto done = store_->bulk_load(txn, index(), [&](Slice& key, Slice& value) {
                key = "loaded";
                value = "fresh";
                return n++ == 0;
            });
            if (done) {
                EXPECT_TRUE(txn.commit());
            }
            return code_of(done);
        };
        EXPECT_EQ(load(), ErrorCode::bad_argument);
        EXPECT_EQ(scan(snapshot).size(), 3u);
        ASSERT_OK(snapshot.commit());
        sweep(versions());
        EXPECT_EQ(load(), ErrorCode::none);
    });
}

TEST_F(SnapshotTest, KeepsGhostsAndChains) {
    on_thread(*store_, [&] {
        const std::string large(50'000, 'x');
        Content all;
        for (int i = 0; i < 400; ++i) all["key" + std::to_string(1000 + i)] = std::string(60, 'v');
        all["large"] = large;
        for (const auto& [key, value] : all) put(key, value);
        Txn snapshot = begin(kSnapshot);
        for (const auto& [key, value] : all) erase(key);
        clean();
        // What is deleted must stay findable, also through the splits and merges that follow.
        for (int i = 0; i < 300; ++i) put("other" + std::to_string(i), std::string(100, 'o'));
        clean();
        EXPECT_EQ(scan(snapshot), all);
        EXPECT_EQ(get(snapshot, "large"), large);
        EXPECT_EQ(scan(snapshot, "key1010", "key1020").size(), 10u);
        ASSERT_OK(snapshot.commit());
        // Then it goes.
        while (versions().bytes() != 0) {
            versions().sweep(1 << 20);
            threads::yield();
        }
        for (int i = 0; i < 100 && sm::engine_of(*store_).ghosts->waiting() != 0; ++i) clean();
        EXPECT_EQ(sm::engine_of(*store_).ghosts->waiting(), 0u);
        Txn after = begin(kSnapshot);
        EXPECT_EQ(scan(after).size(), 300u);
    });
}

// Hermitage's question of a reader beside writers: no lock, no wait, either way.
TEST_F(SnapshotTest, NeitherWaitsNorDelays) {
    on_thread(*store_, [&] {
        put("a", "1");
        const uint64_t waits = store_->stats().lock_waits;
        Txn writer = begin(kWriter);
        put(writer, "a", "2");
        Txn snapshot = begin(kSnapshot);
        EXPECT_EQ(scan(snapshot), (Content{{"a", "1"}}));
        Txn second = begin(kWriter);
        put(second, "b", "into the gap that was scanned");
        ASSERT_OK(second.commit());
        ASSERT_OK(writer.commit());
        EXPECT_EQ(store_->stats().lock_waits, waits);
        EXPECT_EQ(store_->stats().snapshots_open, 1u);
        EXPECT_GT(store_->stats().version_bytes, 0u);
    });
    EXPECT_EQ(store_->stats().snapshots_open, 0u);
}

TEST_F(SnapshotTest, TheOldestBecomesTooOld) {
    Options options = small_options();
    options.version_bytes = 1 << 20;
    reopen(options);
    on_thread(*store_, [&] {
        for (int i = 0; i < 100; ++i) put("k" + std::to_string(i), std::string(1000, 'a'));
        Txn oldest = begin(kSnapshot);
        Txn idle = begin(kWriter);
        Cursor cursor = index().scan(oldest);
        EXPECT_TRUE(*cursor.next());
        for (int i = 0; i < 100; ++i) put("k" + std::to_string(i), std::string(1000, 'b'));
        EXPECT_EQ(get(oldest, "k50"), std::string(1000, 'a'));
        std::vector<Txn> others;
        for (int round = 0; round < 30; ++round) {
            others.push_back(begin(kSnapshot));
            for (int i = 0; i < 100; ++i)
                put("k" + std::to_string(i),
                    std::string(1000, static_cast<char>('c' + round % 20)));
            EXPECT_LE(versions().bytes(), versions().limit() + (64 << 10));
        }
        std::string text;
        EXPECT_EQ(code_of(index().get(oldest, "k50", text)), ErrorCode::snapshot_too_old);
        EXPECT_EQ(code_of(oldest.commit()), ErrorCode::txn_aborting);
        EXPECT_EQ(get(others.back(), "k50"), std::string(1000, 'c' + 28 % 20));
        EXPECT_EQ(get(others[25], "k50"), std::string(1000, 'c' + 24 % 20));  // no more than needed
        EXPECT_GT(store_->stats().snapshots_too_old, 0u);
        others.clear();
        Txn fresh = begin(kSnapshot);
        EXPECT_EQ(get(fresh, "k50"), std::string(1000, 'c' + 29 % 20));
        // A writer that changes more than version_bytes neither fails nor waits.
        Txn writer = begin(kWriter);
        for (int i = 0; i < 3000; ++i)
            EXPECT_TRUE(index().put(writer, "k" + std::to_string(i), std::string(1000, 'z')));
        Txn gone = begin(kWriter);
        ASSERT_OK(writer.commit());
        Txn last = begin(kSnapshot);
        EXPECT_EQ(get(last, "k50"), std::string(1000, 'z'));
    });
}

TEST_F(SnapshotTest, AWriterLeavesOneVersionOfARecord) {
    on_thread(*store_, [&] {
        put("a", "1");
        Txn snapshot = begin(kSnapshot);
        Txn writer = begin(kWriter);
        const uint64_t made = versions().made();
        const uint64_t bytes = versions().bytes();
        for (int i = 0; i < 100; ++i) put(writer, "a", std::to_string(i));
        EXPECT_LT(versions().bytes(), bytes + 200);
        EXPECT_GE(versions().made(), made + 1);
        EXPECT_EQ(get(snapshot, "a"), "1");
        ASSERT_OK(writer.commit());
    });
}

// insert_many() is one change of a page. Its versions are made together, and later freed.
TEST_F(SnapshotTest, TheVersionsOfOneChangeAreAllKeptAndAllFreed) {
    constexpr size_t kRecords = 40;
    std::vector<std::string> keys;
    for (size_t i = 0; i < kRecords; ++i)  // of two lengths: they are no run (key_run.h)
        keys.push_back("new " + std::to_string(100 + i) + std::string(i % 2, 'x'));
    std::vector<NewRecord> records;
    for (const std::string& key : keys) records.push_back({.key = key, .value = "value"});
    on_thread(*store_, [&] {
        Txn first = begin(kSnapshot);
        Txn writer = begin(kWriter);
        const uint64_t made = versions().made();
        ASSERT_OK(index().insert_many(writer, records));
        EXPECT_EQ(versions().made(), made + kRecords);
        ASSERT_OK(writer.commit());
        EXPECT_TRUE(scan(first).empty());
        Txn second = begin(kSnapshot);
        EXPECT_EQ(scan(second).size(), kRecords);
        ASSERT_OK(first.commit());
        // No open snapshot needs them.
        const Nanos until = threads::now() + 5 * kSecond;
        while (versions().bytes() != 0 && threads::now() < until)
            threads::sleep_until(threads::now() + 5 * kMillisecond);
        EXPECT_EQ(versions().bytes(), 0u);
        EXPECT_EQ(scan(second).size(), kRecords);
    });
}

// VT-5: versions of parts of a record, in turn of different ones.
TEST_F(SnapshotTest, PartsOfARecordFitTogether) {
    const auto patch = [&](size_t at, Slice part) {
        Txn txn = begin(kWriter);
        EXPECT_TRUE(*index().patch(txn, "key", at, part));
        ASSERT_OK(txn.commit());
    };
    on_thread(*store_, [&] {
        put("key", "aaaabbbbcccc");
        std::vector<Txn> snapshots;
        std::vector<std::string> values;
        std::string now = "aaaabbbbcccc";
        const auto look = [&] {
            snapshots.push_back(begin(kSnapshot));
            values.push_back(now);
        };
        const auto expect_all = [&] {
            for (size_t i = 0; i < snapshots.size(); ++i) {
                EXPECT_EQ(get(snapshots[i], "key"), values[i]);
                EXPECT_EQ(scan(snapshots[i]), (Content{{"key", values[i]}}));
            }
        };
        look();
        patch(0, "AAAA");
        now = "AAAAbbbbcccc";
        look();
        patch(4, "BBBB");
        now = "AAAABBBBcccc";
        look();
        expect_all();
        // No snapshot sees what lies between these.
        for (char c = '0'; c <= '9'; ++c) {
            patch(static_cast<size_t>(c % 3) * 4, std::string(4, c));
            expect_all();
        }
        EXPECT_LT(versions().bytes(), 8 * 128u);
        {
            Txn reader = begin({});
            now = get(reader, "key");
            ASSERT_OK(reader.commit());
        }
        look();
        // One transaction changes one part after the other.
        Txn writer = begin(kWriter);
        EXPECT_TRUE(*index().patch(writer, "key", 1, "--"));
        EXPECT_TRUE(*index().patch(writer, "key", 0, "++"));
        expect_all();
        const auto mark = writer.savepoint();
        ASSERT_OK(mark);
        EXPECT_TRUE(*index().patch(writer, "key", 8, "!!!!"));
        put(writer, "key", "of another length");
        ASSERT_OK(writer.rollback_to(*mark));
        expect_all();
        ASSERT_OK(writer.commit());
        expect_all();
        snapshots.clear();
        sweep(versions());
    });
}

// VT-5: the second version has the whole record, since the first one covers only a part.
TEST_F(SnapshotTest, PartsChangedInTurnKeepFewVersions) {
    on_thread(*store_, [&] {
        put("key", "aaaabbbb");
        Txn snapshot = begin(kSnapshot);
        for (size_t i = 0; i < 40; ++i) {
            Txn txn = begin(kWriter);
            EXPECT_TRUE(*index().patch(txn, "key", i % 2 * 4, std::to_string(1000 + i)));
            ASSERT_OK(txn.commit());
            EXPECT_EQ(get(snapshot, "key"), "aaaabbbb");
        }
        EXPECT_LT(versions().bytes(), 4 * 128u);
    });
}

// VG-1: one version of a group leaves its chain long before the others.
TEST_F(SnapshotTest, AVersionThatGoesFirstTakesNoOtherAlong) {
    constexpr int kRows = 10;
    on_thread(*store_, [&] {
        Content old;
        for (int i = 0; i < kRows; ++i) put(numbered(i), old[numbered(i)] = "old" + numbered(i));
        Txn first = begin(kSnapshot);
        // No snapshot sees this state of one row, so the version of the change of all rows is
        // needless for that row when it grows. The row's first version has all of it.
        put(numbered(3), std::string(12, 'x'));
        {
            Txn writer = begin(kWriter);
            char buffers[kRows][64];
            std::vector<Lookup> rows;
            for (const auto& row : old)
                rows.push_back({.key = row.first,
                                .buffer = std::as_writable_bytes(std::span(buffers[rows.size()]))});
            const auto change = [](size_t, std::span<std::byte> value) {
                std::ranges::fill(value, std::byte{'y'});
                return ByteRange{0, value.size()};
            };
            EXPECT_EQ(*index().modify_many(writer, rows, change), size_t{kRows});
            ASSERT_OK(writer.commit());
        }
        const uint64_t before = versions().bytes();
        put(numbered(3), std::string(300, 'z'));
        put(numbered(3), std::string(299, 'z'));
        EXPECT_GT(versions().bytes(), before);
        for (int i = 0; i < 200; ++i) put("other" + std::to_string(i), std::string(20, 'o'));
        EXPECT_EQ(scan(first), old);
        for (const auto& [key, value] : old) EXPECT_EQ(get(first, key), value) << key;
        Txn second = begin(kSnapshot);
        ASSERT_OK(first.commit());
        EXPECT_EQ(scan(second, "key", "kez").size(), size_t{kRows});
        ASSERT_OK(second.commit());
        sweep(versions());
    });
}

// One long snapshot beside a hot record: its chain keeps two versions, not thousands.
TEST_F(SnapshotTest, AHotRecordKeepsFewVersions) {
    on_thread(*store_, [&] {
        put("hot", "0");
        Txn snapshot = begin(kSnapshot);
        for (int i = 1; i <= 5000; ++i) put("hot", std::to_string(i));
        EXPECT_GE(versions().made(), 5000u);
        EXPECT_LT(versions().bytes(), 4000u);
        EXPECT_EQ(get(snapshot, "hot"), "0");
        Txn second = begin(kSnapshot);
        put("hot", "x");
        put("hot", "y");
        EXPECT_EQ(get(second, "hot"), "5000");
        EXPECT_EQ(get(snapshot, "hot"), "0");
    });
}

// With values of one size a needless version is renewed in place. Nothing parks between the end of
// the first snapshot and the change, so no sweep comes between.
TEST_F(SnapshotTest, ARenewedVersionIsThatOfTheNewestChange) {
    on_thread(*store_, [&] {
        put("hot", "0000");
        Txn first = begin(kSnapshot);
        for (int i = 1001; i <= 1100; ++i) put("hot", std::to_string(i));
        EXPECT_LT(versions().bytes(), 4 * 128u);
        EXPECT_EQ(get(first, "hot"), "0000");
        ASSERT_OK(first.commit());
        Txn second = begin(kSnapshot);
        Txn writer = begin(kWriter);
        put(writer, "hot", "2000");
        EXPECT_LT(versions().bytes(), 4 * 128u);
        EXPECT_EQ(get(second, "hot"), "1100");
        ASSERT_OK(writer.abort());
        EXPECT_EQ(get(second, "hot"), "1100");
        put("hot", "3000");
        Txn third = begin(kSnapshot);
        put("hot", "4000");
        EXPECT_EQ(get(second, "hot"), "1100");
        EXPECT_EQ(get(third, "hot"), "3000");
    });
}

// Versions leave in their order, but for those that were renewed since.
TEST_F(SnapshotTest, ARenewedVersionHoldsUpNoOther) {
    on_thread(*store_, [&] {
        put("hot", "0000");
        Txn first = begin(kSnapshot);
        for (const char* value : {"1111", "2222", "3333"}) put("hot", value);
        for (int i = 0; i < 200; ++i) put("k" + std::to_string(i), "value");
        EXPECT_GT(versions().bytes(), 200 * 64u);
        ASSERT_OK(first.commit());
        Txn second = begin(kSnapshot);
        put("hot", "4444");
        const Nanos until = threads::now() + 5 * kSecond;
        while (versions().bytes() > 20 * 64 && threads::now() < until)
            threads::sleep_until(threads::now() + 5 * kMillisecond);
        EXPECT_LE(versions().bytes(), 20 * 64u);
        EXPECT_EQ(get(second, "hot"), "3333");
    });
}

// The cleaner looks at fewer and fewer keys while the oldest snapshot needs them all.
TEST_F(SnapshotTest, ErasedKeysGoWhenTheSnapshotThatSawThemEnds) {
    constexpr int kRows = 1'000;
    on_thread(*store_, [&] {
        for (int i = 0; i < kRows; ++i) put(numbered(i), "v");
        Txn first = begin(kSnapshot);
        for (int i = 0; i < kRows; ++i) erase(numbered(i));
        clean();
        ASSERT_TRUE(versions().erased().any());
        sleep_for(100 * kMillisecond);
        const Txn second = begin(kSnapshot);  // the period goes on
        ASSERT_OK(first.commit());
        for (int n = 0; n < 100 && versions().erased().any(); ++n) sleep_for(10 * kMillisecond);
        EXPECT_FALSE(versions().erased().any());
    });
}

TEST_F(SnapshotTest, APeriodEndsAndBeginsAgain) {
    on_thread(*store_, [&] {
        put("a", "1");
        for (int round = 0; round < 3; ++round) {
            {
                Txn snapshot = begin(kSnapshot);
                put("a", std::to_string(round));
                EXPECT_GT(versions().bytes(), 0u);
            }
            while (sm::engine_of(*store_).keeps_versions.load())
                threads::sleep_until(threads::now() + 20 * kMillisecond);
            EXPECT_EQ(versions().bytes(), 0u);
            const uint64_t made = versions().made();
            put("a", "without a version");
            EXPECT_EQ(versions().made(), made);
        }
    });
}

}  // namespace lockstep::snapshot_upkeep_test
