// labels: unit model
// btree_concurrent_test.cc - many transactions at once on one and several
// workers: sums hold, no phantoms, structure sound.
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_concurrent_test {

using Body = std::function<Result<void>(txn::Transaction&)>;

// Runs `body` as a transaction until it commits; a deadlock victim rolls back and tries again.
void persist(TestEngine& store, const Body& body,
             txn::Isolation isolation = txn::Isolation::serializable) {
    for (int tries = 0; tries < 10000; ++tries) {
        auto& txn = store.begin(isolation);
        const Result<void> done = body(txn);
        if (done) return store.commit(txn);
        store.abort(txn);
        ASSERT_TRUE(done.error().code == ErrorCode::deadlock ||
                    done.error().code == ErrorCode::lock_timeout)
            << done.error().text();
        threads::yield();
    }
    FAIL() << "a transaction never got through";
}

class BTreeConcurrentTest : public ::testing::TestWithParam<uint32_t> {
protected:
    TestEngine store{[] {
        Options o = small_options(GetParam());
        o.lock_timeout = 20 * kSecond;
        return o;
    }()};
    TestTree tree{store};
    uint64_t seed = seed_of_run();
};
INSTANTIATE_TEST_SUITE_P(Workers, BTreeConcurrentTest, ::testing::Values(1u, 2u, 3u));

Result<int64_t> sum_of(BTree& tree, txn::Transaction& txn, uint64_t& records) {
    int64_t sum = 0;
    records = 0;
    BTreeCursor cursor(tree, txn, "", "", Access::read);
    while (TRY(cursor.next())) {
        sum += std::stoll(std::string(cursor.value()));
        ++records;
        if (records % 16 == 0) threads::yield();
    }
    return sum;
}

TEST_P(BTreeConcurrentTest, TransfersKeepTheSum) {
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    constexpr uint64_t kAccounts = 400;
    store.on_thread([&] {
        persist(store, [&](txn::Transaction& txn) -> Result<void> {
            for (uint64_t i = 0; i < kAccounts; ++i)
                TRY(tree->insert(txn, number_key(i) + std::string(100, 'k'), "1000"));
            return {};
        });
    });
    std::vector<std::function<void()>> threads;
    for (uint64_t t = 0; t < 12; ++t)
        threads.push_back([&, t] {
            Rng rng(seed * 100 + t);
            for (int i = 0; i < 200; ++i) {
                const uint64_t from = rng.below(kAccounts), to = rng.below(kAccounts);
                const int64_t amount = rng.between(1, 50);
                persist(store, [&](txn::Transaction& txn) -> Result<void> {
                    for (auto [account, delta] :
                         {std::pair(from, -amount), std::pair(to, amount)}) {
                        const std::string key = number_key(account) + std::string(100, 'k');
                        std::string text;
                        ValueOut out{.text = &text};
                        if (!TRY(tree->fetch(txn, key, Access::update, out)))
                            return fail(ErrorCode::no_such_record);
                        threads::yield();
                        TRY(tree->update(txn, key, std::to_string(std::stoll(text) + delta)));
                    }
                    return {};
                });
            }
        });
    for (int t = 0; t < 2; ++t)
        threads.push_back([&] {
            for (int i = 0; i < 20; ++i)
                persist(store, [&](txn::Transaction& txn) -> Result<void> {
                    uint64_t records = 0;
                    EXPECT_EQ(TRY(sum_of(*tree, txn, records)),
                              static_cast<int64_t>(kAccounts) * 1000);
                    EXPECT_EQ(records, kAccounts);
                    return {};
                });
        });
    store.on_threads(threads);
    store.on_thread([&] { tree.sound(); });
    EXPECT_EQ(store->locks->verify(), "");
}

// Counts a range twice in one transaction while others insert, delete and roll back: both counts
// are the same. Ranges cross page borders, begin in an empty tree, reach beyond the last key and
// lie full of ghosts.
TEST_P(BTreeConcurrentTest, NoPhantomsInSerializableScans) {
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    constexpr uint64_t kScans = 2000;
    std::atomic<uint64_t> scans{0};
    std::vector<std::function<void()>> threads;
    for (uint64_t t = 0; t < 6; ++t)
        threads.push_back([&, t] {
            Rng rng(seed * 1000 + t);
            while (scans.load() < kScans) {
                const std::string key = number_key(rng.below(600)) + std::string(200, 'k');
                const bool gives_up = rng.chance(0.2);
                if (gives_up) {
                    auto& txn = store.begin();
                    (void)tree->insert(txn, key, "x");
                    threads::yield();
                    store.abort(txn);
                } else if (rng.chance(0.55)) {
                    persist(store, [&](txn::Transaction& txn) -> Result<void> {
                        auto done = tree->insert(txn, key, "v");
                        if (!done && done.error().code != ErrorCode::duplicate_key) return done;
                        threads::yield();
                        return {};
                    });
                } else {
                    persist(store, [&](txn::Transaction& txn) -> Result<void> {
                        TRY(tree->erase(txn, key));
                        threads::yield();
                        return {};
                    });
                }
            }
        });
    for (uint64_t t = 0; t < 3; ++t)
        threads.push_back([&, t] {
            Rng rng(seed * 2000 + t);
            while (scans.load() < kScans) {
                const uint64_t a = rng.below(620), b = a + rng.below(60);
                const std::string low = number_key(a),
                                  high = rng.chance(0.1) ? std::string() : number_key(b);
                persist(store, [&](txn::Transaction& txn) -> Result<void> {
                    std::vector<std::string> seen[3];
                    for (int pass = 0; pass < 3; ++pass) {
                        BTreeCursor cursor(*tree, txn, low, high, Access::read);
                        while (pass == 1 ? TRY(cursor.prev()) : TRY(cursor.next()))
                            seen[pass].emplace_back(cursor.key());
                        for (int i = 0; i < 5; ++i) threads::yield();
                    }
                    std::reverse(seen[1].begin(), seen[1].end());
                    EXPECT_EQ(seen[0], seen[1]);
                    EXPECT_EQ(seen[0], seen[2]);
                    return {};
                });
                scans.fetch_add(1);
            }
        });
    threads.push_back([&] {
        Rng rng(seed);
        while (scans.load() < kScans) {
            ASSERT_OK(tree->clean_leaf(number_key(rng.below(600))));
            threads::yield();
        }
    });
    store.on_threads(threads);
    store.on_thread([&] { tree.sound(); });
    EXPECT_EQ(store->locks->verify(), "");
}

// The same where the first scan goes backward: the gap above its first key must be protected as
// well.
TEST_P(BTreeConcurrentTest, NoPhantomsAboveABackwardScan) {
    std::atomic<bool> stop{false};
    std::vector<std::function<void()>> threads;
    threads.push_back([&] {
        for (int i = 0; i < 400; ++i)
            persist(store, [&](txn::Transaction& txn) -> Result<void> {
                std::string first[2];
                for (std::string& f : first) {
                    BTreeCursor cursor(*tree, txn, "", i % 2 ? number_key(250) : std::string(),
                                       Access::read);
                    if (TRY(cursor.prev())) f = cursor.key();
                    for (int y = 0; y < 5; ++y) threads::yield();
                }
                EXPECT_EQ(first[0], first[1]);
                return {};
            });
        stop.store(true);
    });
    for (uint64_t t = 0; t < 3; ++t)
        threads.push_back([&, t] {
            Rng rng(seed + t);
            while (!stop.load()) {
                const std::string key = number_key(rng.below(300));
                persist(store, [&](txn::Transaction& txn) -> Result<void> {
                    if (!TRY(tree->erase(txn, key))) {
                        TRY(tree->insert(txn, key, "v"));
                    }
                    return {};
                });
                threads::yield();
            }
        });
    store.on_threads(threads);
    store.on_thread([&] { tree.sound(); });
}

// A key that was not found stays away; a key that was found stays.
TEST_P(BTreeConcurrentTest, AnswersOfFetchAreRepeatable) {
    std::atomic<bool> stop{false};
    std::vector<std::function<void()>> threads;
    for (uint64_t t = 0; t < 4; ++t)
        threads.push_back([&, t] {
            Rng rng(seed * 10 + t);
            while (!stop.load()) {
                const std::string key = number_key(rng.below(40));
                persist(store, [&](txn::Transaction& txn) -> Result<void> {
                    if (!TRY(tree->erase(txn, key))) {
                        TRY(tree->insert(txn, key, std::string(rng.below(300), 'v')));
                    }
                    threads::yield();
                    return {};
                });
                threads::yield();
            }
        });
    threads.push_back([&] {
        Rng rng(seed);
        for (int i = 0; i < 800; ++i)
            persist(store, [&](txn::Transaction& txn) -> Result<void> {
                const std::string key = number_key(rng.below(40));
                std::optional<std::string> seen[2];
                for (auto& s : seen) {
                    std::string text;
                    ValueOut out{.text = &text};
                    if (TRY(tree->fetch(txn, key, Access::read, out))) s = text;
                    for (int y = 0; y < 4; ++y) threads::yield();
                }
                EXPECT_EQ(seen[0], seen[1]);
                return {};
            });
        stop.store(true);
    });
    store.on_threads(threads);
}

// Each thread owns every tenth key and knows what must be there; splits, merges and the cleaner
// work under all of them.
TEST_P(BTreeConcurrentTest, EachThreadFindsItsOwnRecords) {
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    constexpr uint64_t kThreads = 10;
    std::map<std::string, std::string> models[kThreads];
    std::vector<std::function<void()>> threads;
    for (uint64_t t = 0; t < kThreads; ++t)
        threads.push_back([&, t] {
            Rng rng(seed * 31 + t);
            auto& model = models[t];
            for (int i = 0; i < 250; ++i) {
                auto next = model;
                persist(store, [&](txn::Transaction& txn) -> Result<void> {
                    next = model;
                    Rng choice = rng;
                    for (int op = 0; op < 8; ++op) {
                        const std::string key = number_key(choice.below(400) * kThreads + t),
                                          value = random_text(choice, choice.below(400));
                        if (next.contains(key) && choice.chance(0.5)) {
                            EXPECT_TRUE(TRY(tree->erase(txn, key)));
                            next.erase(key);
                        } else if (next.contains(key)) {
                            std::string text;
                            ValueOut out{.text = &text};
                            EXPECT_TRUE(TRY(tree->fetch(txn, key, Access::read, out)));
                            EXPECT_EQ(text, next[key]);
                            EXPECT_TRUE(TRY(tree->update(txn, key, value)));
                            next[key] = value;
                        } else {
                            TRY(tree->insert(txn, key, value));
                            next[key] = value;
                        }
                        if (choice.chance(0.2)) threads::yield();
                    }
                    return {};
                });
                model = next;
                rng.next();
            }
        });
    store.on_threads(threads);
    store.on_thread([&] {
        std::map<std::string, std::string> expected, found;
        for (auto& m : models) expected.insert(m.begin(), m.end());
        auto& txn = store.begin();
        BTreeCursor cursor(*tree, txn, "", "", Access::read);
        for (auto more = cursor.next(); more.has_value() && *more; more = cursor.next())
            found.emplace(cursor.key(), cursor.value());
        store.commit(txn);
        EXPECT_EQ(found, expected);
        ASSERT_OK(store->ghosts->run_once());
        EXPECT_EQ(tree.sound().records, expected.size());
    });
    EXPECT_EQ(store->locks->verify(), "");
}

}  // namespace lockstep::sm::btree_concurrent_test
