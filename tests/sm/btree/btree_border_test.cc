// labels: unit
// btree_border_test.cc - gaps at the borders of leaves: a scan protects the gap up to the next key,
// also if that key is the first one of the next leaf.
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_border_test {

constexpr uint64_t kKeys = 60, kStep = 1000;

std::string key_at(uint64_t n, uint64_t behind = 0) { return number_key(n * kStep + behind); }

class BTreeBorderTest : public ::testing::Test {
protected:
    BTreeBorderTest() {
        store.on_thread([&] {
            auto& txn = store.begin();
            for (uint64_t n = 1; n <= kKeys; ++n)
                ASSERT_OK(tree->insert(txn, key_at(n), std::string(900, 'v')));
            store.commit(txn);
            EXPECT_GT(tree.sound().pages.size(), 6u);  // several borders
        });
    }
    // Whether another transaction may insert the key now; it does not stay.
    bool insertable(const std::string& key) {
        auto& txn = store.begin(txn::Isolation::serializable, 0);
        const Result<void> done = tree->insert(txn, key, "new");
        store.abort(txn);
        return done.has_value();
    }
    // Both ends of the gap above key `n`, with `look` in a transaction of its own.
    void expect_protected(uint64_t n, const std::function<void(txn::Transaction&)>& look) {
        auto& reader = store.begin();
        look(reader);
        EXPECT_FALSE(insertable(key_at(n, 1))) << "behind key " << n;
        EXPECT_FALSE(insertable(key_at(n, kStep - 1))) << "behind key " << n;
        store.commit(reader);
    }
    // The gap is protected by nobody. What the attempts leave behind is removed.
    void expect_free(uint64_t n) {
        EXPECT_TRUE(insertable(key_at(n, 1)));
        EXPECT_TRUE(insertable(key_at(n, kStep - 1)));
        ASSERT_OK(tree->clean_leaf(key_at(n, 1)));
        ASSERT_OK(tree->clean_leaf(key_at(n, kStep - 1)));
    }

    TestEngine store;
    TestTree tree{store};
};

TEST_F(BTreeBorderTest, AForwardScanProtectsTheGapAboveItsLastKey) {
    store.on_thread([&] {
        for (uint64_t n = 1; n < kKeys; ++n)
            expect_protected(n, [&](txn::Transaction& reader) {
                BTreeCursor cursor(*tree, reader, key_at(n), key_at(n, 500), Access::read);
                EXPECT_TRUE(*cursor.next());
                EXPECT_FALSE(*cursor.next());
            });
        for (uint64_t n = 1; n < kKeys; ++n) expect_free(n);
    });
}

TEST_F(BTreeBorderTest, ABackwardScanProtectsTheGapAboveItsFirstKey) {
    store.on_thread([&] {
        for (uint64_t n = 1; n < kKeys; ++n)
            expect_protected(n, [&](txn::Transaction& reader) {
                BTreeCursor cursor(*tree, reader, key_at(n), key_at(n, 500), Access::read);
                EXPECT_TRUE(*cursor.prev());
                EXPECT_FALSE(*cursor.prev());
            });
    });
}

// A backward scan finds nothing below its bound in the leaf of the bound, and goes to the left. The
// leaf there has to be read. Meanwhile a key comes into the leaf that the scan has passed: if it is
// committed before the scan protects its gap, the scan has to return it.
TEST_F(BTreeBorderTest, ABackwardScanSeesWhatCameIntoALeafThatItHasPassed) {
    uint64_t came = 0;
    for (uint64_t n = 2; n < kKeys; ++n) {
        // The key is the first one of its leaf for some n; without it the leaf begins with a gap.
        store.on_thread([&] {
            BTree& index = **store->catalog->index("tree");
            auto& eraser = store.begin();
            ASSERT_TRUE(*index.erase(eraser, key_at(n)));
            store.commit(eraser);
            ASSERT_OK(index.clean_leaf(key_at(n)));
        });
        store.close();
        store.open();  // no leaf is in the pool
        threads::Completion inserted;
        store.on_thread([&] {
            BTree& index = **store->catalog->index("tree");
            auto& reader = store.begin();
            ASSERT_TRUE(TestTree::get(index, reader, key_at(n + 1)));
            ASSERT_OK(store->start_thread(0, "insert", [&] {
                auto& writer = store.begin(txn::Isolation::serializable, 0);
                const bool ok = index.insert(writer, key_at(n, 10), "new").has_value();
                if (ok) store.commit(writer);
                else store.abort(writer);
                inserted.set();
            }));
            const auto first = [&] {
                BTreeCursor cursor(index, reader, key_at(1), key_at(n, 20), Access::read);
                EXPECT_TRUE(*cursor.prev());
                return std::string(cursor.key());
            };
            const std::string seen = first();
            threads::yield();
            EXPECT_EQ(first(), seen) << "a phantom below key " << n + 1;
            came += seen == key_at(n, 10);
            store.commit(reader);
        });
        store->wait_for(inserted);
        store.on_thread([&] {
            BTree& index = **store->catalog->index("tree");
            auto& txn = store.begin();
            ASSERT_OK(index.erase(txn, key_at(n, 10)));
            ASSERT_OK(index.insert(txn, key_at(n), std::string(900, 'v')));
            store.commit(txn);
        });
    }
    EXPECT_GT(came, 0u) << "no scan had to read a leaf: the test is blind";
}

// An empty range between two keys, and the range above all keys.
TEST_F(BTreeBorderTest, AnEmptyRangeProtectsItsGap) {
    store.on_thread([&] {
        for (uint64_t n = 0; n <= kKeys; ++n)
            for (const bool up : {true, false})
                expect_protected(n, [&](txn::Transaction& reader) {
                    BTreeCursor cursor(*tree, reader, key_at(n, 400), key_at(n, 500), Access::read);
                    EXPECT_FALSE(*(up ? cursor.next() : cursor.prev()));
                });
    });
}

// A ghost marks the end of the gap below it, so it stays while somebody protects that gap, or the
// whole index.
TEST_F(BTreeBorderTest, AGhostStaysWhileItsGapIsProtected) {
    store.on_thread([&] {
        for (const uint64_t n : {2, 17, 31}) {
            auto& eraser = store.begin();
            ASSERT_TRUE(*tree->erase(eraser, key_at(n)));
            store.commit(eraser);
            expect_protected(n - 1, [&](txn::Transaction& reader) {
                BTreeCursor cursor(*tree, reader, key_at(n - 1), key_at(n - 1, 500), Access::read);
                EXPECT_TRUE(*cursor.next());
                EXPECT_FALSE(*cursor.next());
                EXPECT_EQ(tree->clean_leaf(key_at(n))->removed, 0u);
            });
            auto& holder = store.begin();
            ASSERT_OK(store->locks->lock_object(holder.locks, tree->lock(), txn::LockMode::S));
            EXPECT_EQ(tree->clean_leaf(key_at(n))->removed, 0u);
            store.commit(holder);
            EXPECT_EQ(tree->clean_leaf(key_at(n))->removed, 1u);
        }
    });
}

// The only child's content moves into the root, from level to level, and its page becomes free.
TEST_F(BTreeBorderTest, AShrinkingRootKeepsItsRecords) {
    constexpr uint64_t kMany = 3000, kKept = 700;
    // Neighbours differ behind 408 bytes, so separators are long and inner nodes hold few of them.
    const auto key = [](uint64_t n) {
        return number_key(n / 12) + std::string(400, 'k') + number_key(n % 12);
    };
    const std::string value(300, 'v');
    TestTree high(store, "high");
    store.on_thread([&] {
        const uint64_t used = store->space->pages_used();  // one of them by the empty index
        auto& txn = store.begin();
        for (uint64_t n = 0; n < kMany; ++n) ASSERT_OK(high->insert(txn, key(n), value));
        store.commit(txn);
        const uint64_t levels = high.sound().levels;
        ASSERT_GE(levels, 4u);
        auto& eraser = store.begin();
        for (uint64_t n = 0; n < kMany; ++n) {
            if (n % kKept == 0) continue;
            ASSERT_TRUE(*high->erase(eraser, key(n)));
        }
        store.commit(eraser);
        for (uint64_t seen = levels, round = 0; seen > 1 && round < 40; ++round) {
            for (uint64_t n = 0; n < kMany; n += 5) ASSERT_OK(high->clean_leaf(key(n)));
            const BTree::Report report = high.sound();
            EXPECT_LE(report.levels, seen);
            seen = report.levels;
            auto& reader = store.begin();
            for (uint64_t n = 0; n < kMany; n += kKept)
                ASSERT_EQ(TestTree::get(*high, reader, key(n)), value) << n;
            store.commit(reader);
        }
        const BTree::Report report = high.sound();
        EXPECT_EQ(report.levels, 1u);
        EXPECT_EQ(report.records, (kMany + kKept - 1) / kKept);
        EXPECT_EQ(store->space->pages_used() - used, report.pages.size() - 1);
    });
}

}  // namespace lockstep::sm::btree_border_test
