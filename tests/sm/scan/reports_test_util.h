// reports_test_util.h - an index with columns, and its rows as reports give them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include <lockstep/report.h>
#include <lockstep/store.h>
#include "tests/own_directory.h"
#include "tests/steps_of_run.h"
#include "threads/base/try.h"

namespace lockstep::sm {

namespace reports {

constexpr const char* kText =
    "id u32 key\n"
    "part u8 value 0\n"
    "amount i64 value 1\n"
    "name text8 value 9";

inline ErrorCode code(const auto& result) {
    return result.has_value() ? ErrorCode::none : result.error().code;
}

struct Record {
    uint8_t part;
    int64_t amount;
    std::string name;
    bool operator==(const Record&) const = default;
    std::string bytes() const {
        std::string out(1, static_cast<char>(part));
        out.append(reinterpret_cast<const char*>(&amount), sizeof amount);
        return out.append(1, static_cast<char>(name.size())).append(name);
    }
};
inline Record record_of(uint32_t id) {
    return {static_cast<uint8_t>(id % 7), int64_t{id} * 3 - 1000, std::string(id % 40, 'n')};
}
using Records = std::map<uint32_t, Record>;

class ReportsTest : public ::testing::Test {
protected:
    void SetUp() override { open({}); }
    void TearDown() override {
        store_.reset();
        std::filesystem::remove_all(path_);
    }
    void open(Options options) {
        options.workers = 2;
        options.pool_bytes = 16 << 20;
        options.sync = false;
        options.steps = steps_of_run();
        auto store = Store::open(path_, options);
        ASSERT_TRUE(store) << store.error().text();
        store_.emplace(std::move(*store));
    }
    void load(uint32_t rows) {
        const auto loaded = store_->run([&](Txn& txn) -> Result<void> {
            const Index index = TRY(store_->create_index(txn, "lines"));
            TRY(store_->describe(txn, "lines", kText));
            uint32_t next = 0;
            Key key;
            std::string value;
            return store_->bulk_load(txn, index, [&](Slice& k, Slice& v) {
                if (next == rows) return false;
                value = record_of(next).bytes();
                key = Key().u32(next++);
                k = key;
                v = value;
                return true;
            });
        });
        ASSERT_TRUE(loaded) << loaded.error().text();
    }
    Index lines() { return *store_->index("lines"); }
    Report report(Nanos max_age = 0) {
        auto made = store_->report({.max_age = max_age});
        EXPECT_TRUE(made) << made.error().text();
        return made ? std::move(*made) : Report();
    }
    static Scan scan(Report& report, const ScanOptions& options = {}) {
        auto made = report.scan("lines", options);
        EXPECT_TRUE(made) << made.error().text();
        return made ? std::move(*made) : Scan();
    }
    // All rows of a scan with all columns.
    static Result<Records> drain(Scan& scan) {
        Records out;
        Block block;
        while (TRY(scan.next(block))) add_rows(block, out);
        return out;
    }
    static void add_rows(const Block& block, Records& out) {
        EXPECT_GT(block.rows(), 0u);
        EXPECT_LE(block.rows(), 8192u);
        for (size_t i = 0; i < block.rows(); ++i) {
            const Record record{block.numbers<uint8_t>(1)[i], block.numbers<int64_t>(2)[i],
                                std::string(block.text(3, i))};
            EXPECT_TRUE(out.emplace(block.numbers<uint32_t>(0)[i], record).second);  // RB-1
        }
    }
    static Records expected(uint32_t rows) {
        Records out;
        for (uint32_t id = 0; id < rows; ++id) out.emplace(id, record_of(id));
        return out;
    }
    const std::string path_ = make_own_directory("reports");
    std::optional<Store> store_;
};

constexpr uint32_t kRows = 60'000;  // about 16 chunks

}  // namespace reports

}  // namespace lockstep::sm
