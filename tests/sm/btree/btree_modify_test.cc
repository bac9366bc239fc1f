// labels: model
// btree_modify_test.cc - changing records where they were read, one by one and in groups: against a
// map, with leaves that change while the application looks, and what is refused.
#include <lockstep/index.h>
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_modify_test {

using Map = std::map<std::string, std::string>;

class BTreeModifyTest : public ::testing::Test {
protected:
    static Options options() {
        Options small = small_options();
        small.pool_bytes = 4 << 20;
        return small;
    }
    TestEngine store{options()};
    TestTree tree{store};
    Map map;

    void insert(txn::Transaction& txn, const std::string& key, const std::string& value) {
        ASSERT_OK(tree->insert(txn, key, value));
        map[key] = value;
    }
    void compare(txn::Transaction& txn) {
        for (const auto& [key, value] : map)
            ASSERT_EQ(TestTree::get(*tree, txn, key), value) << key;
    }
    Result<bool> modify(txn::Transaction& txn, Slice key, std::string& buffer,
                        BTree::Change change) {
        ValueOut out{.fixed = reinterpret_cast<std::byte*>(buffer.data()),
                     .capacity = buffer.size()};
        return tree->modify(txn, key, out, change);
    }
};

std::byte* text_at(std::span<std::byte> value, size_t at) { return value.data() + at; }

// Rows with buffers of their own.
struct Rows {
    explicit Rows(const std::vector<std::string>& names, size_t room)
        : keys(names), buffers(names.size(), std::string(room, '#')) {
        for (size_t i = 0; i < keys.size(); ++i)
            rows.push_back({.key = keys[i],
                            .buffer = std::as_writable_bytes(std::span(buffers[i].data(), room)),
                            .hint = {}});
    }
    std::vector<std::string> keys, buffers;
    std::vector<Lookup> rows;
};

TEST_F(BTreeModifyTest, GroupsAgreeWithAMap) {
    const uint64_t seed = seed_of_run(5);
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    Rng rng(seed);
    constexpr uint64_t kKeys = 3000;
    store.on_thread([&] {
        auto& load = store.begin();
        for (uint64_t n = 0; n < kKeys; ++n) {
            const size_t bytes = n % 97 == 0 ? 9000 : rng.below(n % 5 ? 90 : 900);
            insert(load, number_key(n * 3), random_text(rng, bytes));
        }
        store.commit(load);
        for (int round = 0; round < 100 && !HasFatalFailure(); ++round) {
            auto& txn = store.begin();
            const Map before = map;
            for (int groups = 0; groups < 4; ++groups) {
                std::vector<std::string> keys(1 + rng.below(40));
                const uint64_t from = rng.below(kKeys * 3), stride = rng.below(rng.below(300) + 1);
                for (size_t i = 0; i < keys.size(); ++i)
                    keys[i] = number_key(from + i * stride + rng.below(3));
                if (rng.chance(0.8)) std::sort(keys.begin(), keys.end());
                Rows some(keys, 1 + rng.below(300));
                std::vector<size_t> called;
                const auto change = [&](size_t i, std::span<std::byte> value) -> ByteRange {
                    called.push_back(i);
                    std::string& known = map.at(keys[i]);
                    EXPECT_EQ(value.size(), std::min(known.size(), some.buffers[i].size()));
                    EXPECT_EQ(std::memcmp(value.data(), known.data(), value.size()), 0);
                    const ByteRange range{rng.below(value.size() + 1), 0};
                    const size_t bytes = rng.below(value.size() - range.offset + 1);
                    // Often the same bytes again.
                    for (size_t at = range.offset; at < range.offset + bytes; ++at)
                        if (rng.chance(0.3)) *text_at(value, at) = std::byte(rng.below(256));
                    if (bytes != 0)
                        std::memcpy(known.data() + range.offset, text_at(value, range.offset),
                                    bytes);
                    return {range.offset, bytes};
                };
                const auto found = tree->modify_many(txn, some.rows, change);
                ASSERT_OK(found);
                size_t next = 0;
                for (size_t i = 0; i < keys.size(); ++i) {
                    const auto it = map.find(keys[i]);
                    ASSERT_EQ(some.rows[i].found, it != map.end());
                    if (it == map.end()) continue;
                    ASSERT_EQ(some.rows[i].bytes, it->second.size());
                    ASSERT_LT(next, called.size());
                    ASSERT_EQ(called[next++], i);
                }
                ASSERT_EQ(called.size(), next);
                ASSERT_EQ(*found, next);
            }
            if (rng.chance(0.5)) {
                store.commit(txn);
            } else {
                store.abort(txn);
                map = before;
            }
            if (round % 50 == 0) {
                auto& reader = store.begin();
                compare(reader);
                store.commit(reader);
            }
        }
        auto& reader = store.begin();
        compare(reader);
        store.commit(reader);
    });
    store.on_thread([&] { tree.sound(); });
}

// Rows of one leaf and of many are one record of the log; what stays the same is none.
TEST_F(BTreeModifyTest, AGroupIsOneLogRecord) {
    store.on_thread([&] {
        auto& txn = store.begin();
        std::vector<std::string> keys;
        for (uint64_t n = 0; n < 2000; ++n) {
            insert(txn, number_key(n), std::string(100, 'a'));
            if (n % 137 < 2 && keys.size() < 16) keys.push_back(number_key(n));
        }
        Rows some(keys, 100);
        const Lsn before = txn.last_lsn;
        const auto nothing = [](size_t, std::span<std::byte>) { return ByteRange{0, 100}; };
        ASSERT_OK(tree->modify_many(txn, some.rows, nothing));
        EXPECT_EQ(txn.last_lsn, before);
        const auto change = [&](size_t i, std::span<std::byte> value) {
            *text_at(value, 7) = std::byte('b');
            map.at(keys[i])[7] = 'b';
            return ByteRange{5, 20};
        };
        ASSERT_OK(tree->modify_many(txn, some.rows, change));
        std::string buffer;
        const auto record = store->log->read(txn.last_lsn, buffer);
        ASSERT_OK(record);
        EXPECT_EQ(record->header->kind, static_cast<uint16_t>(LogKind::btree_update_many));
        EXPECT_EQ(record->header->prev, before.value);
        EXPECT_GT(record->header->parts, 4);
        EXPECT_LT(record->header->parts, keys.size());  // two rows of a leaf share a part
        compare(txn);
        store.commit(txn);
    });
}

// While the application looks at the values, another transaction moves the records: the hints are
// wrong then, and the leaves' versions have changed.
TEST_F(BTreeModifyTest, RecordsThatMoveMeanwhileAreFoundAgain) {
    store.on_thread([&] {
        auto& load = store.begin();
        std::vector<std::string> keys;
        for (uint64_t n = 0; n < 60; ++n) {
            insert(load, number_key(n * 10), std::string(30, static_cast<char>('a' + n % 26)));
            if (n % 4 == 1) keys.push_back(number_key(n * 10));
        }
        store.commit(load);
        for (const uint64_t others : {1, 400}) {  // slots move; the leaf is split
            auto& txn = store.begin(txn::Isolation::repeatable_read);
            auto& other = store.begin(txn::Isolation::repeatable_read);
            Rows some(keys, 30);
            const auto move = [&] {
                for (uint64_t n = 0; n < others; ++n)
                    insert(other, number_key(others == 1 ? 5 : 11) + number_key(n), "between");
            };
            const auto change = [&](size_t i, std::span<std::byte> value) {
                if (i == 3) move();
                *text_at(value, 2) = std::byte('!' + others % 7);
                map.at(keys[i])[2] = static_cast<char>('!' + others % 7);
                return ByteRange{0, 30};
            };
            ASSERT_OK(tree->modify_many(txn, some.rows, change));
            std::string one(30, '#');
            const std::string key = number_key(70);
            const auto change_one = [&](std::span<std::byte> value) {
                insert(other, number_key(6) + number_key(others), "beside");
                *text_at(value, 9) = std::byte('?');
                map.at(key)[9] = '?';
                return ByteRange{9, 1};
            };
            const auto done = modify(txn, key, one, change_one);
            ASSERT_OK(done);
            ASSERT_TRUE(*done);
            store.commit(txn);
            store.commit(other);
            auto& reader = store.begin();
            compare(reader);
            store.commit(reader);
        }
    });
    store.on_thread([&] { tree.sound(); });
}

// LOG-3. Its leaf has been changed before, so no image of it is reserved once more.
TEST_F(BTreeModifyTest, TheUndoOfAGroupIsReserved) {
    store.on_thread([&] {
        std::vector<std::string> keys;
        for (uint64_t n = 0; n < 30; ++n) keys.push_back(number_key(n));
        auto& txn = store.begin();
        for (const std::string& key : keys) insert(txn, key, std::string(20, 'a'));
        const auto change = [&](size_t, std::span<std::byte> value) {
            *text_at(value, 3) = std::byte('!');
            return ByteRange{3, 1};
        };
        const Lsn before = txn.last_lsn;
        const uint64_t reserved = txn.undo.bytes;
        Rows some(keys, 20);
        ASSERT_OK(tree->modify_many(txn, some.rows, change));
        const uint64_t of_group = txn.undo.bytes - reserved;
        const Lsn tail = store->log->tail();
        ASSERT_OK(rollback(*store, txn, before));
        const uint64_t used = store->log->tail().value - tail.value;
        EXPECT_GT(used, 30 * sizeof(txn::LogRecordHeader));
        EXPECT_GE(of_group, used);
        compare(txn);
        store.commit(txn);
    });
}

TEST_F(BTreeModifyTest, TheKeyIsLockedForChanging) {
    store.on_thread([&] {
        auto& load = store.begin();
        insert(load, "a", "value");
        store.commit(load);
        auto& txn = store.begin();
        std::string buffer(8, '#');
        ASSERT_TRUE(*modify(txn, "a", buffer, [](auto) { return ByteRange{0, 0}; }));
        const txn::LockName name = txn::key_lock_name(tree->id(), "a");
        EXPECT_TRUE(txn::covers(store->locks->held(txn.locks, name), txn::LockMode::X));
        store.commit(txn);
    });
}

TEST_F(BTreeModifyTest, WhatIsMissingOrOutsideIsNotChanged) {
    store.on_thread([&] {
        auto& txn = store.begin();
        insert(txn, "a", "0123456789");
        insert(txn, "b", std::string(20'000, 'b'));
        insert(txn, "gone", "x");
        ASSERT_TRUE(*tree->erase(txn, "gone"));
        map.erase("gone");
        std::string buffer(10, '#');
        int calls = 0;
        const auto never = [&](std::span<std::byte>) {
            ++calls;
            return ByteRange{};
        };
        EXPECT_FALSE(*modify(txn, "gone", buffer, never));
        EXPECT_FALSE(*modify(txn, "none", buffer, never));
        EXPECT_EQ(calls, 0);
        const Lsn before = txn.last_lsn;
        EXPECT_TRUE(*modify(txn, "a", buffer, never));
        EXPECT_EQ(buffer, "0123456789");
        for (const ByteRange range :
             {ByteRange{11, 1}, {0, 11}, {5, 6}, {SIZE_MAX, 2}, {1, SIZE_MAX}})
            for (const char* key : {"a", "b"}) {
                const auto outside = [&](std::span<std::byte> value) {
                    std::memset(value.data(), '!', value.size());
                    return range;
                };
                const auto refused = modify(txn, key, buffer, outside);
                ASSERT_FALSE(refused.has_value());
                EXPECT_EQ(refused.error().code, ErrorCode::bad_argument);
                Rows two({"a", "b"}, 10);
                const auto many = tree->modify_many(
                    txn, two.rows, [&](size_t, std::span<std::byte> v) { return outside(v); });
                ASSERT_FALSE(many);
                EXPECT_EQ(many.error().code, ErrorCode::bad_argument);
            }
        EXPECT_EQ(txn.last_lsn, before);
        compare(txn);
        // The buffer's part of a large value.
        const auto change = [&](std::span<std::byte> value) {
            *text_at(value, 9) = std::byte('B');
            return ByteRange{9, 1};
        };
        EXPECT_TRUE(*modify(txn, "b", buffer, change));
        map.at("b")[9] = 'B';
        compare(txn);
        // The key stays locked against readers.
        auto& other = store.begin();
        std::string text;
        ValueOut out{.text = &text};
        const auto read = tree->fetch(other, "a", Access::read, out);
        ASSERT_FALSE(read.has_value());
        EXPECT_EQ(read.error().code, ErrorCode::self_deadlock);
        store.abort(other);
        store.commit(txn);
    });
}

}  // namespace lockstep::sm::btree_modify_test
