// group.cc - groups by a hash table.
//
// Concepts   The rows of several reports are grouped once by their keys and the number of their
//            set. At the end each group goes to each report of its set. So a row costs the same for
//            one report and for a thousand (SharedDB, section 3.4, phases 1 and 2).
#include <mutex>

#include "sm/report/conditions.h"
#include "sm/report/expression.h"
#include "sm/report/key_table.h"
#include "threads/base/hints.h"
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
          rows_of_(node_.columns.size() + 1),
          group_of_(shared_.sets->reports(), kNoGroup) {}

    Result<Schema> bind(std::span<const Schema* const> inputs) override {
        DCHECK(inputs.size() == 1);
        Schema schema;
        for (const std::string& name : node_.columns) {
            const auto column = inputs[0]->find(name);
            if (!column) return no_column(name);
            columns_.push_back(*column);
            schema.fields.push_back(inputs[0]->fields[*column]);
        }
        if (columns_.size() > 32) return fail(ErrorCode::bad_argument, "plan: a group by too much");
        for (const Aggregate& one : node_.aggregates) {
            const std::vector<Where>* const when[1] = {&one.when};
            summaries_.push_back({&one, TRY(Expression::bind(one.of, *inputs[0])),
                                  TRY(Conditions::make(when, *inputs[0], alone_))});
            schema.fields.push_back({one.name, summaries_.back().kind()});
        }
        return schema;
    }
    size_t wants() const override { return all_there_ ? kNone : 0; }
    Result<Step> step(const BatchRef& batch) override {
        if (all_there_) return next_ < order_.size() ? spread() : give();
        if (batch) {
            TRY(take(*batch));
            return Step{};
        }
        all_there_ = true;
        sort_entries();
        // Without columns there is a group also of no rows.
        if (columns_.empty())
            for (uint32_t id = 0; id < shared_.sets->reports(); ++id) group_of(0, id);
        return Step{};
    }

private:
    static constexpr uint32_t kNoGroup = UINT32_MAX;
    static constexpr int64_t kSetMask = UINT32_MAX;
    static int64_t null_bit(size_t column) { return static_cast<int64_t>(1ull << (32 + column)); }
    struct Group {
        uint32_t entry, report;  // an entry of rows_of_ with its key
    };
    // Entries with one key, but for the set, one behind the other.
    void sort_entries() {
        const size_t width = columns_.size() + 1;
        KeyTable keys(width);
        std::vector<int64_t> key(width);
        for (uint32_t entry = 0; entry < rows_of_.size(); ++entry) {
            std::copy_n(rows_of_.key(entry), width, key.data());
            key.back() &= ~kSetMask;
            order_.emplace_back(keys.add(key.data()), entry);
        }
        std::ranges::sort(order_);
        DCHECK(order_.size() == rows_of_.size());
    }
    void assert_state() const {
        DCHECK(summaries_.size() == node_.aggregates.size());
        DCHECK(cells_.size() == rows_of_.size() * summaries_.size());
        DCHECK(sums_.size() == groups_.size() * summaries_.size());
        DCHECK(next_ <= order_.size() && given_ <= groups_.size());
        DCHECK(all_there_ || (next_ == 0 && given_ == 0));
    }
    // The group of a report, of the key that is spread now. An entry has that key.
    uint32_t group_of(uint32_t entry, uint32_t report) {
        uint32_t& group = group_of_[report];
        if (group != kNoGroup) return group;
        group = static_cast<uint32_t>(groups_.size());
        groups_.push_back({entry, report});
        sums_.resize(groups_.size() * summaries_.size());
        touched_.push_back(report);
        return group;
    }
    Result<void> take(const Batch& batch) {
        DCHECK(batch.table == nullptr);
        const size_t width = columns_.size() + 1;
        keys_.resize(batch.rows * width);
        for (size_t i = 0; i < batch.rows; ++i)
            keys_[i * width + columns_.size()] = batch.ids.empty() ? IdSets::kAll : batch.ids[i];
        for (size_t k = 0; k < columns_.size(); ++k) {
            const Lane& lane = *batch.lanes[columns_[k]];
            for (size_t i = 0; i < batch.rows; ++i) {
                keys_[i * width + k] = lane.values[i];
                if (lane.is_null(i)) keys_[i * width + columns_.size()] |= null_bit(k);
            }
        }
        at_.resize(batch.rows);
        rows_of_.add_all(keys_, at_);
        cells_.resize(rows_of_.size() * summaries_.size());
        assert_state();
        for (size_t a = 0; a < summaries_.size(); ++a) TRY(add(batch, a));
        return {};
    }
    Result<void> add(const Batch& batch, size_t a) {
        Summary& summary = summaries_[a];
        const LaneRef lane = TRY(summary.expression.of(batch));
        constexpr uint32_t kAhead = 16;
        const auto add_row = [&](uint32_t row) {
            DCHECK(at_[row] * summaries_.size() + a < cells_.size());
            if (row + kAhead < batch.rows)
                prefetch_line_to_write(&cells_[at_[row + kAhead] * summaries_.size() + a]);
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
        bool fits = true;
        for (size_t work = 0; work < kBatchRows && next_ < order_.size(); ++next_) {
            const auto [key, entry] = order_[next_];
            if (next_ > 0 && order_[next_ - 1].first != key) {
                for (const uint32_t report : touched_) group_of_[report] = kNoGroup;
                touched_.clear();
            }
            const Cell* const from = cells_.data() + entry * summaries_.size();
            const auto set = static_cast<uint32_t>(rows_of_.key(entry)[columns_.size()]);
            shared_.sets->each(set, [&](uint32_t report) {
                const uint32_t group = group_of(entry, report);  // which may move sums_
                Cell* const to = sums_.data() + group * summaries_.size();
                for (size_t a = 0; a < summaries_.size(); ++a)
                    if (from[a].count != 0)
                        fits &= summaries_[a].add(to[a], from[a].value, from[a].count);
                ++work;
            });
        }
        if (!fits) return overflow();
        return Step{};
    }
    Result<Step> give() {
        auto out = std::make_shared<Batch>();
        std::vector<std::shared_ptr<Lane>> lanes(columns_.size() + summaries_.size());
        for (auto& lane : lanes) lane = std::make_shared<Lane>();
        const std::lock_guard lock(shared_.sets->mutex);
        std::vector<uint64_t> set(shared_.sets->words());
        for (; out->rows < kBatchRows && given_ < groups_.size(); ++given_, ++out->rows) {
            const auto [entry, report] = groups_[given_];
            const int64_t* const key = columns_.empty() ? nullptr : rows_of_.key(entry);
            for (size_t k = 0; k < columns_.size(); ++k)
                lanes[k]->add(key[k], (key[columns_.size()] & null_bit(k)) != 0);
            for (size_t a = 0; a < summaries_.size(); ++a)
                summaries_[a].give(sums_[given_ * summaries_.size() + a],
                                   *lanes[columns_.size() + a]);
            if (!shared_.many()) continue;
            DCHECK(report < shared_.sets->reports());
            set[report / 64] = 1ull << report % 64;
            out->ids.push_back(shared_.sets->number(set));
            set[report / 64] = 0;
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
    // A key is the values, and a number: a set of reports, and above it a bit for each null value.
    KeyTable rows_of_;
    std::vector<std::pair<uint32_t, uint32_t>> order_;  // number of the key, entry of rows_of_
    std::vector<Group> groups_;
    std::vector<Cell> cells_, sums_;  // of rows_of_, of groups_: a cell for each aggregate
    // Of the key that is spread now: each report's group, and the reports that have one.
    std::vector<uint32_t> group_of_, touched_;
    bool all_there_ = false;
    uint32_t next_ = 0, given_ = 0;
    std::vector<int64_t> keys_;  // of a batch
    std::vector<uint32_t> at_, rows_, ids_;
};

}  // namespace

std::unique_ptr<Operator> make_group(Nodes nodes, Shared shared) {
    return std::make_unique<GroupOperator>(std::move(nodes), std::move(shared));
}

}  // namespace lockstep::sm::report
