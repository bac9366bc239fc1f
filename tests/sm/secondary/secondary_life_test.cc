// labels: unit
// secondary_life_test.cc - the life of a secondary index: made, filled, reopened with or without
// its key function, dropped; and what verify() says of it.
#include "tests/sm/secondary/secondary_util.h"

#include <atomic>

#include "sm/api/engine_of.h"
#include "sm/btree/btree.h"
#include "sm/catalog/catalog.h"
#include "sm/core/upkeep.h"
#include "sm/secondary/secondary_key.h"

namespace lockstep::secondary_life_test {

class SecondaryLifeTest : public SecondaryStore {};

TEST_F(SecondaryLifeTest, WithoutFunctionItIsReadAndNeverLeftBehind) {
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

TEST_F(SecondaryLifeTest, OpenOrCreateMakesItOnceAndAttaches) {
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
            for (const uint64_t bytes : {(1ull << 20) - 1, (1ull << 40) + 1}) {
                const auto refused = store.create_index(
                    txn, "t", {.of = i, .key = first_field, .build_bytes = bytes});
                EXPECT_EQ(code_of(refused), ErrorCode::bad_argument);
                EXPECT_NE(refused.error().text().find("1 MB to 1 TB"), std::string::npos);
            }
            return {};
        }));
        EXPECT_EQ(pairs_of(store).size(), static_cast<size_t>(times) + 1);
        expect_sound(store);
    }
}

TEST_F(SecondaryLifeTest, ItIsFilledFromTheRecordsThatExist) {
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

// A restart reads the catalog before it undoes anything, and the index is live there.
TEST_F(SecondaryLifeTest, ARestartThatUndoesItsCreationForgetsIt) {
    Store store = open("a");
    ASSERT_OK(make_primary(store));
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        ASSERT_OK(make_secondary(store, txn));
        ASSERT_OK(store.index("i")->insert(txn, "1", "a|"));
        ASSERT_OK(store.wait_durable(sm::engine_of(store).log->tail()));
        copy("a", "killed");
        ASSERT_OK(txn.abort());
    });
    Store killed = open("killed");
    EXPECT_EQ(code_of(killed.index("s")), ErrorCode::no_such_object);
    ASSERT_OK(killed.run([&](Txn& txn) { return killed.index("i")->insert(txn, "2", "b|"); }));
    expect_sound(killed);
}

TEST_F(SecondaryLifeTest, ABuildThatFailsLeavesNothing) {
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
TEST_F(SecondaryLifeTest, ItExistsAsItsCreatorSeesIt) {
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

TEST_F(SecondaryLifeTest, ItIsDroppedAloneOrWithItsPrimary) {
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

// The entry of its primary would be missing at the next open.
TEST_F(SecondaryLifeTest, NoneIsMadeOfADroppedPrimary) {
    {
        Store store = open("a");
        ASSERT_OK(make_primary(store));
        for (const bool rolled_back : {true, false})
            ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
                const Index i = TRY(store.index("i"));
                const Savepoint before = TRY(txn.savepoint());
                TRY(store.drop(txn, "i"));
                EXPECT_EQ(code_of(store.create_index(txn, "s", {.of = i, .key = first_field})),
                          ErrorCode::no_such_object);
                if (!rolled_back) return {};
                TRY(txn.rollback_to(before));
                TRY(store.create_index(txn, "s", {.of = i, .key = first_field}));
                return {};
            }));
        EXPECT_TRUE(store.list().empty());
        ASSERT_OK(store.close());
    }
    Store store = open("a");
    expect_sound(store);
}

// UP-1, SI-3: writers that wait for the creator find the new index.
TEST_F(SecondaryLifeTest, WritersThatWaitForItsCreatorKeepItUp) {
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

// The application's function must not change. If it does, the store notices.
TEST_F(SecondaryLifeTest, AnotherFunctionIsNoticed) {
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
TEST_F(SecondaryLifeTest, VerifyFindsDamageBothWays) {
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
                return done.has_value() ? Result<void>{} : std::unexpected(done.error());
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

TEST_F(SecondaryLifeTest, VerifySaysWhatItCannotCheck) {
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

}  // namespace lockstep::secondary_life_test
