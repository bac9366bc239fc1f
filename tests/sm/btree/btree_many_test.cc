// labels: model
// btree_many_test.cc - reads of many keys at once give what reads one by one give:
// every kind of key and value, a pool too small, pages that change between the steps.
#include <set>

#include <lockstep/index.h>
#include "sm/btree/btree_node.h"
#include "sm/buffer/bytes.h"
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_many_test {

using Map = std::map<std::string, std::string>;

class Many {
public:
    explicit Many(const std::vector<std::string>& keys, size_t room = 200)
        : keys_(keys), buffers_(keys.size(), std::string(room, '#')) {
        for (size_t i = 0; i < keys_.size(); ++i)
            rows.push_back({.key = keys_[i],
                            .buffer = std::as_writable_bytes(std::span(buffers_[i].data(), room)),
                            .hint = {}});
    }
    // As the map says, up to the room that each buffer has, and not a byte more.
    void compare(const Map& map, size_t found) const {
        size_t expected = 0;
        for (size_t i = 0; i < rows.size(); ++i) {
            const auto it = map.find(keys_[i]);
            ASSERT_EQ(rows[i].found, it != map.end()) << i << " of " << rows.size();
            if (it == map.end()) continue;
            ++expected;
            ASSERT_EQ(rows[i].bytes, it->second.size());
            const size_t n = std::min(rows[i].bytes, buffers_[i].size());
            ASSERT_EQ(buffers_[i].substr(0, n), it->second.substr(0, n));
            ASSERT_EQ(buffers_[i].substr(n), std::string(buffers_[i].size() - n, '#'));
        }
        ASSERT_EQ(found, expected);
    }
    std::vector<Lookup> rows;

private:
    const std::vector<std::string> keys_;
    std::vector<std::string> buffers_;
};

class BTreeManyTest : public ::testing::Test {
protected:
    static Options options() {
        Options small = small_options();
        small.pool_bytes = 4 << 20;
        return small;
    }
    TestEngine store{options()};
    TestTree tree{store};

    template <class Fn>
    void in_txn(Fn fn, txn::Isolation isolation = txn::Isolation::serializable) {
        store.on_thread([&] {
            auto& txn = store.begin(isolation);
            fn(txn);
            store.commit(txn);
        });
    }
    void look(txn::Transaction& txn, const Map& map, const std::vector<std::string>& keys,
              Access access = Access::read, size_t room = 200) {
        Many many(keys, room);
        const auto found = tree->fetch_many(txn, many.rows, access);
        ASSERT_OK(found);
        many.compare(map, *found);
    }
};

TEST_F(BTreeManyTest, NothingOneAndAnEmptyTree) {
    in_txn([&](txn::Transaction& txn) {
        look(txn, {}, {});
        look(txn, {}, {"a"});
        look(txn, {}, {"a", "b", "", "a"});
        ASSERT_OK(tree->insert(txn, "a", "one"));
        ASSERT_OK(tree->insert(txn, "", "empty"));
        look(txn, {{"a", "one"}, {"", "empty"}}, {"a", "b", "", "a"});
        look(txn, {{"a", "one"}, {"", "empty"}}, {"a", "b", "", "a"}, Access::write, 2);
        look(txn, {{"a", "one"}, {"", "empty"}}, {"a", "b", "", "a"}, Access::update, 0);
    });
}

TEST_F(BTreeManyTest, LongKeysLargeValuesAndGhosts) {
    Map map;
    in_txn([&](txn::Transaction& txn) {
        for (int i = 0; i < 300; ++i) {
            const std::string key = number_key(static_cast<uint64_t>(i)) +
                                    std::string(i % 7 == 0 ? static_cast<size_t>(i) * 3 : 2, 'k');
            map[key] = std::string(i % 50 == 0 ? 10'000 : static_cast<size_t>(i),
                                   static_cast<char>('a' + i % 26));
            ASSERT_OK(tree->insert(txn, key, map[key]));
        }
    });
    in_txn([&](txn::Transaction& txn) {
        std::vector<std::string> keys;
        for (const auto& [key, value] : map) keys.push_back(key);
        look(txn, map, keys);
        for (size_t i = 0; i < keys.size(); i += 3) {
            ASSERT_TRUE(*tree->erase(txn, keys[i]));
            map.erase(keys[i]);
        }
        look(txn, map, keys, Access::write);
        std::reverse(keys.begin(), keys.end());
        look(txn, map, keys);
    });
    in_txn([&](txn::Transaction& txn) {
        const std::string longest(kKeyBytesMax + 1, 'x');
        Many many({"a", longest});
        const auto found = tree->fetch_many(txn, many.rows, Access::read);
        ASSERT_FALSE(found);
        EXPECT_EQ(found.error().code, ErrorCode::key_too_long);
    });
}

// A place spares the next operation the search and is never more than a hint.
TEST_F(BTreeManyTest, PlacesLeadToTheRecordWhereverItIs) {
    Map map;
    in_txn([&](txn::Transaction& txn) {
        for (uint64_t i = 0; i < 2000; ++i)
            ASSERT_OK(tree->insert(txn, number_key(i), map[number_key(i)] = std::string(30, 'v')));
    });
    std::vector<std::string> keys;
    for (uint64_t i = 5; i < 2000; i += 131) keys.push_back(number_key(i));
    Many many(keys);
    in_txn(
        [&](txn::Transaction& txn) { ASSERT_OK(tree->fetch_many(txn, many.rows, Access::write)); });
    in_txn([&](txn::Transaction& txn) {  // everything moves
        for (uint64_t i = 0; i < 2000; ++i)
            ASSERT_OK(tree->insert(txn, number_key(i) + "x",
                                   map[number_key(i) + "x"] = std::string(100, 'w')));
    });
    in_txn([&](txn::Transaction& txn) {
        for (size_t i = 0; i < keys.size(); ++i) {
            // Even another record's.
            tree->note_hint(txn, many.rows[(i * 5) % keys.size()].hint);
            ASSERT_TRUE(*tree->patch(txn, keys[i], 3, "patched"));
            map[keys[i]].replace(3, 7, "patched");
            tree->note_hint(txn, {.page = PageId{static_cast<uint32_t>(i * 7919)}, .slot = 60000});
            ASSERT_TRUE(*tree->patch(txn, keys[i], 20, "again"));
            map[keys[i]].replace(20, 5, "again");
        }
        look(txn, map, keys);
    });
    store.on_thread([&] { tree.sound(); });
}

// The reader waits for a lock between the search for the leaves and the one for the records.
// Meanwhile the leaf splits, and the record moves into the new one (KW-1).
TEST_F(BTreeManyTest, ARecordThatMovesDuringTheWaitForItsLockIsFound) {
    Map map;
    in_txn([&](txn::Transaction& txn) {
        for (uint64_t i = 0; i < 1000; ++i)
            ASSERT_OK(tree->insert(txn, number_key(i), map[number_key(i)] = std::string(100, 'v')));
    });
    for (uint64_t key = 200; key < 800; key += 60) {
        bool locked = false;
        const txn::Transaction* reading = nullptr;
        const auto writer = [&] {
            auto& txn = store.begin();
            ASSERT_TRUE(*tree->patch(txn, number_key(key), 0, "w"));
            locked = true;
            while (reading == nullptr || reading->locks.waiting.load() == nullptr) threads::yield();
            for (int i = 0; i < 70; ++i) {
                const std::string below = number_key(key - 1) + std::to_string(i);
                ASSERT_OK(tree->insert(txn, below, std::string(100, 'b')));
            }
            store.commit(txn);
        };
        const auto reader = [&] {
            while (!locked) threads::yield();
            auto& txn = store.begin();
            reading = &txn;
            look(txn, map, {number_key(key), number_key(key + 1)});
            store.commit(txn);
        };
        map[number_key(key)][0] = 'w';
        store.on_threads({writer, reader});
    }
}

TEST_F(BTreeManyTest, WhatIsMissingIsLockedToo) {
    store.on_thread([&] {
        auto& reader = store.begin();
        Many many({number_key(1), number_key(2), number_key(3)});
        ASSERT_OK(tree->fetch_many(reader, many.rows, Access::read));
        for (const Lookup& row : many.rows)
            EXPECT_EQ(store->locks->held(reader.locks, txn::key_lock_name(tree->id(), row.key)),
                      txn::LockMode::S);
        store.commit(reader);
        auto& committed = store.begin(txn::Isolation::read_committed);
        ASSERT_OK(tree->fetch_many(committed, many.rows, Access::read));
        for (const Lookup& row : many.rows)
            EXPECT_EQ(store->locks->held(committed.locks, txn::key_lock_name(tree->id(), row.key)),
                      txn::LockMode::none);
        store.commit(committed);
    });
}

// Readers of many keys beside writers that split, merge and move what they read, in a pool that
// does not hold it all: each sees the sum unchanged.
TEST_F(BTreeManyTest, SumsStayWhileEverythingMoves) {
    constexpr uint64_t kKeys = 400, kEach = 1000;
    in_txn([&](txn::Transaction& txn) {
        for (uint64_t i = 0; i < kKeys; ++i)
            ASSERT_OK(tree->insert(txn, number_key(i * 1000),
                                   number_key(kEach) + std::string(i % 3 * 900, 'p')));
    });
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed_of_run()));
    Rng rng(seed_of_run());
    std::atomic<int> writing{3};
    const auto amount = [](const std::string& text) {
        return __builtin_bswap64(bytes::load<uint64_t>(text.data()));
    };
    const auto move = [&](txn::Transaction& txn, uint64_t from, uint64_t to) -> Result<void> {
        std::string texts[2];
        const uint64_t keys[2] = {std::min(from, to), std::max(from, to)};
        for (int i = 0; i < 2; ++i) {
            ValueOut out{.text = &texts[i]};
            const bool found =
                TRY(tree->fetch(txn, number_key(keys[i] * 1000), Access::write, out));
            EXPECT_TRUE(found);
        }
        const uint64_t part = rng.below(10);
        for (int i = 0; i < 2; ++i) {
            const uint64_t now = amount(texts[i]) + (keys[i] == to ? part : -part);
            const bool there =
                TRY(tree->update(txn, number_key(keys[i] * 1000),
                                 number_key(now) + std::string(rng.below(1900), 'q')));
            EXPECT_TRUE(there);
        }
        return tree->insert(txn, number_key(from * 1000 + 1 + rng.below(999)),
                            std::string(rng.below(1500), 'r'));
    };
    const auto writer = [&] {
        for (int i = 0; i < 150; ++i) {
            auto& txn = store.begin();
            const uint64_t from = rng.below(kKeys), to = rng.below(kKeys);
            const auto done = from == to ? Result<void>{} : move(txn, from, to);
            done ? store.commit(txn) : store.abort(txn);
            threads::yield();
        }
        --writing;
    };
    const auto reader = [&] {
        std::vector<std::string> keys;
        for (uint64_t i = 0; i < kKeys; ++i) keys.push_back(number_key(i * 1000));
        do {
            auto& txn = store.begin();
            Many many(keys, 8);
            const auto found = tree->fetch_many(txn, many.rows, Access::read);
            if (found) {
                uint64_t sum = 0;
                for (const Lookup& row : many.rows)
                    sum += __builtin_bswap64(bytes::load<uint64_t>(row.buffer.data()));
                EXPECT_EQ(*found, kKeys);
                EXPECT_EQ(sum, kKeys * kEach);
                store.commit(txn);
            } else {
                EXPECT_EQ(found.error().code, ErrorCode::deadlock);
                store.abort(txn);
            }
            threads::yield();
        } while (writing.load() > 0);
    };
    store.on_threads({writer, reader, writer, reader, writer});
    store.on_thread([&] { tree.sound(); });
}

// A tree of three or four levels, whose nodes stay in memory. Keys that follow one another in a
// group end in the same child of the root, or only seem to: they differ in one bit from the bytes
// that all separators have in common.
class HighTree : public ::testing::TestWithParam<size_t> {
protected:
    static std::string stranger(std::string key, uint64_t bit) {
        key[bit / 8] = static_cast<char>(key[bit / 8] ^ 1 << bit % 8);
        return key;
    }
    void add(txn::Transaction& txn, const std::string& key) {
        if (map.contains(key)) return;
        map[key] = std::string(1500, static_cast<char>('a' + rng.below(26)));
        ASSERT_OK(tree->insert(txn, key, map[key]));
    }
    void expect_root(unsigned level) {
        store.on_thread([&] {
            const auto root = store->pool->fix_shared(tree->root());
            ASSERT_OK(root);
            ASSERT_EQ((*root)->header.level, level);
            ASSERT_GE(node::header(**root).common_bytes, common.size());
        });
    }
    void expect_found(const std::vector<std::string>& sorted) {
        store.on_thread([&] {
            auto& txn = store.begin(txn::Isolation::read_committed);
            for (size_t i = 0; i < 2500; ++i) {
                std::vector<std::string> keys;
                for (size_t n = 0; n < 4; ++n) {
                    keys.push_back(sorted[i % 2 ? i + n : rng.below(sorted.size())]);
                    keys.push_back(stranger(keys.back(), rng.below(8 * common.size())));
                    keys.push_back(common + number_key(rng.next()));
                }
                Many many(keys);
                const auto found = tree->fetch_many(txn, many.rows, Access::read);
                ASSERT_OK(found);
                many.compare(map, *found);
            }
            store.commit(txn);
        });
    }

    const std::string common = std::string(GetParam(), 'k');
    TestEngine store;
    TestTree tree{store};
    Rng rng{seed_of_run()};
    Map map;
};

TEST_P(HighTree, GroupsFindEveryKey) {
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed_of_run()));
    std::vector<std::string> sorted;
    const uint64_t bits = 8 * common.size();
    store.on_thread([&] {
        auto& txn = store.begin();
        for (int i = 0; i < 4000; ++i) {
            sorted.push_back(common + number_key(rng.next()));
            add(txn, sorted.back());
        }
        for (uint64_t i = 0; i < 64; ++i) add(txn, stranger(sorted[i * 50], i % bits));
        store.commit(txn);
    });
    std::ranges::sort(sorted);
    expect_root(2);
    expect_found(sorted);
    // Now with a root that has two children only.
    store.on_thread([&] { ASSERT_OK(tree->split(sorted[2000], 2, kPageBytes)); });
    expect_root(3);
    expect_found(sorted);
    // And with nodes below the root that have prefixes.
    store.on_thread([&] {
        for (size_t at = 100; at < sorted.size(); at += 200)
            ASSERT_OK(tree->split(sorted[at], 1, kPageBytes));
        for (const size_t at : {1000, 3000}) ASSERT_OK(tree->split(sorted[at], 2, kPageBytes));
    });
    expect_root(3);
    expect_found(sorted);
}
// Groups whose first and last key differ in the last byte only: children of one parent, over
// several leaves, with gaps; also out of order, twice, and with other keys among them.
TEST_P(HighTree, AdjacentKeysAreFound) {
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed_of_run()));
    std::vector<std::string> parents, strangers;
    const auto child = [](const std::string& parent, uint64_t n) {
        return parent + static_cast<char>(n);
    };
    store.on_thread([&] {
        for (int i = 0; i < 60; ++i) {
            auto& txn = store.begin();
            parents.push_back(common + number_key(rng.next()).substr(rng.below(5)));
            for (uint64_t n = rng.below(8); n < 256; n += 1 + rng.below(i % 3 ? 3 : 40))
                add(txn, child(parents.back(), n));
            strangers.push_back(stranger(child(parents.back(), 9), rng.below(8 * common.size())));
            add(txn, strangers.back());
            store.commit(txn);
        }
    });
    // Of each parent the next one, whose first children may be in the leaf of its last ones.
    std::set<std::string> in_order(parents.begin(), parents.end());
    const auto above = [&](const std::string& parent) {
        const auto next = in_order.upper_bound(parent);
        return next != in_order.end() ? *next : parent;
    };
    store.on_thread([&] {
        auto& txn = store.begin(txn::Isolation::read_committed);
        for (size_t i = 0; i < 6000 && !HasFailure(); ++i) {
            const size_t which = rng.below(parents.size());
            const std::string& parent = parents[which];
            std::vector<std::string> keys;
            uint64_t n = i % 5 == 4 ? 232 : rng.below(240);
            for (size_t k = 2 + rng.below(15); k > 0; --k, n += rng.below(3))
                keys.push_back(child(parent, n % 256));
            for (size_t k = keys.size() - 1; i % 5 == 1 && k > 0; --k)
                std::swap(keys[k], keys[rng.below(k + 1)]);
            if (i % 5 == 2) keys[keys.size() / 2] = child(parents[rng.below(parents.size())], n);
            if (i % 5 == 3) keys[keys.size() / 2] = strangers[which];
            uint64_t first = rng.below(9);
            for (size_t k = 1; i % 5 == 4 && k + 1 < keys.size(); ++k, first += rng.below(9))
                keys[k] = child(above(parent), first);
            Many many(keys);
            const auto found = tree->fetch_many(txn, many.rows, Access::read);
            ASSERT_OK(found);
            many.compare(map, *found);
        }
        store.commit(txn);
    });
}
// Families of keys with the same head, the lowest or the highest of all, in leaves and in the nodes
// above: few, and more than a leaf has room for.
TEST_P(HighTree, KeysWithEqualHeadsAreFound) {
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed_of_run()));
    const auto member = [&](uint64_t family, uint64_t n) {
        return common + number_key(family % 8 < 4 ? family : ~family) + number_key(n);
    };
    const auto members = [](uint64_t family) { return family % 4 == 0 ? 400u : 3u; };
    store.on_thread([&] {
        for (uint64_t family = 0; family < 40; ++family) {
            auto& txn = store.begin();
            for (uint64_t n = 0; n < members(family); ++n) add(txn, member(family, 2 * n));
            store.commit(txn);
        }
    });
    store.on_thread([&] {
        auto& txn = store.begin(txn::Isolation::read_committed);
        for (size_t i = 0; i < 2000 && !HasFailure(); ++i) {
            std::vector<std::string> keys;
            for (size_t n = 0; n < 16; ++n) {
                const uint64_t family = rng.below(41);
                keys.push_back(member(family, rng.below(2 * members(family) + 2)));
            }
            Many many(keys);
            const auto found = tree->fetch_many(txn, many.rows, Access::read);
            ASSERT_OK(found);
            many.compare(map, *found);
        }
        store.commit(txn);
    });
}
INSTANTIATE_TEST_SUITE_P(CommonBytes, HighTree, ::testing::Values(1, 4, 7));

}  // namespace lockstep::sm::btree_many_test
