// labels: unit
// secondary_test.cc - secondary indexes: every way to change a record, rollback, savepoints,
// refused statements, unique and partial indexes, reopening, drop, verify.
#include "tests/sm/store/secondary_util.h"

#include <atomic>

#include "sm/btree/btree.h"
#include "sm/core/upkeep.h"
#include "sm/store/catalog.h"
#include "sm/store/engine_of.h"
#include "sm/store/secondary.h"
#include "sm/store/secondary_key.h"

namespace lockstep {
namespace {

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

TEST_F(SecondaryTest, WithoutFunctionItIsReadAndNeverLeftBehind) {
    {
        Store store = open_both();
        ASSERT_OK(store.run([&](Txn& txn) { return store.index("i")->insert(txn, "1", "a|"); }));
    }
    Store store = open("a");
    EXPECT_EQ(pairs_of(store), (Pairs{{"a", "1"}}));
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index i = *store.index("i");
        const auto refused = i.insert(txn, "2", "b|");
        ASSERT_EQ(code_of(refused), ErrorCode::key_function_missing);
        const std::string text = refused.error().text();
        for (const char* part : {"\"s\"", "\"i\"", "attach_key"})
            EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
        EXPECT_EQ(code_of(i.put(txn, "1", "b|")), ErrorCode::key_function_missing);
        EXPECT_EQ(code_of(i.update(txn, "1", "b|")), ErrorCode::key_function_missing);
        EXPECT_EQ(code_of(i.patch(txn, "1", 0, "b")), ErrorCode::key_function_missing);
        EXPECT_EQ(code_of(i.erase(txn, "1")), ErrorCode::key_function_missing);
        Cursor cursor = i.scan(txn, {}, {}, Access::write);
        ASSERT_TRUE(*cursor.next());
        EXPECT_EQ(code_of(cursor.patch(0, "b")), ErrorCode::key_function_missing);
        ASSERT_OK(txn.commit());  // it went on
    });
    expect_sound(store);  // what can be checked
    EXPECT_EQ(code_of(store.attach_key("s", {})), ErrorCode::bad_argument);
    EXPECT_EQ(code_of(store.attach_key("i", first_field)), ErrorCode::wrong_kind);
    EXPECT_EQ(code_of(store.attach_key("x", first_field)), ErrorCode::no_such_object);
    ASSERT_OK(store.attach_key("s", first_field));
    ASSERT_OK(store.run([&](Txn& txn) { return store.index("i")->insert(txn, "2", "b|"); }));
    EXPECT_EQ(pairs_of(store), (Pairs{{"a", "1"}, {"b", "2"}}));
    expect_sound(store);
}

TEST_F(SecondaryTest, OpenOrCreateMakesItOnceAndAttaches) {
    for (int times = 0; times < 3; ++times) {
        Store store = open("a");
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            const Index i = TRY(store.open_or_create_index(txn, "i"));
            const SecondaryOptions options{.of = i, .key = first_field};
            const Index s = TRY(store.open_or_create_index(txn, "s", options));
            EXPECT_EQ(TRY(store.open_or_create_index(txn, "s", options)).id(), s.id());
            TRY(i.insert(txn, std::to_string(times), "k" + std::to_string(times) + "|"));
            EXPECT_EQ(code_of(store.open_or_create_index(
                          txn, "s", {.of = i, .key = first_field, .unique = true})),
                      ErrorCode::bad_argument);
            EXPECT_EQ(code_of(store.open_or_create_index(txn, "i", options)),
                      ErrorCode::wrong_kind);
            EXPECT_EQ(code_of(store.create_index(txn, "s", options)), ErrorCode::already_exists);
            return {};
        }));
        EXPECT_EQ(pairs_of(store).size(), static_cast<size_t>(times) + 1);
        expect_sound(store);
    }
}

TEST_F(SecondaryTest, ItIsFilledFromTheRecordsThatExist) {
    Store store = open("a");
    ASSERT_OK(make_primary(store));
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        const Index i = TRY(store.index("i"));
        TRY(i.insert(txn, "1", "a|"));
        TRY(i.insert(txn, "2", "b,c|" + std::string(9000, 'x')));
        TRY(i.insert(txn, "3", "d|"));
        TRY(i.erase(txn, "3"));
        return {};
    }));
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        TRY(TRY(store.index("i")).insert(txn, "4", "e|"));  // its creator's own
        TRY(make_secondary(store, txn));
        TRY(TRY(store.index("i")).insert(txn, "5", "f|"));
        return {};
    }));
    EXPECT_EQ(pairs_of(store), (Pairs{{"a", "1"}, {"b", "2"}, {"c", "2"}, {"e", "4"}, {"f", "5"}}));
    expect_sound(store);
}

TEST_F(SecondaryTest, ABuildThatFailsLeavesNothing) {
    Store store = open("a");
    ASSERT_OK(make_primary(store));
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index i = *store.index("i");
        ASSERT_OK(i.insert(txn, "1", "a|"));
        ASSERT_OK(i.insert(txn, "2", "a|"));
        const auto made = make_secondary(store, txn, true);
        ASSERT_EQ(code_of(made), ErrorCode::duplicate_key);
        EXPECT_NE(made.error().text().find("record \"2\""), std::string::npos)
            << made.error().text();
        EXPECT_EQ(code_of(store.index(txn, "s")), ErrorCode::no_such_object);
        ASSERT_OK(i.insert(txn, "3", "a|"));  // not kept up any more
        ASSERT_OK(make_secondary(store, txn));
        ASSERT_OK(txn.commit());
    });
    EXPECT_EQ(pairs_of(store), (Pairs{{"a", "1"}, {"a", "2"}, {"a", "3"}}));
    expect_sound(store);
}

// SI-4: the creator's savepoints decide, then its end.
TEST_F(SecondaryTest, ItExistsAsItsCreatorSeesIt) {
    Store store = open("a");
    ASSERT_OK(make_primary(store));
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index i = *store.index("i");
        const Savepoint point = *txn.savepoint();
        ASSERT_OK(make_secondary(store, txn, true));
        ASSERT_OK(i.insert(txn, "1", "a|"));
        EXPECT_EQ(code_of(i.insert(txn, "2", "a|")), ErrorCode::duplicate_key);
        ASSERT_OK(txn.rollback_to(point));
        ASSERT_OK(i.insert(txn, "1", "a|"));
        ASSERT_OK(i.insert(txn, "2", "a|"));
        ASSERT_OK(txn.commit());
    });
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        ASSERT_OK(make_secondary(store, txn));
        ASSERT_OK(txn.abort());
    });
    ASSERT_OK(store.run([&](Txn& txn) { return store.index("i")->insert(txn, "3", "a|"); }));
    EXPECT_EQ(store.list().size(), 1u);
    expect_sound(store);
}

TEST_F(SecondaryTest, ItIsDroppedAloneOrWithItsPrimary) {
    Store store = open_both("a", true);
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index i = *store.index("i");
        ASSERT_OK(i.insert(txn, "1", "a|"));
        const Savepoint point = *txn.savepoint();
        ASSERT_OK(store.drop(txn, "s"));
        ASSERT_OK(i.insert(txn, "2", "a|"));
        ASSERT_OK(txn.rollback_to(point));
        EXPECT_EQ(code_of(i.insert(txn, "2", "a|")), ErrorCode::duplicate_key);
        ASSERT_OK(store.drop(txn, "s"));
        ASSERT_OK(i.insert(txn, "2", "a|"));
        ASSERT_OK(txn.commit());
    });
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        TRY(store.index("i")->insert(txn, "3", "a|"));
        TRY(make_secondary(store, txn));
        TRY(make_secondary(store, txn, false, "t"));
        return {};
    }));
    EXPECT_EQ(pairs_of(store).size(), 3u);
    EXPECT_EQ(store.list().size(), 3u);
    for (const Store::Entry& entry : store.list())
        EXPECT_EQ(entry.of, entry.name == "i" ? ObjectId{} : store.index("i")->id());
    expect_sound(store);
    ASSERT_OK(store.run([&](Txn& txn) { return store.drop(txn, "i"); }));
    EXPECT_TRUE(store.list().empty());
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

// UP-1, SI-3: writers that wait for the creator find the new index.
TEST_F(SecondaryTest, WritersThatWaitForItsCreatorKeepItUp) {
    Store store = open("a", small_options(2));
    ASSERT_OK(make_primary(store));
    on_thread(store, [&] {
        Txn early = std::move(*store.begin());
        ASSERT_OK(store.index("i")->insert(early, "0", "early|"));
        std::atomic<bool> made = false;
        auto creator = store.spawn([&](Txn& txn) -> Result<void> {
            TRY(make_secondary(store, txn));
            made = true;
            sleep_for(20 * kMillisecond);
            return {};
        });
        for (int n = 0; n < 20; ++n) yield();
        EXPECT_FALSE(made);
        ASSERT_OK(early.commit());
        std::vector<Handle<void>> writers;
        for (int n = 1; n < 6; ++n)
            writers.push_back(store.spawn([&store, &made, n](Txn& txn) -> Result<void> {
                while (!made) sleep_for(kMillisecond);
                const std::string key = std::to_string(n), next = key + "+";
                const std::string value = "late" + key + "|";
                const NewRecord many[] = {{key, value}, {next, value}};
                return TRY(store.index("i")).insert_many(txn, many);
            }));
        ASSERT_OK(creator.join());
        for (auto& writer : writers) ASSERT_OK(writer.join());
    });
    EXPECT_EQ(pairs_of(store).size(), 11u);
    expect_sound(store);
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

// The application's function must not change. If it does, the store notices.
TEST_F(SecondaryTest, AnotherFunctionIsNoticed) {
    Store store = open_both();
    ASSERT_OK(store.run([&](Txn& txn) { return store.index("i")->insert(txn, "1", "a|"); }));
    ASSERT_OK(store.attach_key("s", [](Slice, Slice, SecondaryKeys& keys) { keys.add("other"); }));
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const auto erased = store.index("i")->erase(txn, "1");
        EXPECT_EQ(code_of(erased), ErrorCode::index_mismatch);
        EXPECT_NE(erased.error().text().find("key function"), std::string::npos);
        std::string value;
        EXPECT_TRUE(*store.index("i")->get(txn, "1", value));
        ASSERT_OK(txn.commit());
    });
    EXPECT_EQ(store.verify()->size(), 2u);  // the entry and the record
    ASSERT_OK(store.attach_key("s", first_field));
    expect_sound(store);
}

// Entries that are changed around the store: verify() names each, in both directions.
TEST_F(SecondaryTest, VerifyFindsDamageBothWays) {
    for (const bool unique : {false, true}) {
        Store store = open_both(unique ? "u" : "n", unique);
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            TRY(TRY(store.index("i")).insert(txn, "1", "a|"));
            return TRY(store.index("i")).insert(txn, "2", "b|");
        }));
        sm::Engine& engine = sm::engine_of(store);
        const auto around = [&](const char* index, auto change) {
            ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
                (void)txn;
                sm::BTree& tree = *TRY(engine.catalog->index(index));
                sm::Upkeep* const upkeep = tree.upkeep();
                tree.set_upkeep(nullptr);
                const auto done = change(*store.index(index), txn);
                tree.set_upkeep(upkeep);
                return done ? Result<void>{} : std::unexpected(done.error());
            }));
        };
        const auto expect_fault = [&](const char* part, size_t faults) {
            const auto found = store.verify();
            ASSERT_OK(found);
            EXPECT_EQ(found->size(), faults);
            for (const std::string& fault : *found)
                EXPECT_NE(fault.find(part), std::string::npos) << fault;
        };
        const std::string entry = sm::entry_of(unique, "a", "1");
        const Slice value = sm::entry_value(unique, "1");
        around("s", [&](Index s, Txn& txn) { return s.erase(txn, entry); });
        expect_fault("lacks its entry", 1);
        around("s", [&](Index s, Txn& txn) { return s.insert(txn, entry, value); });
        expect_fault("", 0);
        const std::string wrong = sm::entry_of(unique, "zz", "1");
        around("s", [&](Index s, Txn& txn) { return s.insert(txn, wrong, value); });
        expect_fault("is not one of record", 1);
        around("s", [&](Index s, Txn& txn) { return s.erase(txn, wrong); });
        around("i", [&](Index i, Txn& txn) { return i.erase(txn, "2"); });
        expect_fault("has no record", 1);
        around("i", [&](Index i, Txn& txn) { return i.insert(txn, "2", "b|"); });
        expect_fault("", 0);
        if (unique) continue;
        around("s", [&](Index s, Txn& txn) { return s.insert(txn, "junk", ""); });
        expect_fault("is none", 1);
        around("s", [&](Index s, Txn& txn) { return s.erase(txn, "junk"); });
    }
}

TEST_F(SecondaryTest, VerifySaysWhatItCannotCheck) {
    {
        Store store = open_both();
        ASSERT_OK(store.run([&](Txn& txn) { return store.index("i")->insert(txn, "1", "a|"); }));
    }
    Options options = small_options();
    std::string said;
    options.logger = [&](int level, std::string_view text) {
        if (level == 2) said += text;
    };
    Store store = open("a", options);
    expect_sound(store);
    EXPECT_NE(said.find("\"s\" has no key function"), std::string::npos) << said;
    ASSERT_OK(store.close());
}

}  // namespace
}  // namespace lockstep
