// labels: unit
// snapshot_test.cc - snapshot transactions: what they see of inserts, changes, deletes, rollbacks,
// large values, heaps and objects.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <lockstep/secondary.h>
#include "sm/api/operation.h"
#include "tests/sm/services/snapshot_test_util.h"

namespace lockstep::snapshot_test {

TEST_F(SnapshotTest, SeesWhatHadCommitted) {
    on_thread(*store_, [&] {
        put("a", "1");
        put("b", "1");
        Txn old = begin(kSnapshot);
        Txn writer = begin(kWriter);
        put(writer, "a", "22");
        put(writer, "a", "333");
        put(writer, "c", "new");
        EXPECT_TRUE(*index().erase(writer, "b"));
        Txn during = begin(kSnapshot);
        const Content first{{"a", "1"}, {"b", "1"}};
        for (Txn* txn : {&old, &during}) {
            EXPECT_EQ(scan(*txn), first);
            EXPECT_EQ(get(*txn, "a") + get(*txn, "b") + get(*txn, "c"), "11-");
        }
        ASSERT_OK(writer.commit());
        Txn later = begin(kSnapshot);
        for (Txn* txn : {&old, &during}) EXPECT_EQ(scan(*txn), first);
        EXPECT_EQ(scan(later), (Content{{"a", "333"}, {"c", "new"}}));
        EXPECT_EQ(get(later, "b"), "-");
        put("a", "4444");
        EXPECT_EQ(get(during, "a"), "1");
        EXPECT_EQ(get(later, "a"), "333");
        ASSERT_OK(old.commit());
        ASSERT_OK(during.abort());
        ASSERT_OK(later.commit());
    });
}

// The versions of what a live writer did before the first snapshot come from its undo chain.
TEST_F(SnapshotTest, CatchesUpWithLiveWriters) {
    on_thread(*store_, [&] {
        const std::string large(20'000, 'L'), larger(30'000, 'M');
        for (const char* key : {"a", "b", "c", "d", "m1", "m2"}) put(key, "before");
        put("large", large);
        erase("d");
        const RecordId record = [&] {
            Txn txn = begin(kWriter);
            const auto id = heap().insert(txn, "heap before");
            EXPECT_TRUE(txn.commit());
            return *id;
        }();
        const Content all{{"a", "before"},  {"b", "before"},  {"c", "before"},
                          {"large", large}, {"m1", "before"}, {"m2", "before"}};

        Txn writer = begin(kWriter);
        put(writer, "a", "x");
        put(writer, "a", "a longer value than before");
        EXPECT_TRUE(*index().patch(writer, "a", 2, "PPPP"));
        EXPECT_TRUE(*index().erase(writer, "b"));
        put(writer, "b", "revived");
        EXPECT_TRUE(*index().erase(writer, "c"));
        put(writer, "d", "from a ghost");
        put(writer, "large", larger);
        const std::array<NewRecord, 3> many{{{"n1", "1"}, {"n2", "2"}, {"n3", "3"}}};
        ASSERT_OK(index().insert_many(writer, many));
        std::byte room[2][8];
        Lookup rows[] = {{.key = "m1", .buffer = room[0]}, {.key = "m2", .buffer = room[1]}};
        const auto modified =
            index().modify_many(writer, rows, [](size_t, std::span<std::byte> value) {
                value[2] = std::byte{'?'};
                return ByteRange{2, 1};
            });
        ASSERT_OK(modified);
        EXPECT_EQ(*modified, 2u);
        EXPECT_TRUE(*heap().update(writer, record, "heap after"));
        const auto mark = writer.savepoint();
        ASSERT_OK(mark);
        put(writer, "a", "undone again");
        ASSERT_OK(writer.rollback_to(*mark));
        EXPECT_EQ(versions().made(), 0u);

        Txn snapshot = begin(kSnapshot);
        EXPECT_GT(versions().made(), 0u);
        std::string text;
        const auto check = [&] {
            EXPECT_EQ(scan(snapshot), all);
            for (const auto& [key, value] : all) EXPECT_EQ(get(snapshot, key), value) << key;
            EXPECT_EQ(get(snapshot, "d") + get(snapshot, "n2"), "--");
            EXPECT_TRUE(*heap().get(snapshot, record, text));
            EXPECT_EQ(text, "heap before");
        };
        check();
        put(writer, "a", "once more");
        put(writer, "c", "erased before, revived now");
        EXPECT_TRUE(*index().erase(writer, "n1"));
        check();
        ASSERT_OK(writer.commit());
        clean();
        check();
        Txn after = begin(kSnapshot);
        ASSERT_OK(snapshot.commit());
        sweep(versions());
        EXPECT_EQ(get(after, "a"), "once more");
        EXPECT_EQ(get(after, "large"), larger);
        ASSERT_OK(after.commit());
    });
}

TEST_F(SnapshotTest, RollbacksChangeNothing) {
    on_thread(*store_, [&] {
        put("a", "1");
        put("b", "1");
        Txn before_period = begin(kWriter);
        put(before_period, "b", "never");
        Txn snapshot = begin(kSnapshot);
        Txn writer = begin(kWriter);
        put(writer, "a", "2");
        const auto mark = writer.savepoint();
        ASSERT_OK(mark);
        put(writer, "a", "3");
        put(writer, "c", "3");
        EXPECT_EQ(scan(snapshot), (Content{{"a", "1"}, {"b", "1"}}));
        ASSERT_OK(writer.rollback_to(*mark));
        EXPECT_EQ(scan(snapshot), (Content{{"a", "1"}, {"b", "1"}}));
        ASSERT_OK(before_period.abort());
        ASSERT_OK(writer.abort());
        Txn second = begin(kWriter);
        put(second, "a", "4");
        ASSERT_OK(second.commit());
        EXPECT_EQ(scan(snapshot), (Content{{"a", "1"}, {"b", "1"}}));
        Txn later = begin(kSnapshot);
        EXPECT_EQ(scan(later), (Content{{"a", "4"}, {"b", "1"}}));
    });
}

// In one call: records of the page, changed ones, erased ones, a long value, keys that are too long
// for a walk, and keys without a record.
TEST_F(SnapshotTest, LookupsOfManyKeys) {
    on_thread(*store_, [&] {
        const auto name = [](int i) {
            return "k" + std::to_string(i) + (i % 7 == 6 ? std::string(60, 'x') : "");
        };
        const auto value = [](int i) { return i % 10 == 9 ? std::string(5000, 'v') : "old"; };
        for (int i = 0; i < 40; ++i) put(name(i), value(i));
        Txn snapshot = begin(kSnapshot);
        for (int i = 0; i < 40; i += 2) put(name(i), "fresh");
        for (int i = 1; i < 40; i += 4) erase(name(i));
        put("k41", "later");
        Txn writer = begin(kWriter);
        put(writer, name(3), "uncommitted");
        std::vector<std::string> keys;
        std::vector<std::array<std::byte, 8>> values(42);
        for (int i = 0; i < 42; ++i) keys.push_back(name(i));
        std::vector<Lookup> rows;
        for (size_t i = 0; i < keys.size(); ++i) rows.push_back({keys[i], values[i]});
        EXPECT_EQ(*index().get_many(snapshot, rows), 40u);
        for (int i = 0; i < 40; ++i) {
            const std::string expected = value(i);
            ASSERT_TRUE(rows[i].found) << i;
            EXPECT_EQ(rows[i].bytes, expected.size()) << i;
            const size_t copied = std::min(expected.size(), values[i].size());
            EXPECT_EQ(Slice(reinterpret_cast<char*>(values[i].data()), copied),
                      expected.substr(0, copied))
                << i;
        }
        EXPECT_FALSE(rows[40].found || rows[41].found);
        const auto refused = index().get_many(snapshot, rows, Access::update);
        EXPECT_EQ(refused.error().code, ErrorCode::read_only);
        ASSERT_OK(writer.abort());
    });
}

TEST_F(SnapshotTest, HeapRecordsThatMove) {
    on_thread(*store_, [&] {
        std::map<RecordId, std::string> all;
        {
            Txn txn = begin(kWriter);
            for (int i = 0; i < 60; ++i) {
                const std::string text(300, static_cast<char>('a' + i % 26));
                all[*heap().insert(txn, text)] = text;
            }
            ASSERT_OK(txn.commit());
        }
        Txn snapshot = begin(kSnapshot);
        const auto check = [&] {
            std::map<RecordId, std::string> seen;
            ASSERT_OK(heap().scan(
                snapshot, [&](RecordId id, Slice text) { return seen.emplace(id, text).second; }));
            EXPECT_EQ(seen, all);
            std::string text;
            for (const auto& [id, expected] : all) {
                EXPECT_TRUE(*heap().get(snapshot, id, text));
                EXPECT_EQ(text, expected);
            }
        };
        check();
        int n = 0;
        std::vector<RecordId> moved;
        for (const auto& [id, text] : all) {
            Txn txn = begin(kWriter);
            switch (n++ % 4) {
                case 0: EXPECT_TRUE(*heap().erase(txn, id)); break;
                case 1:
                    EXPECT_TRUE(*heap().update(txn, id, std::string(4000, 'M')));
                    moved.push_back(id);
                    break;
                case 2: EXPECT_TRUE(*heap().update(txn, id, "short")); break;
                default: EXPECT_TRUE(heap().insert(txn, std::string(500, 'N')));
            }
            if (n % 5 == 0) ASSERT_OK(txn.abort());
            else ASSERT_OK(txn.commit());
        }
        check();
        // The slots of what was erased, and of copies that moved on, serve other records.
        for (const RecordId id : moved) {
            Txn txn = begin(kWriter);
            EXPECT_TRUE(*heap().update(txn, id, "home again"));
            for (int i = 0; i < 3; ++i) EXPECT_TRUE(heap().insert(txn, std::string(250, 'R')));
            ASSERT_OK(txn.commit());
        }
        check();
    });
}

// The scan of a page begins again when it meets a change whose commit is being logged.
TEST_F(SnapshotTest, AHeapScanThatMeetsACommitListsNoRecordTwice) {
    on_thread(*store_, [&] {
        Txn first = begin(kSnapshot);  // so that changes leave versions
        Txn maker = begin(kWriter);
        const RecordId one = *heap().insert(maker, "one"), two = *heap().insert(maker, "two");
        ASSERT_OK(maker.commit());
        ASSERT_EQ(one.page, two.page);
        Txn writer = begin(kWriter);
        EXPECT_TRUE(*heap().update(writer, two, "changed"));
        sm::TxnAccess::usable(writer)->outcome->begin_commit(Lsn{8});
        std::multimap<RecordId, std::string> seen;
        bool began = false, done = false;
        auto scan = store_->start([&]() -> Result<void> {
            Txn snapshot = TRY(store_->begin(kSnapshot));
            began = true;
            TRY(heap().scan(snapshot, [&](RecordId id, Slice text) {
                seen.emplace(id, text);
                return true;
            }));
            done = true;
            TRY(snapshot.commit());
            return {};
        });
        while (!began) threads::yield();
        for (int i = 0; i < 20; ++i) threads::yield();
        EXPECT_FALSE(done);
        ASSERT_OK(writer.commit());
        ASSERT_OK(scan.join());
        EXPECT_EQ(seen, (std::multimap<RecordId, std::string>{{one, "one"}, {two, "two"}}));
    });
}

TEST_F(SnapshotTest, ObjectsThatComeAndGo) {
    on_thread(*store_, [&] {
        put("a", "1");
        Txn maker = begin(kWriter);
        ASSERT_OK(store_->create_index(maker, "loaded"));
        ASSERT_OK(maker.commit());
        Txn snapshot = begin(kSnapshot);
        Txn later = begin(kWriter);
        ASSERT_OK(store_->create_index(later, "later"));
        ASSERT_OK(later.commit());
        std::string text;
        EXPECT_EQ(code_of(index("later").get(snapshot, "k", text)), ErrorCode::no_such_object);
        EXPECT_EQ(code_of(store_->index(snapshot, "later")), ErrorCode::no_such_object);
        // A bulk load leaves no version of any record.
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            int n = 0;
            std::string key;
            return store_->bulk_load(txn, index("loaded"), [&](Slice& k, Slice& v) {
                key = "k" + std::to_string(1000 + n);
                k = key;
                v = "loaded";
                return ++n < 500;
            });
        }));
        EXPECT_FALSE(*index("loaded").get(snapshot, "k1001", text));
        EXPECT_FALSE(*index("loaded").scan(snapshot).next());
        ASSERT_OK(store_->run([&](Txn& txn) { return index("loaded").put(txn, "k1001", "x"); }));
        EXPECT_FALSE(*index("loaded").get(snapshot, "k1001", text));
        {
            Txn fresh = begin(kSnapshot);
            EXPECT_TRUE(*index("loaded").get(fresh, "k1001", text));
            EXPECT_TRUE(*index("later").scan(fresh).next() == false);
        }
        ASSERT_OK(store_->run([&](Txn& txn) { return store_->drop(txn, "loaded"); }));
        EXPECT_EQ(code_of(index().get(snapshot, "a", text)), ErrorCode::none);
        Txn after = begin(kSnapshot);
        EXPECT_EQ(code_of(store_->index(after, "loaded")), ErrorCode::no_such_object);
    });
}

TEST_F(SnapshotTest, ADroppedIndexIsAnError) {
    on_thread(*store_, [&] {
        put("a", "1");
        Txn snapshot = begin(kSnapshot);
        const Index kept = index();
        Cursor cursor = kept.scan(snapshot);
        ASSERT_OK(store_->run([&](Txn& txn) { return store_->drop(txn, "i"); }));
        std::string text;
        EXPECT_EQ(code_of(kept.get(snapshot, "a", text)), ErrorCode::no_such_object);
        EXPECT_EQ(code_of(cursor.next()), ErrorCode::no_such_object);
    });
}

// Large values and moved records lead to pages that are free by now.
TEST_F(SnapshotTest, ADropInTheMiddleOfAScanIsAnError) {
    on_thread(*store_, [&] {
        for (const char* key : {"a", "b"}) put(key, std::string(20'000, 'v'));
        const std::string half(3000, 'h'), most(7000, 'm');
        Txn writer = begin(kWriter);
        std::vector<RecordId> records;
        for (int n = 0; n < 2; ++n) records.push_back(*heap().insert(writer, half));
        EXPECT_TRUE(*heap().update(writer, records[1], most));  // it moves
        ASSERT_OK(writer.commit());
        Txn snapshot = begin(kSnapshot);
        Cursor cursor = index().scan(snapshot);
        EXPECT_TRUE(*cursor.next());
        ASSERT_OK(store_->run([&](Txn& txn) { return store_->drop(txn, "i"); }));
        EXPECT_EQ(code_of(cursor.next()), ErrorCode::no_such_object);
        int seen = 0;
        const auto scanned = heap().scan(snapshot, [&](RecordId, Slice) {
            ++seen;
            EXPECT_TRUE(store_->run([&](Txn& txn) { return store_->drop(txn, "h"); }));
            return true;
        });
        EXPECT_EQ(code_of(scanned), ErrorCode::no_such_object);
        EXPECT_EQ(seen, 1);
    });
}

// The name leads to the root page, which is free by now, or another object's.
TEST_F(SnapshotTest, ANameOfADroppedObjectIsAnError) {
    on_thread(*store_, [&] {
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            TRY(store_->create_index(txn, "other"));
            TRY(store_->create_heap(txn, "other heap"));
            return {};
        }));
        Txn snapshot = begin(kSnapshot);
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            TRY(store_->drop(txn, "other"));
            return store_->drop(txn, "other heap");
        }));
        EXPECT_EQ(code_of(store_->index(snapshot, "other")), ErrorCode::no_such_object);
        EXPECT_EQ(code_of(store_->heap(snapshot, "other heap")), ErrorCode::no_such_object);
        for (int i = 0; i < 200; ++i) put("reuses the pages" + std::to_string(i), "y");
        EXPECT_EQ(code_of(store_->index(snapshot, "other")), ErrorCode::no_such_object);
        EXPECT_EQ(code_of(store_->heap(snapshot, "other heap")), ErrorCode::no_such_object);
        ASSERT_OK(snapshot.commit());
    });
}

TEST_F(SnapshotTest, ADroppedHeapIsAnError) {
    on_thread(*store_, [&] {
        const RecordId record = [&] {
            Txn txn = begin(kWriter);
            const auto id = heap().insert(txn, "x");
            EXPECT_TRUE(txn.commit());
            return *id;
        }();
        Txn snapshot = begin(kSnapshot);
        const Heap kept = heap();
        ASSERT_OK(store_->run([&](Txn& txn) { return store_->drop(txn, "h"); }));
        for (int i = 0; i < 200; ++i) put("reuses the pages" + std::to_string(i), "y");
        std::string text;
        EXPECT_EQ(code_of(kept.get(snapshot, record, text)), ErrorCode::no_such_object);
        EXPECT_EQ(code_of(kept.scan(snapshot, [](RecordId, Slice) { return true; })),
                  ErrorCode::no_such_object);
    });
}

// Entry and record are seen at the same moment.
TEST_F(SnapshotTest, ReadsThroughASecondaryIndex) {
    on_thread(*store_, [&] {
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            TRY(store_->create_index(
                txn, "by value",
                {.of = index(),
                 .key = [](Slice, Slice value, SecondaryKeys& keys) { keys.add(value); }}));
            return {};
        }));
        put("a", "red");
        put("b", "blue");
        Txn snapshot = begin(kSnapshot);
        put("a", "blue");
        erase("b");
        put("c", "red");
        const auto keys_of = [&](Txn& txn, Slice value) {
            std::string keys;
            SecondaryCursor cursor = find_by(txn, index("by value"), value);
            for (auto more = cursor.next(); more.has_value() && *more; more = cursor.next())
                keys.append(cursor.key());
            return keys;
        };
        EXPECT_EQ(keys_of(snapshot, "red") + "/" + keys_of(snapshot, "blue"), "a/b");
        Txn later = begin(kSnapshot);
        EXPECT_EQ(keys_of(later, "red") + "/" + keys_of(later, "blue"), "c/a");
    });
}

TEST_F(SnapshotTest, RefusesChanges) {
    on_thread(*store_, [&] {
        put("a", "1");
        Txn snapshot = begin(kSnapshot);
        std::string text;
        EXPECT_EQ(code_of(index().put(snapshot, "a", "2")), ErrorCode::read_only);
        EXPECT_EQ(code_of(index().erase(snapshot, "a")), ErrorCode::read_only);
        EXPECT_EQ(code_of(index().get(snapshot, "a", text, Access::write)), ErrorCode::read_only);
        EXPECT_EQ(code_of(index().scan(snapshot, {}, {}, Access::update).next()),
                  ErrorCode::read_only);
        Cursor cursor = index().scan(snapshot);
        EXPECT_TRUE(*cursor.next());
        EXPECT_EQ(code_of(cursor.patch(0, "2")), ErrorCode::read_only);
        EXPECT_EQ(code_of(heap().insert(snapshot, "x")), ErrorCode::read_only);
        EXPECT_EQ(code_of(store_->create_index(snapshot, "n")), ErrorCode::read_only);
        EXPECT_EQ(get(snapshot, "a"), "1");
    });
}

// A version's name comes from the key in the log record. Short, long and no bytes before its end.
TEST_F(SnapshotTest, SeesRecordsOfKeysOfAllLengths) {
    on_thread(*store_, [&] {
        std::vector<std::string> keys, others;
        for (size_t n = 1; n <= 40; ++n) {
            keys.push_back(std::string(n, static_cast<char>('a' + n % 26)) + "1");
            keys.push_back(std::string(1, static_cast<char>('a' + n % 26)));
            others.push_back(std::string(n, static_cast<char>('a' + n % 26)) + "2");
        }
        std::ranges::sort(keys);
        keys.erase(std::ranges::unique(keys).begin(), keys.end());
        std::ranges::sort(others);
        Content old, now;
        for (const std::string& key : keys) put(key, old[key] = "one");
        Txn first = begin(kSnapshot);
        // Alone, then many of a leaf at a time. The second round meets versions of the first.
        for (const std::string& key : keys) put(key, "two");
        Txn second = begin(kSnapshot);
        for (Slice value : {"333", "444"}) {
            Txn writer = begin(kWriter);
            std::vector<std::array<char, 8>> buffers(keys.size());
            std::vector<Lookup> rows;
            for (size_t i = 0; i < keys.size(); ++i)
                rows.push_back(
                    {.key = keys[i], .buffer = std::as_writable_bytes(std::span(buffers[i]))});
            EXPECT_EQ(*index().modify_many(writer, rows,
                                           [&](size_t, std::span<std::byte> bytes) {
                                               std::memcpy(bytes.data(), value.data(), 3);
                                               return ByteRange{0, 3};
                                           }),
                      keys.size());
            ASSERT_OK(writer.commit());
        }
        Txn writer = begin(kWriter);
        std::vector<NewRecord> records;
        for (const std::string& key : others) records.push_back({.key = key, .value = "new"});
        ASSERT_OK(index().insert_many(writer, records));
        ASSERT_OK(writer.commit());
        EXPECT_EQ(scan(first), old);
        for (const auto& [key, value] : old) {
            EXPECT_EQ(get(first, key), value) << key;
            EXPECT_EQ(get(second, key), "two") << key;
        }
        for (const std::string& key : others) EXPECT_EQ(get(second, key), "-") << key;
    });
}

}  // namespace lockstep::snapshot_test
