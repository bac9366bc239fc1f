// operators_test_util.h - operators over tables in memory that the test can hold back, and a slow
// evaluation that their answers must equal.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "sm/report/flow.h"
#include "threads/runtime/runtime.h"

namespace lockstep::sm::report::in_memory {

using Value = std::optional<int64_t>;
using Row = std::vector<Value>;

inline bool meets(const Value& value, const Where& where) {
    if (!value) return false;
    const auto constant = [&](size_t i) { return static_cast<int64_t>(where.values[i].bits()); };
    switch (where.compare) {
        case Compare::less: return *value < constant(0);
        case Compare::at_most: return *value <= constant(0);
        case Compare::greater: return *value > constant(0);
        case Compare::at_least: return *value >= constant(0);
        default:
            for (size_t i = 0; i < where.values.size(); ++i)
                if (*value == constant(i)) return true;
            return false;
    }
}
inline Schema integers(const std::vector<std::string>& names) {
    Schema out;
    for (const std::string& name : names) out.fields.push_back({name, ValueKind::integer});
    return out;
}

// A table of integers. Scans of it get its rows in batches, as many as were released.
struct Table {
    std::vector<std::string> names;
    std::vector<Row> rows = {};
    size_t batch = 100;
    Mutex mutex = {};
    size_t released = SIZE_MAX;  // batches of each scan; under mutex, as `ready`
    std::map<const void*, std::function<void()>> ready = {};
    std::atomic<size_t> scans{0}, pulled{0};

    void release(size_t batches) {
        const std::lock_guard lock(mutex);
        released = batches;
        for (const auto& [source, call] : ready) call();
    }
};

class TableSource final : public Source {
public:
    TableSource(Table& table, const ScanOptions& options, bool filtered) : table_(table) {
        ++table.scans;
        const Schema all = integers(table.names);
        schema_ = options.columns.empty() ? all : integers(options.columns);
        for (const Row& row : table.rows) {
            const bool wanted =
                !filtered || std::ranges::all_of(options.where, [&](const Where& where) {
                    return meets(row[*all.find(where.column)], where);
                });
            if (!wanted) continue;
            Row& mine = rows_.emplace_back();
            for (const Field& field : schema_.fields) mine.push_back(row[*all.find(field.name)]);
        }
    }
    ~TableSource() override {
        const std::lock_guard lock(table_.mutex);
        table_.ready.erase(this);
    }
    const Schema& schema() const override { return schema_; }
    Result<Pull> pull(BatchRef& out) override {
        const std::lock_guard lock(table_.mutex);
        if (next_ == rows_.size()) return Pull::ended;
        if (batches_ >= table_.released) return Pull::pending;
        ++batches_;
        ++table_.pulled;
        auto batch = std::make_shared<Batch>();
        const size_t end = std::min(rows_.size(), next_ + table_.batch);
        batch->rows = end - next_;
        for (size_t c = 0; c < schema_.fields.size(); ++c) {
            auto lane = std::make_shared<Lane>();
            for (size_t i = next_; i < end; ++i)
                lane->add(rows_[i][c].value_or(0), !rows_[i][c].has_value());
            batch->lanes.push_back(std::move(lane));
        }
        next_ = end;
        out = std::move(batch);
        return Pull::rows;
    }
    void watch(std::function<void()> ready) override {
        const std::lock_guard lock(table_.mutex);
        table_.ready[this] = std::move(ready);
    }
    double progress() const override {
        return static_cast<double>(next_) / static_cast<double>(std::max<size_t>(rows_.size(), 1));
    }

private:
    Table& table_;
    Schema schema_;
    std::vector<Row> rows_;
    size_t next_ = 0, batches_ = 0;
};

class OperatorsTest : public ::testing::Test {
protected:
    void SetUp() override { open(true); }
    void TearDown() override {
        if (runtime_) runtime_->stop();
    }
    void open(bool resolve_deadlocks) {
        if (runtime_) runtime_->stop();
        runtime_ = *threads::Runtime::start({.workers = 2});
        operators_ = std::make_shared<Operators>(Place{
            .start = [this](std::function<void()> serve) -> Result<void> {
                const auto spawned =
                    runtime_->spawn(next_worker_++ % 2, "operators", std::move(serve));
                if (!spawned) return std::unexpected(spawned.error());
                return {};
            },
            .make_pacer = [this] { return scan::Pacer(1, budgets_[threads::worker_index()]); },
            .workers = 2,
            .resolve_deadlocks = resolve_deadlocks});
    }
    Table& table(const std::string& name, std::vector<std::string> columns) {
        auto& table = tables_[name];
        table = std::make_unique<Table>();
        table->names = std::move(columns);
        return *table;
    }
    // Of the state with this number.
    Reads reads(size_t state = 0) {
        return {.state = std::shared_ptr<const void>(std::shared_ptr<void>(), &states_[state]),
                .scan = [this](const ScanOptions& options, const std::string& name,
                               const std::shared_ptr<Texts>&) -> Result<std::shared_ptr<Source>> {
                    const auto at = tables_.find(name);
                    if (at == tables_.end()) return fail(ErrorCode::no_such_object, "table");
                    return std::make_shared<TableSource>(*at->second, options, true);
                }};
    }
    Result<std::vector<Rows>> answers(const std::vector<Plan>& plans,
                                      const AnswerOptions& options = {}, size_t state = 0) {
        return operators_->answer(plans, reads(state), options);
    }
    // Rows of an answer of integers, sorted unless `ordered`.
    static std::vector<Row> rows_of(const Rows& rows, bool ordered = false) {
        std::vector<Row> out(rows.rows());
        for (size_t i = 0; i < rows.rows(); ++i)
            for (size_t c = 0; c < rows.columns(); ++c)
                out[i].push_back(rows.is_null(i, c) ? Value() : Value(rows.integer(i, c)));
        if (!ordered) std::ranges::sort(out);
        return out;
    }
    std::vector<Row> answer(const Plan& plan, const AnswerOptions& options = {}) {
        auto rows = answers({plan}, options);
        EXPECT_TRUE(rows) << rows.error().text();
        return rows ? rows_of((*rows)[0]) : std::vector<Row>();
    }

    std::unique_ptr<threads::Runtime> runtime_;
    std::shared_ptr<Operators> operators_;
    std::map<std::string, std::unique_ptr<Table>> tables_;
    const char states_[4] = {};
    std::atomic<uint32_t> next_worker_ = 0;
    scan::Budget budgets_[2];
};

}  // namespace lockstep::sm::report::in_memory
