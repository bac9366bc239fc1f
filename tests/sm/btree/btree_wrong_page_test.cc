// labels: unit steps
// btree_wrong_page_test.cc - a page of the volume with a sound checksum that is not the node its
// parent names. Every operation that meets it reports corrupt_page, also when the page is in memory
// already; none answers "no such key" or changes anything.
#include <lockstep/record.h>

#include <fstream>

#include "sm/btree/btree_leaf_walk.h"
#include "sm/btree/btree_node.h"
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_wrong_page_test {

constexpr uint64_t kKeys = 2000;

// What takes the place of the page.
// other_keys: a leaf of the same index.
enum class Wrong { zeros, other_object, other_kind, other_level, other_keys };

class WrongNode : public ::testing::Test {
protected:
    using Operation = std::function<Result<void>(txn::Transaction&)>;

    WrongNode() {
        TestTree tree(store_, "tree"), other(store_, "other");
        store_.on_thread([&] {
            for (BTree* t : {&*tree, &*other}) {
                auto& txn = store_.begin();
                for (uint64_t n = 0; n < kKeys; ++n)
                    ASSERT_OK(t->insert(txn, number_key(2 * n), std::string(100, 'v')));
                store_.commit(txn);
            }
        });
        id_ = tree->id();
        root_ = tree->root();
        other_ = other->id();
        store_.close();
    }
    std::string data_path() const { return store_.directory() + "/data"; }
    // All nodes of an index and a level, by their first keys.
    std::map<std::string, Page> nodes(ObjectId object, unsigned level) {
        std::map<std::string, Page> found;
        std::ifstream file(data_path(), std::ios::binary);
        Page page;
        while (file.read(reinterpret_cast<char*>(&page), kPageBytes))
            if (page.kind() == PageKind::btree && page.header.object == object.value &&
                page.header.level == level)
                found.emplace(node::full_key(page, 0), page);
        return found;
    }
    // Puts the wrong page in the place of a leaf in the middle.
    void damage(Wrong what) {
        const auto leaves = nodes(id_, 0);
        ASSERT_GT(leaves.size(), 10u);
        auto at = std::next(leaves.begin(), 4);
        left_ = at->first;
        const Page& left = at->second;
        left_end_ = node::full_key(left, node::count(left) - 1);
        ++at;
        victim_ = at->second.id();
        key_ = node::full_key(at->second, 3);
        behind_ = std::next(at)->first;
        Page wrong;
        switch (what) {
            case Wrong::zeros: std::memset(static_cast<void*>(&wrong), 0, kPageBytes); break;
            case Wrong::other_object: wrong = nodes(other_, 0).at(at->first); break;
            case Wrong::other_kind:
                wrong = at->second;
                wrong.header.kind = static_cast<uint8_t>(PageKind::overflow);
                break;
            case Wrong::other_level: wrong = nodes(id_, 1).begin()->second; break;
            case Wrong::other_keys: wrong = nodes(id_, 0).rbegin()->second; break;
        }
        if (what == Wrong::zeros) write(victim_, wrong);
        else put(victim_, wrong);
    }
    // With the number and the checksum of the page whose place it takes.
    void put(PageId victim, Page page) {
        page.header.page_id = victim.value;
        page.header.checksum = page_checksum(page, victim);
        write(victim, page);
    }
    void write(PageId victim, const Page& page) {
        std::fstream file(data_path(), std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(static_cast<std::streamoff>(uint64_t{victim.value} * kPageBytes));
        file.write(reinterpret_cast<const char*>(&page), kPageBytes);
        ASSERT_TRUE(file.good());
    }
    // Each time in a store that has just been opened: first the page is read, then it is there.
    void expect_refused(const char* name, const Operation& operation) {
        std::filesystem::remove(store_.directory() + "/data.lsn");
        store_.open();
        tree_ = *store_->catalog->index("tree");
        store_.on_thread([&] {
            for (int time = 0; time < 3; ++time) {
                auto& txn = store_.begin();
                const Nanos began = threads::now();
                const Result<void> done = operation(txn);
                EXPECT_FALSE(done) << name << ", time " << time;
                if (!done) {
                    EXPECT_EQ(done.error().code, ErrorCode::corrupt_page)
                        << name << ": " << done.error().text();
                    EXPECT_EQ(done.error().a, victim_.value) << name;
                }
                EXPECT_LT(threads::now() - began, kSecond) << name;  // not after kRetriesMax
                store_.abort(txn);
            }
        });
        store_.close();
    }
    Result<void> walk() {
        const auto leaf = std::make_unique<Page>();
        for (LeafWalk leaves(*store_->pool, *tree_); TRY(leaves.next(*leaf));) {}
        return {};
    }
    Result<void> scan(txn::Transaction& txn, Slice low, Slice high, bool backward) {
        BTreeCursor cursor(*tree_, txn, low, high, Access::read);
        while (TRY(backward ? cursor.prev() : cursor.next())) {}
        return {};
    }

    TestEngine store_;
    BTree* tree_ = nullptr;
    ObjectId id_{}, other_{};
    PageId root_{}, victim_{};
    // First and last key of the leaf to the left; a key of the victim; first key of the leaf to the
    // right.
    std::string left_, left_end_, key_, behind_;
};

class WrongPage : public WrongNode, public ::testing::WithParamInterface<Wrong> {};

TEST_P(WrongPage, NoReadAnswersFromIt) {
    damage(GetParam());
    for (const Access access : {Access::read, Access::update, Access::write})
        expect_refused("fetch", [&](auto& txn) -> Result<void> {
            std::string text;
            ValueOut out{.text = &text};
            TRY(tree_->fetch(txn, key_, access, out));
            return {};
        });
    expect_refused("fetch of an absent key", [&](auto& txn) -> Result<void> {
        ValueOut out;
        TRY(tree_->fetch(txn, key_ + "x", Access::read, out));
        return {};
    });
    expect_refused("fetch_many", [&](auto& txn) -> Result<void> {
        Lookup rows[3] = {{left_, {}}, {key_, {}}, {behind_, {}}};
        TRY(tree_->fetch_many(txn, rows, Access::read));
        return {};
    });
    expect_refused("scan from it", [&](auto& txn) { return scan(txn, key_, {}, false); });
    expect_refused("scan into it", [&](auto& txn) { return scan(txn, left_, {}, false); });
    expect_refused("scan back from it", [&](auto& txn) { return scan(txn, {}, key_, true); });
    expect_refused("scan back into it", [&](auto& txn) { return scan(txn, {}, behind_, true); });
    expect_refused("walk over the leaves", [&](auto&) { return walk(); });
}

TEST_P(WrongPage, NoChangeIsMadeInIt) {
    damage(GetParam());
    expect_refused("update", [&](auto& txn) -> Result<void> {
        TRY(tree_->update(txn, key_, std::string(100, 'w')));
        return {};
    });
    expect_refused("patch", [&](auto& txn) -> Result<void> {
        TRY(tree_->patch(txn, key_, 3, "w"));
        return {};
    });
    expect_refused("erase", [&](auto& txn) -> Result<void> {
        TRY(tree_->erase(txn, key_));
        return {};
    });
    expect_refused("insert", [&](auto& txn) { return tree_->insert(txn, key_ + "x", "new"); });
    expect_refused("insert_many", [&](auto& txn) {
        const std::string a = key_ + "x", b = key_ + "y";
        const NewRecord records[] = {{a, "new"}, {b, "new"}};
        return tree_->insert_many(txn, records);
    });
    expect_refused("insert before it",
                   [&](auto& txn) { return tree_->insert(txn, left_end_ + "x", "new"); });
    expect_refused("clean", [&](auto&) -> Result<void> {
        TRY(tree_->clean_leaf(key_));
        return {};
    });
    expect_refused("split", [&](auto&) { return tree_->split(key_, 0, kPageBytes); });
}

// Its neighbour is small, and would absorb it.
TEST_P(WrongPage, NoNeighbourAbsorbsIt) {
    damage(GetParam());
    expect_refused("merge", [&](auto&) { return tree_->merge(left_, 0); });
}

TEST_F(WrongNode, NoNeighbourAbsorbsALeafOfOtherKeys) {
    damage(Wrong::other_keys);
    expect_refused("merge", [&](auto&) { return tree_->merge(left_, 0); });
}

// The way down to the keys below it leads to it, again and again. A scan from the left would pass
// over records.
TEST_F(WrongNode, NoScanPassesALeafOfHigherKeys) {
    damage(Wrong::other_keys);
    expect_refused("scan back", [&](auto& txn) { return scan(txn, {}, behind_, true); });
    expect_refused("scan", [&](auto& txn) { return scan(txn, left_, {}, false); });
    expect_refused("walk over the leaves", [&](auto&) { return walk(); });
}

// Inserts would go into it, whatever their keys.
TEST_F(WrongNode, NoLeafPassesForTheRoot) {
    put(root_, std::next(nodes(id_, 0).begin(), 4)->second);
    std::filesystem::remove(store_.directory() + "/data.lsn");
    store_.open();
    const auto tree = store_->catalog->index("tree");
    ASSERT_FALSE(tree);
    EXPECT_EQ(tree.error().code, ErrorCode::corrupt_page) << tree.error().text();
    EXPECT_EQ(tree.error().a, root_.value);
    store_.close();
}

std::string name_of(const ::testing::TestParamInfo<Wrong>& wrong) {
    switch (wrong.param) {
        case Wrong::zeros: return "Zeros";
        case Wrong::other_object: return "OtherObject";
        case Wrong::other_kind: return "OtherKind";
        case Wrong::other_level: return "OtherLevel";
        case Wrong::other_keys: return "OtherKeys";
    }
    return {};
}
INSTANTIATE_TEST_SUITE_P(Each, WrongPage,
                         ::testing::Values(Wrong::zeros, Wrong::other_object, Wrong::other_kind,
                                           Wrong::other_level),
                         name_of);

}  // namespace lockstep::sm::btree_wrong_page_test
