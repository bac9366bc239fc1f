// join.cc - hash joins: a build that makes a table of one input, a probe that asks it for each row.
#include <mutex>

#include "sm/report/key_table.h"
#include "sm/report/operator.h"
#include "threads/base/try.h"

namespace lockstep::sm::report {

// The rows of a build, chained by key. Never changes, so any number of probes may read it.
class JoinTable {
public:
    static constexpr uint32_t kEnd = UINT32_MAX;

    explicit JoinTable(size_t keys) : keys_(keys) {}
    void add(const Batch& batch, std::span<const size_t> columns) {
        if (rows_.lanes.empty())
            for (size_t i = 0; i < batch.lanes.size(); ++i)
                lanes_.push_back(std::make_shared<Lane>()), rows_.lanes.push_back(lanes_.back());
        std::vector<uint32_t> all(batch.rows);
        for (uint32_t i = 0; i < batch.rows; ++i) all[i] = i;
        for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i]->add_rows(*batch.lanes[i], all);
        rows_.ids.insert(rows_.ids.end(), batch.ids.begin(), batch.ids.end());
        std::vector<int64_t> key(columns.size());
        for (const uint32_t i : all) {
            next_.push_back(kEnd);
            if (!key_of(batch, columns, i, key)) continue;
            const uint32_t number = keys_.add(key.data());
            if (number == first_.size()) first_.push_back(kEnd);
            next_.back() = first_[number];
            first_[number] = static_cast<uint32_t>(next_.size() - 1);
        }
        rows_.rows = next_.size();
        DCHECK(first_.size() == keys_.size());
        assert_state();
    }
    void assert_state() const {
        rows_.assert_state();
        DCHECK(first_.size() == keys_.size() && next_.size() == rows_.rows);
        DCHECK(lanes_.size() == rows_.lanes.size());
    }
    // False: a part of it is null.
    static bool key_of(const Batch& batch, std::span<const size_t> columns, size_t row,
                       std::vector<int64_t>& key) {
        DCHECK(key.size() == columns.size());
        for (size_t i = 0; i < columns.size(); ++i) {
            const Lane& lane = *batch.lanes[columns[i]];
            if (lane.is_null(row)) return false;
            key[i] = lane.values[row];
        }
        return true;
    }
    // The first row with the key and the one behind a row, or kEnd.
    uint32_t find(const std::vector<int64_t>& key) const {
        const uint32_t number = keys_.find(key.data());
        return number == KeyTable::kNone ? kEnd : first_[number];
    }
    uint32_t next(uint32_t row) const {
        DCHECK(row < next_.size() && (next_[row] == kEnd || next_[row] < row));
        return next_[row];
    }
    const Batch& rows() const { return rows_; }
    uint32_t ids(uint32_t row) const { return rows_.ids.empty() ? IdSets::kAll : rows_.ids[row]; }

private:
    KeyTable keys_;
    std::vector<uint32_t> first_, next_;  // of a key, of a row
    std::vector<std::shared_ptr<Lane>> lanes_;
    Batch rows_;
};

namespace {

Result<std::vector<size_t>> places_of(const std::vector<JoinKey>& keys, std::string JoinKey::*side,
                                      const Schema& schema) {
    std::vector<size_t> out;
    for (const JoinKey& key : keys) {
        const auto column = schema.find(key.*side);
        if (!column) return no_column(key.*side);
        out.push_back(*column);
    }
    if (out.empty()) return fail(ErrorCode::bad_argument, "plan: a join without keys");
    return out;
}

// The columns that a join adds: those of `other` with new names. Keys are equal, but for rows
// without a partner.
std::vector<size_t> added(const PlanNode& node, const Schema& rows, const Schema& other,
                          Schema& schema) {
    std::vector<size_t> out;
    schema = rows;
    for (size_t i = 0; i < other.fields.size(); ++i)
        if (!rows.find(other.fields[i].name) &&
            (node.kind == NodeKind::left_join ||
             std::ranges::find(node.keys, other.fields[i].name, &JoinKey::right) ==
                 node.keys.end())) {
            schema.fields.push_back(other.fields[i]);
            out.push_back(i);
        }
    DCHECK(schema.fields.size() == rows.fields.size() + out.size());
    return out;
}

Result<void> check_kinds(const Schema& a, std::span<const size_t> as, const Schema& b,
                         std::span<const size_t> bs) {
    for (size_t i = 0; i < as.size(); ++i)
        if (a.fields[as[i]].kind != b.fields[bs[i]].kind)
            return fail(ErrorCode::bad_argument, "plan: the keys of a join differ in kind");
    return {};
}

class BuildOperator final : public Operator {
public:
    explicit BuildOperator(Nodes nodes) : node_(*nodes[0]) {}
    Result<Schema> bind(std::span<const Schema* const> inputs) override {
        DCHECK(inputs.size() == 1 && !made_);
        columns_ = TRY(places_of(node_.keys, &JoinKey::right, *inputs[0]));
        table_ = std::make_shared<JoinTable>(columns_.size());
        return *inputs[0];
    }
    size_t wants() const override { return 0; }
    Result<Step> step(const BatchRef& batch) override {
        if (batch) {
            table_->add(*batch, columns_);
            return Step{};
        }
        DCHECK(!made_);
        made_ = true;
        auto out = std::make_shared<Batch>();
        out->table = std::move(table_);
        return Step{Step::Then::ended, {std::move(out)}};
    }

private:
    const PlanNode& node_;
    std::vector<size_t> columns_;
    std::shared_ptr<JoinTable> table_;
    bool made_ = false;
};

// Input 0 is the build, input 1 has the rows.
class ProbeOperator final : public Operator {
public:
    ProbeOperator(Nodes nodes, Shared shared) : node_(*nodes[0]), shared_(std::move(shared)) {}
    Result<Schema> bind(std::span<const Schema* const> inputs) override {
        DCHECK(inputs.size() == 2);
        const Schema &other = *inputs[0], &rows = *inputs[1];
        columns_ = TRY(places_of(node_.keys, &JoinKey::left, rows));
        TRY(check_kinds(rows, columns_, other, TRY(places_of(node_.keys, &JoinKey::right, other))));
        key_.resize(columns_.size());
        if (node_.kind == NodeKind::semi_join) return rows;
        Schema out;
        added_ = added(node_, rows, other, out);
        return out;
    }
    size_t wants() const override { return !table_ ? 0 : batch_ ? kNone : 1; }
    Result<Step> step(const BatchRef& batch) override {
        if (!table_) {
            DCHECK(batch != nullptr && batch->table != nullptr);
            table_ = batch->table;
            table_->assert_state();
            return Step{};
        }
        if (!batch_) {
            if (!batch) return Step{Step::Then::ended};
            batch_ = batch;
            row_ = 0;
        }
        return match();
    }

private:
    struct Match {
        uint32_t row, other;
    };
    Result<Step> match() {
        rows_.clear();
        others_.clear();
        ids_.clear();
        {
            std::unique_lock lock(shared_.sets->mutex, std::defer_lock);
            if (shared_.many()) lock.lock();
            for (; row_ < batch_->rows && rows_.size() < kBatchRows; ++row_) match_row();
        }
        Step out;
        if (!rows_.empty()) out.made.push_back(joined());
        DCHECK(rows_.size() == others_.size() && row_ <= batch_->rows);
        DCHECK(ids_.size() == (shared_.many() ? rows_.size() : 0));
        if (row_ == batch_->rows) batch_ = nullptr;
        return out;
    }
    // All partners of a row, so that a batch may become longer than kBatchRows.
    void match_row() {
        IdSets& sets = *shared_.sets;
        const uint32_t wanted = batch_->ids.empty() ? IdSets::kAll : batch_->ids[row_];
        uint32_t met = IdSets::kEmpty;
        if (JoinTable::key_of(*batch_, columns_, row_, key_))
            for (uint32_t at = table_->find(key_); at != JoinTable::kEnd; at = table_->next(at)) {
                const uint32_t both = sets.both(wanted, table_->ids(at));
                if (both == IdSets::kEmpty) continue;
                met = sets.either(met, both);
                if (node_.kind != NodeKind::semi_join) add(at, both);
                else if (met == wanted) break;
            }
        if (node_.kind == NodeKind::semi_join && met != IdSets::kEmpty) add(JoinTable::kEnd, met);
        if (node_.kind != NodeKind::left_join) return;
        if (const uint32_t alone = sets.without(wanted, met); alone != IdSets::kEmpty)
            add(JoinTable::kEnd, alone);
    }
    void add(uint32_t other, uint32_t ids) {
        DCHECK(ids != IdSets::kEmpty);
        rows_.push_back(row_);
        others_.push_back(other);
        if (shared_.many()) ids_.push_back(ids);
    }
    BatchRef joined() {
        auto out = std::make_shared<Batch>(*pick(*batch_, rows_, ids_));
        for (const size_t column : added_) {
            auto lane = std::make_shared<Lane>();
            lane->values.reserve(others_.size());
            // Without any row in the table there is no lane.
            const Lane* const from =
                table_->rows().rows == 0 ? nullptr : table_->rows().lanes[column].get();
            for (const uint32_t other : others_) {
                const bool null = other == JoinTable::kEnd || from->is_null(other);
                lane->add(null ? 0 : from->values[other], null);
            }
            out->lanes.push_back(std::move(lane));
        }
        out->assert_state();
        return out;
    }

    const PlanNode& node_;
    const Shared shared_;
    std::vector<size_t> columns_, added_;
    std::shared_ptr<const JoinTable> table_;
    BatchRef batch_;  // whose rows from row_ on have not been asked for
    uint32_t row_ = 0;
    std::vector<int64_t> key_;
    std::vector<uint32_t> rows_, others_, ids_;  // the matches of a step
};

// Both inputs ascend in the key: 0 has the rows, 1 the others.
class MergeOperator final : public Operator {
public:
    MergeOperator(Nodes nodes, Shared shared) : node_(*nodes[0]), shared_(std::move(shared)) {}
    Result<Schema> bind(std::span<const Schema* const> inputs) override {
        DCHECK(inputs.size() == 2);
        const auto rows = TRY(places_of(node_.keys, &JoinKey::left, *inputs[0]));
        const auto others = TRY(places_of(node_.keys, &JoinKey::right, *inputs[1]));
        TRY(check_kinds(*inputs[0], rows, *inputs[1], others));
        if (inputs[0]->fields[rows[0]].kind == ValueKind::text)
            return fail(ErrorCode::bad_argument, "plan: a merge join of texts");
        sides_[0].column = rows[0];
        sides_[1].column = others[0];
        Schema out;
        added_ = added(node_, *inputs[0], *inputs[1], out);
        lanes_ = inputs[0]->fields.size();
        return out;
    }
    size_t wants() const override {
        for (size_t side : {0u, 1u})
            if (!sides_[side].batch && !sides_[side].ended) return side;
        return kNone;
    }
    Result<Step> step(const BatchRef& batch) override {
        const size_t side = wants();
        if (side != kNone) {
            DCHECK(!sides_[side].batch && !sides_[side].ended);
            if (!batch) sides_[side].ended = true;
            sides_[side].batch = batch;
            sides_[side].row = 0;
            return Step{};
        }
        return merge();
    }

private:
    struct Side {
        size_t column = 0;
        BatchRef batch;  // whose rows from `row` on are left
        size_t row = 0;
        bool ended = false;
        int64_t last = INT64_MIN;
        bool null() const { return batch->lanes[column]->is_null(row); }
        int64_t key() const { return batch->lanes[column]->values[row]; }
    };
    static bool advance(Side& side) {
        if (++side.row == side.batch->rows) side.batch = nullptr;
        return side.batch != nullptr;
    }
    // The next row of the side with a key. False: another batch is needed, or there is none.
    Result<bool> stand(Side& side) {
        while (side.batch && side.null()) advance(side);
        if (!side.batch) return false;
        if (side.key() < side.last)
            return fail(ErrorCode::bad_argument, "plan: an input of a merge join does not ascend");
        side.last = side.key();
        return true;
    }
    // Until an input needs its next batch. Rows of input 1 with the same key are the group.
    Result<Step> merge() {
        std::unique_lock lock(shared_.sets->mutex, std::defer_lock);
        if (shared_.many()) lock.lock();
        Side &left = sides_[0], &right = sides_[1];
        start();
        bool over = false;
        while (made_ < kBatchRows) {
            const bool has_right = TRY(stand(right));
            if (!has_right && !right.ended) break;
            if (!group_.empty() && has_right && right.key() == group_key_) {
                take_right();
                continue;
            }
            const bool has_left = TRY(stand(left));
            if (!has_left) {
                over = left.ended;
                break;
            }
            if (!group_.empty() && left.key() == group_key_) {
                for (const auto& [batch, row] : group_) add_match(*batch, row);
                advance(left);
            } else if (group_.empty() && !has_right) {
                over = true;
                break;
            } else if (group_.empty() && left.key() < right.key()) {
                advance(left);
            } else if (group_.empty() && left.key() > right.key()) {
                advance(right);
            } else if (group_.empty()) {
                group_key_ = right.key();
                take_right();
            } else {
                DCHECK(left.key() > group_key_);
                group_.clear();
            }
        }
        out_->assert_state();
        DCHECK(over || made_ >= kBatchRows || wants() != kNone);
        Step out{over ? Step::Then::ended : Step::Then::again};
        if (made_ != 0) out.made.push_back(std::move(out_));
        return out;
    }
    void take_right() {
        Side& right = sides_[1];
        DCHECK(right.key() == group_key_);
        group_.emplace_back(right.batch, static_cast<uint32_t>(right.row));
        advance(right);
    }
    void start() {
        made_ = 0;
        out_ = std::make_shared<Batch>();
        to_.clear();
        for (size_t i = 0; i < lanes_ + added_.size(); ++i) {
            to_.push_back(std::make_shared<Lane>());
            out_->lanes.push_back(to_.back());
        }
    }
    void add_match(const Batch& other, uint32_t row) {
        const Side& left = sides_[0];
        if (shared_.many()) {
            const auto ids = [](const Batch& batch, size_t at) {
                return batch.ids.empty() ? IdSets::kAll : batch.ids[at];
            };
            const uint32_t both = shared_.sets->both(ids(*left.batch, left.row), ids(other, row));
            if (both == IdSets::kEmpty) return;
            out_->ids.push_back(both);
        }
        for (size_t i = 0; i < lanes_; ++i)
            to_[i]->add(left.batch->lanes[i]->values[left.row],
                        left.batch->lanes[i]->is_null(left.row));
        for (size_t i = 0; i < added_.size(); ++i)
            to_[lanes_ + i]->add(other.lanes[added_[i]]->values[row],
                                 other.lanes[added_[i]]->is_null(row));
        out_->rows = ++made_;
    }

    const PlanNode& node_;
    const Shared shared_;
    Side sides_[2];
    size_t lanes_ = 0, made_ = 0;
    std::vector<size_t> added_;
    std::vector<std::pair<BatchRef, uint32_t>> group_;
    int64_t group_key_ = 0;
    std::shared_ptr<Batch> out_;
    std::vector<std::shared_ptr<Lane>> to_;
};

}  // namespace

std::unique_ptr<Operator> make_build(Nodes nodes, Shared) {
    return std::make_unique<BuildOperator>(std::move(nodes));
}
std::unique_ptr<Operator> make_probe(Nodes nodes, Shared shared) {
    return std::make_unique<ProbeOperator>(std::move(nodes), std::move(shared));
}
std::unique_ptr<Operator> make_merge(Nodes nodes, Shared shared) {
    return std::make_unique<MergeOperator>(std::move(nodes), std::move(shared));
}

}  // namespace lockstep::sm::report
