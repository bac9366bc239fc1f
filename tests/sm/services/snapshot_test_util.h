// snapshot_test_util.h - a store with an index and a heap, and short calls for tests of snapshots.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/heap.h>
#include <lockstep/index.h>
#include "sm/api/engine_of.h"
#include "sm/services/ghost_cleaner.h"
#include "sm/services/snapshots.h"
#include "tests/code_of.h"
#include "tests/sm/store_crash_util.h"

namespace lockstep {

using Content = std::map<std::string, std::string>;

inline constexpr TxnOptions kSnapshot{.isolation = Isolation::snapshot,
                                      .durability = Durability::lazy};
inline constexpr TxnOptions kWriter{.durability = Durability::lazy};

// Reads the keys in one call, and compares what is found with `expected`.
inline Result<void> compare_many(const Index& index, Txn& txn, std::span<const std::string> keys,
                                 const std::map<std::string, std::string>& expected) {
    std::vector<std::array<std::byte, 64>> buffers(keys.size());
    std::vector<Lookup> rows;
    for (size_t i = 0; i < keys.size(); ++i) rows.push_back({keys[i], buffers[i]});
    TRY(index.get_many(txn, rows));
    for (size_t i = 0; i < keys.size(); ++i) {
        const auto it = expected.find(keys[i]);
        EXPECT_EQ(rows[i].found, it != expected.end()) << keys[i];
        if (!rows[i].found || it == expected.end()) continue;
        EXPECT_EQ(rows[i].bytes, it->second.size()) << keys[i];
        const size_t copied = std::min(rows[i].bytes, buffers[i].size());
        EXPECT_EQ(Slice(reinterpret_cast<const char*>(buffers[i].data()), copied),
                  Slice(it->second).substr(0, copied))
            << keys[i];
    }
    return {};
}

// No snapshot needs any version: frees all.
inline void sweep(sm::VersionTable& versions) {
    for (int i = 0; i < 1000 && versions.bytes() != 0; ++i) {
        versions.sweep(1 << 20);
        versions.sweep_keys(1 << 20);
        threads::yield();
    }
    EXPECT_EQ(versions.bytes(), 0u);
}

class SnapshotTest : public StoreCrash {
protected:
    void SetUp() override {
        StoreCrash::SetUp();
        reopen(small_options());
    }
    void TearDown() override {
        if (store_) {
            expect_sound(*store_);
            ASSERT_OK(store_->close());
        }
        StoreCrash::TearDown();
    }
    void reopen(const Options& options) {
        if (store_) ASSERT_OK(store_->close());
        store_.reset();
        store_.emplace(open("db", options));
        if (!made_) make(*store_, "i", "h");
        made_ = true;
    }
    Index index(const char* name = "i") { return *store_->index(name); }
    Heap heap() { return *store_->heap("h"); }
    Txn begin(const TxnOptions& options) {
        auto txn = store_->begin(options);
        EXPECT_TRUE(txn) << txn.error().text();
        return std::move(*txn);
    }
    void put(Txn& txn, Slice key, Slice value) { EXPECT_TRUE(index().put(txn, key, value)); }
    // A transaction of its own.
    void put(Slice key, Slice value) {
        Txn txn = begin(kWriter);
        put(txn, key, value);
        EXPECT_TRUE(txn.commit());
    }
    void erase(Slice key) {
        Txn txn = begin(kWriter);
        EXPECT_TRUE(*index().erase(txn, key));
        EXPECT_TRUE(txn.commit());
    }
    std::string get(Txn& txn, Slice key) {
        std::string value;
        const auto found = index().get(txn, key, value);
        EXPECT_TRUE(found.has_value()) << found.error().text();
        return found.has_value() && *found ? value : "-";
    }
    Content scan(Txn& txn, Slice low = {}, Slice high = {}) {
        Content up, down;
        Cursor cursor = index().scan(txn, low, high);
        for (;;) {
            const auto more = cursor.next();
            EXPECT_TRUE(more.has_value()) << more.error().text();
            if (!more.has_value() || !*more) break;
            EXPECT_TRUE(up.empty() || up.rbegin()->first < cursor.key());
            up.emplace(cursor.key(), cursor.value());
        }
        Cursor back = index().scan(txn, low, high);
        for (auto more = back.prev(); more.has_value() && *more; more = back.prev())
            down.emplace(back.key(), back.value());
        EXPECT_EQ(up, down);
        return up;
    }
    void clean() { ASSERT_OK(sm::engine_of(*store_).ghosts->run_once()); }
    sm::VersionTable& versions() { return sm::engine_of(*store_).snapshots->table(); }

    std::optional<Store> store_;
    bool made_ = false;
};

}  // namespace lockstep
