// labels: unit
// btree_undo_test.cc - rollback restores exactly what was there, wherever records have
// moved; redo of the log gives the same pages.
#include <cstring>

#include "sm/change/log_kinds.h"
#include "sm/change/page_image.h"
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_undo_test {

using Map = std::map<std::string, std::string>;

Map contents(BTree& tree, txn::Transaction& txn) {
    Map found;
    BTreeCursor cursor(tree, txn, "", "", Access::read);
    for (auto more = cursor.next(); more.has_value() && *more; more = cursor.next())
        found.emplace(cursor.key(), cursor.value());
    return found;
}

class BTreeUndoTest : public ::testing::Test {
protected:
    TestEngine store;
    TestTree tree{store};
};

TEST_F(BTreeUndoTest, EachKindOfChangeIsUndone) {
    store.on_thread([&] {
        auto& setup = store.begin();
        ASSERT_OK(tree->insert(setup, "kept", "value"));
        ASSERT_OK(tree->insert(setup, "gone", "value"));
        ASSERT_OK(tree->insert(setup, "large", std::string(30000, 'l')));
        store.commit(setup);
        auto& before_txn = store.begin();
        const Map before = contents(*tree, before_txn);
        store.commit(before_txn);

        auto& txn = store.begin();
        ASSERT_OK(tree->insert(txn, "new", "record"));
        ASSERT_OK(tree->insert(txn, "new large", std::string(20000, 'n')));
        ASSERT_TRUE(*tree->update(txn, "kept", "a much longer value than before"));
        ASSERT_TRUE(*tree->update(txn, "kept", "s"));
        ASSERT_TRUE(*tree->update(txn, "kept", std::string(9000, 'x')));
        ASSERT_TRUE(*tree->erase(txn, "gone"));
        ASSERT_OK(tree->insert(txn, "gone", "again, and longer"));
        ASSERT_TRUE(*tree->erase(txn, "gone"));
        ASSERT_OK(tree->insert(txn, "gone", std::string(9000, 'y')));
        ASSERT_TRUE(*tree->patch(txn, "large", 29999, "!"));
        ASSERT_TRUE(*tree->erase(txn, "large"));
        store.abort(txn);

        auto& after = store.begin();
        EXPECT_EQ(contents(*tree, after), before);
        store.commit(after);
        ASSERT_OK(store->ghosts->run_once());
        EXPECT_EQ(tree.sound().ghosts, 0u);
        EXPECT_EQ(tree.sound().pages_overflow, 4u);
    });
}

// Another transaction takes the room that a shrinking update left: its undo must split to put the
// old value back.
TEST_F(BTreeUndoTest, UndoOfAShrinkingUpdateMakesRoomBySplitting) {
    store.on_thread([&] {
        auto& setup = store.begin();
        for (int i = 0; i < 4; ++i)
            ASSERT_OK(tree->insert(setup, "k" + std::to_string(i), std::string(1900, 'a')));
        store.commit(setup);
        auto& shrinks = store.begin();
        for (int i = 0; i < 4; ++i)
            ASSERT_TRUE(*tree->update(shrinks, "k" + std::to_string(i), "tiny"));
        auto& other = store.begin();
        for (int i = 0; i < 40; ++i)
            ASSERT_OK(tree->insert(other, "k2" + number_key(static_cast<uint64_t>(i)),
                                   std::string(150, 'b')));
        store.commit(other);
        const uint64_t splits = tree->stats().splits.load();
        store.abort(shrinks);
        EXPECT_GT(tree->stats().splits.load(), splits);
        auto& after = store.begin();
        for (int i = 0; i < 4; ++i)
            EXPECT_EQ(TestTree::get(*tree, after, "k" + std::to_string(i)), std::string(1900, 'a'));
        store.commit(after);
        EXPECT_EQ(tree.sound().records, 44u);
    });
}

TEST_F(BTreeUndoTest, RecordsThatSplitsMovedAreFoundByKey) {
    store.on_thread([&] {
        auto& loser = store.begin();
        for (uint64_t i = 0; i < 50; ++i)
            ASSERT_OK(tree->insert(loser, number_key(i * 100), "loser"));
        auto& winner = store.begin(txn::Isolation::repeatable_read);
        for (uint64_t i = 0; i < 5000; ++i)
            if (i % 100) ASSERT_OK(tree->insert(winner, number_key(i), "winner"));
        store.commit(winner);
        store.abort(loser);
        auto& after = store.begin();
        EXPECT_EQ(contents(*tree, after).size(), 4950u);
        store.commit(after);
        tree.sound();
    });
}

// KI-1: replaying the log on empty pages gives the bytes that the forward path left, apart from
// holes and checksums.
TEST_F(BTreeUndoTest, RedoGivesTheSamePages) {
    const uint64_t seed = seed_of_run();
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    store.on_thread([&] {
        // Run by hand below: pages and log must stand still at the end.
        store->ghosts->stop();
        Rng rng(seed);
        for (int t = 0; t < 60; ++t) {
            auto& txn = store.begin();
            for (int i = 0; i < 60; ++i) {
                const std::string key = number_key(rng.below(1500)),
                                  value =
                                      random_text(rng, rng.chance(0.02) ? 9000 : rng.below(300));
                switch (rng.below(4)) {
                    case 0: ASSERT_OK(tree->erase(txn, key)); break;
                    case 1: ASSERT_OK(tree->update(txn, key, value)); break;
                    default: (void)tree->insert(txn, key, value);
                }
            }
            rng.chance(0.7) ? store.commit(txn) : store.abort(txn);
            if (t % 10 == 0) ASSERT_OK(store->ghosts->run_once());
        }
        const auto report = tree.sound();
        std::map<PageId, std::unique_ptr<Page>> redone;
        std::string buffer;
        for (Lsn at = store->log->start(); at < store->log->tail();) {
            auto record = store->log->read(at, buffer);
            ASSERT_OK(record);
            at = record->end();
            if (record->header->kind < txn::kSmLogKindFirst || record->header->parts == 0) continue;
            uint32_t cursor = 0;
            for (PartView part;;) {
                auto more = next_part(*record, cursor, part);
                ASSERT_OK(more);
                if (!*more) break;
                auto& page = redone[part.page];
                if (!page) page = std::make_unique<Page>();
                if (page->header.lsn >= record->end().value) continue;
                if (part.flags & kPartImage) {
                    ASSERT_OK(bring_image(*page, part));
                }
                apply_action(part.action, *page, part.payload);
                page->header.lsn = record->end().value;
            }
        }
        EXPECT_GT(report.pages.size(), 10u);
        for (PageId id : report.pages) {
            ASSERT_TRUE(redone.contains(id));
            auto live = store->pool->fix_shared(id);
            ASSERT_OK(live);
            const Page &a = **live, &b = *redone[id];
            const size_t hole = a.header.hole_begin, end = a.header.hole_end;
            EXPECT_EQ(a.lsn(), b.lsn()) << "page " << id.value;
            EXPECT_EQ(std::memcmp(a.bytes() + 16, b.bytes() + 16, hole - 16), 0)
                << "page " << id.value;
            EXPECT_EQ(std::memcmp(a.bytes() + end, b.bytes() + end, kPageBytes - end), 0)
                << "page " << id.value;
        }
    });
}

}  // namespace lockstep::sm::btree_undo_test
