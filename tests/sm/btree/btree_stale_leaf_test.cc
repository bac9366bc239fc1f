// labels: unit
// btree_stale_leaf_test.cc - BT-6: what a transaction remembers of a leaf is worth
// nothing once a leaf of that tree has been freed.
//
// The pages of a bulk load that is rolled back are freed, and forgotten unwritten. So the volume
// goes on holding leaves of this tree, with good checksums and the tree's own number, and whoever
// reads such a page back gets the leaf of long ago.
#include "sm/core/txn_local.h"
#include "sm/recovery/recovery.h"
#include "sm/space/space_map.h"
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_stale_leaf_test {

constexpr uint64_t kKeys = 3000, kAt = 1500;

class StaleLeaf : public ::testing::Test {
protected:
    // Runs on a user thread: loads, `look`s, takes the load back while the transaction goes on,
    // lets the leaf of kAt be read back, and `look`s again.
    void around_the_rollback(
        std::move_only_function<void(txn::Transaction& txn, bool loaded)> look) {
        store_.on_thread([&] {
            auto& txn = store_.begin();
            ASSERT_OK(store_->locks->lock_object(txn.locks, tree_->lock(), txn::LockMode::X));
            const Lsn before = txn.last_lsn;
            ASSERT_OK(load(txn));
            ASSERT_OK(store_->checkpointer->run(true));  // now the leaves are on the volume
            for (int i = 0; i < 3; ++i) ASSERT_TRUE(TestTree::get(*tree_, txn, number_key(kAt)));
            const PageId leaf =
                local_of(txn)
                    .leaf_hints[tree_->id().value % std::size(local_of(txn).leaf_hints)]
                    .page;
            look(txn, true);
            ASSERT_OK(rollback(*store_, txn, before));
            ASSERT_FALSE(*store_->space->is_used(leaf));
            {
                auto back = store_->pool->fix_shared(leaf);
                ASSERT_OK(back);
                // It looks like a leaf of this tree: the test is not blind.
                EXPECT_EQ((*back)->kind(), PageKind::btree);
                EXPECT_EQ((*back)->header.object, tree_->id().value);
            }
            look(txn, false);
            store_.commit(txn);
        });
    }
    Result<void> load(txn::Transaction& txn) {
        std::string key, value(100, 'v');
        uint64_t n = 0;
        return tree_->bulk_load(
            txn,
            [&](Slice& k, Slice& v) {
                key = number_key(n);
                k = key;
                v = value;
                return n++ < kKeys;
            },
            100);
    }
    void expect_content(uint64_t records) {
        store_.on_thread([&] { EXPECT_EQ(tree_.sound().records, records); });
    }

    TestEngine store_;
    TestTree tree_{store_};
};

TEST_F(StaleLeaf, AHintIsNotFollowed) {
    around_the_rollback([&](txn::Transaction& txn, bool loaded) {
        EXPECT_EQ(TestTree::get(*tree_, txn, number_key(kAt)).has_value(), loaded);
        if (!loaded) {
            EXPECT_FALSE(*tree_->update(txn, number_key(kAt), "new"));
        }
    });
    expect_content(0);
}

TEST_F(StaleLeaf, NothingIsWrittenThroughAHint) {
    around_the_rollback([&](txn::Transaction& txn, bool loaded) {
        if (!loaded) {
            ASSERT_OK(tree_->insert(txn, number_key(kAt), "new"));
        }
    });
    store_.on_thread([&] {
        auto& reader = store_.begin();
        EXPECT_EQ(TestTree::get(*tree_, reader, number_key(kAt)), "new");
        store_.commit(reader);
    });
    expect_content(1);
}

TEST_F(StaleLeaf, ACursorDescendsAnew) {
    for (const bool forward : {true, false}) {
        std::optional<BTreeCursor> cursor;
        around_the_rollback([&](txn::Transaction& txn, bool loaded) {
            const std::string middle = number_key(kAt);
            if (loaded)
                cursor.emplace(*tree_, txn, forward ? Slice(middle) : Slice(),
                               forward ? Slice() : Slice(middle), Access::read);
            EXPECT_EQ(*(forward ? cursor->next() : cursor->prev()), loaded);
            if (!loaded) cursor.reset();
        });
        expect_content(0);
    }
}

}  // namespace lockstep::sm::btree_stale_leaf_test
