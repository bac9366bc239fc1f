// filter.h - conditions on columns: which key ranges can meet them, and which rows of a block do.
//
// Concepts   Each number of an integer column has an ordinal: its place among all numbers of its
//            kind, as uint64_t. A condition on such a column is a list of closed intervals of
//            ordinals. Those on the first parts of a key, if these have fixed widths, also give
//            ranges of keys. The ranges may hold rows that do not meet the conditions, so each
//            block is filtered with all of them.
// Blocking   Never. Allocates.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/report.h>
#include "sm/scan/chunk_reader.h"

namespace lockstep::sm::scan {

// Keys with low <= key < high; an empty high means to the end.
struct KeyRange {
    std::string low, high;
    bool meets(const ChunkRange& chunk) const {
        return (chunk.high.empty() || Slice(low) < chunk.high) &&
               (high.empty() || chunk.low < Slice(high));
    }
};

class Filter {
public:
    // Errors: bad_argument; names the column and what is wrong.
    static Result<Filter> make(const Columns& columns, std::span<const Where> where);
    // Places that it reads, with repetitions.
    std::vector<uint16_t> columns() const;
    // All rows that meet the conditions are in these, which ascend and do not overlap.
    std::vector<KeyRange> ranges(const Columns& columns) const;
    // Does every row meet it?
    bool empty() const { return terms_.empty(); }
    // Sets `rows` to those that meet all conditions, ascending.
    void select(const BlockData& block, std::vector<uint32_t>& rows) const;

private:
    struct Interval {
        uint64_t low, high;
    };
    using Intervals = std::vector<Interval>;
    struct Term {
        uint16_t column;
        ColumnType type;
        Compare compare;
        Intervals intervals = {};  // of all conditions on integers; ascending, disjoint
        std::vector<double> reals = {};
        std::vector<std::string> texts = {};
        bool met_by(Slice text) const;
        bool met_by(double number) const;
    };
    static Intervals meet(const Intervals& a, const Intervals& b);
    static Result<void> bind(Term& term, const Column& column, const Where& where);
    static void bind_integers(Term& term, const Column& column, std::span<const Constant> values);
    void filter_term(const Term& term, const ColumnData& data, std::vector<uint32_t>& rows) const;

    std::vector<Term> terms_;
};

// A block of these rows and columns of another; null: no memory.
std::shared_ptr<const BlockData> pick(const BlockData& from, std::span<const uint16_t> columns,
                                      std::span<const uint32_t> rows);

}  // namespace lockstep::sm::scan
