// labels: unit sim
// catalog_roots_test.cc - the first use of many indexes after an open reads their roots together,
// and a root that is wrong is told to whom it concerns, in whatever order.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/seed_of_run.h"
#include "tests/sim_store.h"
#include "tests/sm/engine_test_util.h"
#include "tests/sm/test_util.h"
#include "threads/base/rng.h"

namespace lockstep::catalog_roots_test {

TEST(CatalogRoots, TheFirstUseOfManyIndexesReadsAhead) {
    constexpr int kIndexes = 600;
    const auto name_of = [](int i) { return "index " + std::to_string(i); };
    threads::SimDisk disk;
    {
        SimStore store(disk);
        ASSERT_OK(store.open());
        for (int i = 0; i < kIndexes; ++i)
            ASSERT_OK(store->run([&](Txn& txn) { return store->create_index(txn, name_of(i)); }));
        ASSERT_OK(store.close());
    }
    SimStore store(disk);
    ASSERT_OK(store.open());
    const StoreStats before = store->stats();
    for (int i = 0; i < kIndexes; ++i) {
        const auto index = store->index(name_of(i));
        ASSERT_OK(index);
        ASSERT_OK(store->run([&](Txn& txn) { return index->put(txn, "k", "v"); }));
    }
    const StoreStats after = store->stats();
    EXPECT_GE(after.reads_ahead - before.reads_ahead, kIndexes * 9 / 10u);
    EXPECT_LE(after.page_reads - before.page_reads, kIndexes + 20u);
    ASSERT_OK(store.close());
}

// What it finds wrong of others it leaves to their own first use.
TEST(CatalogRoots, ADroppedNeighbourIsNoError) {
    threads::SimDisk disk;
    {
        SimStore store(disk);
        ASSERT_OK(store.open());
        for (const char* name : {"a", "b", "c"})
            ASSERT_OK(store->run([&](Txn& txn) { return store->create_index(txn, name); }));
        ASSERT_OK(store.close());
    }
    SimStore store(disk);
    ASSERT_OK(store.open());
    ASSERT_OK(store->run([&](Txn& txn) { return store->drop(txn, "b"); }));
    ASSERT_OK(store->run([&](Txn& txn) { return store->create_index(txn, "b"); }));
    for (const char* name : {"a", "b", "c"}) {
        const auto index = store->index(name);
        ASSERT_OK(index);
        ASSERT_OK(store->run([&](Txn& txn) { return index->put(txn, "k", name); }));
    }
    const auto faults = store->verify();
    ASSERT_OK(faults);
    EXPECT_TRUE(faults->empty());
    ASSERT_OK(store.close());
}

// Indexes and heaps, of which some have a root page that another object or kind of page has
// written. Each is asked for several times, in an order at random.
class WrongRoots : public ::testing::Test {
protected:
    struct Object {
        std::string name;
        bool is_index;
        PageId root;
        bool wrong = false;
    };
    void make(int count) {
        store_.on_thread([&] {
            auto& txn = store_.begin();
            for (int n = 0; n < count; ++n) {
                Object object{"object " + std::to_string(n), rng_.chance(0.7), kPageNone};
                ObjectId id;
                if (object.is_index) id = (*store_->catalog->create_index(txn, object.name))->id();
                else id = (*store_->catalog->create_heap(txn, object.name))->id();
                object.root = store_->catalog->find(id)->root;
                objects_.push_back(object);
            }
            store_.commit(txn);
        });
    }
    // Writes a page with a sound checksum in the place of the root.
    void damage(Object& object) {
        const std::string path = store_.directory() + "/data";
        const auto at = static_cast<std::streamoff>(uint64_t{object.root.value} * kPageBytes);
        std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
        file.seekg(at);
        sm::Page page;
        file.read(reinterpret_cast<char*>(&page), kPageBytes);
        if (rng_.chance(0.5)) page.header.object += 1;
        else page.header.kind = static_cast<uint8_t>(sm::PageKind::overflow);
        page.header.checksum = sm::page_checksum(page, object.root);
        file.seekp(at);
        file.write(reinterpret_cast<const char*>(&page), kPageBytes);
        ASSERT_TRUE(file.good());
        object.wrong = true;
    }
    std::optional<Error> ask(const Object& object) {
        if (object.is_index) {
            const auto found = store_->catalog->index(object.name);
            return found ? std::nullopt : std::optional(found.error());
        }
        const auto found = store_->catalog->heap(object.name);
        return found ? std::nullopt : std::optional(found.error());
    }

    Rng rng_{seed_of_run()};
    sm::TestEngine store_;
    std::vector<Object> objects_;
};

TEST_F(WrongRoots, AreToldInAnyOrder) {
    make(40);
    for (int round = 0; round < 6; ++round) {
        store_.close();
        std::filesystem::remove(store_.directory() + "/data.lsn");
        // The last and the first object, too.
        for (Object* object : {&objects_.front(), &objects_.back()})
            if (!object->wrong && rng_.chance(0.3)) damage(*object);
        damage(objects_[rng_.below(objects_.size())]);
        store_.open();
        std::vector<const Object*> order;
        for (const Object& object : objects_) order.insert(order.end(), 3, &object);
        for (size_t n = order.size(); n > 1; --n) std::swap(order[n - 1], order[rng_.below(n)]);
        for (const Object* object : order) {
            const auto error = ask(*object);
            EXPECT_EQ(error.has_value(), object->wrong) << object->name;
            if (!error) continue;
            EXPECT_EQ(error->code, ErrorCode::corrupt_page) << error->text();
            EXPECT_EQ(error->a, object->root.value) << error->text();
        }
    }
}

}  // namespace lockstep::catalog_roots_test
