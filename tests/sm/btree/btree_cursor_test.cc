// labels: unit
// btree_cursor_test.cc - ranges both ways, turns, changes under the cursor by its own
// transaction, isolation of each level.
#include "sm/btree/btree_cursor.h"
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_cursor_test {

class BTreeCursorTest : public ::testing::Test {
protected:
    TestEngine store;
    TestTree tree{store};

    void fill(uint64_t n, size_t value_bytes) {
        store.on_thread([&] {
            auto& txn = store.begin();
            for (uint64_t i = 0; i < n; ++i)
                ASSERT_OK(tree->insert(txn, number_key(i * 10), std::string(value_bytes, 'v')));
            store.commit(txn);
        });
    }
    static uint64_t number(Slice key) {
        uint64_t n = 0;
        for (char c : key) n = n << 8 | static_cast<uint8_t>(c);
        return n;
    }
};

TEST_F(BTreeCursorTest, EmptyTreeAndEmptyRanges) {
    store.on_thread([&] {
        auto& txn = store.begin();
        for (auto [low, high] :
             {std::pair("", ""), std::pair("a", "b"), std::pair("b", "a"), std::pair("z", "")}) {
            BTreeCursor forward(*tree, txn, low, high, Access::read),
                backward(*tree, txn, low, high, Access::read);
            EXPECT_FALSE(*forward.next());
            EXPECT_FALSE(*backward.prev());
        }
        ASSERT_OK(tree->insert(txn, "m", "v"));
        for (auto [low, high] :
             {std::pair("a", "m"), std::pair("n", ""), std::pair("n", "z"), std::pair("m", "m")}) {
            BTreeCursor forward(*tree, txn, low, high, Access::read),
                backward(*tree, txn, low, high, Access::read);
            EXPECT_FALSE(*forward.next());
            EXPECT_FALSE(*backward.prev());
        }
        store.commit(txn);
    });
}

TEST_F(BTreeCursorTest, BoundsAreLowInclusiveHighExclusive) {
    fill(3000, 50);
    store.on_thread([&] {
        auto& txn = store.begin();
        for (uint64_t low : {0u, 5u, 10u, 9990u, 29990u})
            for (uint64_t length : {0u, 1u, 9u, 10u, 11u, 5000u}) {
                std::vector<uint64_t> expected, forward, backward;
                for (uint64_t i = 0; i < 3000; ++i)
                    if (i * 10 >= low && i * 10 < low + length) expected.push_back(i * 10);
                BTreeCursor f(*tree, txn, number_key(low), number_key(low + length), Access::read);
                while (*f.next()) forward.push_back(number(f.key()));
                BTreeCursor b(*tree, txn, number_key(low), number_key(low + length), Access::read);
                while (*b.prev()) backward.insert(backward.begin(), number(b.key()));
                EXPECT_EQ(forward, expected);
                EXPECT_EQ(backward, expected);
            }
        store.commit(txn);
    });
}

TEST_F(BTreeCursorTest, SurvivesOwnChangesAndSplits) {
    fill(200, 20);
    store.on_thread([&] {
        auto& txn = store.begin();
        BTreeCursor cursor(*tree, txn, "", "", Access::write);
        uint64_t expected = 0;
        while (*cursor.next()) {
            ASSERT_EQ(number(cursor.key()), expected);
            if (expected % 3 == 0) {
                ASSERT_TRUE(*tree->erase(txn, number_key(expected)));
            } else {
                ASSERT_TRUE(*tree->update(txn, number_key(expected), std::string(700, 'u')));
            }
            ASSERT_OK(tree->insert(txn, number_key(expected > 5 ? expected - 5 : 100001 + expected),
                                   std::string(700, 'i')));
            expected += 10;
            if (expected == 2000) break;
        }
        EXPECT_EQ(expected, 2000u);
        EXPECT_GT(tree->stats().splits.load(), 10u);
        store.commit(txn);
        tree.sound();
    });
}

TEST_F(BTreeCursorTest, TurnsRoundAnywhere) {
    fill(1000, 40);
    const uint64_t seed = seed_of_run();
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    store.on_thread([&] {
        Rng rng(seed);
        auto& txn = store.begin();
        BTreeCursor cursor(*tree, txn, "", "", Access::read);
        ASSERT_TRUE(*cursor.next());
        int64_t at = 0;
        for (int i = 0; i < 5000; ++i) {
            const bool forward = rng.chance(0.52);
            const auto moved = forward ? cursor.next() : cursor.prev();
            ASSERT_OK(moved);
            const int64_t target = at + (forward ? 1 : -1);
            ASSERT_EQ(*moved, target >= 0 && target < 1000);
            if (*moved) {
                at = target;
                ASSERT_EQ(number(cursor.key()), static_cast<uint64_t>(at) * 10);
            }
        }
        store.commit(txn);
    });
}

// What another transaction may do to a range that was scanned, level by level.
TEST_F(BTreeCursorTest, IsolationLevelsProtectWhatTheyPromise) {
    fill(20, 20);
    using txn::Isolation;
    for (const Isolation isolation :
         {Isolation::serializable, Isolation::repeatable_read, Isolation::read_committed}) {
        store.on_thread([&] {
            auto& reader = store.begin(isolation);
            BTreeCursor cursor(*tree, reader, number_key(50), number_key(100), Access::read);
            while (*cursor.next()) continue;
            auto& writer = store.begin(Isolation::serializable, 5 * kMillisecond);
            const auto update_inside = tree->update(writer, number_key(60), "changed");
            const auto insert_inside = tree->insert(writer, number_key(65), "phantom");
            const auto insert_before_end = tree->insert(writer, number_key(95), "phantom");
            const auto insert_outside = tree->insert(writer, number_key(105), "outside");
            EXPECT_EQ(update_inside.has_value(), isolation == Isolation::read_committed);
            EXPECT_EQ(insert_inside.has_value(), isolation != Isolation::serializable);
            EXPECT_EQ(insert_before_end.has_value(), isolation != Isolation::serializable);
            EXPECT_TRUE(insert_outside);
            store.abort(writer);
            store.commit(reader);
        });
    }
}

// A lock that the transaction has anyway (here: U, for a later update) outlasts a plain read of the
// same key at read_committed.
TEST_F(BTreeCursorTest, ReadCommittedKeepsLocksItDidNotTake) {
    fill(20, 20);
    store.on_thread([&] {
        for (const bool scan : {false, true}) {
            auto& reader = store.begin(txn::Isolation::read_committed);
            char bytes[64];
            const auto get = [&](uint64_t n, Access access) {
                ValueOut out{.fixed = reinterpret_cast<std::byte*>(bytes),
                             .capacity = sizeof bytes};
                return *tree->fetch(reader, number_key(n), access, out);
            };
            EXPECT_TRUE(get(50, Access::update));
            EXPECT_TRUE(get(60, Access::write));
            if (scan) {
                BTreeCursor cursor(*tree, reader, number_key(40), number_key(80), Access::read);
                while (*cursor.next()) continue;
            } else {
                for (const uint64_t n : {40u, 50u, 60u, 70u}) EXPECT_TRUE(get(n, Access::read));
            }
            auto& writer = store.begin(txn::Isolation::serializable, 5 * kMillisecond);
            for (const uint64_t n : {40u, 50u, 60u, 70u}) {
                const auto changed = tree->update(writer, number_key(n), "changed");
                EXPECT_EQ(changed.has_value(), n == 40 || n == 70) << n;
            }
            store.abort(writer);
            store.commit(reader);
        }
    });
}

// A scan at read_committed holds the lock of a large value while it reads the value's pages. A
// writer would free them.
TEST_F(BTreeCursorTest, ReadCommittedLocksALargeValueWhileItReadsIt) {
    fill(3, 20);
    store.on_thread([&] {
        auto& txn = store.begin();
        ASSERT_TRUE(*tree->update(txn, number_key(10), std::string(100'000, 'l')));
        store.commit(txn);
    });
    store.close();
    store.open();  // its pages are not in memory
    BTree& again = **store->catalog->index("tree");
    const txn::LockName name = txn::key_lock_name(again.id(), number_key(10));
    const txn::Transaction* reading = nullptr;
    bool done = false, was_locked = false;
    const auto reader = [&] {
        auto& txn = store.begin(txn::Isolation::read_committed);
        reading = &txn;
        BTreeCursor cursor(again, txn, "", "", Access::read);
        while (*cursor.next()) continue;
        EXPECT_EQ(store->locks->held(txn.locks, name), txn::LockMode::none);
        done = true;
        store.commit(txn);
    };
    // On the same worker: it runs while the reader waits for a page.
    threads::Completion observed;
    ASSERT_OK(store->start_thread(0, "observer", [&] {
        for (; !done; threads::yield())
            if (reading != nullptr)
                was_locked |= store->locks->held(reading->locks, name) == txn::LockMode::S;
        observed.set();
    }));
    store.on_thread(reader);
    store->wait_for(observed);
    EXPECT_TRUE(was_locked);
}

// Each step of the cursor finds its leaf changed by the transaction's own update, erase or insert
// behind it.
TEST_F(BTreeCursorTest, ChangesWhatItScans) {
    fill(2000, 40);
    store.on_thread([&] {
        auto& txn = store.begin();
        uint64_t expected = 0;
        BTreeCursor cursor(*tree, txn, number_key(0), number_key(15000), Access::write);
        while (*cursor.next()) {
            const uint64_t n = number(cursor.key());
            if (n % 10 != 0) continue;  // one of those put in below
            ASSERT_EQ(n, expected);
            expected += 10;
            const std::string key(cursor.key());
            switch (n / 10 % 4) {
                case 0: ASSERT_TRUE(*tree->patch(txn, key, 3, "xyz")); break;
                case 1: ASSERT_TRUE(*tree->update(txn, key, std::string(60, 'w'))); break;
                case 2: ASSERT_TRUE(*tree->erase(txn, key)); break;
                default: ASSERT_OK(tree->insert(txn, number_key(n + 5), "between")); break;
            }
        }
        EXPECT_EQ(expected, 15000u);
        store.commit(txn);
        auto& check = store.begin();
        BTreeCursor all(*tree, check, "", "", Access::read);
        uint64_t seen = 0;
        while (*all.next()) {
            const uint64_t n = number(all.key());
            if (n < 15000 && n % 10 == 0 && n / 10 % 4 == 0) {
                EXPECT_EQ(all.value().substr(3, 3), "xyz");
            } else if (n < 15000 && n / 10 % 4 == 1) {
                EXPECT_EQ(all.value(), std::string(60, 'w'));
            }
            ++seen;
        }
        EXPECT_EQ(seen, 2000u - 375 + 375);
        store.commit(check);
    });
    EXPECT_TRUE(tree->verify()->faults.empty());
}

TEST_F(BTreeCursorTest, TheGapAboveTheLastKeyIsProtected) {
    fill(5, 20);
    store.on_thread([&] {
        for (bool backward : {false, true}) {
            auto& reader = store.begin();
            BTreeCursor cursor(*tree, reader, number_key(30), "", Access::read);
            while (backward ? *cursor.prev() : *cursor.next()) continue;
            auto& writer = store.begin(txn::Isolation::serializable, 5 * kMillisecond);
            EXPECT_EQ(tree->insert(writer, number_key(1000), "phantom").error().code,
                      ErrorCode::self_deadlock);
            EXPECT_TRUE(tree->insert(writer, number_key(5), "below the range"));
            ASSERT_OK(tree->insert(reader, number_key(2000), "the reader's own"));
            EXPECT_FALSE(tree->insert(writer, number_key(1500),
                                      "in the lower half of the gap that the reader cut"));
            EXPECT_FALSE(tree->insert(writer, number_key(2500), "in the upper half"));
            store.abort(writer);
            store.abort(reader);
        }
    });
}

}  // namespace lockstep::sm::btree_cursor_test
