// labels: unit
// btree_test.cc - single operations of an index: results, limits, errors, splits,
// runs, merges, overflow values, bulk load.
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_test {

using Map = std::map<std::string, std::string>;

class BTreeTest : public ::testing::Test {
protected:
    TestEngine store;
    TestTree tree{store};

    template <class Fn>
    void in_txn(Fn fn) {
        store.on_thread([&] {
            auto& txn = store.begin();
            fn(txn);
            store.commit(txn);
        });
    }
    Map all(txn::Transaction& txn, bool backward = false) {
        Map found;
        BTreeCursor cursor(*tree, txn, "", "", Access::read);
        std::string last;
        for (;;) {
            auto more = backward ? cursor.prev() : cursor.next();
            EXPECT_TRUE(more.has_value());
            if (!more.has_value() || !*more) return found;
            if (!found.empty()) {
                EXPECT_EQ(cursor.key() < Slice(last), backward);
            }
            last = cursor.key();
            EXPECT_TRUE(found.emplace(last, cursor.value()).second);
        }
    }
    void fill(int n, int step = 1, size_t value_bytes = 20) {
        for (int from = 0; from < n; from += 1000)
            in_txn([&](txn::Transaction& txn) {
                for (int i = from; i < std::min(n, from + 1000); i += step)
                    ASSERT_OK(tree->insert(txn, number_key(static_cast<uint64_t>(i)),
                                           std::string(value_bytes, 'v')));
            });
    }
};

TEST_F(BTreeTest, FetchInsertUpdatePatchErase) {
    in_txn([&](txn::Transaction& txn) {
        EXPECT_EQ(TestTree::get(*tree, txn, "a"), std::nullopt);
        ASSERT_OK(tree->insert(txn, "a", "one"));
        EXPECT_EQ(TestTree::get(*tree, txn, "a"), "one");
        auto twice = tree->insert(txn, "a", "two");
        ASSERT_FALSE(twice);
        EXPECT_EQ(twice.error().code, ErrorCode::duplicate_key);
        EXPECT_EQ(*tree->update(txn, "a", "a longer value"), true);
        EXPECT_EQ(*tree->patch(txn, "a", 2, "LONGER"), true);
        EXPECT_EQ(TestTree::get(*tree, txn, "a"), "a LONGER value");
        EXPECT_EQ(*tree->update(txn, "b", "x"), false);
        EXPECT_EQ(*tree->patch(txn, "b", 0, "x"), false);
        EXPECT_EQ(*tree->erase(txn, "b"), false);
        auto outside = tree->patch(txn, "a", 10, "too long");
        ASSERT_FALSE(outside.has_value());
        EXPECT_EQ(outside.error().code, ErrorCode::bad_argument);
        EXPECT_EQ(*tree->erase(txn, "a"), true);
        EXPECT_EQ(*tree->erase(txn, "a"), false);
        EXPECT_EQ(TestTree::get(*tree, txn, "a"), std::nullopt);
        ASSERT_OK(tree->insert(txn, "a", "back"));
        EXPECT_EQ(TestTree::get(*tree, txn, "a"), "back");
        ASSERT_OK(tree->insert(txn, "", "the empty key"));
        EXPECT_EQ(TestTree::get(*tree, txn, ""), "the empty key");
    });
    store.on_thread([&] { EXPECT_EQ(tree.sound().records, 2u); });
}

TEST_F(BTreeTest, FixedBufferGetsWhatFitsAndTheFullLength) {
    in_txn([&](txn::Transaction& txn) {
        const std::string large = std::string(5000, 'x') + "end";
        ASSERT_OK(tree->insert(txn, "small", "0123456789"));
        ASSERT_OK(tree->insert(txn, "large", large));
        std::byte buffer[4];
        ValueOut out{.fixed = buffer, .capacity = sizeof buffer};
        ASSERT_TRUE(*tree->fetch(txn, "small", Access::read, out));
        EXPECT_EQ(out.bytes, 10u);
        EXPECT_EQ(std::memcmp(buffer, "0123", 4), 0);
        ASSERT_TRUE(*tree->fetch(txn, "large", Access::read, out));
        EXPECT_EQ(out.bytes, large.size());
        EXPECT_EQ(std::memcmp(buffer, "xxxx", 4), 0);
    });
}

TEST_F(BTreeTest, LimitsAreErrorsThatNameTheThing) {
    store.on_thread([&] {
        auto& txn = store.begin();
        const std::string key(kKeyBytesMax + 1, 'k');
        std::string text;
        ValueOut out{.text = &text};
        EXPECT_EQ(tree->insert(txn, key, "v").error().code, ErrorCode::key_too_long);
        EXPECT_EQ(tree->fetch(txn, key, Access::read, out).error().code, ErrorCode::key_too_long);
        EXPECT_EQ(tree->update(txn, key, "v").error().code, ErrorCode::key_too_long);
        EXPECT_EQ(tree->erase(txn, key).error().code, ErrorCode::key_too_long);
        EXPECT_EQ(tree->insert(txn, "k", std::string(kValueBytesMax + 1, 'v')).error().code,
                  ErrorCode::value_too_long);
        ASSERT_OK(tree->insert(txn, std::string(kKeyBytesMax, 'k'), "longest"));
        EXPECT_EQ(TestTree::get(*tree, txn, std::string(kKeyBytesMax, 'k')), "longest");
        store.commit(txn);
        auto reader = store->txns->begin({.read_only = true});
        ASSERT_OK(reader);
        EXPECT_EQ(tree->insert(**reader, "r", "v").error().code, ErrorCode::read_only);
        store.commit(**reader);
    });
}

TEST_F(BTreeTest, AscendingInsertsLeaveFullLeaves) {
    fill(20000, 1, 100);
    store.on_thread([&] {
        const auto report = tree.sound();
        EXPECT_EQ(report.records, 20000u);
        const double fill_grade =
            static_cast<double>(report.bytes_used) /
            static_cast<double>((report.pages_leaf + report.pages_inner) * 8128);
        EXPECT_GT(fill_grade, 0.9);
    });
}

// Several runs that grow at the same time in one tree, as order lines of ten districts do.
TEST_F(BTreeTest, InterleavedRunsLeaveFullLeaves) {
    for (uint64_t i = 0; i < 1500; ++i)
        in_txn([&](txn::Transaction& txn) {
            for (uint64_t run = 0; run < 10; ++run)
                for (uint64_t line = 0; line < 3; ++line)
                    ASSERT_OK(tree->insert(txn, number_key((run << 32) + i * 3 + line),
                                           std::string(50, 'v')));
        });
    store.on_thread([&] {
        const auto report = tree.sound();
        EXPECT_EQ(report.records, 45000u);
        const double fill_grade =
            static_cast<double>(report.bytes_used) /
            static_cast<double>((report.pages_leaf + report.pages_inner) * 8128);
        EXPECT_GT(fill_grade, 0.85);
    });
}

TEST_F(BTreeTest, LongKeysSplitInnerNodesToSeveralLevels) {
    Map model;
    Rng rng(seed_of_run());
    in_txn([&](txn::Transaction& txn) {
        for (int i = 0; i < 1500; ++i) {
            const std::string key = std::string(900, 'p') + random_text(rng, 100 + rng.below(25)),
                              value = random_text(rng, rng.below(1000));
            if (!model.emplace(key, value).second) continue;
            ASSERT_OK(tree->insert(txn, key, value));
        }
        EXPECT_EQ(all(txn), model);
        EXPECT_EQ(all(txn, true), model);
    });
    store.on_thread([&] { EXPECT_GE(tree.sound().levels, 3u); });
}

TEST_F(BTreeTest, OverflowValuesOfAllSizes) {
    Map model;
    in_txn([&](txn::Transaction& txn) {
        Rng rng(7);
        for (size_t bytes :
             {1999u, 2000u, 2001u, 8143u, 8144u, 8145u, 65000u, 65152u, 65153u, 300000u}) {
            const std::string key = "k" + std::to_string(bytes);
            model[key] = random_text(rng, bytes);
            ASSERT_OK(tree->insert(txn, key, model[key]));
        }
        EXPECT_EQ(all(txn), model);
        model["k300000"].replace(123456, 5, "PATCH");
        EXPECT_TRUE(*tree->patch(txn, "k300000", 123456, "PATCH"));
        model["k65000"] = "small now";
        EXPECT_TRUE(*tree->update(txn, "k65000", "small now"));
        model["k1999"] = std::string(70000, 'g');
        EXPECT_TRUE(*tree->update(txn, "k1999", model["k1999"]));
        EXPECT_EQ(all(txn), model);
        for (const auto& [key, value] : model) EXPECT_EQ(TestTree::get(*tree, txn, key), value);
    });
    store.on_thread([&] { EXPECT_GT(tree.sound().pages_overflow, 40u); });
}

TEST_F(BTreeTest, PagesOfOldOverflowChainsAreFreedAfterTheEnd) {
    uint64_t used = 0;
    in_txn([&](txn::Transaction& txn) {
        ASSERT_OK(tree->insert(txn, "k", std::string(100000, 'a')));
    });
    store.on_thread([&] { used = store->space->pages_used(); });
    for (int round = 0; round < 5; ++round) {
        in_txn([&](txn::Transaction& txn) {
            ASSERT_TRUE(*tree->update(txn, "k", std::string(100000, 'b')));
        });
        store.on_thread([&] {
            auto& txn = store.begin();
            ASSERT_TRUE(*tree->update(txn, "k", std::string(100000, 'c')));
            store.abort(txn);
            ASSERT_OK(store->ghosts->run_once());
            EXPECT_EQ(store->space->pages_used(), used);
        });
    }
    in_txn([&](txn::Transaction& txn) {
        EXPECT_EQ(TestTree::get(*tree, txn, "k"), std::string(100000, 'b'));
        ASSERT_TRUE(*tree->erase(txn, "k"));
    });
    store.on_thread([&] {
        ASSERT_OK(store->ghosts->run_once());
        EXPECT_EQ(tree.sound().pages_overflow, 0u);
        EXPECT_LT(store->space->pages_used(), used - 10);
    });
}

TEST_F(BTreeTest, CleanedGhostsMergeLeavesUntilOnlyTheRootIsLeft) {
    fill(5000, 1, 100);
    uint64_t levels = 0;
    store.on_thread([&] { levels = tree.sound().levels; });
    EXPECT_GE(levels, 2u);
    in_txn([&](txn::Transaction& txn) {
        for (uint64_t i = 0; i < 5000; ++i) ASSERT_TRUE(*tree->erase(txn, number_key(i)));
    });
    store.on_thread([&] {
        for (int pass = 0; pass < 4; ++pass)
            for (uint64_t i = 0; i < 5000; i += 7) ASSERT_OK(tree->clean_leaf(number_key(i)));
        const auto report = tree.sound();
        EXPECT_EQ(report.records, 0u);
        EXPECT_EQ(report.ghosts, 0u);
        EXPECT_EQ(report.levels, 1u);
        EXPECT_EQ(report.pages.size(), 1u);
        EXPECT_GT(tree->stats().merges.load(), 10u);
    });
    fill(3000);
    store.on_thread([&] { EXPECT_EQ(tree.sound().records, 3000u); });
}

TEST_F(BTreeTest, LockedGhostsStay) {
    fill(10);
    store.on_thread([&] {
        auto& txn = store.begin();
        ASSERT_TRUE(*tree->erase(txn, number_key(3)));
        auto cleaned = tree->clean_leaf(number_key(3));
        ASSERT_OK(cleaned);
        EXPECT_EQ(cleaned->removed, 0u);
        EXPECT_EQ(cleaned->left, 1u);
        store.commit(txn);
        auto& reader = store.begin();
        // Its "not there" is protected.
        EXPECT_EQ(TestTree::get(*tree, reader, number_key(3)), std::nullopt);
        EXPECT_EQ(tree->clean_leaf(number_key(3))->removed, 0u);
        store.commit(reader);
        EXPECT_EQ(tree->clean_leaf(number_key(3))->removed, 1u);
    });
}

// A full leaf whose ghosts nobody needs takes new records in their place; ghosts of a transaction
// that may still roll back stay.
TEST_F(BTreeTest, InsertUsesTheRoomOfGhostsBeforeItSplits) {
    uint64_t n = 0;
    in_txn([&](txn::Transaction& txn) {
        for (; tree->stats().splits.load() == 0; ++n)
            ASSERT_OK(tree->insert(txn, number_key(n * 10), std::string(100, 'v')));
    });
    const uint64_t splits = tree->stats().splits.load();
    in_txn([&](txn::Transaction& txn) {
        for (uint64_t i = 0; i + 2 < n; ++i) ASSERT_TRUE(*tree->erase(txn, number_key(i * 10)));
    });
    // Other keys each time, twice what the leaves hold.
    for (uint64_t round = 1; round < 9; ++round) {
        in_txn([&](txn::Transaction& txn) {
            for (uint64_t i = 0; i < n / 4; ++i)
                ASSERT_OK(tree->insert(txn, number_key(i * 10 + round), std::string(100, 'n')));
        });
        in_txn([&](txn::Transaction& txn) {
            for (uint64_t i = 0; i < n / 4; ++i)
                ASSERT_TRUE(*tree->erase(txn, number_key(i * 10 + round)));
        });
    }
    EXPECT_EQ(tree->stats().splits.load(), splits);
    EXPECT_GT(tree->stats().ghosts_removed.load(), n / 2);
    store.on_thread([&] {
        auto& eraser = store.begin();
        for (uint64_t i = n - 2; i < n; ++i) ASSERT_TRUE(*tree->erase(eraser, number_key(i * 10)));
        auto& txn = store.begin();
        for (uint64_t i = 0; i < 3 * n; ++i)
            ASSERT_OK(tree->insert(txn, number_key(100000 + i), std::string(100, 'm')));
        EXPECT_GT(tree->stats().splits.load(), splits);
        store.commit(txn);
        store.abort(eraser);
        auto& reader = store.begin();
        EXPECT_TRUE(TestTree::get(*tree, reader, number_key((n - 1) * 10)));
        EXPECT_TRUE(TestTree::get(*tree, reader, number_key((n - 2) * 10)));
        store.commit(reader);
        EXPECT_EQ(tree.sound().records, 3 * n + 2);
    });
}

TEST_F(BTreeTest, BulkLoadOfAllSizesAndItsRollback) {
    for (uint64_t n : {0u, 1u, 10u, 300u, 5000u, 100000u}) {
        TestTree loaded(store, ("bulk" + std::to_string(n)).c_str());
        store.on_thread([&] {
            const uint64_t used = store->space->pages_used();
            for (bool keep : {false, true}) {
                auto& txn = store.begin();
                ASSERT_OK(store->locks->lock_object(txn.locks, loaded->lock(), txn::LockMode::X));
                uint64_t i = 0;
                std::string k, v;
                ASSERT_OK(loaded->bulk_load(
                    txn,
                    [&](Slice& key, Slice& value) {
                        if (i == n) return false;
                        k = number_key(i * 3);
                        v = std::string(i % 1000 == 7 ? 5000 : i % 50, 'v');
                        key = k;
                        value = v;
                        ++i;
                        return true;
                    },
                    90));
                ASSERT_EQ(loaded.sound().records, n);
                keep ? store.commit(txn) : store.abort(txn);
                if (keep) continue;
                ASSERT_EQ(loaded.sound().records, 0u);
                EXPECT_EQ(store->space->pages_used(), used);
            }
            auto& txn = store.begin();
            for (uint64_t i = 0; i < n; i += 1 + n / 1000) {
                ASSERT_EQ(TestTree::get(*loaded, txn, number_key(i * 3)),
                          std::string(i % 1000 == 7 ? 5000 : i % 50, 'v'));
                ASSERT_OK(loaded->insert(txn, number_key(i * 3 + 1), "between"));
            }
            store.commit(txn);
            loaded.sound();
        });
    }
}

TEST_F(BTreeTest, BulkLoadRefusesDisorderAndFullTrees) {
    store.on_thread([&] {
        auto& txn = store.begin();
        int i = 0;
        const char* keys[] = {"a", "b", "b"};
        const auto next = [&](Slice& key, Slice& value) {
            if (i == 3) return false;
            key = keys[i++];
            value = "v";
            return true;
        };
        EXPECT_EQ(tree->bulk_load(txn, next, 90).error().code, ErrorCode::bad_argument);
        EXPECT_EQ(tree->bulk_load(txn, next, 101).error().code, ErrorCode::bad_argument);
        ASSERT_OK(tree->insert(txn, "x", "y"));
        i = 0;
        EXPECT_EQ(tree->bulk_load(txn, next, 90).error().code, ErrorCode::bad_argument);
        store.commit(txn);
        EXPECT_EQ(tree.sound().records, 1u);
    });
}

// The ghost cleaner merges leaves while a check waits for pages that the pool does not hold.
// TestTree::sound() must hold it still, because BTree::verify() demands a quiet tree.
TEST(BTreeCheck, TheGhostCleanerHoldsStill) {
    Options options = small_options();
    options.pool_bytes = 4 << 20;
    TestEngine store(options);
    TestTree tree(store);
    constexpr uint64_t kKeys = 12'000;
    store.on_thread([&] {
        auto& load = store.begin();
        for (uint64_t n = 0; n < kKeys; ++n)
            ASSERT_OK(tree->insert(load, number_key(n), std::string(1000, 'v')));
        store.commit(load);
        for (uint64_t round = 0; round < 3; ++round) {
            auto& txn = store.begin();
            for (uint64_t n = round; n < kKeys; n += 4)
                ASSERT_TRUE(*tree->erase(txn, number_key(n)));
            store.commit(txn);
            for (int check = 0; check < 5; ++check) tree.sound();
        }
        ASSERT_OK(store->ghosts->run_once());
        EXPECT_EQ(tree.sound().records, kKeys / 4);
        EXPECT_GT(tree->stats().merges.load(), 100u);
    });
}

TEST_F(BTreeTest, DestroyGivesAllPagesBack) {
    uint64_t before = 0;
    store.on_thread([&] { before = store->space->pages_used(); });
    const ObjectId id{900};
    store.on_thread([&] {
        auto root = BTree::create(*store, id);
        ASSERT_OK(root);
        BTree other(*store, id, *root);
        auto& txn = store.begin();
        int i = 0;
        std::string k, v(500, 'v');
        ASSERT_OK(other.bulk_load(
            txn,
            [&](Slice& key, Slice& value) {
                if (i == 3000) return false;
                k = number_key(static_cast<uint64_t>(i++));
                key = k;
                value = v;
                return true;
            },
            100));
        store.commit(txn);
        EXPECT_GT(store->space->pages_used(), before + 150);
        ASSERT_OK(other.destroy());
        EXPECT_EQ(store->space->pages_used(), before);
    });
}

}  // namespace lockstep::sm::btree_test
