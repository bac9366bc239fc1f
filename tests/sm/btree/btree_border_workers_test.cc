// labels: unit model
// btree_border_workers_test.cc - gaps at the borders of leaves while another kernel thread moves
// the borders: the next key of an insert, or of a backward scan, lies in the right sibling.
#include "tests/sm/btree/btree_test_util.h"
#include "threads/base/hints.h"

namespace lockstep::sm::btree_border_workers_test {

constexpr uint64_t kKeys = 12, kStep = 1000;
constexpr uint64_t kScans = 2000;

std::string key_at(uint64_t n, uint64_t behind = 0) { return number_key(n * kStep + behind); }

class BTreeBorderWorkersTest : public ::testing::TestWithParam<bool> {
protected:
    BTreeBorderWorkersTest() {
        store.on_thread([&] {
            auto& txn = store.begin();
            for (uint64_t n = 0; n < kKeys; ++n)
                ASSERT_OK(tree->insert(txn, key_at(n), std::string(1900, 'v')));
            store.commit(txn);
            EXPECT_GT(tree.sound().pages.size(), 3u);
        });
    }

    Result<std::vector<std::string>> keys(txn::Transaction& txn, const std::string& low,
                                          const std::string& high) {
        std::vector<std::string> out;
        BTreeCursor cursor(*tree, txn, low, high, Access::read);
        const bool backward = GetParam();
        while (TRY(backward ? cursor.prev() : cursor.next())) out.emplace_back(cursor.key());
        return out;
    }

    // Looks twice at a gap. Every other time a key of its own has split it, which often becomes the
    // first one of the right sibling.
    Result<void> look(txn::Transaction& txn, Rng& rng) {
        const uint64_t n = rng.below(kKeys - 1), border = 1 + rng.below(kStep - 1);
        if (rng.chance(0.5)) TRY(tree->insert(txn, key_at(n, border), std::string(1900, 'r')));
        const auto before = TRY(keys(txn, key_at(n), key_at(n, border)));
        for (uint64_t i = rng.below(4000); i > 0; --i) cpu_relax();
        threads::yield();
        EXPECT_EQ(TRY(keys(txn, key_at(n), key_at(n, border))), before) << "a phantom";
        ++looked;
        return {};
    }

    // Inserts two keys into a gap, the higher one first. They make leaves split; later they are
    // erased and cleaned away, and leaves merge.
    Result<bool> change(txn::Transaction& txn, Rng& rng, std::vector<std::string>& mine) {
        if (mine.size() > 6) {
            const std::string key = mine.back();
            TRY(tree->erase(txn, key));
            mine.pop_back();
            TRY(tree->clean_leaf(key));
            return true;
        }
        const uint64_t n = rng.below(kKeys - 1);
        const uint64_t higher = 2 + rng.below(kStep - 2), lower = 1 + rng.below(higher - 1);
        TRY(tree->insert(txn, key_at(n, higher), std::string(1900, 'w')));
        TRY(tree->insert(txn, key_at(n, lower), std::string(1900, 'w')));
        ++inserted;
        if (rng.chance(0.2)) return false;
        mine.push_back(key_at(n, higher));
        mine.push_back(key_at(n, lower));
        return true;
    }

    // A machine that keeps one worker waiting makes the test longer, and not blind.
    bool seen_enough() const {
        return looked.load() >= kScans && inserted.load() > kScans / 20 && refused.load() > 0;
    }

    TestEngine store{small_options(2)};
    TestTree tree{store};
    uint64_t seed = seed_of_run();
    std::atomic<uint64_t> looked{0}, inserted{0}, refused{0};
};

// Nobody waits for a lock: a transaction that is refused rolls back.
TEST_P(BTreeBorderWorkersTest, NoPhantomBesideMovingBorders) {
    SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
    std::vector<std::function<void()>> threads;
    const auto end = [&](txn::Transaction& txn, const Result<bool>& done) {
        if (done.has_value() && *done) return store.commit(txn);
        store.abort(txn);
        if (done.has_value()) return;
        ++refused;
        // A wait that would close a cycle is a deadlock before its time is over.
        EXPECT_TRUE(done.error().code == ErrorCode::lock_timeout ||
                    done.error().code == ErrorCode::deadlock ||
                    done.error().code == ErrorCode::duplicate_key)
            << done.error().text();
    };
    // User thread i runs on worker i % 2: one worker looks, the other one changes.
    for (uint64_t t = 0; t < 4; ++t)
        threads.push_back([&, t] {
            Rng rng(seed * 100 + t);
            std::vector<std::string> mine;
            for (int tries = 0; !seen_enough() && tries < 1'000'000; ++tries) {
                auto& txn = store.begin(txn::Isolation::serializable, 0);
                if (t % 2 == 1) end(txn, change(txn, rng, mine));
                else if (auto done = look(txn, rng); !done) end(txn, std::unexpected(done.error()));
                else end(txn, false);
                threads::yield();
            }
        });
    store.on_threads(threads);
    EXPECT_TRUE(seen_enough()) << "the test is blind: " << looked.load() << " looks, "
                               << inserted.load() << " inserts, " << refused.load() << " refused";
    store.on_thread([&] { tree.sound(); });
}

INSTANTIATE_TEST_SUITE_P(Direction, BTreeBorderWorkersTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Backward" : "Forward"; });

}  // namespace lockstep::sm::btree_border_workers_test
