// labels: unit
// overflow_chain_test.cc - chains of overflow pages are told apart by object and number, also when
// one has the pages that another had.
#include "sm/btree/overflow.h"

#include "sm/btree/btree_node.h"
#include "sm/btree/btree_node_search.h"
#include "sm/space/space_map.h"
#include "tests/sm/btree/btree_test_util.h"
#include "threads/thread/thread.h"

namespace lockstep::sm::overflow_chain_test {

class OverflowChainTest : public ::testing::Test {
protected:
    OverflowRef write(const std::string& value, ObjectId object = kObject) {
        const auto ref = write_overflow(*store_, nullptr, object, value);
        EXPECT_TRUE(ref) << ref.error().text();
        return overflow_ref(*ref);
    }
    void free(const OverflowRef& ref, ObjectId object = kObject) {
        ASSERT_OK(free_overflow(*store_, object, PageId{ref.first}, ref.chain));
    }
    bool exists(const OverflowRef& ref, ObjectId object = kObject) {
        const Result<bool> there = overflow_exists(*store_, object, PageId{ref.first}, ref.chain);
        EXPECT_TRUE(there.has_value()) << there.error().text();
        return there.has_value() && *there;
    }
    // Nothing, if the chain cannot be read.
    std::string read(const OverflowRef& ref, ObjectId object = kObject) {
        std::string text;
        const Result<void> done = read_overflow(*store_->pool, object, ref, text);
        if (done) return text;
        EXPECT_EQ(done.error().code, ErrorCode::corrupt_page);
        return {};
    }

    // Of a record whose value is a chain, in a tree of one leaf.
    OverflowRef reference(BTree& tree, Slice key) {
        const auto root = store_->pool->fix_shared(tree.root());
        EXPECT_TRUE(root);
        const node::Found at = node::search(**root, key);
        EXPECT_TRUE(at.exact && node::overflow(**root, at.slot));
        return overflow_ref(node::value(**root, at.slot));
    }
    // The next pages taken are the first ones that are free, not those behind the last ones.
    void search_from_the_beginning() { ASSERT_OK(store_->space->open()); }

    static constexpr ObjectId kObject{700}, kOther{701};
    TestEngine store_;
    OverflowRef last_{};
};

TEST_F(OverflowChainTest, AChainIsFreedOnce) {
    store_.on_thread([&] {
        for (const size_t bytes : {size_t{5000}, kOverflowCapacity, size_t{100'000}}) {
            search_from_the_beginning();
            const OverflowRef old = write(std::string(bytes, 'a'));
            const uint64_t used = store_->space->pages_used();
            free(old);
            EXPECT_FALSE(exists(old)) << "its pages still have its bytes";
            EXPECT_EQ(overflow_remains(*store_, kObject, PageId{old.first}, old.chain)->size(), 0u);
            const std::string value(bytes, 'b');
            search_from_the_beginning();
            const OverflowRef now = write(value);
            ASSERT_EQ(now.first, old.first) << "the test is blind";
            ASSERT_NE(now.chain, old.chain);
            free(old);
            EXPECT_EQ(store_->space->pages_used(), used);
            EXPECT_TRUE(exists(now));
            EXPECT_EQ(read(now), value);
            EXPECT_EQ(read(old), "");
            EXPECT_FALSE(overflow_pages(*store_->pool, kObject, old));
            free(now);
        }
    });
}

TEST_F(OverflowChainTest, AChainBelongsToItsObject) {
    store_.on_thread([&] {
        const std::string value(20'000, 'v');
        const OverflowRef ref = write(value);
        const uint64_t used = store_->space->pages_used();
        EXPECT_FALSE(exists(ref, kOther));
        EXPECT_EQ(read(ref, kOther), "");
        free(ref, kOther);
        EXPECT_EQ(store_->space->pages_used(), used);
        EXPECT_EQ(read(ref), value);
        free(ref);
    });
}

// OV-2. Both writers wait for the map of pages, and find the same end of the log.
TEST_F(OverflowChainTest, WritersAtTheSameTimeHaveDifferentNumbers) {
    OverflowRef refs[2];
    bool latched = false;
    int began = 0;
    Lsn end{};
    const auto writer = [&](int i) {
        while (!latched) threads::yield();
        ++began;
        refs[i] = write(std::string(20'000, 'v'));
    };
    store_.on_threads({
        [&] {
            const auto map = store_->pool->fix_exclusive(kFirstMapPage);
            ASSERT_OK(map);
            end = store_->log->tail();
            latched = true;
            while (began < 2) threads::yield();
            for (int i = 0; i < 10; ++i) threads::yield();
            EXPECT_EQ(store_->log->tail(), end) << "a writer did not wait: the test is blind";
        },
        [&] { writer(0); },
        [&] { writer(1); },
    });
    EXPECT_NE(refs[0].chain, refs[1].chain);
    store_.on_thread([&] {
        free(refs[0]);
        EXPECT_EQ(read(refs[1]), std::string(20'000, 'v'));
        free(refs[1]);
    });
}

// Ghosts of stores before format version 6 own their chains. The cleaner frees those of two. Behind
// the first one it waits for a page. Meanwhile the first record comes back and goes again, and its
// new chain has the pages of the old one. The cleaner must not take that ghost for the one whose
// chain it has freed.
TEST_F(OverflowChainTest, AGhostWithANewChainOnTheSamePagesStays) {
    TestTree tree(store_);
    const auto put_and_erase = [&](Slice key, char c) {
        auto& txn = store_.begin();
        const auto listed = write_overflow(*store_, &txn, tree->id(), std::string(20'000, c));
        ASSERT_OK(listed);
        const node::SearchKey wanted(key);
        const Slice unlisted = Slice(*listed).substr(0, sizeof(OverflowRef));
        ASSERT_OK(store_->locks->lock_record(txn.locks, tree->lock(), wanted.lock_name(tree->id()),
                                             txn::LockMode::X));
        ASSERT_OK(tree->insert_record(txn, wanted.lock_name(tree->id()), wanted, unlisted, true));
        const OverflowRef ref = reference(*tree, key);
        ASSERT_TRUE(*tree->erase(txn, key));
        store_.commit(txn);
        last_ = ref;
    };
    uint64_t used = 0;
    OverflowRef first{}, second{};
    store_.on_thread([&] {
        store_->ghosts->hold();
        search_from_the_beginning();
        used = store_->space->pages_used();
        put_and_erase("a", '1');
        first = last_;
        put_and_erase("b", '2');
        second = last_;
    });
    bool latched = false, back = false;
    BTree::Cleaned cleaned{};
    store_.on_threads({
        [&] {
            const auto page = store_->pool->fix_exclusive(PageId{second.first});
            ASSERT_OK(page);
            latched = true;
            while (!back) threads::yield();
        },
        [&] {
            while (!latched) threads::yield();
            const auto done = tree->clean_leaf("a");
            ASSERT_OK(done);
            cleaned = *done;
        },
        [&] {
            while (!latched || exists(first, tree->id())) threads::yield();
            search_from_the_beginning();
            put_and_erase("a", '3');
            back = true;
        },
    });
    EXPECT_EQ(last_.first, first.first) << "the test is blind";
    EXPECT_NE(last_.chain, first.chain);
    EXPECT_EQ(cleaned.removed, 1u);
    EXPECT_EQ(cleaned.left, 1u);
    store_.on_thread([&] {
        EXPECT_TRUE(exists(last_, tree->id()));
        ASSERT_OK(tree->clean_leaf("a"));
        EXPECT_EQ(store_->space->pages_used(), used);
        store_->ghosts->resume();
    });
}

// A crash may cut the freeing short; it goes from the end, so what is left hangs on the first page.
TEST_F(OverflowChainTest, TheRestOfAChainIsFound) {
    store_.on_thread([&] {
        const OverflowRef ref = write(std::string(30'000, 'v'));
        std::vector<PageId> pages = *overflow_pages(*store_->pool, kObject, ref);
        ASSERT_GT(pages.size(), 3u);
        const PageId last[] = {pages.back()};
        ASSERT_OK(store_->space->free_now(last));
        search_from_the_beginning();
        const OverflowRef other = write("other");
        ASSERT_EQ(other.first, pages.back().value) << "the test is blind";
        pages.pop_back();
        EXPECT_EQ(*overflow_remains(*store_, kObject, PageId{ref.first}, ref.chain), pages);
        free(ref);
        EXPECT_EQ(read(other), "other");
        free(other);
    });
}

}  // namespace lockstep::sm::overflow_chain_test
