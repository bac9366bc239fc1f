// btree_test_util.h - an index in a test engine, and the check that ends every B-tree test.
#pragma once

#include <map>
#include <optional>

#include "sm/btree/btree.h"
#include "sm/btree/btree_cursor.h"
#include "tests/sm/engine_test_util.h"

namespace lockstep::sm {

class TestTree {
public:
    explicit TestTree(TestEngine& store, const char* name = "tree") : store_(store) {
        store_.on_thread([&] {
            auto& txn = store_.begin();
            auto tree = store_->catalog->create_index(txn, name);
            ASSERT_OK(tree);
            tree_ = *tree;
            store_.commit(txn);
        });
    }
    BTree& operator*() { return *tree_; }
    BTree* operator->() { return tree_; }

    static std::optional<std::string> get(BTree& tree, txn::Transaction& txn, Slice key,
                                          Access access = Access::read) {
        std::string text;
        ValueOut out{.text = &text};
        auto found = tree.fetch(txn, key, access, out);
        EXPECT_TRUE(found.has_value()) << found.error().text();
        if (!found.has_value() || !*found) return std::nullopt;
        EXPECT_EQ(out.bytes, text.size());
        return text;
    }
    // On a user thread. The ghost cleaner holds still meanwhile: it merges leaves, and a check that
    // waits for a page between two leaves would see one of them before and one after a merge.
    static BTree::Report sound(TestEngine& store, BTree& tree) {
        store->ghosts->hold();
        auto report = tree.verify();
        store->ghosts->resume();
        EXPECT_TRUE(report) << report.error().text();
        if (!report) return {};
        EXPECT_TRUE(report->faults.empty())
            << report->faults.front() << " (" << report->faults.size() << " faults)";
        return *report;
    }
    BTree::Report sound() { return sound(store_, *tree_); }

private:
    TestEngine& store_;
    BTree* tree_ = nullptr;
};

inline std::string number_key(uint64_t n) {
    std::string key(8, '\0');
    for (int i = 0; i < 8; ++i) key[static_cast<size_t>(i)] = static_cast<char>(n >> (56 - 8 * i));
    return key;
}

}  // namespace lockstep::sm
