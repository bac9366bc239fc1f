// reports_test_util.h - an index or heap with columns, and its rows as reports give them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include <lockstep/report.h>
#include <lockstep/store.h>
#include "tests/own_directory.h"
#include "tests/steps_of_run.h"
#include "threads/base/try.h"

namespace lockstep::sm::reports {

constexpr const char* kText =
    "id u32 key\n"
    "part u8 value 0\n"
    "amount i64 value 1\n"
    "name text8 value 9";
// The same columns in the same order; a heap has no keys, so the number comes first.
constexpr const char* kHeapText =
    "id u32 value 0\n"
    "part u8 value 4\n"
    "amount i64 value 5\n"
    "name text8 value 13";

enum class Kind : uint8_t { index, heap };

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
    // The rows 0 .. rows - 1, in an object of the test's kind.
    void load(uint32_t rows) {
        if (kind_ == Kind::heap) return load_heap(rows);
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
    void load_heap(uint32_t rows) {
        const auto loaded = store_->run([&](Txn& txn) -> Result<void> {
            TRY(store_->create_heap(txn, "lines"));
            return store_->describe(txn, "lines", kHeapText);
        });
        ASSERT_TRUE(loaded) << loaded.error().text();
        ids_.clear();
        change(0, rows, [](uint32_t id) { return record_of(id).bytes(); });
    }
    // Puts records of the rows from .. end - 1, in transactions of a thousand.
    template <class BytesOf>
    void change(uint32_t from, uint32_t end, BytesOf bytes_of) {
        for (; from < end; from += 1000) {
            const auto done = store_->run([&](Txn& txn) -> Result<void> {
                for (uint32_t id = from; id < std::min(from + 1000, end); ++id)
                    TRY(put(txn, id, bytes_of(id)));
                return {};
            });
            ASSERT_TRUE(done) << done.error().text();
        }
    }
    Result<void> put(Txn& txn, uint32_t id, const std::string& bytes) {
        if (kind_ == Kind::index) return lines().put(txn, Key().u32(id), bytes);
        const Heap heap = TRY(store_->heap("lines"));
        const std::string all = std::string(reinterpret_cast<const char*>(&id), sizeof id) + bytes;
        if (id < ids_.size()) return TRY(heap.update(txn, ids_[id], all)), Result<void>();
        ids_.push_back(TRY(heap.insert(txn, all)));
        return {};
    }
    Result<void> erase(Txn& txn, uint32_t id) {
        if (kind_ == Kind::index) return TRY(lines().erase(txn, Key().u32(id))), Result<void>();
        return TRY(TRY(store_->heap("lines")).erase(txn, ids_[id])), Result<void>();
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
    Kind kind_ = Kind::index;
    std::vector<RecordId> ids_;  // of a heap's rows
    const std::string path_ = make_own_directory("reports");
    std::optional<Store> store_;
};

constexpr uint32_t kRows = 60'000;  // about 16 chunks

// For both kinds.
class ReportsOfBoth : public ReportsTest, public ::testing::WithParamInterface<Kind> {
protected:
    ReportsOfBoth() { kind_ = GetParam(); }
};
inline std::string name_of_kind(const ::testing::TestParamInfo<Kind>& info) {
    return info.param == Kind::index ? "Index" : "Heap";
}

}  // namespace lockstep::sm::reports
