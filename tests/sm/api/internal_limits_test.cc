// labels: model
// internal_limits_test.cc - one workload whose every count is a limit of the engine, or one more.
//
// Concepts   The workload does n of everything: records of one call, versions, erased keys, pages
//            of a value, objects of a transaction, names of a prepared one, commits that wait
//            together, heap records, roots after an open. In the normal build n comes from the
//            table of limits (threads/base/limits.h). In a build that draws limits, each of them in
//            turn becomes its least value and one more, so n is small.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "sm/btree/overflow.h"
#include "tests/sim_store.h"
#include "tests/sm/test_util.h"
#include "threads/base/limits.h"
#include "threads/base/try.h"

namespace lockstep::internal_limits_test {

using Content = std::map<std::string, std::string>;

constexpr TxnOptions kLazy{.durability = Durability::lazy};
constexpr TxnOptions kSnapshot{.isolation = Isolation::snapshot, .durability = Durability::lazy};
// Where a count of its own bounds a part of the workload: transactions, objects, pages.
constexpr uint32_t kThreadsMost = 70, kObjectsMost = 70, kPagesMost = 100;
constexpr uint32_t kBuiltMost = 600;
constexpr int kStepsMost = 20'000;  // until all commits have returned

std::string key_of(uint32_t i) {
    std::string digits = std::to_string(i);
    return "k" + std::string(6 - digits.size(), '0') + digits;
}

class Workload {
public:
    explicit Workload(uint32_t n) : n_(n), store_(disk_, n + 1, 2) {
        store_.options().transactions_max = 200;
        store_.options().escalate_at = 1000000;
    }

    void run() {
        ASSERT_OK(store_.open());
        step("objects", [this] { return make_objects(); });
        step("inserts", [this] { return insert(); });
        step("versions", [this] { return change_beside_a_snapshot(); });
        step("large values", [this] { return large_values(); });
        step("heap", [this] { return heap_records(); });
        step("bulk load", [this] { return bulk_load(); });
        commit_together();
        step("prepared", [this] { return prepare(); });
        ASSERT_OK(store_.close());
        ASSERT_OK(store_.open());
        step("opened", [this] { return look_again(); });
        const auto faults = store_->verify();
        ASSERT_OK(faults);
        for (const std::string& fault : *faults) ADD_FAILURE() << fault;
        ASSERT_OK(store_.close());
        EXPECT_EQ(store_.errors(), "");
    }

private:
    template <class Fn>
    void step(const char* name, Fn fn) {
        Result<void> done;
        store_.on_thread([&] { done = fn(); });
        EXPECT_TRUE(done) << name << ": " << done.error().text();
    }
    Index index(const std::string& name) { return *store_->index(name); }

    // One transaction has noted, or locked, as many objects.
    Result<void> make_objects() {
        objects_ = std::min(n_, kObjectsMost);
        TRY(store_->run([&](Txn& txn) -> Result<void> {
            TRY(store_->create_heap(txn, "h"));
            TRY(store_->create_index(txn, "main"));
            TRY(store_->create_index(txn, "loaded"));
            for (uint32_t i = 0; i < objects_; ++i)
                TRY(store_->create_index(txn, "o" + std::to_string(i)));
            return {};
        }));
        return store_->run([&](Txn& txn) -> Result<void> {
            for (uint32_t i = 0; i < objects_; ++i)
                TRY(index("o" + std::to_string(i)).put(txn, "k", std::to_string(i)));
            // The last ones once more: their intentions are known.
            for (uint32_t i = 0; i < objects_; ++i)
                TRY(index("o" + std::to_string(i)).put(txn, "l", std::to_string(i)));
            return {};
        });
    }
    Result<void> insert() {
        std::vector<std::string> keys, values;
        for (uint32_t i = 0; i < n_; ++i) {
            keys.push_back(key_of(i));
            values.push_back("v" + std::to_string(i));
            main_[keys.back()] = values.back();
        }
        std::vector<NewRecord> records;
        for (uint32_t i = 0; i < n_; ++i) records.push_back({keys[i], values[i]});
        TRY(store_->run([&](Txn& txn) { return index("main").insert_many(txn, records); }));
        return compare("main", main_);
    }
    // A snapshot sees n records that are changed, and then erased, and then cleaned away.
    Result<void> change_beside_a_snapshot() {
        const Content before = main_;
        Txn snapshot = TRY(store_->begin(kSnapshot));
        Txn second = TRY(store_->begin(kSnapshot));
        TRY(store_->run([&](Txn& txn) -> Result<void> {
            for (auto& [key, value] : main_) {
                value += "+";
                TRY(index("main").put(txn, key, value));
            }
            return {};
        }));
        TRY(change_many());
        TRY(store_->run([&](Txn& txn) -> Result<void> {
            for (const auto& [key, value] : before)
                if (key.back() % 2 == 0) TRY(index("main").erase(txn, key));
            return {};
        }));
        std::erase_if(main_, [](const auto& row) { return row.first.back() % 2 == 0; });
        sleep_for(20 * kMillisecond);
        TRY(same(snapshot, "main", before));
        TRY(snapshot.abort());
        TRY(compare("main", main_));
        TRY(same(second, "main", before));
        TRY(second.abort());
        sleep_for(2 * kSecond);  // the period ends, and what it kept goes
        return compare("main", main_);
    }
    // One call changes all records of the index.
    Result<void> change_many() {
        std::vector<std::array<std::byte, 64>> buffers(main_.size());
        std::vector<Lookup> rows;
        for (const auto& [key, value] : main_) rows.push_back({key, buffers[rows.size()]});
        Txn txn = TRY(store_->begin(kLazy));
        const size_t found = TRY(index("main").get_many(txn, rows, Access::update));
        EXPECT_EQ(found, main_.size());
        size_t at = 0;
        for (const auto& [key, value] : main_) {
            const Lookup& row = rows[at++];
            EXPECT_EQ(Slice(reinterpret_cast<const char*>(row.buffer.data()), row.bytes), value);
        }
        return txn.abort();
    }
    // One value of n pages, replaced by one of a page less, and as many chains of one page.
    Result<void> large_values() {
        const uint32_t pages = std::min(n_, kPagesMost);
        const auto of_pages = [](uint32_t count, char fill) {
            return std::string(size_t{count} * sm::kOverflowCapacity, fill);
        };
        for (const char fill : {'a', 'b'})
            TRY(store_->run([&](Txn& txn) -> Result<void> {
                large_["large"] = of_pages(fill == 'a' ? pages : std::max(pages, 2u) - 1, fill);
                TRY(index("o0").put(txn, "large", large_["large"]));
                for (uint32_t i = 0; i < pages; ++i)
                    TRY(index("o0").put(txn, key_of(i), large_[key_of(i)] = of_pages(1, fill)));
                return {};
            }));
        for (const char* key : {"k", "l"}) large_[key] = "0";
        return compare("o0", large_);
    }
    Result<void> heap_records() {
        std::vector<RecordId> ids;
        const Heap heap = TRY(store_->heap("h"));
        TRY(store_->run([&](Txn& txn) -> Result<void> {
            ids.clear();
            for (uint32_t i = 0; i < n_; ++i)
                ids.push_back(TRY(heap.insert(txn, std::string(100, 'h'))));
            return {};
        }));
        // One transaction leaves empty slots that it has locked; another one looks for a slot.
        Txn eraser = TRY(store_->begin(kLazy));
        for (size_t i = 0; i + 1 < ids.size(); ++i) TRY(heap.erase(eraser, ids[i]));
        TRY(store_->run([&](Txn& txn) -> Result<void> {
            ids.push_back(TRY(heap.insert(txn, "behind")));
            return {};
        }));
        TRY(eraser.abort());
        heap_.insert(ids.begin(), ids.end());
        EXPECT_EQ(heap_.size(), n_ + 1);
        return {};
    }
    // As many leaves, of two records each.
    Result<void> bulk_load() {
        const uint32_t records = 2 * std::min(n_, kPagesMost);
        std::vector<std::string> keys, values;
        for (uint32_t i = 0; i < records; ++i) {
            keys.push_back(key_of(i));
            values.emplace_back(2900, static_cast<char>('a' + i % 26));
            loaded_[keys.back()] = values.back();
        }
        TRY(store_->run([&](Txn& txn) {
            size_t at = 0;
            return store_->bulk_load(txn, index("loaded"), [&](Slice& key, Slice& value) {
                if (at == keys.size()) return false;
                key = keys[at], value = values[at];
                return ++at, true;
            });
        }));
        return compare("loaded", loaded_);
    }
    // All of them wait for one flush.
    void commit_together() {
        const uint32_t threads = std::min(n_, kThreadsMost);
        uint32_t committed = 0;
        std::vector<Handle<void>> handles;
        for (uint32_t t = 0; t < threads; ++t)
            handles.push_back(store_->start([&, t]() -> Result<void> {
                const std::string key = "c" + std::to_string(t);
                TRY(store_->run([&](Txn& txn) { return index("main").put(txn, key, "c"); }));
                main_[key] = "c";
                ++committed;
                return {};
            }));
        for (int n = 0; n < kStepsMost && committed < threads; ++n) store_.step();
        ASSERT_EQ(committed, threads) << "the others wait for a flush for ever";
        for (auto& handle : handles) EXPECT_TRUE(handle.join());
    }
    Result<void> prepare() {
        {
            Txn txn = TRY(store_->begin());
            for (uint32_t i = 0; i < objects_; ++i)
                TRY(index("o" + std::to_string(i)).put(txn, "p", "p"));
            for (uint32_t i = 0; i < n_; ++i)
                TRY(index("main").put(txn, "p" + std::to_string(i), "p"));
            TRY(txn.prepare("gid"));
        }
        return {};
    }
    // The locks of the prepared transaction are back, each of them; then it is rolled back.
    Result<void> look_again() {
        for (uint32_t i = 0; i < n_; ++i) TRY(refused("main", "p" + std::to_string(i)));
        for (uint32_t i = 0; i < objects_; ++i) TRY(refused("o" + std::to_string(i), "p"));
        EXPECT_TRUE(TRY(store_->rollback_prepared("gid")));
        TRY(compare("main", main_));
        TRY(compare("loaded", loaded_));
        TRY(compare("o0", large_));
        std::set<RecordId> seen;
        return store_->run([&](Txn& txn) -> Result<void> {
            seen.clear();
            TRY(TRY(store_->heap("h")).scan(txn, [&](RecordId id, Slice) {
                return seen.insert(id).second;
            }));
            EXPECT_EQ(seen, heap_);
            return {};
        });
    }
    Result<void> refused(const std::string& name, const std::string& key) {
        Txn txn = TRY(store_->begin({.durability = Durability::lazy, .lock_timeout = 1}));
        const auto put = index(name).put(txn, key, "x");
        EXPECT_FALSE(put.has_value()) << name << " " << key;
        EXPECT_EQ(put ? ErrorCode::none : put.error().code, ErrorCode::lock_timeout);
        return txn.abort();
    }

    Result<void> compare(const std::string& name, const Content& expected) {
        return store_->run([&](Txn& txn) { return same(txn, name, expected); });
    }
    // Both ways.
    Result<void> same(Txn& txn, const std::string& name, const Content& expected) {
        Content up, down;
        Cursor cursor = index(name).scan(txn);
        while (TRY(cursor.next())) up.emplace(cursor.key(), cursor.value());
        Cursor back = index(name).scan(txn);
        while (TRY(back.prev())) down.emplace(back.key(), back.value());
        EXPECT_TRUE(up == expected) << name << ": " << up.size() << ", not " << expected.size();
        EXPECT_TRUE(down == expected) << name << ": " << down.size() << " from above";
        return {};
    }

    const uint32_t n_;
    threads::SimDisk disk_;
    SimStore store_;
    Content main_, loaded_, large_;
    std::set<RecordId> heap_;
    uint32_t objects_ = 0;
};

class LimitTest : public ::testing::TestWithParam<uint32_t> {};

// At the limit and one beyond it.
TEST_P(LimitTest, AtItAndBeyondIt) {
    const limits::Range& range = limits::kRanges[GetParam()];
    const uint32_t beyond = limits::kDrawn ? range.least + 1 : range.most;
    for (uint32_t value = limits::kDrawn ? range.least : range.most; value <= beyond; ++value) {
        limits::set(static_cast<limits::Limit>(GetParam()), value);
        for (const uint32_t n : {value, value + 1}) {
            SCOPED_TRACE(std::string(range.name) + "=" + std::to_string(value) +
                         " n=" + std::to_string(n));
            Workload(n).run();
            if (HasFailure()) return;
        }
    }
}

// Limits of one size need one run in the normal build, and those of thousands none: it would last.
std::vector<uint32_t> limits_to_try() {
    std::vector<uint32_t> chosen;
    std::set<uint32_t> sizes;
    for (uint32_t i = 0; i < limits::kCount; ++i)
        if (limits::kDrawn ||
            (limits::kRanges[i].most <= kBuiltMost && sizes.insert(limits::kRanges[i].most).second))
            chosen.push_back(i);
    return chosen;
}

INSTANTIATE_TEST_SUITE_P(Each, LimitTest, ::testing::ValuesIn(limits_to_try()),
                         [](const auto& info) {
                             return std::string(limits::kRanges[info.param].name);
                         });

}  // namespace lockstep::internal_limits_test
