// expression.h - computes an Expr for the rows of a batch.
#pragma once

#include <vector>

#include "sm/report/operator.h"

namespace lockstep::sm::report {

class Expression {
public:
    // Errors: bad_argument: no such column, or one of texts.
    static Result<Expression> bind(const Expr& expr, const Schema& schema);
    ValueKind kind() const { return kind_; }
    // Error: bad_argument: a result does not fit 64 bits.
    Result<LaneRef> of(const Batch& batch) const;

private:
    struct Part {
        Expr::Op op;
        ValueKind kind;  // of the result
        size_t column = 0;
        int64_t value = 0;  // of a constant, as a lane has it
    };
    std::vector<Part> parts_;
    ValueKind kind_ = ValueKind::integer;
};

}  // namespace lockstep::sm::report
