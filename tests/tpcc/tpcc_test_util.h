// tpcc_test_util.h - a small TPC-C database in a temporary directory.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/own_directory.h"
#include "tests/seed_of_run.h"
#include "tests/steps_of_run.h"
#include "threads/base/try.h"
#include "tpcc/loader.h"

namespace lockstep::tpcc {

inline Scale small_scale(uint32_t warehouses = 2) {
    return {
        .warehouses = warehouses, .districts = 3, .customers = 60, .undelivered = 20, .items = 300};
}

class TestStore {
public:
    explicit TestStore(uint32_t workers = 1) : workers_(workers) { open(); }
    ~TestStore() {
        store_.reset();
        std::filesystem::remove_all(path_);
    }
    void open() {
        Options options;
        options.workers = workers_;
        options.steps = steps_of_run();
        options.pool_bytes = 32ull << 20;
        options.log_bytes = 64ull << 20;
        options.log_segment_bytes = 4ull << 20;
        options.log_ring_bytes = 4ull << 20;
        options.sync = false;
        auto opened = Store::open(path_, options);
        ASSERT_TRUE(opened) << opened.error().text();
        store_ = std::make_unique<Store>(std::move(*opened));
    }
    void reopen() {
        const auto closed = store_->close();
        ASSERT_TRUE(closed) << closed.error().text();
        store_.reset();
        open();
    }
    Store& operator*() { return *store_; }
    Store* operator->() { return store_.get(); }
    const std::string& path() const { return path_; }

private:
    const uint32_t workers_;
    const std::string path_ = make_own_directory("tpcc");
    std::unique_ptr<Store> store_;
};

inline Database load_small(Store& store, const Scale& scale = small_scale(), uint64_t seed = 7) {
    LoadProgress progress;
    auto db = load(store, {scale, seed, 1'000'000'000}, progress);
    EXPECT_TRUE(db) << db.error().text();
    return *db;
}

using Rows = std::map<std::string, std::string>;
inline Rows rows_of(Database& db, const Index& index) {
    Rows rows;
    const auto done = db.store->run([&](Txn& txn) -> Result<void> {
        rows.clear();
        Cursor cursor = index.scan(txn);
        while (TRY(cursor.next())) rows.emplace(cursor.key(), cursor.value());
        return {};
    });
    EXPECT_TRUE(done) << done.error().text();
    return rows;
}
inline std::multimap<std::string, RecordId> history_of(Database& db) {
    std::multimap<std::string, RecordId> rows;
    const auto done = db.store->run([&](Txn& txn) -> Result<void> {
        rows.clear();
        return db.history.scan(txn, [&](RecordId id, Slice value) {
            rows.emplace(value, id);
            return true;
        });
    });
    EXPECT_TRUE(done) << done.error().text();
    return rows;
}

template <class R>
R row(Database& db, const Index& index, const RowKey& key) {
    R record{};
    const auto found = db.store->run([&](Txn& txn) -> Result<bool> {
        std::string value;
        return TRY(index.get(txn, key, value)) && read_record(value, record);
    });
    EXPECT_TRUE(found.has_value() && *found);
    return record;
}

}  // namespace lockstep::tpcc
