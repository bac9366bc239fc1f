// labels: unit
// space_reuse_test.cc - the data file stays within three times the live bytes under loads that
// overwrite, queue or erase values of any size, and close() does not clean for long.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/store.h>
#include "sm/api/engine_of.h"
#include "sm/btree/btree.h"
#include "sm/catalog/catalog.h"
#include "sm/engine/engine.h"
#include "sm/services/ghost_cleaner.h"
#include "tests/own_directory.h"
#include "tests/seed_of_run.h"
#include "tests/sm/test_util.h"
#include "tests/steps_of_run.h"
#include "threads/base/rng.h"

namespace lockstep::space_reuse_test {

constexpr uint64_t kLive = 6 << 20;  // bytes; more than the pool
constexpr uint64_t kChangesMax = 5'000;
constexpr Nanos kCloseMax = 5 * kSecond;
constexpr size_t kStampBytes = 15;  // of key_of()

enum class Load : uint8_t { overwrite, queue, scattered };
const char* name_of(Load load) {
    switch (load) {
        case Load::overwrite: return "overwrite";
        case Load::queue: return "queue";
        case Load::scattered: break;
    }
    return "scattered";
}

using Case = std::tuple<Load, size_t>;  // and bytes of a value
std::string case_name(const ::testing::TestParamInfo<Case>& info) {
    return std::string(name_of(std::get<0>(info.param))) + std::to_string(std::get<1>(info.param));
}

class SpaceReuse : public ::testing::Test {
protected:
    void SetUp() override { directory_ = make_own_directory("space"); }
    void TearDown() override {
        store_.reset();
        std::filesystem::remove_all(directory_);
    }
    void open(uint32_t workers = 1) {
        Options options;
        options.workers = workers;
        options.steps = steps_of_run();
        options.pool_bytes = 4 << 20;
        options.log_bytes = 64 << 20;
        options.log_segment_bytes = 4 << 20;
        options.log_ring_bytes = 4 << 20;
        options.sync = false;
        auto opened = Store::open(directory_, options);
        ASSERT_OK(opened);
        store_.emplace(std::move(*opened));
    }
    void open_index(uint32_t workers = 1) {
        open(workers);
        auto made = store_->run([&](Txn& txn) { return store_->open_or_create_index(txn, "i"); });
        ASSERT_OK(made);
        index_ = *made;
    }
    uint64_t file_bytes() const { return std::filesystem::file_size(directory_ + "/data"); }
    static std::string key_of(uint64_t n) {
        const std::string digits = std::to_string(n);
        return "key" + std::string(12 - digits.size(), '0') + digits;
    }
    void expect_bound(uint64_t live, const std::string& what) const {
        EXPECT_LE(file_bytes(), 3 * live)
            << what << ": " << file_bytes() / 1024 << " KB for " << live / 1024 << " KB of records";
    }
    void close_soon() {
        const MonotonicClock clock;
        const Nanos began = clock.now();
        ASSERT_OK(store_->close());
        EXPECT_LT(clock.now() - began, kCloseMax);
    }
    // Nothing leaks. Versions and chains that wait for snapshots must be gone.
    void expect_sound() {
        const auto faults = store_->verify();
        ASSERT_OK(faults);
        EXPECT_TRUE(faults->empty()) << faults->front();
        const StoreStats stats = store_->stats();
        EXPECT_EQ(stats.pages_to_free, 0u);
    }
    // A number names a record of the load, whatever object has it.
    Result<void> put(Txn& txn, uint64_t n, size_t bytes);
    Result<void> erase(Txn& txn, uint64_t n);
    // Records of `value_bytes` and, in keys and entries, `other_bytes` are put until the live ones
    // have been replaced `times` times.
    void run_load(Load load, size_t value_bytes, int times, size_t other_bytes = kStampBytes);

    std::string directory_;
    std::optional<Store> store_;
    Index index_;
    Heap heap_;                           // if it is open, the load is its
    std::map<uint64_t, RecordId> there_;  // the heap's record of each number
    uint64_t puts_ = 0;                   // each value begins with its number
    Rng rng_{seed_of_run()};
};

Result<void> SpaceReuse::put(Txn& txn, uint64_t n, size_t bytes) {
    std::string value = key_of(puts_++);
    value.resize(bytes, 'v');
    if (!heap_) return index_.put(txn, key_of(n), value);
    value.resize(bytes - rng_.below(bytes / 4 + 1));  // another length: records move
    if (const auto at = there_.find(n); at != there_.end()) {
        EXPECT_TRUE(TRY(heap_.update(txn, at->second, value)));
        return {};
    }
    there_[n] = TRY(heap_.insert(txn, value));
    return {};
}

Result<void> SpaceReuse::erase(Txn& txn, uint64_t n) {
    EXPECT_TRUE(heap_ ? TRY(heap_.erase(txn, there_.extract(n).mapped()))
                      : TRY(index_.erase(txn, key_of(n))));
    return {};
}

void SpaceReuse::run_load(Load load, size_t value_bytes, int times, size_t other_bytes) {
    const uint64_t live = kLive / (value_bytes + other_bytes);
    std::deque<uint64_t> there;
    uint64_t next = 0;
    const auto batch = std::max<uint64_t>(1, (64 << 10) / (value_bytes + other_bytes));
    for (uint64_t done = 0; done < live;) {
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            for (uint64_t n = 0; n < batch; ++n) TRY(put(txn, done + n, value_bytes));
            return {};
        }));
        done += batch;
        next = done;
    }
    for (uint64_t n = 0; n < next; ++n) there.push_back(n);
    const uint64_t bytes = next * (value_bytes + other_bytes);
    // Each change reads a leaf that is not in the pool.
    const uint64_t changes = std::min(next * static_cast<uint64_t>(times), kChangesMax);
    for (uint64_t changed = 0; changed < changes; changed += batch) {
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            for (uint64_t n = 0; n < batch; ++n) {
                size_t at = 0;
                if (load != Load::queue) at = rng_.below(there.size());
                if (load == Load::overwrite) {
                    TRY(put(txn, there[at], value_bytes));
                    continue;
                }
                TRY(put(txn, next, value_bytes));
                TRY(erase(txn, there[at]));
                there[at] = there.front();
                there.pop_front();
                there.push_back(next++);
            }
            return {};
        }));
    }
    const std::string what = std::string(name_of(load)) + ", " + std::to_string(value_bytes);
    const StoreStats stats = store_->stats();
    std::printf("%-24s file %6.1f MB, live %5.1f MB, %zu leaf notes, %zu pages wait\n",
                what.c_str(), static_cast<double>(file_bytes()) / 1e6,
                static_cast<double>(bytes) / 1e6, static_cast<size_t>(stats.leaves_to_clean),
                static_cast<size_t>(stats.pages_to_free));
    expect_bound(bytes, what);
}

class SpaceReuseBySize : public SpaceReuse, public ::testing::WithParamInterface<Case> {};

TEST_P(SpaceReuseBySize, TheFileStaysWithinThreeTimesTheLiveBytes) {
    const auto [load, bytes] = GetParam();
    open_index();
    run_load(load, bytes, 4);
    close_soon();
    open_index();
    expect_sound();
}

INSTANTIATE_TEST_SUITE_P(
    Loads, SpaceReuseBySize,
    ::testing::Combine(::testing::Values(Load::overwrite, Load::queue, Load::scattered),
                       ::testing::Values(100, 2100, 2990, 3000, 10'000, 100'000, 700'000)),
    case_name);

class SpaceReuseOfHeaps : public SpaceReuse, public ::testing::WithParamInterface<Case> {};

TEST_P(SpaceReuseOfHeaps, TheFileStaysWithinThreeTimesTheLiveBytes) {
    const auto [load, bytes] = GetParam();
    const auto open_heap = [&] {
        open();
        auto made = store_->run([&](Txn& txn) { return store_->open_or_create_heap(txn, "h"); });
        ASSERT_OK(made);
        heap_ = *made;
    };
    open_heap();
    run_load(load, bytes, 4);
    close_soon();
    open_heap();
    expect_sound();
}

INSTANTIATE_TEST_SUITE_P(Loads, SpaceReuseOfHeaps,
                         ::testing::Combine(::testing::Values(Load::overwrite, Load::queue,
                                                              Load::scattered),
                                            ::testing::Values(100, 2100, 8000)),
                         case_name);

class SpaceReuseOfSecondaries : public SpaceReuse, public ::testing::WithParamInterface<Case> {};

// Each change moves ten entries of the secondary index to keys that grow, so leaves empty on one
// side of it and fill on the other. The entries of a record take as much as its value does.
TEST_P(SpaceReuseOfSecondaries, TheFileStaysWithinThreeTimesTheLiveBytes) {
    constexpr size_t kEntries = 10;
    const auto [load, bytes] = GetParam();
    const auto entries = [bytes](Slice, Slice value, SecondaryKeys& keys) {
        for (size_t n = 0; n < kEntries; ++n)
            keys.add(std::string(value.substr(0, kStampBytes)) + static_cast<char>('0' + n) +
                     std::string(bytes / kEntries, 'e'));
    };
    const auto open_both = [&] {
        open_index();
        ASSERT_OK(store_->run([&](Txn& txn) {
            return store_->open_or_create_index(txn, "s", {.of = index_, .key = entries});
        }));
    };
    open_both();
    // An entry is its key, the primary's key and the length of one of them.
    constexpr size_t kEntryBytes = kStampBytes + 1 + kStampBytes + 2;
    run_load(load, bytes, 3, kStampBytes + bytes + kEntries * kEntryBytes);
    close_soon();
    open_both();
    expect_sound();
}

INSTANTIATE_TEST_SUITE_P(Loads, SpaceReuseOfSecondaries,
                         ::testing::Combine(::testing::Values(Load::overwrite, Load::queue),
                                            ::testing::Values(1000, 3000)),
                         case_name);

// Single steps, of large values.
class ReleasedChains : public SpaceReuse {
protected:
    sm::Engine& engine() { return sm::engine_of(*store_); }
    void on_thread(const std::function<void()>& fn) {
        ASSERT_OK(store_
                      ->start([&]() -> Result<void> {
                          fn();
                          return {};
                      })
                      .join());
    }
    Result<void> put(const std::string& key, size_t bytes, char c) {
        return store_->run([&](Txn& txn) { return index_.put(txn, key, std::string(bytes, c)); });
    }
    std::string get(Txn& txn, const std::string& key) {
        std::string value;
        const auto found = index_.get(txn, key, value);
        EXPECT_TRUE(found.has_value()) << found.error().text();
        return found.has_value() && *found ? value : std::string();
    }
    std::string get(const std::string& key) {
        std::string value;
        EXPECT_TRUE(store_->run([&](Txn& txn) -> Result<void> {
            value = get(txn, key);
            return {};
        }));
        return value;
    }
    uint64_t pages_used() {
        uint64_t pages = 0;
        on_thread([&] {
            ASSERT_OK(engine().ghosts->run_once());
            pages = engine().space->pages_used();
        });
        return pages;
    }
    static constexpr size_t kBytes[] = {3000, 8144, 20'000, 500'000};
};

// Erased and replaced values, in the same transaction that a copy of the files interrupts between
// its commit and the freeing.
TEST_F(ReleasedChains, ACrashBeforeTheFreeingLeaksNothing) {
    open_index();
    const uint64_t empty = pages_used();
    for (const size_t bytes : kBytes) {
        ASSERT_OK(put("erased" + std::to_string(bytes), bytes, 'e'));
        ASSERT_OK(put("replaced" + std::to_string(bytes), bytes, 'a'));
    }
    on_thread([&] {
        engine().ghosts->hold();
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            for (const size_t bytes : kBytes) {
                EXPECT_TRUE(TRY(index_.erase(txn, "erased" + std::to_string(bytes))));
                TRY(index_.put(txn, "replaced" + std::to_string(bytes), "short"));
            }
            return {};
        }));
        EXPECT_GT(store_->stats().pages_to_free, 100u);
        std::filesystem::copy(directory_, directory_ + "-copy");
        engine().ghosts->resume();
    });
    EXPECT_EQ(pages_used(), empty);
    ASSERT_OK(store_->close());
    std::filesystem::remove_all(directory_);
    std::filesystem::rename(directory_ + "-copy", directory_);
    open_index();
    EXPECT_EQ(get("replaced3000"), "short");
    EXPECT_EQ(pages_used(), empty);
    expect_sound();
}

TEST_F(ReleasedChains, WhatIsRolledBackKeepsItsValue) {
    open_index();
    for (const size_t bytes : kBytes) {
        ASSERT_OK(put("k", bytes, 'a'));
        const uint64_t used = pages_used();
        on_thread([&] {
            Txn txn = std::move(*store_->begin());
            ASSERT_OK(index_.put(txn, "k", std::string(bytes + 1, 'b')));
            const auto point = txn.savepoint();
            ASSERT_OK(point);
            EXPECT_TRUE(*index_.erase(txn, "k"));
            ASSERT_OK(index_.put(txn, "k", std::string(bytes + 2, 'c')));
            ASSERT_OK(txn.rollback_to(*point));
            EXPECT_EQ(get(txn, "k"), std::string(bytes + 1, 'b'));
            ASSERT_OK(txn.abort());
        });
        EXPECT_EQ(get("k"), std::string(bytes, 'a'));
        EXPECT_EQ(pages_used(), used);
        // The same with a commit: the value before the savepoint stays.
        on_thread([&] {
            Txn txn = std::move(*store_->begin());
            ASSERT_OK(index_.put(txn, "k", std::string(bytes, 'd')));
            const auto point = txn.savepoint();
            EXPECT_TRUE(*index_.erase(txn, "k"));
            ASSERT_OK(txn.rollback_to(*point));
            ASSERT_OK(txn.commit());
        });
        EXPECT_EQ(get("k"), std::string(bytes, 'd'));
        EXPECT_EQ(pages_used(), used);
    }
    expect_sound();
}

TEST_F(ReleasedChains, ATransactionThatErasesAndPutsAgainFreesEachChainOnce) {
    open_index();
    const uint64_t empty = pages_used();
    for (const size_t bytes : kBytes) {
        ASSERT_OK(put("k", bytes, 'a'));
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            for (const char c : {'b', 'c', 'd'}) {
                EXPECT_TRUE(TRY(index_.erase(txn, "k")));
                TRY(index_.put(txn, "k", std::string(bytes, c)));
                TRY(index_.put(txn, "k", std::string(bytes + 9, c)));
            }
            EXPECT_TRUE(TRY(index_.erase(txn, "k")));
            return {};
        }));
        EXPECT_EQ(pages_used(), empty) << bytes;
    }
    expect_sound();
}

// It reads what it saw until too many pages wait for it.
TEST_F(ReleasedChains, ASnapshotHoldsBackABoundedNumberOfPages) {
    open_index();
    ASSERT_OK(put("k", 100'000, 'a'));
    const uint64_t used = pages_used();
    on_thread([&] {
        Txn reader = std::move(*store_->begin({.isolation = Isolation::snapshot}));
        ASSERT_OK(put("k", 100'000, 'b'));
        EXPECT_GE(store_->stats().pages_to_free, 12u);
        EXPECT_EQ(get(reader, "k"), std::string(100'000, 'a'));
        const uint64_t most = engine().ghosts->pages_waiting_max();
        for (uint64_t pages = 0; pages < 2 * most; pages += 128) {
            ASSERT_OK(put("k", 1 << 20, 'c'));
            ASSERT_LE(store_->stats().pages_to_free, engine().ghosts->pages_waiting_max() + 129);
        }
        std::string value;
        const auto late = index_.get(reader, "k", value);
        ASSERT_FALSE(late.has_value());
        EXPECT_EQ(late.error().code, ErrorCode::snapshot_too_old);
    });
    EXPECT_EQ(store_->stats().snapshots_too_old, 1u);
    ASSERT_OK(put("k", 100'000, 'd'));
    EXPECT_EQ(pages_used(), used);
    EXPECT_EQ(store_->stats().pages_to_free, 0u);
    expect_sound();
}

TEST_F(ReleasedChains, APreparedTransactionFreesThemAtItsEnd) {
    open_index();
    ASSERT_OK(put("k", 100'000, 'a'));
    const uint64_t used = pages_used();
    for (const bool commits : {true, false}) {
        on_thread([&] {
            Txn txn = std::move(*store_->begin());
            ASSERT_OK(index_.put(txn, "k", std::string(100'000, 'b')));
            ASSERT_OK(txn.prepare("g"));
        });
        EXPECT_GT(pages_used(), used);
        EXPECT_TRUE(commits ? *store_->commit_prepared("g") : *store_->rollback_prepared("g"));
        EXPECT_EQ(pages_used(), used);
    }
    // One that stays in doubt when the store closes.
    on_thread([&] {
        Txn txn = std::move(*store_->begin());
        ASSERT_OK(index_.put(txn, "k", std::string(50'000, 'c')));
        ASSERT_OK(txn.prepare("g"));
    });
    close_soon();
    open_index();
    EXPECT_TRUE(*store_->commit_prepared("g"));
    close_soon();
    open_index();
    EXPECT_LT(pages_used(), used);
    expect_sound();
}

// GC-1.
TEST_F(ReleasedChains, ADropFreesAllOfThem) {
    open_index();
    ASSERT_OK(store_->run([&](Txn& txn) { return store_->create_index(txn, "other"); }));
    ASSERT_OK(store_->run([&](Txn& txn) { return store_->drop(txn, "other"); }));
    const uint64_t before = pages_used();
    for (int round = 0; round < 3; ++round) {
        const auto made = store_->run([&](Txn& txn) { return store_->create_index(txn, "other"); });
        ASSERT_OK(made);
        for (const size_t bytes : kBytes)
            ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
                TRY(made->put(txn, "stays" + std::to_string(bytes), std::string(bytes, 's')));
                return made->put(txn, "goes" + std::to_string(bytes), std::string(bytes, 'g'));
            }));
        ASSERT_OK(store_->run([&](Txn& txn) -> Result<void> {
            for (const size_t bytes : kBytes)
                EXPECT_TRUE(TRY(made->erase(txn, "goes" + std::to_string(bytes))));
            return round == 1 ? store_->drop(txn, "other") : Result<void>{};
        }));
        if (round != 1)
            ASSERT_OK(store_->run([&](Txn& txn) { return store_->drop(txn, "other"); }));
        EXPECT_EQ(pages_used(), before) << round;
    }
    expect_sound();
}

// Several writers on two workers, and a reader whose snapshots stay open for a while.
TEST_F(SpaceReuse, WritersOnTwoWorkersStayWithinTheBound) {
    open_index(2);
    constexpr int kWriters = 4, kKeys = 40, kRounds = 150;
    constexpr size_t kBytes = 40'000;
    std::atomic<int> left{kWriters};
    std::vector<Handle<void>> all;
    for (int w = 0; w < kWriters; ++w)
        all.push_back(store_->start(
            [&, w]() -> Result<void> {
                Rng rng(seed_of_run() + static_cast<uint64_t>(w));
                for (int i = 0; i < kRounds; ++i)
                    TRY(store_->run([&](Txn& txn) -> Result<void> {
                        const uint64_t key = rng.below(kKeys) * kWriters + static_cast<uint64_t>(w);
                        if (rng.chance(0.3)) {
                            TRY(index_.erase(txn, key_of(key)));
                            return {};
                        }
                        return index_.put(txn, key_of(key), std::string(kBytes, 'v'));
                    }));
                --left;
                return {};
            },
            w % 2));
    all.push_back(store_->start([&]() -> Result<void> {
        while (left != 0) {
            Txn reader = TRY(store_->begin({.isolation = Isolation::snapshot}));
            std::string value;
            for (uint64_t key = 0; key < 20 && left != 0; ++key) {
                if (TRY(index_.get(reader, key_of(key), value))) {
                    EXPECT_EQ(value.size(), size_t{kBytes});
                }
                sleep_for(kMillisecond);
            }
            TRY(reader.commit());
        }
        return {};
    }));
    for (auto& handle : all) ASSERT_OK(handle.join());
    expect_bound(kWriters * kKeys * kBytes, "two workers");
    close_soon();
    open_index(2);
    expect_sound();
}

}  // namespace lockstep::space_reuse_test
