// labels: unit
// btree_long_keys_test.cc - inner nodes of few, long separators, which are full to the last byte: a
// bulk load that fills them, and a merge that may just fit. Runs of short keys among long ones.
#include <map>
#include <string>
#include <vector>

#include "sm/btree/btree_node.h"
#include "tests/seed_of_run.h"
#include "tests/sm/btree/btree_test_util.h"
#include "threads/base/rng.h"

namespace lockstep::sm::btree_long_keys_test {

class LongKeys : public ::testing::Test {
protected:
    // A new index with these keys, on a user thread. Each leaf has two records, the last one
    // perhaps less.
    BTree& load(const std::vector<std::string>& keys) {
        auto& txn = store_.begin();
        const auto made = store_->catalog->create_index(txn, "tree" + std::to_string(trees_++));
        EXPECT_TRUE(made);
        size_t i = 0;
        const auto next = [&](Slice& key, Slice& value) {
            if (i == keys.size()) return false;
            key = keys[i++];
            value = Slice(value_).substr(0, node::kInlineMax - key.size());
            return true;
        };
        const auto done = (*made)->bulk_load(txn, next, 100);
        EXPECT_TRUE(done) << done.error().text();
        store_.commit(txn);
        return **made;
    }
    BTree::Report sound(BTree& tree) { return TestTree::sound(store_, tree); }
    // Inserts the records in this order, in one transaction.
    void insert(BTree& tree, const std::vector<std::pair<std::string, size_t>>& records) {
        auto& txn = store_.begin();
        for (const auto& [key, bytes] : records)
            ASSERT_OK(tree.insert(txn, key, Slice(value_).substr(0, bytes)));
        store_.commit(txn);
    }

    static constexpr size_t kEach = 2;
    enum class Outcome { merged, stayed, other };
    // Two inner nodes below the root: the left one loses all its leaves but one, with all of their
    // records. The last separator of the right one has `more` bytes more than the others.
    Outcome empty_left_node(size_t leaves, size_t more) {
        std::vector<std::string> keys;
        for (size_t n = 0; n < kEach * (leaves - 1); ++n)
            keys.push_back(std::string(442, 'p') + number_key(n));
        keys.back() += std::string(more, 'y');
        keys.push_back(keys.back() + "z");
        BTree& tree = load(keys);
        if (const BTree::Report before = sound(tree);
            before.levels != 3 || before.pages.size() != leaves + 3)
            return Outcome::other;
        std::string middle;
        {
            const auto root = store_->pool->fix_shared(tree.root());
            EXPECT_EQ(node::count(**root), 1u);
            middle = node::full_key(**root, 0);
        }
        store_->ghosts->hold();
        auto& txn = store_.begin();
        size_t erased = 0;
        for (; keys[erased] < middle; ++erased) EXPECT_TRUE(*tree.erase(txn, keys[erased]));
        store_.commit(txn);
        for (size_t pass = 0; pass < 3; ++pass)
            for (size_t n = 0; n < erased; ++n) EXPECT_TRUE(tree.merge(keys[n], 0));
        store_->ghosts->resume();
        const BTree::Report after = sound(tree);
        EXPECT_EQ(after.records, keys.size() - erased);
        EXPECT_LE(after.pages.size(), leaves - erased / kEach + 4);
        return after.levels == 2 ? Outcome::merged : Outcome::stayed;
    }

    const std::string value_ = std::string(node::kInlineMax, 'v');
    TestEngine store_;
    size_t trees_ = 0;
};

// The right node gets the separator between both, so its bytes grow. From some length on it has no
// room for it.
TEST_F(LongKeys, AnEmptyNodeMergesWithAFullOneUpToTheLastByte) {
    store_.on_thread([&] {
        size_t fits = 0, too_long = 300, leaves = 25;
        while (empty_left_node(leaves, fits) != Outcome::merged ||
               empty_left_node(leaves, too_long) == Outcome::merged)
            ASSERT_LT(++leaves, 50u);
        while (too_long - fits > 1) {
            const size_t more = (fits + too_long) / 2;
            (empty_left_node(leaves, more) == Outcome::merged ? fits : too_long) = more;
        }
        EXPECT_EQ(empty_left_node(leaves, too_long), Outcome::stayed) << "the test is blind";
    });
}

// Short and long separators in any order: a node ends with any of them.
TEST_F(LongKeys, ABulkLoadFillsNodesOfAllSeparators) {
    const uint64_t seed = seed_of_run(20261126);
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    Rng rng(seed);
    store_.on_thread([&] {
        for (int round = 0; round < 4; ++round) {
            std::vector<std::string> keys;
            for (uint64_t n = 0; n < 80; ++n) {
                const std::string both = number_key(n) + std::string(rng.below(1000), 'l');
                if (rng.chance(0.7)) keys.push_back(both + "a");
                keys.push_back(both + "b");
            }
            for (; keys.size() > 20; keys.pop_back())
                ASSERT_EQ(sound(load(keys)).records, keys.size());
        }
    });
}

// The next key of a short run is long, and shares all bytes but the last with the key behind it.
// The separator of both is longer than the few short records that would stay in the left page.
TEST_F(LongKeys, ARunBeforeALongKeySplitsAPageOfLongKeys) {
    std::vector<std::pair<std::string, size_t>> records;
    for (const char c : std::string("abcdefghijklmnopqr")) records.push_back({{'0', c}, 436});
    const std::string stem(1006, 'm');
    for (const char c : std::string("zyxwvut")) records.push_back({stem + c, c == 'z' ? 18 : 10});
    for (const char c : std::string("01234")) records.push_back({{'a', c}, 1});
    records.push_back({stem + 'b', 1});
    store_.on_thread([&] {
        BTree& tree = load({});
        insert(tree, records);
        EXPECT_EQ(sound(tree).records, records.size());
    });
}

// Keys that differ in their last byte only, in descending order; then a run of short keys right in
// front of them; then the next key of the run, which may be as long as those behind it.
std::vector<std::pair<std::string, size_t>> run_before_long_keys(Rng& rng) {
    std::vector<std::pair<std::string, size_t>> records;
    const auto letter = static_cast<char>('b' + rng.below(25));
    const std::string stem(1 + rng.below(kKeyBytesMax - 1), letter);
    const auto bytes = [&] { return rng.below(rng.chance(0.1) ? 900 : 30); };
    for (uint64_t n = 0, longs = 2 + rng.below(8); n < longs; ++n)
        records.push_back({stem + static_cast<char>('z' - n), bytes()});
    for (uint64_t n = 0, shorts = 4 + rng.below(4); n < shorts; ++n)
        records.push_back(
            {{static_cast<char>(letter - 1), 'z', static_cast<char>('a' + n)}, rng.below(5)});
    records.push_back({stem.substr(0, rng.chance(0.8) ? stem.size() : 1) + 'a', bytes()});
    return records;
}

TEST_F(LongKeys, RunsOfShortKeysAmongLongOnes) {
    const uint64_t seed = seed_of_run(20261127);
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    Rng rng(seed);
    store_.on_thread([&] {
        for (int round = 0; round < 300; ++round) {
            BTree& tree = load({});
            std::map<std::string, size_t> model;
            for (int step = 0; step < 8; ++step) {
                auto records = run_before_long_keys(rng);
                std::erase_if(records, [&](const auto& r) { return !model.insert(r).second; });
                insert(tree, records);
            }
            ASSERT_EQ(sound(tree).records, model.size());
        }
    });
}

}  // namespace lockstep::sm::btree_long_keys_test
