// labels: unit
// open_or_create_test.cc - names as a transaction sees them: its own creations and drops, names
// that others are just creating or dropping, and rollback of the creator.
#include "sm/services/ghost_cleaner.h"
#include "tests/code_of.h"
#include "tests/sim_store.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::open_or_create_test {

class Names : public StoreCrash {
protected:
    // Runs `fn` in a transaction of its own on this user thread, and rolls it back.
    static void in_txn(Store& store, const TxnOptions& options, std::function<void(Txn&)> fn) {
        Result<Txn> txn = store.begin(options);
        ASSERT_TRUE(txn);
        fn(*txn);
        if (txn->live()) ASSERT_OK(txn->abort());
    }
};

constexpr Isolation kIsolations[] = {Isolation::serializable, Isolation::repeatable_read,
                                     Isolation::read_committed};

TEST_F(Names, OwnCreationsAreFound) {
    Store store = open("s");
    on_thread(store, [&] {
        for (const Isolation isolation : kIsolations) {
            in_txn(store, {.isolation = isolation}, [&](Txn& txn) {
                EXPECT_EQ(code_of(store.index(txn, "i")), ErrorCode::no_such_object);
                const Index made = *store.create_index(txn, "i");
                const Heap heap = *store.create_heap(txn, "h");
                EXPECT_EQ(store.index(txn, "i")->id(), made.id());
                EXPECT_EQ(store.heap(txn, "h")->id(), heap.id());
                EXPECT_EQ(code_of(store.heap(txn, "i")), ErrorCode::wrong_kind);
                EXPECT_EQ(code_of(store.index(txn, "h")), ErrorCode::wrong_kind);
                EXPECT_EQ(store.open_or_create_index(txn, "i")->id(), made.id());
                EXPECT_EQ(store.open_or_create_heap(txn, "h")->id(), heap.id());
                EXPECT_EQ(code_of(store.open_or_create_heap(txn, "i")), ErrorCode::wrong_kind);
                ASSERT_OK(store.index(txn, "i")->put(txn, "k", "v"));
                EXPECT_EQ(code_of(store.index("i")), ErrorCode::no_such_object);
                ASSERT_OK(store.drop(txn, "i"));
                EXPECT_EQ(code_of(store.index(txn, "i")), ErrorCode::no_such_object);
            });
            EXPECT_TRUE(store.list().empty());
        }
    });
    expect_sound(store);
}

TEST_F(Names, OpenOrCreateKeepsWhatIsThere) {
    for (int times = 0; times < 3; ++times) {
        Store store = open("s");
        const Result<void> done = store.run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store.open_or_create_index(txn, "i"));
            TRY(index.insert(txn, "k" + std::to_string(times), "v"));
            TRY(TRY(store.open_or_create_heap(txn, "h")).insert(txn, "record"));
            return {};
        });
        ASSERT_OK(done);
        EXPECT_EQ(index_content(store, "i").size(), times + 1u);
        EXPECT_EQ(store.list().size(), 2u);
        expect_sound(store);
    }
}

TEST_F(Names, OwnDropFreesTheName) {
    Store store = open("s");
    make(store, "i", "h");
    on_thread(store, [&] {
        for (const Isolation isolation : kIsolations) {
            in_txn(store, {.isolation = isolation}, [&](Txn& txn) {
                const Index before = *store.index(txn, "i");
                ASSERT_OK(before.put(txn, "k", "v"));
                const Savepoint there = *txn.savepoint();
                ASSERT_OK(store.drop(txn, "i"));
                EXPECT_EQ(code_of(store.index(txn, "i")), ErrorCode::no_such_object);
                const Index made = *store.open_or_create_index(txn, "i");
                EXPECT_NE(made.id(), before.id());
                std::string value;
                EXPECT_FALSE(*made.get(txn, "k", value));
                ASSERT_OK(txn.rollback_to(there));
                EXPECT_EQ(store.index(txn, "i")->id(), before.id());
                EXPECT_EQ(store.open_or_create_index(txn, "i")->id(), before.id());
                EXPECT_TRUE(*before.get(txn, "k", value));
                ASSERT_OK(txn.commit());
            });
        }
    });
    EXPECT_EQ(index_content(store, "i").size(), 1u);
    expect_sound(store);
}

TEST_F(Names, RollbackToASavepointTakesTheCreationBack) {
    Store store = open("s");
    on_thread(store, [&] {
        in_txn(store, {}, [&](Txn& txn) {
            const Savepoint before = *txn.savepoint();
            const Index first = *store.open_or_create_index(txn, "i");
            ASSERT_OK(first.put(txn, "k", "v"));
            ASSERT_OK(txn.rollback_to(before));
            EXPECT_EQ(code_of(store.index(txn, "i")), ErrorCode::no_such_object);
            const Index second = *store.open_or_create_index(txn, "i");
            EXPECT_NE(second.id(), first.id());
            ASSERT_OK(second.put(txn, "k2", "v"));
            ASSERT_OK(txn.commit());
        });
    });
    EXPECT_EQ(index_content(store, "i").size(), 1u);
    expect_sound(store);
}

TEST_F(Names, MisuseIsAnError) {
    Store store = open("s");
    make(store, "i", "h");
    Store other = open("t");
    on_thread(store, [&] {
        in_txn(store, {.read_only = true}, [&](Txn& txn) {
            EXPECT_EQ(code_of(store.index(txn, "i")), ErrorCode::none);
            EXPECT_EQ(code_of(store.open_or_create_index(txn, "i")), ErrorCode::read_only);
            EXPECT_EQ(code_of(store.index(txn, "")), ErrorCode::bad_argument);
            const auto longer = store.index(txn, std::string(129, 'n'));
            EXPECT_EQ(code_of(longer), ErrorCode::bad_argument);
            // Both the length and the limit.
            EXPECT_TRUE(longer.error().text().ends_with("the most that it may have] (129, 128)"))
                << longer.error().text();
            EXPECT_TRUE(store.index(txn, std::string(128, 'n')).error().code ==
                        ErrorCode::no_such_object);
            EXPECT_EQ(code_of(store.index(txn, std::string_view("\0", 1))),
                      ErrorCode::bad_argument);
            EXPECT_EQ(code_of(other.index(txn, "i")), ErrorCode::bad_argument);
            EXPECT_EQ(code_of(other.open_or_create_index(txn, "i")), ErrorCode::bad_argument);
            ASSERT_OK(txn.commit());  // none of these forced a rollback
            EXPECT_EQ(code_of(store.index(txn, "i")), ErrorCode::txn_ended);
            EXPECT_EQ(code_of(store.open_or_create_heap(txn, "h")), ErrorCode::txn_ended);
        });
    });
}

// A second transaction asks while the first has made the name and not ended.
TEST_F(Names, OthersWaitForTheCreator) {
    Store store = open("s");
    for (const Isolation isolation : kIsolations) {
        for (const bool commits : {true, false}) {
            on_thread(store, [&] {
                Txn creator = std::move(*store.begin());
                const Index made = *store.open_or_create_index(creator, "i");
                ASSERT_OK(made.put(creator, "creator", "v"));
                EXPECT_EQ(code_of(store.index("i")), ErrorCode::no_such_object);
                bool ended = false;
                auto reader = store.spawn(
                    [&](Txn& txn) -> Result<void> {
                        const Result<Index> found = store.index(txn, "i");
                        EXPECT_TRUE(ended);
                        EXPECT_EQ(code_of(found),
                                  commits ? ErrorCode::none : ErrorCode::no_such_object);
                        return {};
                    },
                    {.isolation = isolation});
                sleep_for(5 * kMillisecond);
                auto second = store.spawn(
                    [&](Txn& txn) -> Result<void> {
                        const Index found = TRY(store.open_or_create_index(txn, "i"));
                        EXPECT_TRUE(ended);
                        EXPECT_EQ(found.id() == made.id(), commits);
                        return found.put(txn, "second", "v");
                    },
                    {.isolation = isolation});
                sleep_for(5 * kMillisecond);
                ended = true;
                if (commits) {
                    ASSERT_OK(creator.commit());
                } else {
                    ASSERT_OK(creator.abort());
                }
                ASSERT_OK(reader.join());
                ASSERT_OK(second.join());
            });
            EXPECT_EQ(store.stats().deadlocks, 0u);
            EXPECT_EQ(index_content(store, "i").size(), commits ? 2u : 1u);
            ASSERT_OK(store.run([&](Txn& txn) { return store.drop(txn, "i"); }));
            expect_sound(store);
        }
    }
}

TEST_F(Names, OthersWaitForTheDropper) {
    Store store = open("s");
    make(store, "i", "h");
    on_thread(store, [&] {
        Txn dropper = std::move(*store.begin());
        const Index before = *store.index("i");
        ASSERT_OK(store.drop(dropper, "i"));
        Index made;
        auto second = store.spawn([&](Txn& txn) -> Result<void> {
            made = TRY(store.open_or_create_index(txn, "i"));
            return made.put(txn, "k", "v");
        });
        sleep_for(5 * kMillisecond);
        EXPECT_FALSE(made);
        ASSERT_OK(dropper.commit());
        ASSERT_OK(second.join());
        EXPECT_NE(made.id(), before.id());
    });
    EXPECT_EQ(index_content(store, "i").size(), 1u);
    expect_sound(store);
}

// Many transactions on two workers, of which a third rolls back: one index is made, and every
// committed record is in it.
TEST_F(Names, ManyCreateTheSameNameAtOnce) {
    constexpr int kTransactions = 60;
    for (const Isolation isolation : kIsolations) {
        for (const bool teams : {false, true}) {
            const std::string name =
                "s" + std::to_string(static_cast<int>(isolation)) + std::to_string(teams);
            Options options = small_options(2);
            options.steps.mode = teams ? StepsMode::on : StepsMode::off;
            Store store = open(name, options);
            std::vector<Handle<void>> handles;
            for (int n = 0; n < kTransactions; ++n)
                handles.push_back(store.spawn(
                    [&store, n](Txn& txn) -> Result<void> {
                        const Index index = TRY(store.open_or_create_index(txn, "i"));
                        const Heap heap = TRY(store.open_or_create_heap(txn, "h"));
                        TRY(index.insert(txn, "k" + std::to_string(n), "v"));
                        TRY(heap.insert(txn, "record"));
                        if (n % 3 == 0) return fail(ErrorCode::rolled_back);
                        return {};
                    },
                    {.isolation = isolation, .durability = Durability::lazy}));
            for (int n = 0; n < kTransactions; ++n)
                EXPECT_EQ(code_of(handles[static_cast<size_t>(n)].join()),
                          n % 3 == 0 ? ErrorCode::rolled_back : ErrorCode::none);
            EXPECT_EQ(index_content(store, "i").size(), kTransactions * 2u / 3);
            EXPECT_EQ(store.list().size(), 2u);
            EXPECT_EQ(store.stats().deadlocks, 0u);
            expect_sound(store);
        }
    }
}

// CA-3. The ends of the creator and of the dropper wait, without locks, because each has dropped
// something else before. Meanwhile a third makes a new object of the name.
TEST(NamesSim, LateEndsLeaveTheNewerObject) {
    threads::SimDisk disk({.seed = seed_of_run()});
    SimStore store(disk, seed_of_run());
    ASSERT_OK(store.open());
    ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
        TRY(store->create_index(txn, "a"));
        TRY(store->create_index(txn, "b"));
        TRY(store->create_index(txn, "c"));
        return {};
    }));
    int ended = 0;
    const auto in_txn = [&](std::function<Result<void>(Txn&)> body) {
        return store->start([&store, &ended, body]() -> Result<void> {
            TRY(store->run(body, {.durability = Durability::lazy}));
            ++ended;
            return {};
        });
    };
    store.on_thread([&] {
        sm::GhostCleaner& ghosts = *store.engine().ghosts;
        ghosts.hold();  // who frees an index waits for it
        auto creator = in_txn([&](Txn& txn) -> Result<void> {
            TRY(store->drop(txn, "a"));
            TRY(store->create_index(txn, "i"));
            return {};
        });
        sleep_for(kMillisecond);
        auto dropper = in_txn([&](Txn& txn) -> Result<void> {
            TRY(store->drop(txn, "b"));
            TRY(store->drop(txn, "c"));
            return store->drop(txn, "i");
        });
        sleep_for(kMillisecond);
        ObjectId newer{};
        ASSERT_OK(store->run([&](Txn& txn) -> Result<void> {
            newer = TRY(store->create_index(txn, "i")).id();
            return {};
        }));
        ASSERT_EQ(ended, 0) << "the test is blind";
        const auto look = [&] {
            const auto found = store->index("i");
            ASSERT_OK(found);
            EXPECT_EQ(found->id(), newer);
            const auto list = store->list();
            ASSERT_EQ(list.size(), 1u);
            EXPECT_EQ(list.front().id, newer);
        };
        ghosts.resume();
        ghosts.hold();  // behind the creator's end, and before the dropper's second index
        EXPECT_EQ(ended, 1) << "the test is blind";
        look();
        ghosts.resume();
        EXPECT_TRUE(creator.join());
        EXPECT_TRUE(dropper.join());
        look();
    });
    EXPECT_TRUE(store.close());
}

}  // namespace lockstep::open_or_create_test
