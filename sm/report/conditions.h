// conditions.h - the conditions of some reports on the rows of batches, one index a column.
#pragma once

#include <span>
#include <vector>

#include "sm/report/operator.h"
#include "sm/report/predicate_index.h"

namespace lockstep::sm::report {

class Conditions {
public:
    // of[q]: those of report q, which differ in constants only. It keeps pointers to them. Errors:
    // bad_argument.
    static Result<Conditions> make(std::span<const std::vector<Where>* const> of,
                                   const Schema& schema, const Shared& shared);
    bool empty() const { return indexes_.empty(); }
    // Sets `rows` to those that any report wants, and `ids` to the sets of these.
    void select(const Batch& batch, const Shared& shared, std::vector<uint32_t>& rows,
                std::vector<uint32_t>& ids);

private:
    struct OfColumn {
        size_t column;
        PredicateIndex index;
    };
    std::vector<OfColumn> indexes_;
    std::vector<uint32_t> all_;
};

// A batch of the rows that any report wants, with the first lanes only; null: there are none.
BatchRef select(Conditions& conditions, const BatchRef& batch, const Shared& shared,
                size_t lanes = SIZE_MAX);

}  // namespace lockstep::sm::report
