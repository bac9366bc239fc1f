// labels: unit
// btree_limits_test.cc - splits and merges at the last byte: what just fits, and one byte more.
//
// Concepts   A page's bytes are counted here from its records, without the header's own count. The
//            root of a one-leaf tree has no fences and no prefix, so its arithmetic is plain. A
//            merge of a leaf with a long prefix into one without gives each record its prefix back.
#include "sm/btree/btree_leaf_walk.h"
#include "sm/btree/btree_node.h"
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_limits_test {

using namespace node;

constexpr size_t kUsable = kPageBytes - kSlotsAt;
// Both leaves together take at most this, unless one of them is empty (README of sm/btree).
constexpr size_t kMergeLimit = kUsable * 7 / 10;

size_t bytes_of(Slice key, size_t value_bytes) { return kSlotCost + key.size() + value_bytes; }
std::string text(size_t bytes) { return std::string(bytes, 'v'); }

struct Leaf {
    std::vector<std::string> keys;
    size_t low_bytes = 0, prefix = 0;
};

class Tree {
public:
    Tree() {
        store_.on_thread([&] { store_->ghosts->hold(); });
    }
    ~Tree() {
        store_.on_thread([&] { store_->ghosts->resume(); });
    }
    // The rest: on a user thread.
    BTree& operator*() { return *tree_; }
    BTree* operator->() { return &*tree_; }
    BTree::Report sound() {
        auto report = tree_->verify();
        EXPECT_TRUE(report && report->faults.empty());
        return report ? *report : BTree::Report{};
    }
    void run(std::function<void()> fn) { store_.on_thread(std::move(fn)); }
    // Inserts or updates.
    void put(const std::string& key, size_t value_bytes) {
        auto& txn = store_.begin();
        const auto changed = tree_->update(txn, key, text(value_bytes));
        ASSERT_OK(changed);
        if (!*changed) {
            ASSERT_OK(tree_->insert(txn, key, text(value_bytes)));
        }
        store_.commit(txn);
    }
    void erase(const std::string& key) {
        auto& txn = store_.begin();
        ASSERT_TRUE(*tree_->erase(txn, key));
        store_.commit(txn);
    }
    std::vector<Leaf> leaves() {
        std::vector<Leaf> all;
        LeafWalk walk(*store_->pool, *tree_);
        const auto page = std::make_unique<Page>();
        while (*walk.next(*page)) {
            Leaf& leaf = all.emplace_back();
            leaf.low_bytes = low(*page).size();
            leaf.prefix = header(*page).prefix;
            for (unsigned slot = 0; slot < count(*page); ++slot)
                leaf.keys.emplace_back(full_key(*page, slot));
        }
        return all;
    }
    // Gives the records of a leaf values with which all of them, keys and slots too, take `bytes`.
    void fill(const Leaf& leaf, size_t bytes) {
        size_t fixed = 0;
        for (const std::string& key : leaf.keys) fixed += bytes_of(key, 0);
        ASSERT_GE(bytes, fixed);
        const size_t n = leaf.keys.size(), each = (bytes - fixed) / n;
        // Smaller ones first, so that the leaf never needs more than at the end.
        for (const std::string& key : leaf.keys) put(key, 0);
        for (size_t i = 0; i < n; ++i) put(leaf.keys[i], each + (i == 0 ? (bytes - fixed) % n : 0));
    }

private:
    TestEngine store_;
    TestTree tree_{store_};
};

// The free bytes that a record, or its growth, needs: exactly those, and one fewer.
TEST(Limits, ALeafTakesARecordThatFillsItToTheLastByte) {
    for (const size_t more : {0, 1})
        for (const bool grows : {false, true}) {
            SCOPED_TRACE(std::to_string(more) + (grows ? " more, grows" : " more, is new"));
            Tree tree;
            tree.run([&] {
                tree.put(number_key(9), 100);
                for (uint64_t n = 0; n < 3; ++n) tree.put(number_key(n), 2000);
                const size_t used =
                                 bytes_of(number_key(9), 100) + 3 * bytes_of(number_key(0), 2000),
                             room = kUsable - used;
                ASSERT_LT(room, 2500u);
                if (grows) tree.put(number_key(9), 100 + room + more);
                else tree.put(number_key(5), room - bytes_of(number_key(5), 0) + more);
                EXPECT_EQ(tree.sound().pages_leaf, more == 0 ? 1u : 2u);
            });
        }
}

// Two leaves that both have records, one of them small.
TEST(Limits, NeighboursMergeUpToTheLimit) {
    for (const size_t more : {0, 1}) {
        SCOPED_TRACE(more);
        Tree tree;
        tree.run([&] {
            for (uint64_t n = 0; n < 6; ++n) tree.put(number_key(n), 2000);
            const std::vector<Leaf> both = tree.leaves();
            ASSERT_EQ(both.size(), 2u);
            // The low fence of the right one stays out of the merged leaf.
            const size_t right = kUsable / 5;
            tree.fill(both[1], right);
            tree.fill(both[0], kMergeLimit - right + more);
            ASSERT_OK(tree->clean_leaf(both[1].keys[0]));
            EXPECT_EQ(tree->stats().merges.load(), 1 - more);
            EXPECT_EQ(tree.leaves().size(), 1 + more);
            EXPECT_EQ(tree.sound().records, 6u);
        });
    }
}

// An empty leaf beside one that the merge makes full: each of its records gets its prefix back.
TEST(Limits, AnEmptyLeafMergesIfTheOtherOneStaysWithinThePage) {
    const std::string stem(30, 'p');
    for (const size_t more : {0, 1}) {
        SCOPED_TRACE(more);
        Tree tree;
        tree.run([&] {
            tree.put("a", 2500);
            for (uint64_t n = 0; n < 40; ++n) tree.put(stem + number_key(n), 300);
            tree.put("z", 2500);
            const std::vector<Leaf> all = tree.leaves();
            ASSERT_GE(all.size(), 3u);
            const Leaf &last = all.back(), &full = all[all.size() - 2];
            ASSERT_GE(full.prefix, stem.size()) << "the test is blind";
            // The merged leaf has the low fence, and no high one.
            tree.fill(full, kUsable - full.low_bytes + more);
            for (const std::string& key : last.keys) tree.erase(key);
            ASSERT_EQ(tree.leaves().size(), all.size()) << "a split: the test is blind";
            const auto cleaned = tree->clean_leaf(last.keys[0]);
            ASSERT_OK(cleaned);
            EXPECT_EQ(cleaned->stuck, more == 1);
            EXPECT_EQ(tree->stats().merges.load(), 1 - more);
            EXPECT_EQ(tree.sound().pages_leaf, all.size() - 1 + more);
            EXPECT_EQ(tree.sound().records, 42 - last.keys.size());
        });
    }
}

}  // namespace lockstep::sm::btree_limits_test
