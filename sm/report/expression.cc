// expression.cc - a stack of lanes, on which each part of an expression works for all rows.
#include "sm/report/expression.h"

#include "threads/base/error_detail.h"

namespace lockstep::sm::report {

namespace {

struct Operand {
    LaneRef lane;
    ValueKind kind;
};

bool combine(Expr::Op op, int64_t a, int64_t b, int64_t& out) {
    switch (op) {
        case Expr::Op::add: return !__builtin_add_overflow(a, b, &out);
        case Expr::Op::subtract: return !__builtin_sub_overflow(a, b, &out);
        default: DCHECK(op == Expr::Op::multiply); return !__builtin_mul_overflow(a, b, &out);
    }
}
double combine(Expr::Op op, double a, double b) {
    switch (op) {
        case Expr::Op::add: return a + b;
        case Expr::Op::subtract: return a - b;
        default: return a * b;
    }
}
double as_real(int64_t value, ValueKind kind) {
    DCHECK(kind != ValueKind::text);
    return kind == ValueKind::real ? real_of(value) : static_cast<double>(value);
}

// False: a result does not fit.
bool combine(Expr::Op op, const Operand& a, const Operand& b, Lane& out) {
    const size_t rows = a.lane->values.size();
    DCHECK(rows == b.lane->values.size());
    const bool integers = a.kind == ValueKind::integer && b.kind == ValueKind::integer;
    for (size_t i = 0; i < rows; ++i) {
        const int64_t x = a.lane->values[i], y = b.lane->values[i];
        const bool null = a.lane->is_null(i) || b.lane->is_null(i);
        int64_t result = 0;
        if (!integers) result = real_code(combine(op, as_real(x, a.kind), as_real(y, b.kind)));
        else if (!null && !combine(op, x, y, result)) return false;
        out.add(result, null);
    }
    return true;
}

}  // namespace

Result<Expression> Expression::bind(const Expr& expr, const Schema& schema) {
    Expression out;
    std::vector<ValueKind> stack;
    for (const Expr::Step& step : expr.steps()) {
        Part part{.op = step.op, .kind = ValueKind::integer};
        if (step.op == Expr::Op::column) {
            const auto column = schema.find(step.column);
            if (!column) return no_column(step.column);
            part.column = *column;
            part.kind = schema.fields[*column].kind;
            if (part.kind == ValueKind::text)
                return fail_with(ErrorCode::bad_argument, "plan",
                                 "column \"" + step.column + "\" has texts, which do not compute");
        } else if (step.op == Expr::Op::integer) {
            part.value = step.integer;
        } else if (step.op == Expr::Op::real) {
            part.kind = ValueKind::real;
            part.value = real_code(step.real);
        } else {
            DCHECK(stack.size() >= 2);
            if (stack.back() == ValueKind::real) part.kind = ValueKind::real;
            stack.pop_back();
            if (stack.back() == ValueKind::real) part.kind = ValueKind::real;
            stack.pop_back();
        }
        stack.push_back(part.kind);
        out.parts_.push_back(part);
    }
    DCHECK(stack.size() == 1);
    out.kind_ = stack.back();
    return out;
}

Result<LaneRef> Expression::of(const Batch& batch) const {
    std::vector<Operand> stack;
    for (const Part& part : parts_) {
        if (part.op == Expr::Op::column) {
            stack.push_back({batch.lanes[part.column], part.kind});
            continue;
        }
        auto lane = std::make_shared<Lane>();
        if (part.op == Expr::Op::integer || part.op == Expr::Op::real) {
            lane->values.assign(batch.rows, part.value);
        } else {
            DCHECK(stack.size() >= 2);
            const Operand b = std::move(stack.back());
            stack.pop_back();
            if (!combine(part.op, stack.back(), b, *lane)) return overflow();
            stack.pop_back();
        }
        stack.push_back({std::move(lane), part.kind});
    }
    DCHECK(stack.size() == 1 && stack.back().lane->values.size() == batch.rows);
    return std::move(stack.back().lane);
}

}  // namespace lockstep::sm::report
