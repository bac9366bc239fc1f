// sort.cc - orders and first rows: each batch becomes a sorted run, and the runs are merged.
//
// Concepts   The rows of several reports are sorted once, and each report has its own count of rows
//            that it may still get (SharedDB, section 3.4).
#include <mutex>
#include <queue>

#include "sm/report/operator.h"
#include "sm/report/row_data.h"

namespace lockstep::sm::report {

namespace {

class SortOperator final : public Operator {
public:
    SortOperator(Nodes nodes, Shared shared)
        : node_(*nodes[0]), shared_(std::move(shared)), heads_(After{this}) {
        for (const PlanNode* const node : nodes) left_.push_back(node->limit);
    }
    Result<Schema> bind(std::span<const Schema* const> inputs) override {
        DCHECK(inputs.size() == 1);
        for (const SortKey& key : node_.sort) {
            const auto column = inputs[0]->find(key.column);
            if (!column) return no_column(key.column);
            keys_.push_back(
                {*column, inputs[0]->fields[*column].kind == ValueKind::text, key.descending});
        }
        return *inputs[0];
    }
    size_t wants() const override { return all_there_ ? kNone : 0; }
    Result<Step> step(const BatchRef& batch) override {
        if (all_there_) return Step{give_all()};
        if (batch) {
            take(batch);
            return Step{};
        }
        all_there_ = true;
        begin_merge();
        return Step{};
    }

private:
    struct Key {
        size_t column;
        bool text, descending;
    };
    // A batch, its rows in order, and the texts of its keys of texts.
    struct Run {
        BatchRef batch;
        std::vector<uint32_t> order;
        std::vector<std::vector<Slice>> texts;
        size_t next = 0;
        uint32_t row() const { return order[next]; }
    };
    // The run whose next row comes later goes down in the heap.
    struct After {
        const SortOperator* sort;
        bool operator()(const Run* a, const Run* b) const {
            return sort->compare(*a, a->row(), *b, b->row()) > 0;
        }
    };

    int compare(const Run& a, uint32_t i, const Run& b, uint32_t j) const {
        size_t text = 0;
        for (const Key& key : keys_) {
            const Lane &x = *a.batch->lanes[key.column], &y = *b.batch->lanes[key.column];
            int order = int{y.is_null(j)} - int{x.is_null(i)};
            if (order == 0 && key.text) order = a.texts[text][i].compare(b.texts[text][j]);
            else if (order == 0)
                order = int{x.values[i] > y.values[j]} - int{x.values[i] < y.values[j]};
            text += key.text;
            if (order != 0) return key.descending ? -order : order;
        }
        return 0;
    }
    // Rows that a report can want, if there is one report.
    size_t limit() const { return shared_.many() ? SIZE_MAX : node_.limit; }

    void assert_state() const {
        DCHECK(!left_.empty() && left_.size() == shared_.sets->reports());
        DCHECK(heads_.size() <= runs_.size());
        DCHECK(all_there_ || heads_.empty());
        for ([[maybe_unused]] const auto& run : runs_) {
            DCHECK(run->order.size() <= run->batch->rows && run->next <= run->order.size());
            DCHECK(run->order.size() <= limit());
        }
    }
    void take(const BatchRef& batch) {
        batch->assert_state();
        runs_.push_back(std::make_unique<Run>(Run{batch, {}, {}}));
        Run& run = *runs_.back();
        {
            const std::lock_guard lock(shared_.texts->mutex);
            for (const Key& key : keys_) {
                if (!key.text) continue;
                std::vector<Slice>& texts = run.texts.emplace_back();
                const Lane& lane = *batch->lanes[key.column];
                for (size_t i = 0; i < batch->rows; ++i)
                    texts.push_back(lane.is_null(i) ? Slice()
                                                    : shared_.texts->text(lane.values[i]));
            }
        }
        run.order.resize(batch->rows);
        for (uint32_t i = 0; i < batch->rows; ++i) run.order[i] = i;
        std::ranges::sort(run.order,
                          [&](uint32_t i, uint32_t j) { return compare(run, i, run, j) < 0; });
        if (run.order.size() > limit()) run.order.resize(limit());
        kept_ += run.order.size();
        if (limit() < SIZE_MAX / 8 && kept_ > 4 * limit() + 16 * kBatchRows) shrink();
    }
    // The first rows of all runs become the only runs.
    void shrink() {
        begin_merge();
        std::vector<BatchRef> rows;
        for (size_t count = 0; count < limit() && !heads_.empty();) {
            rows.push_back(merge(std::min(limit() - count, kBatchRows)));
            count += rows.back()->rows;
        }
        heads_ = decltype(heads_)(After{this});
        runs_.clear();
        kept_ = 0;
        for (const BatchRef& batch : rows) take(batch);
        DCHECK(kept_ <= limit());
        assert_state();
    }
    void begin_merge() {
        for (const auto& run : runs_)
            if (!run->order.empty()) heads_.push(run.get());
    }
    // The next rows in order, at least one.
    BatchRef merge(size_t most) {
        auto out = std::make_shared<Batch>();
        std::vector<std::shared_ptr<Lane>> lanes;
        for (; out->rows < most && !heads_.empty();) {
            Run* const run = heads_.top();
            heads_.pop();
            const Batch& from = *run->batch;
            lanes.resize(from.lanes.size());
            for (size_t i = 0; i < lanes.size(); ++i) {
                if (!lanes[i]) lanes[i] = std::make_shared<Lane>();
                lanes[i]->add(from.lanes[i]->values[run->row()],
                              from.lanes[i]->is_null(run->row()));
            }
            if (shared_.many())
                out->ids.push_back(from.ids.empty() ? IdSets::kAll : from.ids[run->row()]);
            ++out->rows;
            if (++run->next < run->order.size()) heads_.push(run);
        }
        out->lanes.assign(lanes.begin(), lanes.end());
        out->assert_state();
        return out;
    }
    // Of each row the reports whose count is not used up.
    BatchRef limited(const BatchRef& batch) {
        std::vector<uint32_t> rows, ids;
        const std::lock_guard lock(shared_.sets->mutex);
        std::vector<uint64_t> set(shared_.sets->words());
        for (uint32_t i = 0; i < batch->rows; ++i) {
            std::ranges::fill(set, 0);
            shared_.sets->each(batch->ids.empty() ? IdSets::kAll : batch->ids[i], [&](uint32_t id) {
                if (left_[id] == 0) return;
                --left_[id];
                set[id / 64] |= 1ull << id % 64;
            });
            if (const uint32_t number = shared_.sets->number(set); number != IdSets::kEmpty) {
                rows.push_back(i);
                ids.push_back(number);
            }
        }
        DCHECK(rows.size() == ids.size());
        if (rows.empty()) return nullptr;
        if (!shared_.many()) ids.clear();
        return pick(*batch, rows, std::move(ids));
    }
    Step give_all() {
        Step out;
        if (!heads_.empty()) {
            BatchRef rows = merge(kBatchRows);
            if (std::ranges::any_of(left_, [](size_t left) { return left != SIZE_MAX; }))
                rows = limited(rows);
            if (rows) out.made.push_back(std::move(rows));
        }
        const bool over = std::ranges::all_of(left_, [](size_t left) { return left == 0; });
        assert_state();
        if (heads_.empty() || over) out.then = Step::Then::ended;
        return out;
    }

    const PlanNode& node_;
    const Shared shared_;
    std::vector<Key> keys_;
    std::vector<std::unique_ptr<Run>> runs_;
    size_t kept_ = 0;           // rows of runs_
    std::vector<size_t> left_;  // rows that each report may still get
    std::priority_queue<Run*, std::vector<Run*>, After> heads_;
    bool all_there_ = false;
};

// The end of a plan.
class SinkOperator final : public Operator {
public:
    SinkOperator(Shared shared, std::vector<Rows>& rows) : shared_(std::move(shared)), out_(rows) {}
    Result<Schema> bind(std::span<const Schema* const> inputs) override {
        DCHECK(inputs.size() == 1);
        for (size_t i = 0; i < shared_.sets->reports(); ++i) {
            rows_.push_back(std::make_unique<RowData>());
            rows_.back()->schema = *inputs[0];
            rows_.back()->lanes.resize(inputs[0]->fields.size());
            rows_.back()->texts = shared_.texts;
        }
        return *inputs[0];
    }
    size_t wants() const override { return 0; }
    Result<Step> step(const BatchRef& batch) override {
        if (batch) {
            take(*batch);
            return Step{};
        }
        for (auto& rows : rows_) out_.push_back(RowData::make(std::move(rows)));
        return Step{Step::Then::ended};
    }

private:
    static void take_row(const Batch& batch, uint32_t row, RowData& to) {
        DCHECK(row < batch.rows && batch.lanes.size() == to.lanes.size());
        for (size_t i = 0; i < to.lanes.size(); ++i)
            to.lanes[i].add(batch.lanes[i]->values[row], batch.lanes[i]->is_null(row));
        ++to.rows;
    }
    void take(const Batch& batch) {
        DCHECK(batch.table == nullptr);
        if (!shared_.many()) {
            for (uint32_t row = 0; row < batch.rows; ++row) take_row(batch, row, *rows_[0]);
            return;
        }
        const std::lock_guard lock(shared_.sets->mutex);
        for (uint32_t row = 0; row < batch.rows; ++row)
            shared_.sets->each(batch.ids.empty() ? IdSets::kAll : batch.ids[row],
                               [&](uint32_t id) { take_row(batch, row, *rows_[id]); });
    }

    const Shared shared_;
    std::vector<Rows>& out_;
    std::vector<std::unique_ptr<RowData>> rows_;
};

}  // namespace

std::unique_ptr<Operator> make_sort(Nodes nodes, Shared shared) {
    return std::make_unique<SortOperator>(std::move(nodes), std::move(shared));
}
std::unique_ptr<Operator> make_sink(Shared shared, std::vector<Rows>& rows) {
    return std::make_unique<SinkOperator>(std::move(shared), rows);
}

}  // namespace lockstep::sm::report
