// labels: unit
// secondary_test.cc - secondary indexes: every way to change a record, rollback, savepoints,
// refused statements, unique and partial indexes, reads.
#include "tests/sm/secondary/secondary_util.h"

#include "sm/secondary/secondary_key.h"

namespace lockstep::secondary_test {

class SecondaryTest : public SecondaryStore {};

TEST_F(SecondaryTest, EveryChangeOfARecordReachesIt) {
    Store store = open_both();
    const std::string large(5000, 'x');
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        const Index i = TRY(store.index("i"));
        TRY(i.insert(txn, "1", "rome|a"));
        TRY(i.put(txn, "2", "oslo|b"));
        TRY(i.put(txn, "2", "paris|b"));
        EXPECT_TRUE(TRY(i.update(txn, "1", "lima|a")));
        EXPECT_FALSE(TRY(i.update(txn, "9", "none|a")));
        TRY(i.insert(txn, "3", "bern|c"));
        EXPECT_TRUE(TRY(i.patch(txn, "3", 0, "B")));
        EXPECT_FALSE(TRY(i.patch(txn, "9", 0, "B")));
        const NewRecord many[] = {{"4", "kiel|d"}, {"5", "kiel|e"}, {"6", "linz|f"}};
        TRY(i.insert_many(txn, many));
        EXPECT_TRUE(TRY(i.erase(txn, "6")));
        EXPECT_FALSE(TRY(i.erase(txn, "9")));
        TRY(i.insert(txn, "6", "graz|g"));  // a ghost revives
        TRY(i.insert(txn, "7", "nice|" + large));
        EXPECT_TRUE(TRY(i.update(txn, "7", "nancy|" + large)));
        EXPECT_TRUE(TRY(i.patch(txn, "7", 4, "i")));
        Cursor cursor = i.scan(txn, "5", "6", Access::write);
        EXPECT_TRUE(TRY(cursor.next()));
        EXPECT_TRUE(TRY(cursor.patch(0, "K")));
        EXPECT_EQ(cursor.value(), "Kiel|e");
        Lookup rows[] = {{.key = "4", .buffer = {}}};
        EXPECT_EQ(TRY(i.get_many(txn, rows, Access::write)), 1u);
        EXPECT_TRUE(TRY(i.patch(txn, "4", 1, "I", rows[0].hint)));
        return {};
    }));
    EXPECT_EQ(pairs_of(store), (Pairs{{"lima", "1"},
                                      {"paris", "2"},
                                      {"Bern", "3"},
                                      {"kIel", "4"},
                                      {"Kiel", "5"},
                                      {"graz", "6"},
                                      {"nanci", "7"}}));
    expect_sound(store);
}

TEST_F(SecondaryTest, RecordsThatAreModifiedWhereTheyWereRead) {
    Store store = open_both();
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        const Index i = TRY(store.index("i"));
        for (const char* key : {"1", "2", "3", "4", "5"})
            TRY(i.insert(txn, key, "rome|" + std::string(key)));
        std::byte room[5][16];
        const auto first_letter = [](std::span<std::byte> value) {
            value[0] = std::byte('R');
            return ByteRange{0, 1};
        };
        EXPECT_TRUE(TRY(i.modify(txn, "1", room[0], first_letter)));
        EXPECT_FALSE(TRY(i.modify(txn, "9", room[0], first_letter)));
        Lookup rows[] = {{.key = "2", .buffer = room[1]},
                         {.key = "3", .buffer = room[2]},
                         {.key = "3", .buffer = room[3]},
                         {.key = "9", .buffer = room[4]}};
        const auto nth_letter = [&](size_t n, std::span<std::byte> value) {
            value[n] = std::byte('X');
            return ByteRange{n, 1};
        };
        EXPECT_EQ(TRY(i.modify_many(txn, rows, nth_letter)), 3u);
        return {};
    }));
    EXPECT_EQ(pairs_of(store),
              (Pairs{{"Rome", "1"}, {"Xome", "2"}, {"rXXe", "3"}, {"rome", "4"}, {"rome", "5"}}));
    expect_sound(store);
}

TEST_F(SecondaryTest, ARecordMayHaveNoKeyOrSeveral) {
    Store store = open_both();
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        const Index i = TRY(store.index("i"));
        TRY(i.insert(txn, "1", "|none"));
        TRY(i.insert(txn, "2", "a,b,a|twice a"));
        TRY(i.update(txn, "2", "b,c|"));
        TRY(i.put(txn, "1", "z|"));
        TRY(i.put(txn, "1", "|none again"));
        return {};
    }));
    EXPECT_EQ(pairs_of(store), (Pairs{{"b", "2"}, {"c", "2"}}));
    expect_sound(store);
}

TEST_F(SecondaryTest, RollbackAndSavepointsUndoIt) {
    Store store = open_both();
    ASSERT_OK(store.run([&](Txn& txn) { return store.index("i")->insert(txn, "1", "a|"); }));
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index i = *store.index("i");
        ASSERT_OK(i.insert(txn, "2", "b|"));
        const Savepoint point = *txn.savepoint();
        ASSERT_OK(i.update(txn, "1", "c|"));
        ASSERT_OK(i.erase(txn, "2"));
        EXPECT_EQ(*pairs_of(store, txn), (Pairs{{"c", "1"}}));
        ASSERT_OK(txn.rollback_to(point));
        EXPECT_EQ(*pairs_of(store, txn), (Pairs{{"a", "1"}, {"b", "2"}}));
        ASSERT_OK(txn.abort());
    });
    EXPECT_EQ(pairs_of(store), (Pairs{{"a", "1"}}));
    expect_sound(store);
}

TEST_F(SecondaryTest, AUniqueIndexRefusesTheStatementAlone) {
    Store store = open_both("a", true);
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index i = *store.index("i");
        ASSERT_OK(i.insert(txn, "1", "a|x"));
        ASSERT_OK(i.insert(txn, "2", "b|y"));
        const auto taken = i.insert(txn, "3", "c,a|z");
        ASSERT_EQ(code_of(taken), ErrorCode::duplicate_key);
        EXPECT_EQ(taken.error().a, store.index("s")->id().value);
        const std::string text = taken.error().text();
        for (const char* part : {"\"s\"", "\"i\"", "\"a\"", "record \"3\""})
            EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
        EXPECT_EQ(code_of(i.update(txn, "2", "a|y")), ErrorCode::duplicate_key);
        EXPECT_EQ(code_of(i.put(txn, "2", "a|y")), ErrorCode::duplicate_key);
        EXPECT_EQ(code_of(i.put(txn, "9", "a|new")), ErrorCode::duplicate_key);
        EXPECT_EQ(code_of(i.patch(txn, "2", 0, "a")), ErrorCode::duplicate_key);
        EXPECT_EQ(code_of(i.insert(txn, "1", "q|")), ErrorCode::duplicate_key);  // the primary's
        const NewRecord many[] = {{"4", "d|"}, {"5", "d|"}, {"6", "e|"}};
        EXPECT_EQ(code_of(i.insert_many(txn, many)), ErrorCode::duplicate_key);
        ASSERT_OK(i.update(txn, "1", "a|other"));  // its own key
        ASSERT_OK(txn.commit());
    });
    EXPECT_EQ(index_content(store, "i"),
              (std::map<std::string, std::string>{{"1", "a|other"}, {"2", "b|y"}, {"4", "d|"}}));
    EXPECT_EQ(pairs_of(store), (Pairs{{"a", "1"}, {"b", "2"}, {"d", "4"}}));
    expect_sound(store);
}

TEST_F(SecondaryTest, AnEntryThatIsTooLongLeavesNoHalfRow) {
    Store store = open_both();
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index i = *store.index("i");
        const std::string most(kKeyBytesMax - 2 - 3, 'k');
        ASSERT_OK(i.insert(txn, "pk1", most + "|"));
        const auto refused = i.insert(txn, "pk2", most + "k|");
        ASSERT_EQ(code_of(refused), ErrorCode::key_too_long);
        const std::string text = refused.error().text();
        for (const char* part : {"\"s\"", "\"i\"", "1025", "\"pk2\""})
            EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
        EXPECT_EQ(code_of(i.update(txn, "pk1", most + "k|")), ErrorCode::key_too_long);
        std::string value;
        EXPECT_FALSE(*i.get(txn, "pk2", value));
        EXPECT_TRUE(*i.get(txn, "pk1", value) && value == most + "|");
        ASSERT_OK(txn.commit());
    });
    EXPECT_EQ(pairs_of(store).size(), 1u);
    expect_sound(store);
}

// Both keys are long: a unique index then has the primary key in an overflow chain.
TEST_F(SecondaryTest, LongKeysOfAUniqueIndex) {
    Store store = open_both("a", true);
    const std::string key(kKeyBytesMax, 'p'), own(kKeyBytesMax, 's');
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        const Index i = TRY(store.index("i"));
        TRY(i.insert(txn, key, own + "|"));
        EXPECT_TRUE(TRY(i.update(txn, key, own + "|more")));
        return {};
    }));
    EXPECT_EQ(pairs_of(store), (Pairs{{own, key}}));
    expect_sound(store);
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        TRY(store.drop(txn, "s"));
        TRY(make_secondary(store, txn, true, "t"));
        return {};
    }));
    EXPECT_EQ(pairs_of(store, "t"), (Pairs{{own, key}}));
    expect_sound(store);
}

TEST_F(SecondaryTest, OnlyTheStoreChangesIt) {
    Store store = open_both();
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index s = *store.index("s");
        ASSERT_OK(store.index("i")->insert(txn, "1", "a|"));
        Cursor cursor = s.scan(txn, {}, {}, Access::write);
        ASSERT_TRUE(*cursor.next());
        const std::string entry(cursor.key());
        EXPECT_EQ(entry, sm::entry_of(false, "a", "1"));
        const NewRecord many[] = {{"x", ""}, {"y", ""}};
        Lookup both[] = {{.key = entry, .buffer = {}}, {.key = "z", .buffer = {}}};
        const ErrorCode codes[] = {
            code_of(s.insert(txn, "x", "")),
            code_of(s.put(txn, entry, "")),
            code_of(s.update(txn, entry, "v")),
            code_of(s.patch(txn, entry, 0, "")),
            code_of(s.modify(txn, entry, {}, [](auto) { return ByteRange{}; })),
            code_of(s.modify_many(txn, both, [](size_t, auto) { return ByteRange{}; })),
            code_of(s.erase(txn, entry)),
            code_of(s.insert_many(txn, many)),
            code_of(cursor.patch(0, "")),
            code_of(store.bulk_load(txn, s, [](Slice&, Slice&) { return false; })),
            code_of(store.create_index(txn, "t", {.of = s, .key = first_field})),
            code_of(store.create_index(txn, "t", {.key = first_field})),
            code_of(store.create_index(txn, "t", {.of = *store.index("i")}))};
        for (const ErrorCode code : codes) EXPECT_EQ(code, ErrorCode::bad_argument);
        ASSERT_OK(txn.commit());
    });
    EXPECT_EQ(pairs_of(store), (Pairs{{"a", "1"}}));
    expect_sound(store);
}

TEST_F(SecondaryTest, ReadsByAnotherIndexAreRefused) {
    Store store = open_both();
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index i = *store.index("i");
        SecondaryRecord record;
        for (const char* key : {"1", "none"}) {  // in the index, and in an empty range
            EXPECT_EQ(code_of(get_by(txn, i, key, record)), ErrorCode::bad_argument) << key;
            EXPECT_EQ(code_of(find_by(txn, i, key).next()), ErrorCode::bad_argument) << key;
            EXPECT_EQ(code_of(scan_by(txn, i, key).prev()), ErrorCode::bad_argument) << key;
            ASSERT_OK(i.put(txn, "1", "a|"));
        }
        ASSERT_OK(txn.commit());
    });
}

TEST_F(SecondaryTest, ReadsGiveTheRecord) {
    for (const bool unique : {false, true}) {
        Store store = open_both(unique ? "u" : "n", unique);
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            const Index i = TRY(store.index("i"));
            TRY(i.insert(txn, "1", "b|one"));
            TRY(i.insert(txn, "2", "a|two"));
            TRY(i.insert(txn, "3", "c|three"));
            if (!unique) TRY(i.insert(txn, "0", "b|zero"));
            return {};
        }));
        for (const Isolation isolation :
             {Isolation::serializable, Isolation::repeatable_read, Isolation::read_committed}) {
            const auto done = store.run(
                [&](Txn& txn) -> Result<void> {
                    const Index s = TRY(store.index("s"));
                    SecondaryRecord record;
                    EXPECT_TRUE(TRY(get_by(txn, s, "b", record)));
                    EXPECT_EQ(record.value, unique ? "b|one" : "b|zero");
                    EXPECT_FALSE(TRY(get_by(txn, s, "", record)));
                    EXPECT_FALSE(TRY(get_by(txn, s, "bb", record)));
                    std::string up, down;
                    SecondaryCursor cursor = scan_by(txn, s, "b", "d", Access::update);
                    while (TRY(cursor.next())) up += cursor.key();
                    SecondaryCursor back = find_by(txn, s, "b");
                    while (TRY(back.prev())) down += back.key();
                    EXPECT_EQ(up, unique ? "13" : "013");
                    EXPECT_EQ(down, unique ? "1" : "10");
                    SecondaryCursor none = scan_by(txn, TRY(store.index("i")));
                    EXPECT_EQ(code_of(none.next()), ErrorCode::bad_argument);
                    SecondaryCursor empty = scan_by(txn, Index());
                    EXPECT_EQ(code_of(empty.next()), ErrorCode::no_such_object);
                    return {};
                },
                {.isolation = isolation});
            ASSERT_OK(done);
        }
    }
}

// At read_committed the entry is locked again before its record is read. A writer that waits
// meanwhile may give the secondary key to another record, or to none.
TEST_F(SecondaryTest, AUniqueKeyThatChangesItsRecordBetweenEntryAndRecord) {
    for (const std::string change : {"updated", "erased", "lost"}) {
        Store store = open_both(change.c_str(), true);
        ASSERT_OK(store.run([&](Txn& txn) { return store.index("i")->insert(txn, "1", "k|"); }));
        const auto await_waits = [&](uint64_t n) {
            while (store.stats().lock_waits < n) yield();
        };
        on_thread(store, [&] {
            const Index i = *store.index("i");
            Txn first = std::move(*store.begin());
            // The statement is rolled back, but the entry stays locked.
            EXPECT_EQ(code_of(i.insert(first, "9", "k|")), ErrorCode::duplicate_key);
            const uint64_t waits = store.stats().lock_waits;
            SecondaryRecord seen;
            auto reader = store.start([&]() -> Result<bool> {
                Txn txn = TRY(store.begin({.isolation = Isolation::read_committed}));
                return get_by(txn, TRY(store.index("s")), "k", seen);
            });
            await_waits(waits + 1);
            auto writer = store.spawn([&](Txn& txn) -> Result<void> {
                TRY(change == "erased" ? i.erase(txn, "1") : i.update(txn, "1", "m|"));
                return change == "lost" ? Result<void>() : i.insert(txn, "2", "k|new");
            });
            await_waits(waits + 2);
            ASSERT_OK(first.abort());
            ASSERT_OK(writer.join());
            const auto found = reader.join();
            ASSERT_TRUE(found.has_value()) << found.error().text();
            ASSERT_EQ(*found, change != "lost") << change;
            if (!*found) return;
            EXPECT_EQ(seen.key, "2");
            EXPECT_EQ(seen.value, "k|new");
        });
    }
}

// A serializable read of a secondary key protects its absence.
TEST_F(SecondaryTest, NoPhantoms) {
    Store store = open_both();
    ASSERT_OK(store.run([&](Txn& txn) { return store.index("i")->insert(txn, "1", "a|"); }));
    on_thread(store, [&] {
        Txn reader = std::move(*store.begin());
        SecondaryRecord record;
        EXPECT_FALSE(*get_by(reader, *store.index("s"), "m", record));
        bool written = false;
        auto writer = store.spawn([&](Txn& txn) -> Result<void> {
            TRY(TRY(store.index("i")).update(txn, "1", "m|"));
            written = true;
            return {};
        });
        for (int n = 0; n < 20; ++n) yield();
        EXPECT_FALSE(written);
        EXPECT_FALSE(*get_by(reader, *store.index("s"), "m", record));
        ASSERT_OK(reader.commit());
        ASSERT_OK(writer.join());
    });
    EXPECT_EQ(pairs_of(store), (Pairs{{"m", "1"}}));
}

TEST_F(SecondaryTest, BulkLoadFillsIt) {
    Store store = open_both();
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        int n = 0;
        std::string k, v;
        const auto rows = [&](Slice& key, Slice& value) {
            k = std::to_string(1000 + n), v = "v" + std::to_string(n % 7) + "|";
            key = k, value = v;
            return n++ < 500;
        };
        ASSERT_OK(store.bulk_load(txn, *store.index("i"), rows));
        ASSERT_OK(txn.commit());
    });
    EXPECT_EQ(pairs_of(store).size(), 500u);
    expect_sound(store);
}

}  // namespace lockstep::secondary_test
