// group.cc - groups by a hash table.
//
// Concepts   The rows of several reports are grouped once by their keys and the number of their
//            set. At the end each group goes to each report of its set. So a row costs the same for
//            one report and for a thousand (SharedDB, section 3.4, phases 1 and 2).
#include <mutex>

#include "sm/report/conditions.h"
#include "sm/report/expression.h"
#include "sm/report/key_table.h"
#include "threads/base/try.h"

namespace lockstep::sm::report {

namespace {

using AggregateKind = Aggregate::Kind;

// What is known of an aggregate of one group.
struct Cell {
    int64_t value = 0;  // a sum, or the least or greatest; of reals a code
    int64_t count = 0;
};

// One aggregate of all groups.
struct Summary {
    const Aggregate* aggregate;
    Expression expression;
    Conditions when;
    bool real() const { return expression.kind() == ValueKind::real; }

    // False: a sum does not fit.
    bool add(Cell& cell, int64_t value, int64_t count) const {
        DCHECK(count > 0);
        switch (aggregate->kind) {
            case AggregateKind::count: break;
            case AggregateKind::min:
                if (cell.count == 0 || value < cell.value) cell.value = value;
                break;
            case AggregateKind::max:
                if (cell.count == 0 || value > cell.value) cell.value = value;
                break;
            case AggregateKind::sum:
            case AggregateKind::avg:
                if (real())
                    cell.value =
                        real_code((cell.count == 0 ? 0 : real_of(cell.value)) + real_of(value));
                else if (__builtin_add_overflow(cell.value, value, &cell.value)) return false;
        }
        cell.count += count;
        return true;
    }
    ValueKind kind() const {
        if (aggregate->kind == AggregateKind::count) return ValueKind::integer;
        if (aggregate->kind == AggregateKind::avg) return ValueKind::real;
        return expression.kind();
    }
    void give(const Cell& cell, Lane& lane) const {
        const bool none = cell.count == 0;
        switch (aggregate->kind) {
            case AggregateKind::count: return lane.add(cell.count, false);
            case AggregateKind::sum:
                return lane.add(none && real() ? real_code(0) : cell.value, false);
            case AggregateKind::avg: {
                const double sum = real() ? real_of(cell.value) : static_cast<double>(cell.value);
                return lane.add(none ? 0 : real_code(sum / static_cast<double>(cell.count)), none);
            }
            default: return lane.add(cell.value, none);
        }
    }
};

class GroupOperator final : public Operator {
public:
    GroupOperator(Nodes nodes, Shared shared)
        : node_(*nodes[0]),
          shared_(std::move(shared)),
          alone_{shared_.texts, std::make_shared<IdSets>(1)},
          rows_of_(node_.columns.size() + 2),
          groups_(node_.columns.size() + 2) {}

    Result<Schema> bind(std::span<const Schema* const> inputs) override {
        DCHECK(inputs.size() == 1);
        Schema schema;
        for (const std::string& name : node_.columns) {
            const auto column = inputs[0]->find(name);
            if (!column) return no_column(name);
            columns_.push_back(*column);
            schema.fields.push_back(inputs[0]->fields[*column]);
        }
        if (columns_.size() > 63) return fail(ErrorCode::bad_argument, "plan: a group by too much");
        for (const Aggregate& one : node_.aggregates) {
            const std::vector<Where>* const when[1] = {&one.when};
            summaries_.push_back({&one, TRY(Expression::bind(one.of, *inputs[0])),
                                  TRY(Conditions::make(when, *inputs[0], alone_))});
            schema.fields.push_back({one.name, summaries_.back().kind()});
        }
        key_.resize(columns_.size() + 2);
        return schema;
    }
    size_t wants() const override { return all_there_ ? kNone : 0; }
    Result<Step> step(const BatchRef& batch) override {
        if (all_there_) return next_ < rows_of_.size() ? spread() : give();
        if (batch) {
            TRY(take(*batch));
            return Step{};
        }
        all_there_ = true;
        // Without columns there is a group also of no rows.
        if (columns_.empty()) {
            for (uint32_t id = 0; id < shared_.sets->reports(); ++id) group_of({}, id);
        }
        return Step{};
    }

private:
    void assert_state() const {
        DCHECK(key_.size() == columns_.size() + 2 && summaries_.size() == node_.aggregates.size());
        DCHECK(cells_.size() == rows_of_.size() * summaries_.size());
        DCHECK(sums_.size() == groups_.size() * summaries_.size());
        DCHECK(next_ <= rows_of_.size() && given_ <= groups_.size());
        DCHECK(all_there_ || (next_ == 0 && given_ == 0));
    }
    // The number of a group in `table`, with room for its cells in `cells`.
    uint32_t number_of(KeyTable& table, std::vector<Cell>& cells) {
        const uint32_t number = table.add(key_.data());
        if (cells.size() < table.size() * summaries_.size())
            cells.resize(table.size() * summaries_.size());
        return number;
    }
    // Of keys and nulls as they stand in a key of rows_of_, for one report.
    uint32_t group_of(std::span<const int64_t> key, uint32_t id) {
        std::ranges::fill(key_, 0);
        std::ranges::copy(key, key_.begin());
        key_.back() = id;
        return number_of(groups_, sums_);
    }
    Result<void> take(const Batch& batch) {
        DCHECK(batch.table == nullptr);
        at_.resize(batch.rows);
        for (size_t i = 0; i < batch.rows; ++i) {
            int64_t nulls = 0;
            for (size_t k = 0; k < columns_.size(); ++k) {
                const Lane& lane = *batch.lanes[columns_[k]];
                key_[k] = lane.values[i];
                nulls |= static_cast<int64_t>(lane.is_null(i)) << k;
            }
            key_[columns_.size()] = nulls;
            key_.back() = batch.ids.empty() ? IdSets::kAll : batch.ids[i];
            at_[i] = number_of(rows_of_, cells_);
        }
        assert_state();
        for (size_t a = 0; a < summaries_.size(); ++a) TRY(add(batch, a));
        return {};
    }
    Result<void> add(const Batch& batch, size_t a) {
        Summary& summary = summaries_[a];
        const LaneRef lane = TRY(summary.expression.of(batch));
        const auto add_row = [&](uint32_t row) {
            DCHECK(at_[row] * summaries_.size() + a < cells_.size());
            return lane->is_null(row) ||
                   summary.add(cells_[at_[row] * summaries_.size() + a], lane->values[row], 1);
        };
        if (summary.when.empty()) {
            for (uint32_t row = 0; row < batch.rows; ++row)
                if (!add_row(row)) return overflow();
            return {};
        }
        Batch without = batch;
        without.ids.clear();
        summary.when.select(without, alone_, rows_, ids_);
        for (const uint32_t row : rows_)
            if (!add_row(row)) return overflow();
        return {};
    }
    // Some groups of rows to the groups of their reports.
    Result<Step> spread() {
        assert_state();
        const std::lock_guard lock(shared_.sets->mutex);
        std::vector<uint32_t> ids;
        for (size_t work = 0; work < kBatchRows && next_ < rows_of_.size(); ++next_) {
            const int64_t* const key = rows_of_.key(next_);
            const std::span<const int64_t> columns(key, columns_.size() + 1);
            ids.clear();
            shared_.sets->each(static_cast<uint32_t>(key[columns_.size() + 1]),
                               [&](uint32_t id) { ids.push_back(id); });
            for (const uint32_t id : ids) {
                const uint32_t to = group_of(columns, id);
                for (size_t a = 0; a < summaries_.size(); ++a) {
                    const Cell& from = cells_[next_ * summaries_.size() + a];
                    if (from.count != 0 && !summaries_[a].add(sums_[to * summaries_.size() + a],
                                                              from.value, from.count))
                        return overflow();
                }
            }
            work += ids.size();
        }
        return Step{};
    }
    Result<Step> give() {
        auto out = std::make_shared<Batch>();
        std::vector<std::shared_ptr<Lane>> lanes(columns_.size() + summaries_.size());
        for (auto& lane : lanes) lane = std::make_shared<Lane>();
        const std::lock_guard lock(shared_.sets->mutex);
        std::vector<uint64_t> set(shared_.sets->words());
        for (; out->rows < kBatchRows && given_ < groups_.size(); ++given_, ++out->rows) {
            const int64_t* const key = groups_.key(given_);
            for (size_t k = 0; k < columns_.size(); ++k)
                lanes[k]->add(key[k], (key[columns_.size()] >> k & 1) != 0);
            for (size_t a = 0; a < summaries_.size(); ++a)
                summaries_[a].give(sums_[given_ * summaries_.size() + a],
                                   *lanes[columns_.size() + a]);
            if (!shared_.many()) continue;
            const auto id = static_cast<size_t>(key[columns_.size() + 1]);
            DCHECK(id < shared_.sets->reports());
            set[id / 64] = 1ull << id % 64;
            out->ids.push_back(shared_.sets->number(set));
            set[id / 64] = 0;
        }
        out->lanes.assign(lanes.begin(), lanes.end());
        out->assert_state();
        assert_state();
        Step step{given_ == groups_.size() ? Step::Then::ended : Step::Then::again};
        if (out->rows != 0) step.made.push_back(std::move(out));
        return step;
    }

    const PlanNode& node_;
    const Shared shared_, alone_;  // alone_: for conditions that all reports have
    std::vector<size_t> columns_;
    std::vector<Summary> summaries_;
    // A key is the values, a bit for each that is null, and a set of reports or a report.
    KeyTable rows_of_, groups_;
    std::vector<Cell> cells_, sums_;  // of these: a cell for each aggregate
    bool all_there_ = false;
    uint32_t next_ = 0, given_ = 0;
    std::vector<int64_t> key_;
    std::vector<uint32_t> at_, rows_, ids_;
};

}  // namespace

std::unique_ptr<Operator> make_group(Nodes nodes, Shared shared) {
    return std::make_unique<GroupOperator>(std::move(nodes), std::move(shared));
}

}  // namespace lockstep::sm::report
