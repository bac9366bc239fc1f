// plan_node.h - the tree behind a Plan, its signature and its shape.
//
// Concepts   Equal *signatures* compute equal rows of one state. Plans of one *shape* differ in
//            constants of conditions and in the number of rows of a top() only: they are reports of
//            one type, which can run as one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/plan.h>

namespace lockstep::sm::report {

enum class NodeKind : uint8_t {
    scan,
    where,
    compute,
    join,
    left_join,
    semi_join,
    merge_join,
    group,
    order
};

struct PlanNode {
    NodeKind kind;
    std::vector<std::shared_ptr<const PlanNode>> inputs = {};  // of a join: the rows, the other
    std::string name = {};                  // of the table, or of the computed column
    std::vector<std::string> columns = {};  // of a scan, or by which a group is made
    std::vector<Where> where = {};
    bool ordered = false;
    std::vector<JoinKey> keys = {};
    Expr expr = 0;
    std::vector<Aggregate> aggregates = {};
    std::vector<SortKey> sort = {};
    size_t limit = SIZE_MAX;
};

// The whole tree as text; with_constants: the signature, without: the shape.
std::string describe(const PlanNode& node, bool with_constants);

}  // namespace lockstep::sm::report
