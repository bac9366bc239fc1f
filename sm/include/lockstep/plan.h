// plan.h - plans of reports: scans, joins, groups and orders over the columns of a store.
//
// Concepts   A plan is a tree of operators: a scan of an index or heap, and what is done with its
//            rows. It is written from the scan upwards:
//                Plan::scan("order_line", {"ol_number", "ol_amount"}, {{"ol_quantity", ...}})
//                    .group({"ol_number"}, {Aggregate::sum(col("ol_amount"), "amount")})
//                    .order({{"ol_number"}});
//            Columns have names; rows are numbers (integers, decimals and times are 64-bit
//            integers), floating-point numbers and texts. A row without a value meets no condition
//            and no key of a join. In a group such rows are one group, in an order they come first.
//            Report::answer() computes plans. Each kind of operator is a stage with a few user
//            threads, which work for all reports; buffers between operators are bounded.
// Sharing    What reports share, by name: `none`; `pipeline`: a plan with an operator that another
//            one of the same state computes just now takes its rows from there (QPipe); `cycle`:
//            reports that differ in constants only wait for the end of those that run, and then run
//            as one, whose rows carry the set of reports that want them (SharedDB).
// Source     S. Harizopoulos, "Staged Database Systems", 2005, chapter 4. G. Giannikis et al.,
//            "SharedDB", VLDB 2012.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/report.h>

namespace lockstep {

namespace sm::report {
struct PlanNode;
struct RowData;
class Operators;
}  // namespace sm::report

// A computation on the columns of one row: +, - and * of columns and constants. A result is an
// integer if all of it is; one that does not fit 64 bits is an error of the report. Null if a
// column of it is null.
class Expr {
public:
    // What one step does: a column or a constant is put on a stack, the others take two from it.
    enum class Op : uint8_t { column, integer, real, add, subtract, multiply };
    // One step. Plain data.
    struct Step {
        Op op;
        int64_t integer = 0;
        double real = 0;
        std::string column = {};
    };
    // A constant.
    Expr(int64_t value) : steps_{{Op::integer, value}} {}
    Expr(int value) : Expr(int64_t{value}) {}
    Expr(double value) : steps_{{Op::real, 0, value}} {}
    // The column of this name.
    static Expr column(std::string name) { return Expr({Op::column, 0, 0, std::move(name)}); }
    // In postfix order. Valid as long as the expression.
    std::span<const Step> steps() const { return steps_; }
    // Of two results.
    friend Expr operator+(Expr a, const Expr& b) { return std::move(a).with(b, Op::add); }
    friend Expr operator-(Expr a, const Expr& b) { return std::move(a).with(b, Op::subtract); }
    friend Expr operator*(Expr a, const Expr& b) { return std::move(a).with(b, Op::multiply); }

private:
    explicit Expr(Step step) : steps_{std::move(step)} {}
    Expr with(const Expr& b, Op op) && {
        steps_.insert(steps_.end(), b.steps_.begin(), b.steps_.end());
        steps_.push_back({op});
        return std::move(*this);
    }

    std::vector<Step> steps_;
};
// The column of this name.
inline Expr col(std::string name) { return Expr::column(std::move(name)); }

// What a group computes of its rows, and the name of the result. Rows where `of` is null, or that
// do not meet all of `when`, do not count. Of no rows sum and count are 0, the others null.
struct Aggregate {
    // avg is a floating-point number, count an integer; the others are of the kind of `of`.
    enum class Kind : uint8_t { sum, count, min, max, avg } kind;
    Expr of;
    std::string name;
    std::vector<Where> when = {};
    // Each of a computation, with the conditions of a case.
    static Aggregate sum(Expr of, std::string name, std::vector<Where> when = {}) {
        return {Kind::sum, std::move(of), std::move(name), std::move(when)};
    }
    static Aggregate min(Expr of, std::string name, std::vector<Where> when = {}) {
        return {Kind::min, std::move(of), std::move(name), std::move(when)};
    }
    static Aggregate max(Expr of, std::string name, std::vector<Where> when = {}) {
        return {Kind::max, std::move(of), std::move(name), std::move(when)};
    }
    static Aggregate avg(Expr of, std::string name, std::vector<Where> when = {}) {
        return {Kind::avg, std::move(of), std::move(name), std::move(when)};
    }
    // Of rows.
    static Aggregate count(std::string name, std::vector<Where> when = {}) {
        return {Kind::count, Expr(1), std::move(name), std::move(when)};
    }
};

// A column of an order.
struct SortKey {
    std::string column;
    bool descending = false;
};

// Columns of two inputs that must be equal: of the rows that go on, and of the other input.
struct JoinKey {
    std::string left, right;
};

// A plan, or a part of one. A value: copies share the tree, which never changes. Nothing is checked
// before Report::answer().
class Plan {
public:
    // The rows of an index or heap. Columns and conditions as ScanOptions has them; `ordered`: in
    // the order of the keys, as a merge join needs it.
    static Plan scan(std::string table, std::vector<std::string> columns,
                     std::vector<Where> where = {}, bool ordered = false);
    // Rows that meet all conditions.
    Plan where(std::vector<Where> conditions) const;
    // One column more.
    Plan compute(std::string name, Expr value) const;
    // Each row with each row of `other` that has the same keys, and that row's columns whose names
    // are new, without its keys. left_join: with its keys, and a row without a partner once, with
    // nulls. semi_join: a row that has a partner once, without its columns. `other` is kept in
    // memory.
    Plan join(const Plan& other, std::vector<JoinKey> keys) const;
    Plan left_join(const Plan& other, std::vector<JoinKey> keys) const;
    Plan semi_join(const Plan& other, std::vector<JoinKey> keys) const;
    // As join(), but both inputs ascend in the key, and neither is kept in memory.
    Plan merge_join(const Plan& other, JoinKey key) const;
    // One row for each combination of values of `by`, with these and the aggregates. Without `by`:
    // one row. Without aggregates: rows that differ.
    Plan group(std::vector<std::string> by, std::vector<Aggregate> aggregates = {}) const;
    // All rows in this order; rows that are equal in it in any. top: the first `rows` of them.
    Plan order(std::vector<SortKey> by) const;
    Plan top(size_t rows, std::vector<SortKey> by) const;

private:
    friend class Report;
    friend class sm::report::Operators;
    explicit Plan(std::shared_ptr<const sm::report::PlanNode> node);
    Plan above(sm::report::PlanNode node) const;

    std::shared_ptr<const sm::report::PlanNode> node_;
};

// What reports share beyond the passes of their scans; see the head of this file.
enum class Sharing : uint8_t { none, pipeline, cycle };

// How Report::answer() computes.
struct AnswerOptions {
    Sharing sharing = Sharing::pipeline;
    // Reports that differ in constants only run as one from this many on, else one by one. Two as
    // one cost about as much CPU time as one by one, four 0.5 to 0.7 of it.
    size_t together_min = 4;
    // Of the scans, as ScanOptions::policy.
    ScanPolicy policy = ScanPolicy::automatic;
};

// The rows of an answer. Movable. Reading is safe from any thread and never blocks.
class Rows {
public:
    // No rows, no columns.
    Rows();
    ~Rows();
    Rows(Rows&&) noexcept;
    Rows& operator=(Rows&&) noexcept;

    // What the values of a column are.
    enum class Kind : uint8_t { integer, real, text };
    // Rows and columns.
    size_t rows() const;
    size_t columns() const;
    // Of a column. Valid as long as the rows.
    std::string_view name(size_t column) const;
    Kind kind(size_t column) const;
    // A value of a column of the kind; another kind stops the program. Of a null: 0 or empty. A
    // text is valid as long as the rows.
    int64_t integer(size_t row, size_t column) const;
    double real(size_t row, size_t column) const;
    Slice text(size_t row, size_t column) const;
    // Whether a row has no value there.
    bool is_null(size_t row, size_t column) const;

private:
    friend struct sm::report::RowData;
    std::unique_ptr<const sm::report::RowData> data_;
};

}  // namespace lockstep
