// labels: unit
// btree_patch_test.cc - the bounds of patch(): every offset and length around a value's ends, of
// small values and of values in an overflow chain, through the index and through a cursor.
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_patch_test {

// How the part reaches the record.
enum class Way { index, cursor, cursor_behind_change };

class BTreePatchTest : public ::testing::Test {
protected:
    TestEngine store;
    TestTree tree{store};

    Result<bool> patch(txn::Transaction& txn, Slice key, Way way, size_t offset, Slice part) {
        if (way == Way::index) return tree->patch(txn, key, offset, part);
        BTreeCursor cursor(*tree, txn, key, "", Access::write);
        EXPECT_TRUE(TRY(cursor.next()));
        // The leaf has changed since, so the cursor searches for its record again.
        if (way == Way::cursor_behind_change) TRY(tree->insert(txn, std::string(key) + "x", "v"));
        Result<bool> done = cursor.patch(offset, part);
        if (done.has_value() && *done) {
            EXPECT_EQ(cursor.value().substr(offset, part.size()), part);
        }
        if (way == Way::cursor_behind_change) {
            EXPECT_TRUE(*tree->erase(txn, std::string(key) + "x"));
        }
        return done;
    }

    // Neighbours on both sides, whose bytes must stay.
    void try_all(size_t bytes, Way way) {
        SCOPED_TRACE(std::to_string(bytes) + " bytes, way " +
                     std::to_string(static_cast<int>(way)));
        const std::string before(30, '<'), after(30, '>');
        std::string value(bytes, 'v');
        auto& txn = store.begin();
        ASSERT_OK(tree->insert(txn, "a", before));
        ASSERT_OK(tree->insert(txn, "b", value));
        ASSERT_OK(tree->insert(txn, "c", after));
        for (const size_t offset : {size_t{0}, bytes - 1, bytes, bytes + 1, SIZE_MAX})
            for (const size_t length : {size_t{0}, size_t{1}, size_t{2}, bytes, bytes + 1}) {
                const bool fits = offset <= bytes && length <= bytes - offset;
                const std::string part(length, static_cast<char>('0' + length % 10));
                const auto done = patch(txn, "b", way, offset, part);
                if (fits) {
                    ASSERT_OK(done);
                    EXPECT_TRUE(*done);
                    value.replace(offset, length, part);
                } else {
                    ASSERT_FALSE(done.has_value()) << offset << " + " << length;
                    EXPECT_EQ(done.error().code, ErrorCode::bad_argument);
                    EXPECT_EQ(done.error().a, offset);
                    EXPECT_EQ(done.error().b, bytes);
                }
                ASSERT_EQ(TestTree::get(*tree, txn, "a"), before);
                ASSERT_EQ(TestTree::get(*tree, txn, "b"), value) << offset << " + " << length;
                ASSERT_EQ(TestTree::get(*tree, txn, "c"), after);
            }
        store.abort(txn);
    }
};

TEST_F(BTreePatchTest, NotAByteBehindTheValue) {
    store.on_thread([&] {
        for (const size_t bytes : {size_t{1}, size_t{7}, size_t{8}, size_t{20}, size_t{20'000}})
            for (const Way way : {Way::index, Way::cursor, Way::cursor_behind_change})
                try_all(bytes, way);
    });
    store.on_thread([&] { tree.sound(); });
}

// Only the bytes that differ are logged, so each border of a difference is one of the log record.
TEST_F(BTreePatchTest, EveryDifferenceIsWrittenAndUndone) {
    store.on_thread([&] {
        std::string value(40, 'v');
        auto& load = store.begin();
        ASSERT_OK(tree->insert(load, "b", value));
        store.commit(load);
        for (size_t from = 0; from < value.size(); ++from)
            for (size_t to = from + 1; to <= value.size(); ++to) {
                auto& txn = store.begin();
                std::string part = value;
                part[from] = part[to - 1] = 'x';
                ASSERT_TRUE(*tree->patch(txn, "b", 0, part));
                ASSERT_EQ(TestTree::get(*tree, txn, "b"), part);
                store.abort(txn);
                auto& reader = store.begin();
                ASSERT_EQ(TestTree::get(*tree, reader, "b"), value);
                store.commit(reader);
            }
    });
}

}  // namespace lockstep::sm::btree_patch_test
