// labels: unit
// btree_whole_lock_test.cc - while a transaction holds a lock on the whole index, it may walk the
// pages without latches: nobody else merges them.
#include "sm/btree/btree_leaf_walk.h"
#include "sm/btree/btree_node.h"
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_whole_lock_test {

constexpr uint64_t kRows = 2000;

class WholeLock : public ::testing::Test {
public:
    // Leaves that are so small that the cleaner merges each with its neighbour.
    WholeLock() {
        store_.on_thread([&] {
            store_->ghosts->hold();
            auto& txn = store_.begin();
            for (uint64_t n = 0; n < kRows; ++n)
                ASSERT_OK(tree_->insert(txn, number_key(n), std::string(100, 'v')));
            for (uint64_t n = 0; n < kRows; ++n)
                ASSERT_TRUE(*tree_->update(txn, number_key(n), "s"));
            store_.commit(txn);
        });
    }
    ~WholeLock() override {
        store_.on_thread([&] { store_->ghosts->resume(); });
    }

protected:
    TestEngine store_;
    TestTree tree_{store_};
};

// As the build of a secondary index does.
TEST_F(WholeLock, AWalkOverTheLeavesMeetsEachRecordBesideTheCleaner) {
    store_.on_thread([&] {
        auto& txn = store_.begin();
        ASSERT_OK(store_->locks->lock_object(txn.locks, tree_->lock(), txn::LockMode::S));
        LeafWalk walk(*store_->pool, *tree_);
        const auto leaf = std::make_unique<Page>();
        uint64_t seen = 0, leaves = 0;
        for (;; ++leaves) {
            const Result<bool> more = walk.next(*leaf);
            ASSERT_TRUE(more.has_value()) << leaves << " leaves: " << more.error().text();
            if (!*more) break;
            for (unsigned slot = 0; slot < node::count(*leaf); ++slot, ++seen)
                EXPECT_EQ(node::full_key(*leaf, slot), number_key(seen));
            ASSERT_OK(tree_->clean_leaf(node::full_key(*leaf, 0)));
        }
        EXPECT_EQ(seen, kRows);
        EXPECT_GT(leaves, 10u) << "the test is blind";
        store_.commit(txn);
    });
}

// As the rollback of a bulk load does, which lists the pages before it frees them.
TEST_F(WholeLock, TheListOfAllPagesStaysTrueBesideTheCleaner) {
    store_.on_thread([&] {
        auto& txn = store_.begin();
        ASSERT_OK(store_->locks->lock_object(txn.locks, tree_->lock(), txn::LockMode::X));
        const auto before = tree_->verify();
        ASSERT_OK(before);
        for (uint64_t n = 0; n < kRows; n += 20) ASSERT_OK(tree_->clean_leaf(number_key(n)));
        const auto after = tree_->verify();
        ASSERT_OK(after);
        EXPECT_EQ(after->pages, before->pages);
        store_.commit(txn);
        for (uint64_t n = 0; n < kRows; n += 20) ASSERT_OK(tree_->clean_leaf(number_key(n)));
        EXPECT_LT(tree_->verify()->pages.size(), before->pages.size()) << "the test is blind";
    });
}

}  // namespace lockstep::sm::btree_whole_lock_test
