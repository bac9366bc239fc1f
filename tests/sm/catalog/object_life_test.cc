// labels: unit
// object_life_test.cc - objects made and dropped around savepoints and within one
// transaction; cursors at the end of what was erased.
#include "sm/api/engine_of.h"
#include "sm/btree/btree.h"
#include "sm/btree/btree_node.h"
#include "sm/btree/overflow.h"
#include "sm/catalog/catalog.h"
#include "sm/change/rollback.h"
#include "sm/services/ghost_cleaner.h"
#include "sm/space/space_map.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep::object_life_test {

class ObjectLife : public StoreCrash {};

TEST_F(ObjectLife, ARollbackToASavepointTakesADropBack) {
    Store store = open("s");
    make(store, "i", "h");
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        ASSERT_OK(store.index("i")->put(txn, "k", "v"));
        const Savepoint before = *txn.savepoint();
        ASSERT_OK(store.drop(txn, "i"));
        ASSERT_OK(txn.rollback_to(before));
        ASSERT_OK(txn.commit());
    });
    EXPECT_EQ(index_content(store, "i").size(), 1u);
    expect_sound(store);
}

TEST_F(ObjectLife, ARollbackToASavepointTakesACreationBack) {
    Store store = open("s");
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Savepoint before = *txn.savepoint();
        ASSERT_OK(store.create_index(txn, "i"));
        ASSERT_OK(txn.rollback_to(before));
        ASSERT_OK(txn.commit());
    });
    EXPECT_FALSE(store.index("i"));
    make(store, "i", "h");
    expect_sound(store);
}

TEST_F(ObjectLife, WhatATransactionMadeItCanDrop) {
    Store store = open("s");
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        ASSERT_OK(store.create_index(txn, "i"));
        ASSERT_OK(store.drop(txn, "i"));
        ASSERT_OK(txn.commit());
    });
    EXPECT_FALSE(store.index("i"));
    expect_sound(store);
}

// A free page is not written, so a power cut may leave it torn. Nothing of it may be needed.
TEST_F(ObjectLife, AListedLoadOfADroppedIndexNeedsNoneOfItsPages) {
    std::vector<PageId> freed;
    {
        Store store = open("s");
        make(store, "i", "h");
        ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
            TRY(store.create_index(txn, "other"));
            const Index index = TRY(store.index("i"));
            for (int n = 0; n < 500; ++n)
                TRY(index.put(txn, std::to_string(n), std::string(200, 'v')));
            return {};
        }));
        on_thread(store, [&] {
            sm::Engine& engine = sm::engine_of(store);
            sm::BTree* tree = nullptr;
            for (uint32_t id = 1; id < 100 && tree == nullptr; ++id)
                if (id != sm::kCatalogObject.value)
                    tree = engine.catalog->index_by_id(ObjectId{id});
            ASSERT_NE(tree, nullptr);
            const sm::DropEntry index{sm::DropKind::index, tree->id(), tree->root()};
            const sm::DropEntry load{sm::DropKind::load, tree->id(), kPageNone, 4096};
            const std::vector<PageId> pages = tree->verify()->pages;
            EXPECT_GT(pages.size(), 5u);
            ASSERT_OK(store.run([&](Txn& txn) { return store.drop(txn, "i"); }));
            // As a crash leaves the list when the pages are free already.
            ASSERT_OK(sm::run_system_txn(engine, [&](txn::Transaction& txn) -> Result<void> {
                TRY(engine.drops->add(txn, index));
                return engine.drops->add(txn, load);
            }));
            for (const PageId page : pages)
                if (!*engine.space->is_used(page)) freed.push_back(page);
            EXPECT_GT(freed.size(), 5u);
        });
        // The log must not be able to repair them.
        for (int round = 0; round < 3; ++round) {
            ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
                const Index index = TRY(store.index("other"));
                for (int n = 0; n < 6000; ++n)
                    TRY(index.put(txn, "k", std::string(1000, static_cast<char>('a' + n % 26))));
                return {};
            }));
            ASSERT_OK(store.checkpoint());
        }
        ASSERT_OK(store.close());
    }
    {
        std::fstream data(path("s") + "/data", std::ios::in | std::ios::out | std::ios::binary);
        for (const PageId page : freed) {
            data.seekp(static_cast<std::streamoff>(page.value * kPageBytes + 100));
            data << "torn";
        }
    }
    for (int times = 0; times < 2; ++times) {
        Store store = open("s");
        expect_sound(store);
        ASSERT_OK(store.close());
    }
}

// A check of the index does not reach all of its pages.
TEST_F(ObjectLife, AListedLoadOfADamagedIndexFreesNoPage) {
    Store store = open("s");
    make(store, "i", "h");
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        const Index index = TRY(store.index("i"));
        for (int n = 0; n < 500; ++n) TRY(index.put(txn, std::to_string(n), std::string(200, 'v')));
        return {};
    }));
    on_thread(store, [&] {
        sm::Engine& engine = sm::engine_of(store);
        sm::BTree& tree = *engine.catalog->index_by_id(store.index("i")->id());
        const std::vector<PageId> pages = tree.verify()->pages;
        ASSERT_GT(pages.size(), 5u);
        ASSERT_OK(sm::run_system_txn(engine, [&](txn::Transaction& txn) {
            return engine.drops->add(txn, {sm::DropKind::load, tree.id(), kPageNone, 4096});
        }));
        uint32_t first_child = 0;
        const auto set_first_child = [&](uint32_t child) {
            auto root = engine.pool->fix_exclusive(tree.root());
            ASSERT_OK(root);
            first_child =
                std::exchange(sm::node::header(const_cast<sm::Page&>(**root)).link, child);
        };
        set_first_child(pages.back().value);
        ASSERT_FALSE(tree.verify()->faults.empty());
        ASSERT_OK(engine.catalog->free_dropped());
        set_first_child(first_child);
        for (const PageId page : pages) EXPECT_TRUE(*engine.space->is_used(page));
        EXPECT_EQ(engine.catalog->drop_list().entries()->size(), 1u);
        ASSERT_OK(engine.catalog->free_dropped());
        EXPECT_TRUE(engine.catalog->drop_list().entries()->empty());
    });
    expect_sound(store);
}

// The page of a large value is damaged. A crash has left the value on the drop list.
class DamagedChain : public ObjectLife {
protected:
    // On a user thread. Nothing frees the chain by itself.
    void replace(Store& store) {
        store_ = &store;
        const ObjectId object = store.index("i")->id();
        for (int n = 0; n < 2; ++n) {
            const auto text =
                sm::write_overflow(engine(), nullptr, object, std::string(100'000, 'v'));
            ASSERT_OK(text);
            const sm::OverflowRef ref = sm::overflow_ref(*text);
            ASSERT_OK(sm::run_system_txn(engine(), [&](txn::Transaction& txn) {
                return engine().drops->add(
                    txn, {sm::DropKind::chain, object, PageId{ref.first}, ref.chain});
            }));
        }
        ASSERT_OK(store.checkpoint());
        const auto chains = listed();
        ASSERT_EQ(chains.size(), 2u);
        ASSERT_EQ(chains[0].kind, sm::DropKind::chain);
        page_ = chains[0].page;
        engine().pool->set_repair([](PageId, sm::Page&) -> Result<bool> { return false; });
        engine().pool->drop(std::move(*engine().pool->fix_exclusive(page_)));
        write('w');
    }
    void write(char byte) const {
        std::fstream data(path("s") + "/data", std::ios::in | std::ios::out | std::ios::binary);
        data.seekp(static_cast<std::streamoff>(page_.value * kPageBytes + kPageBytes / 2));
        data << byte;
    }
    sm::Engine& engine() const { return sm::engine_of(*store_); }
    std::vector<sm::DropEntry> listed() const { return *engine().catalog->drop_list().entries(); }
    void repair_and_free() const {
        write('v');
        ASSERT_OK(engine().catalog->free_dropped());
        EXPECT_TRUE(listed().empty());
    }

    Store* store_ = nullptr;
    PageId page_{};
};

TEST_F(DamagedChain, DoesNotKeepTheStoreFromBeingOpened) {
    Store store = open("s");
    make(store, "i", "h");
    on_thread(store, [&] {
        replace(store);
        ASSERT_OK(engine().catalog->free_dropped());
        const auto left = listed();
        ASSERT_EQ(left.size(), 1u);
        EXPECT_EQ(left[0].page, page_);
        repair_and_free();
    });
    expect_sound(store);
}

TEST_F(DamagedChain, IsNamedByVerify) {
    Store store = open("s");
    make(store, "i", "h");
    on_thread(store, [&] {
        replace(store);
        const auto faults = store.verify();
        ASSERT_OK(faults);
        ASSERT_EQ(faults->size(), 1u);
        EXPECT_NE((*faults)[0].find("(" + std::to_string(page_.value) + ","), std::string::npos)
            << (*faults)[0];
        repair_and_free();
    });
    expect_sound(store);
}

// The catalog's lock must not escalate: the next creation would wait for its own transaction.
TEST_F(ObjectLife, ManyObjectsInOneTransaction) {
    Options options = small_options();
    options.escalate_at = 3;
    options.lock_timeout = kSecond;
    Store store = open("s", options);
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        for (int n = 0; n < 20; ++n) TRY(store.create_index(txn, "i" + std::to_string(n)));
        return {};
    }));
    EXPECT_EQ(store.list().size(), 20u);
}

// A handle outlives its object. Whatever is asked of it then is refused, and nothing is written to
// pages that are somebody else's by now.
class GoneObject : public ObjectLife {
protected:
    static Options tiny_pool() {
        Options options = small_options();
        options.pool_bytes = 4 << 20;
        options.lock_timeout = kSecond;
        return options;
    }
    static void expect_gone(Store& store, const Index& index, const Heap& heap) {
        on_thread(store, [&] {
            for (const Isolation isolation :
                 {Isolation::serializable, Isolation::repeatable_read, Isolation::read_committed}) {
                Txn txn = std::move(*store.begin({.isolation = isolation}));
                const auto refused = [](const auto& result) {
                    return !result.has_value() && result.error().code == ErrorCode::no_such_object;
                };
                std::string text;
                EXPECT_TRUE(refused(index.get(txn, "k1", text)));
                EXPECT_TRUE(refused(index.get(txn, "never there", text)));
                for (const auto& [low, high] : {std::pair("", ""), {"k2", ""}, {"x", "y"}}) {
                    Cursor up = index.scan(txn, low, high), down = index.scan(txn, low, high);
                    EXPECT_TRUE(refused(up.next())) << low << " to " << high;
                    EXPECT_TRUE(refused(down.prev())) << low << " to " << high;
                    EXPECT_TRUE(refused(up.prev())) << low << " to " << high;
                }
                std::byte room[16];
                Lookup rows[] = {{.key = "never there", .buffer = room}};
                EXPECT_TRUE(refused(index.get_many(txn, rows)));
                EXPECT_TRUE(refused(index.update(txn, "never there", "v")));
                EXPECT_TRUE(refused(index.patch(txn, "never there", 0, "v")));
                EXPECT_TRUE(refused(index.erase(txn, "never there")));
                EXPECT_TRUE(refused(index.erase_range(txn, "x", "y")));
                EXPECT_TRUE(refused(index.count(txn, "x", "y")));
                EXPECT_TRUE(refused(index.put(txn, "k1", "v")));
                EXPECT_TRUE(refused(index.insert(txn, "new", "v")));
                EXPECT_TRUE(refused(index.erase(txn, "k1")));
                EXPECT_TRUE(
                    refused(store.bulk_load(txn, index, [](Slice&, Slice&) { return false; })));
                EXPECT_TRUE(refused(heap.insert(txn, "record")));
                EXPECT_TRUE(refused(heap.scan(txn, [](RecordId, Slice) { return true; })));
                ASSERT_OK(txn.commit());  // a refusal has changed nothing
            }
        });
        expect_sound(store);
    }
};

TEST_F(GoneObject, AfterTheDrop) {
    Store store = open("s", tiny_pool());
    make(store, "i", "h");
    const Index index = *store.index("i");
    const Heap heap = *store.heap("h");
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        for (int n = 0; n < 100; ++n) TRY(index.put(txn, "k" + std::to_string(n), "v"));
        TRY(heap.insert(txn, "record"));
        return {};
    }));
    // The pages are on the volume, where they stay as they are.
    ASSERT_OK(store.checkpoint());
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        TRY(store.drop(txn, "i"));
        return store.drop(txn, "h");
    }));
    expect_gone(store, index, heap);
    // The pool forgets the freed pages; some belong to others now, some would be read back from the
    // volume as they were.
    make(store, "i", "h");
    ASSERT_OK(store.run([&](Txn& txn) -> Result<void> {
        const Index other = TRY(store.index("i"));
        for (int n = 0; n < 800; ++n)
            TRY(other.put(txn, "key" + std::to_string(n), std::string(12000, 'x')));
        return {};
    }));
    expect_gone(store, index, heap);
}

TEST_F(GoneObject, AfterItsCreatorHasRolledBack) {
    Store store = open("s", tiny_pool());
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index index = *store.create_index(txn, "i");
        const Heap heap = *store.create_heap(txn, "h");
        ASSERT_OK(index.put(txn, "k1", "v"));
        ASSERT_OK(heap.insert(txn, "record"));
        ASSERT_OK(txn.abort());
        expect_gone(store, index, heap);
    });
}

// Who waits while the drop commits comes too late, and who goes on after a drop that was rolled
// back does not notice.
TEST_F(GoneObject, WhoWaitsForTheDropper) {
    Store store = open("s", tiny_pool());
    make(store, "i", "h");
    const auto try_it = [&](bool dropped) {
        const Index index = *store.index("i");
        const Heap heap = *store.heap("h");
        Txn dropper = std::move(*store.begin());
        ASSERT_OK(store.drop(dropper, "i"));
        ASSERT_OK(store.drop(dropper, "h"));
        std::vector<Handle<void>> waiters;
        waiters.push_back(store.spawn([&](Txn& txn) { return index.put(txn, "k", "v"); }));
        waiters.push_back(store.spawn(
            [&](Txn& txn) { return heap.scan(txn, [](RecordId, Slice) { return true; }); }));
        waiters.push_back(store.spawn([&](Txn& txn) -> Result<void> {
            TRY(heap.insert(txn, "record"));
            return {};
        }));
        sleep_for(5 * kMillisecond);
        if (dropped) {
            ASSERT_OK(dropper.commit());
        } else {
            ASSERT_OK(dropper.abort());
        }
        for (auto& waiter : waiters) {
            const auto done = waiter.join();
            EXPECT_EQ(done.has_value(), !dropped);
            if (!done) {
                EXPECT_EQ(done.error().code, ErrorCode::no_such_object);
            }
        }
        expect_sound(store);
    };
    on_thread(store, [&] { try_it(false); });
    on_thread(store, [&] { try_it(true); });
}

// At its end a cursor stands on the last record it gave, whatever was erased behind it.
// The ghost cleaner forgets the leaves of an index whose creator has rolled back.
TEST_F(ObjectLife, NotesOfGhostsEndWithTheirIndex) {
    Store store = open("s");
    on_thread(store, [&] {
        sm::GhostCleaner& ghosts = *sm::engine_of(store).ghosts;
        Txn txn = std::move(*store.begin());
        const Index index = *store.create_index(txn, "i");
        for (const char* key : {"a", "b"}) ASSERT_OK(index.insert(txn, key, "v"));
        ASSERT_OK(index.erase(txn, "a"));
        ASSERT_OK(txn.abort());
        EXPECT_GT(ghosts.waiting(), 0u);
        ASSERT_OK(ghosts.run_once());
        EXPECT_EQ(ghosts.waiting(), 0u);
    });
}

TEST_F(ObjectLife, ACursorAtTheEndDoesNotStandOnAnErasedRecord) {
    Store store = open("s");
    make(store, "i", "h");
    on_thread(store, [&] {
        Txn txn = std::move(*store.begin());
        const Index index = *store.index("i");
        for (const char* key : {"a", "b", "c", "d"}) ASSERT_OK(index.put(txn, key, key));
        ASSERT_TRUE(*index.erase(txn, "c"));
        ASSERT_TRUE(*index.erase(txn, "d"));
        Cursor cursor = index.scan(txn);
        while (*cursor.next()) continue;
        EXPECT_EQ(cursor.key(), "b");
        ASSERT_TRUE(*cursor.prev());
        EXPECT_EQ(cursor.key(), "a");
        ASSERT_OK(txn.commit());
    });
}

}  // namespace lockstep::object_life_test
