// scan_filter.cc - the operators that take rows one by one: scan, filter and compute.
#include <algorithm>
#include <mutex>

#include "sm/report/conditions.h"
#include "sm/report/expression.h"
#include "sm/report/operator.h"
#include "threads/base/try.h"

namespace lockstep::sm::report {

namespace {

std::vector<const std::vector<Where>*> conditions_of(const Nodes& nodes) {
    std::vector<const std::vector<Where>*> out;
    for (const PlanNode* const node : nodes) out.push_back(&node->where);
    return out;
}

class ScanOperator final : public Operator {
public:
    ScanOperator(Nodes nodes, Shared shared, std::shared_ptr<Source> source)
        : nodes_(std::move(nodes)), shared_(std::move(shared)), source_(std::move(source)) {
        DCHECK(!nodes_.empty() && source_ != nullptr);
    }
    Result<Schema> bind(std::span<const Schema* const> inputs) override {
        DCHECK(inputs.empty());
        Schema schema = source_->schema();
        // Of one report, the source has applied them.
        if (shared_.many())
            conditions_ = TRY(Conditions::make(conditions_of(nodes_), schema, shared_));
        // Columns behind these are there for the conditions only.
        if (const size_t named = nodes_[0]->columns.size(); named != 0) schema.fields.resize(named);
        columns_ = schema.fields.size();
        return schema;
    }
    size_t wants() const override { return kNone; }
    Result<Step> step(const BatchRef&) override {
        BatchRef rows;
        switch (TRY(source_->pull(rows))) {
            case Source::Pull::ended: return Step{Step::Then::ended};
            case Source::Pull::pending: return Step{Step::Then::pending};
            case Source::Pull::rows: break;
        }
        Step out;
        rows->assert_state();
        DCHECK(rows->lanes.size() == source_->schema().fields.size() && rows->rows > 0);
        if (shared_.many()) {
            const std::lock_guard lock(shared_.sets->mutex);
            if (shared_.sets->full()) return fail(ErrorCode::out_of_memory, "sets of reports");
        }
        if ((rows = select(conditions_, rows, shared_, columns_))) out.made.push_back(rows);
        return out;
    }
    double progress() const override { return source_->progress(); }

private:
    const Nodes nodes_;
    const Shared shared_;
    const std::shared_ptr<Source> source_;
    Conditions conditions_;
    size_t columns_ = 0;
};

class FilterOperator final : public Operator {
public:
    FilterOperator(Nodes nodes, Shared shared)
        : nodes_(std::move(nodes)), shared_(std::move(shared)) {}
    Result<Schema> bind(std::span<const Schema* const> inputs) override {
        DCHECK(inputs.size() == 1);
        conditions_ = TRY(Conditions::make(conditions_of(nodes_), *inputs[0], shared_));
        return *inputs[0];
    }
    size_t wants() const override { return 0; }
    Result<Step> step(const BatchRef& batch) override {
        if (!batch) return Step{Step::Then::ended};
        Step out;
        if (BatchRef rows = select(conditions_, batch, shared_)) out.made.push_back(rows);
        return out;
    }

private:
    const Nodes nodes_;
    const Shared shared_;
    Conditions conditions_;
};

class ComputeOperator final : public Operator {
public:
    explicit ComputeOperator(Nodes nodes) : node_(*nodes[0]) {
        DCHECK(node_.kind == NodeKind::compute);
    }
    Result<Schema> bind(std::span<const Schema* const> inputs) override {
        DCHECK(inputs.size() == 1);
        Schema schema = *inputs[0];
        if (schema.find(node_.name))
            return fail(ErrorCode::bad_argument, "plan: a computed column has a name twice");
        expression_ = TRY(Expression::bind(node_.expr, schema));
        schema.fields.push_back({node_.name, expression_.kind()});
        return schema;
    }
    size_t wants() const override { return 0; }
    Result<Step> step(const BatchRef& batch) override {
        if (!batch) return Step{Step::Then::ended};
        auto out = std::make_shared<Batch>(*batch);
        out->lanes.push_back(TRY(expression_.of(*batch)));
        out->assert_state();
        return Step{.made = {std::move(out)}};
    }

private:
    const PlanNode& node_;
    Expression expression_;
};

// True: the constant is an integer that a range can be made of.
bool has_range(const Where& where) {
    return where.compare != Compare::prefix && !where.values.empty() &&
           std::ranges::all_of(where.values, [](const Constant& c) {
               return c.kind() == Constant::Kind::natural || c.kind() == Constant::Kind::negative;
           });
}
bool less(const Constant& a, const Constant& b) {
    const bool negative = a.kind() == Constant::Kind::negative;
    if (negative != (b.kind() == Constant::Kind::negative)) return negative;
    return a.bits() < b.bits();
}

}  // namespace

std::vector<Where> pushed_down(const Nodes& nodes) {
    std::vector<Where> out;
    DCHECK(!nodes.empty());
    for (size_t i = 0; i < nodes[0]->where.size(); ++i) {
        const Where& first = nodes[0]->where[i];
        std::vector<Constant> all;
        bool ranges = true;
        for (const PlanNode* const node : nodes) {
            const Where& where = node->where[i];
            DCHECK(where.column == first.column && where.compare == first.compare);
            ranges &= has_range(where);
            all.insert(all.end(), where.values.begin(), where.values.end());
        }
        if (nodes.size() == 1) out.push_back(first);
        if (nodes.size() == 1 || !ranges) continue;
        const auto [least, most] = std::ranges::minmax_element(all, less);
        const bool below = first.compare == Compare::less || first.compare == Compare::at_most,
                   above = first.compare == Compare::greater || first.compare == Compare::at_least;
        if (!below)
            out.push_back({first.column, above ? first.compare : Compare::at_least, {*least}});
        if (!above)
            out.push_back({first.column, below ? first.compare : Compare::at_most, {*most}});
    }
    return out;
}

std::unique_ptr<Operator> make_scan(Nodes nodes, Shared shared, std::shared_ptr<Source> source) {
    return std::make_unique<ScanOperator>(std::move(nodes), std::move(shared), std::move(source));
}
std::unique_ptr<Operator> make_filter(Nodes nodes, Shared shared) {
    return std::make_unique<FilterOperator>(std::move(nodes), std::move(shared));
}
std::unique_ptr<Operator> make_compute(Nodes nodes, Shared) {
    return std::make_unique<ComputeOperator>(std::move(nodes));
}

}  // namespace lockstep::sm::report
