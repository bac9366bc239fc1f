// labels: model
// btree_model_test.cc - random operations, scans, commits, rollbacks and savepoints
// on an index against an ordered map, small pool, ghost cleaner running.
#include <lockstep/index.h>
#include "tests/sm/btree/btree_test_util.h"

namespace lockstep::sm::btree_model_test {

using Map = std::map<std::string, std::string>;

class ModelRun {
public:
    ModelRun(TestEngine& store, BTree& tree, uint64_t seed)
        : store_(store), tree_(tree), rng_(seed), style_(static_cast<int>(seed % 5)) {}

    void run(int transactions) {
        for (int i = 0; i < transactions && !::testing::Test::HasFatalFailure(); ++i)
            one_transaction();
        ASSERT_EQ(TestTree::sound(store_, tree_).records, committed_.size());
    }

private:
    std::string some_key() {
        switch (style_) {
            case 0: return number_key(rng_.below(3000));
            // Ties in the heads, zero bytes, prefixes of each other.
            case 1: {
                std::string key;
                for (uint64_t n = rng_.below(12); n > 0; --n) key += "\0\1a\xff"[rng_.below(4)];
                return key;
            }
            case 2:
                return std::string(rng_.below(20), 'q') + random_text(rng_, rng_.below(3)) +
                       std::string(rng_.below(1000), 'z');
            // Stems of several lengths at once, which meet in the same leaves.
            case 3: {
                constexpr size_t kStems[] = {0, 1, 7, 8, 9, 60, 250, 1000};
                const size_t stem = kStems[rng_.below(std::size(kStems))];
                return std::string(stem, static_cast<char>('m' + rng_.below(3))) +
                       number_key(rng_.below(120)).substr(7);
            }
            default:
                return rng_.chance(0.7) ? number_key(next_++ % 5000) : number_key(rng_.below(5000));
        }
    }
    std::string some_value() {
        if (rng_.chance(0.01)) return random_text(rng_, rng_.below(100'001));
        if (rng_.chance(0.1)) return random_text(rng_, rng_.below(2500));
        return random_text(rng_, rng_.below(120));
    }
    std::string old_key() {
        if (now_.empty() || rng_.chance(0.1)) return some_key();
        const auto it = now_.lower_bound(some_key());
        return it == now_.end() ? now_.begin()->first : it->first;
    }

    void one_transaction() {
        txn_ = &store_.begin(static_cast<txn::Isolation>(rng_.below(3)));
        now_ = committed_;
        std::vector<std::pair<Lsn, Map>> savepoints;
        const uint64_t steps = 1 + rng_.below(rng_.chance(0.1) ? 300 : 30);
        for (uint64_t step = 0; step < steps; ++step) {
            one_step();
            if (::testing::Test::HasFatalFailure()) return;
            if (rng_.chance(0.03)) savepoints.emplace_back(txn_->last_lsn, now_);
            if (!savepoints.empty() && rng_.chance(0.03)) {
                const size_t keep = rng_.below(savepoints.size());
                ASSERT_OK(rollback(*store_, *txn_, savepoints[keep].first));
                now_ = savepoints[keep].second;
                savepoints.resize(keep + 1);
            }
        }
        if (rng_.chance(0.6)) {
            store_.commit(*txn_);
            committed_ = now_;
        } else {
            store_.abort(*txn_);
        }
        if (rng_.chance(0.3)) ASSERT_OK(store_->ghosts->run_once());
        if (rng_.chance(0.02)) TestTree::sound(store_, tree_);
    }

    void one_step() {
        switch (rng_.below(13)) {
            case 0:
            case 1:
            case 2: {
                const std::string key = some_key(), value = some_value();
                auto done = tree_.insert(*txn_, key, value);
                if (now_.contains(key)) {
                    ASSERT_FALSE(done);
                    ASSERT_EQ(done.error().code, ErrorCode::duplicate_key);
                } else {
                    ASSERT_OK(done);
                    now_[key] = value;
                }
                break;
            }
            case 3: {
                const std::string key = old_key(), value = some_value();
                auto done = tree_.update(*txn_, key, value);
                ASSERT_OK(done);
                ASSERT_EQ(*done, now_.contains(key));
                if (*done) now_[key] = value;
                break;
            }
            case 4: {
                const std::string key = old_key();
                const auto it = now_.find(key);
                const size_t bytes = it == now_.end() ? 0 : it->second.size(),
                             offset = rng_.below(bytes + 1);
                const std::string part = random_text(rng_, rng_.below(bytes - offset + 1));
                auto done = tree_.patch(*txn_, key, offset, part);
                ASSERT_OK(done);
                ASSERT_EQ(*done, it != now_.end());
                if (*done) it->second.replace(offset, part.size(), part);
                break;
            }
            case 5: {
                const std::string key = old_key();
                auto done = tree_.erase(*txn_, key);
                ASSERT_OK(done);
                ASSERT_EQ(*done, now_.erase(key) == 1);
                break;
            }
            case 6:
            case 7: {
                const std::string key = old_key();
                const auto got =
                    TestTree::get(tree_, *txn_, key, static_cast<Access>(rng_.below(3)));
                const auto it = now_.find(key);
                ASSERT_EQ(got, it == now_.end() ? std::nullopt : std::optional(it->second));
                break;
            }
            case 8: look_up_many(); break;
            case 9: insert_many(); break;
            case 10: modify_many(); break;
            case 11: empty_beside_full(); break;
            default: scan();
        }
    }

    // Erases about as many neighbours as a leaf holds, and makes those beside them large.
    void empty_beside_full() {
        if (!rng_.chance(0.2)) return;
        const size_t gone = 5 + rng_.below(60), large = rng_.below(12);
        auto it = now_.lower_bound(some_key());
        for (size_t i = 0; i < gone && it != now_.end(); ++i) {
            ASSERT_TRUE(*tree_.erase(*txn_, it->first));
            it = now_.erase(it);
        }
        for (size_t i = 0; i < large && it != now_.end(); ++i, ++it) {
            it->second = random_text(rng_, 300 + rng_.below(1700));
            ASSERT_TRUE(*tree_.update(*txn_, it->first, it->second));
        }
    }

    // Ascending or not; the ones in front of the first that exists are in.
    void insert_many() {
        std::vector<std::string> keys(rng_.below(30)), values(keys.size());
        const std::string stem = some_key().substr(0, 1000);
        const bool run = rng_.chance(0.7);
        for (size_t i = 0; i < keys.size(); ++i) {
            keys[i] = run ? stem + number_key(i) : some_key();
            values[i] = rng_.chance(0.95) ? random_text(rng_, rng_.below(150)) : some_value();
        }
        if (rng_.chance(0.5)) std::sort(keys.begin(), keys.end());
        std::vector<NewRecord> records;
        for (size_t i = 0; i < keys.size(); ++i) records.push_back({keys[i], values[i]});
        const auto done = tree_.insert_many(*txn_, records);
        size_t i = 0;
        for (; i < keys.size() && !now_.contains(keys[i]); ++i) now_[keys[i]] = values[i];
        ASSERT_EQ(done.has_value(), i == keys.size()) << (done ? "" : done.error().text());
        if (!done) {
            ASSERT_EQ(done.error().code, ErrorCode::duplicate_key);
        }
    }

    // One record, or several in any order.
    void modify_many() {
        std::vector<std::string> keys(rng_.chance(0.3) ? 1 : rng_.below(25));
        for (std::string& key : keys) key = old_key();
        if (rng_.chance(0.7)) std::sort(keys.begin(), keys.end());
        std::vector<std::string> rooms(keys.size(), std::string(2600, ' '));
        const auto change = [&](size_t i, std::span<std::byte> value) -> ByteRange {
            std::string& known = now_.at(keys[i]);
            EXPECT_EQ(std::memcmp(value.data(), known.data(), value.size()), 0);
            const size_t offset = rng_.below(value.size() + 1),
                         bytes = rng_.below(value.size() - offset + 1);
            const std::string part = random_text(rng_, bytes);
            std::memcpy(value.data() + offset, part.data(), bytes);
            known.replace(offset, bytes, part);
            return {offset, bytes};
        };
        std::vector<Lookup> rows;
        for (size_t i = 0; i < keys.size(); ++i)
            rows.push_back(
                {.key = keys[i],
                 .buffer = std::as_writable_bytes(std::span(rooms[i].data(), rooms[i].size())),
                 .hint = {}});
        size_t expected = 0;
        for (const std::string& key : keys) expected += now_.contains(key);
        if (keys.size() == 1) {
            ValueOut out{.fixed = rows[0].buffer.data(), .capacity = rows[0].buffer.size()};
            const auto done = tree_.modify(
                *txn_, keys[0], out, [&](std::span<std::byte> value) { return change(0, value); });
            ASSERT_OK(done);
            ASSERT_EQ(*done, expected == 1);
            return;
        }
        const auto found = tree_.modify_many(*txn_, rows, change);
        ASSERT_OK(found);
        ASSERT_EQ(*found, expected);
    }

    void look_up_many() {
        std::vector<std::string> keys(rng_.below(40));
        for (std::string& key : keys) key = rng_.chance(0.8) ? old_key() : some_key();
        if (rng_.chance(0.5)) std::sort(keys.begin(), keys.end());
        std::vector<std::string> values(keys.size(), std::string(2600, ' '));
        std::vector<Lookup> rows;
        for (size_t i = 0; i < keys.size(); ++i)
            rows.push_back(
                {.key = keys[i],
                 .buffer = std::as_writable_bytes(std::span(values[i].data(), values[i].size())),
                 .hint = {}});
        const auto found = tree_.fetch_many(*txn_, rows, static_cast<Access>(rng_.below(3)));
        ASSERT_OK(found);
        size_t expected = 0;
        for (size_t i = 0; i < keys.size(); ++i) {
            const auto it = now_.find(keys[i]);
            ASSERT_EQ(rows[i].found, it != now_.end());
            if (!rows[i].found) continue;
            ++expected;
            ASSERT_EQ(rows[i].bytes, it->second.size());
            ASSERT_EQ(Slice(values[i]).substr(0, rows[i].bytes),
                      Slice(it->second).substr(0, values[i].size()));
            // The next change of that record begins where it was seen.
            if (rng_.chance(0.3)) {
                const std::string value = some_value();
                tree_.note_hint(*txn_, rows[i].hint);
                ASSERT_TRUE(*tree_.update(*txn_, keys[i], value));
                it->second = value;
                // That row was read before the change.
                for (size_t j = i + 1; j < keys.size(); ++j)
                    if (keys[j] == keys[i]) return;
            }
        }
        ASSERT_EQ(*found, expected);
    }

    // A range in both directions, with turns, sometimes changing records on the way.
    void scan() {
        std::string low = some_key(), high = rng_.chance(0.2) ? std::string() : some_key();
        if (!high.empty() && low > high) std::swap(low, high);
        if (high.empty() && rng_.chance(0.5)) low.clear();
        BTreeCursor cursor(tree_, *txn_, low, high, static_cast<Access>(rng_.below(3)));
        const auto begin = now_.lower_bound(low),
                   end = high.empty() ? now_.end() : now_.lower_bound(high);
        const bool backward = rng_.chance(0.5);
        // Next record to come when going forward / one behind it when backward.
        auto at = backward ? end : begin;
        const int limit = rng_.chance(0.2) ? 10000 : static_cast<int>(rng_.below(40));
        for (int i = 0; i < limit; ++i) {
            auto more = backward ? cursor.prev() : cursor.next();
            ASSERT_OK(more);
            ASSERT_EQ(*more, at != (backward ? begin : end));
            if (!*more) return;
            if (backward) --at;
            ASSERT_EQ(cursor.key(), at->first);
            ASSERT_EQ(cursor.value(), at->second);
            if (rng_.chance(0.1)) {
                const size_t offset = rng_.below(at->second.size() + 1);
                const std::string part =
                    random_text(rng_, rng_.below(at->second.size() - offset + 1));
                ASSERT_TRUE(*cursor.patch(offset, part));
                at->second.replace(offset, part.size(), part);
                ASSERT_EQ(cursor.value(), at->second);
                ASSERT_FALSE(cursor.patch(at->second.size(), "x").has_value());
            }
            if (rng_.chance(0.05)) {
                const std::string value = some_value();
                ASSERT_TRUE(*tree_.update(*txn_, at->first, value));
                at->second = value;
            }
            if (!backward) ++at;
        }
        if (limit == 0 || at == (backward ? end : begin)) return;
        // Turn round: the record before the one the cursor stands on.
        if (backward) {
            ++at;
            auto more = cursor.next();
            ASSERT_OK(more);
            ASSERT_EQ(*more, at != end);
            if (*more) {
                ASSERT_EQ(cursor.key(), at->first);
            }
        } else {
            --at;
            auto more = cursor.prev();
            ASSERT_OK(more);
            ASSERT_EQ(*more, at != begin);
            if (*more) {
                ASSERT_EQ(cursor.key(), std::prev(at)->first);
            }
        }
    }

    TestEngine& store_;
    BTree& tree_;
    Rng rng_;
    const int style_;
    uint64_t next_ = 0;
    txn::Transaction* txn_ = nullptr;
    Map committed_, now_;
};

TEST(BTreeModel, RandomTransactionsMatchAMap) {
    const uint64_t first = seed_of_run(), seeds = std::getenv("LOCKSTEP_SEED") ? 1 : 10;
    for (uint64_t seed = first; seed < first + seeds; ++seed) {
        SCOPED_TRACE("LOCKSTEP_SEED=" + std::to_string(seed));
        Options options = small_options();
        options.pool_bytes = 4 << 20;
        TestEngine store(options);
        TestTree tree(store);
        store.on_thread([&] { ModelRun(store, *tree, seed).run(200); });
        if (HasFatalFailure()) return;
    }
}

}  // namespace lockstep::sm::btree_model_test
