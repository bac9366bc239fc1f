// plan.cc - writes plans, and says what they are as text.
#include <lockstep/plan.h>

#include <fmt/format.h>

#include "sm/report/plan_node.h"
#include "threads/base/check.h"

namespace lockstep {

namespace {

using sm::report::NodeKind;
using sm::report::PlanNode;

// With its length before it, so that no two lists of names have one text.
void add_name(std::string& out, std::string_view name) {
    out += fmt::format("{}:{};", name.size(), name);
}

void add_where(std::string& out, const std::vector<Where>& where, bool with_constants) {
    out += '[';
    for (const Where& one : where) {
        add_name(out, one.column);
        out += fmt::format("{};", static_cast<int>(one.compare));
        if (!with_constants) continue;
        for (const Constant& c : one.values) {
            out += fmt::format("{},{},{},", static_cast<int>(c.kind()), c.bits(), c.real());
            add_name(out, c.text());
        }
        out += '.';
    }
    out += ']';
}

void add_expr(std::string& out, const Expr& expr) {
    for (const Expr::Step& step : expr.steps()) {
        out += fmt::format("{},{},{},", static_cast<int>(step.op), step.integer, step.real);
        add_name(out, step.column);
    }
    out += '.';
}

std::shared_ptr<const PlanNode> shared(PlanNode node) {
    return std::make_shared<const PlanNode>(std::move(node));
}

}  // namespace

std::string sm::report::describe(const PlanNode& node, bool with_constants) {
    DCHECK((node.kind == NodeKind::scan) == node.inputs.empty());
    std::string out = fmt::format("{}(", static_cast<int>(node.kind));
    for (const auto& input : node.inputs) out += describe(*input, with_constants);
    add_name(out, node.name);
    for (const std::string& column : node.columns) add_name(out, column);
    add_where(out, node.where, with_constants);
    if (node.ordered) out += 'o';
    for (const JoinKey& key : node.keys) {
        add_name(out, key.left);
        add_name(out, key.right);
    }
    add_expr(out, node.expr);
    for (const Aggregate& one : node.aggregates) {
        out += fmt::format("{},", static_cast<int>(one.kind));
        add_expr(out, one.of);
        add_name(out, one.name);
        add_where(out, one.when, true);
    }
    for (const SortKey& key : node.sort) {
        add_name(out, key.column);
        out += key.descending ? '-' : '+';
    }
    if (with_constants) out += fmt::format("{}", node.limit);
    return out + ')';
}

Plan::Plan(std::shared_ptr<const PlanNode> node) : node_(std::move(node)) {
    DCHECK(node_ != nullptr);
}

Plan Plan::above(PlanNode node) const {
    node.inputs.insert(node.inputs.begin(), node_);
    return Plan(shared(std::move(node)));
}

Plan Plan::scan(std::string table, std::vector<std::string> columns, std::vector<Where> where,
                bool ordered) {
    return Plan(shared({.kind = NodeKind::scan,
                        .name = std::move(table),
                        .columns = std::move(columns),
                        .where = std::move(where),
                        .ordered = ordered}));
}

Plan Plan::where(std::vector<Where> conditions) const {
    return above({.kind = NodeKind::where, .where = std::move(conditions)});
}

Plan Plan::compute(std::string name, Expr value) const {
    return above({.kind = NodeKind::compute, .name = std::move(name), .expr = std::move(value)});
}

Plan Plan::join(const Plan& other, std::vector<JoinKey> keys) const {
    return above({.kind = NodeKind::join, .inputs = {other.node_}, .keys = std::move(keys)});
}

Plan Plan::left_join(const Plan& other, std::vector<JoinKey> keys) const {
    return above({.kind = NodeKind::left_join, .inputs = {other.node_}, .keys = std::move(keys)});
}

Plan Plan::semi_join(const Plan& other, std::vector<JoinKey> keys) const {
    return above({.kind = NodeKind::semi_join, .inputs = {other.node_}, .keys = std::move(keys)});
}

Plan Plan::merge_join(const Plan& other, JoinKey key) const {
    return above({.kind = NodeKind::merge_join, .inputs = {other.node_}, .keys = {std::move(key)}});
}

Plan Plan::group(std::vector<std::string> by, std::vector<Aggregate> aggregates) const {
    return above(
        {.kind = NodeKind::group, .columns = std::move(by), .aggregates = std::move(aggregates)});
}

Plan Plan::order(std::vector<SortKey> by) const { return top(SIZE_MAX, std::move(by)); }

Plan Plan::top(size_t rows, std::vector<SortKey> by) const {
    return above({.kind = NodeKind::order, .sort = std::move(by), .limit = rows});
}

}  // namespace lockstep
