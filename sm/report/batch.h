// batch.h - what flows between operators: some rows as lanes of 64-bit numbers.
//
// Concepts   A *lane* has one number for each row: an integer, a floating-point number as an
//            integer of the same order (real_code), or the number of a text (texts.h). So joins,
//            groups and orders know integers only. A lane is shared by all batches that have it.
//            *ids*: for each row the number of the set of reports that want it (id_sets.h). A batch
//            without ids belongs to one report, or all reports want all its rows.
// Invariants RO-1 All lanes of a batch, and its ids, have one entry a row; no row has the empty
//                 set. [checked: assert_state()]
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/plan.h>
#include "threads/base/check.h"

namespace lockstep::sm::report {

// Rows of a batch, but for the last ones of a join's matches.
inline constexpr size_t kBatchRows = 2048;

using ValueKind = Rows::Kind;

// The order of floating-point numbers as that of integers; both zeros are one.
inline int64_t real_code(double value) {
    const auto bits = std::bit_cast<int64_t>(value == 0 ? 0.0 : value);
    return bits < 0 ? bits ^ INT64_MAX : bits;
}
inline double real_of(int64_t code) {
    return std::bit_cast<double>(code < 0 ? code ^ INT64_MAX : code);
}

struct Lane {
    std::vector<int64_t> values;
    std::vector<uint8_t> nulls;  // empty: none is
    bool is_null(size_t row) const { return !nulls.empty() && nulls[row] != 0; }
    void add(int64_t value, bool null) {
        values.push_back(null ? 0 : value);
        if (!nulls.empty() || null) nulls.resize(values.size());
        if (null) nulls.back() = 1;
    }
    // The values of the rows `from` that `rows` names.
    void add_rows(const Lane& from, std::span<const uint32_t> rows) {
        if (!from.nulls.empty() || !nulls.empty()) {
            for (const uint32_t row : rows) add(from.values[row], from.is_null(row));
            return;
        }
        values.reserve(values.size() + rows.size());
        for (const uint32_t row : rows) values.push_back(from.values[row]);
    }
};
using LaneRef = std::shared_ptr<const Lane>;

struct Field {
    std::string name;
    ValueKind kind = ValueKind::integer;
};
struct Schema {
    std::vector<Field> fields;
    std::optional<size_t> find(std::string_view name) const {
        const auto at = std::ranges::find(fields, name, &Field::name);
        if (at == fields.end()) return std::nullopt;
        return static_cast<size_t>(at - fields.begin());
    }
};

class JoinTable;

struct Batch {
    size_t rows = 0;
    std::vector<LaneRef> lanes;
    std::vector<uint32_t> ids = {};
    std::shared_ptr<const JoinTable> table = nullptr;  // what a build gives instead of rows

    void assert_state() const {
        DCHECK(ids.empty() || ids.size() == rows);  // RO-1
        DCHECK(std::ranges::find(ids, 0u) == ids.end());
        for ([[maybe_unused]] const LaneRef& lane : lanes) {
            DCHECK(lane != nullptr && lane->values.size() == rows);
            DCHECK(lane->nulls.empty() || lane->nulls.size() == rows);
        }
    }
};
using BatchRef = std::shared_ptr<const Batch>;

// The rows of `from` that `rows` names, with these ids (none: without).
inline BatchRef pick(const Batch& from, std::span<const uint32_t> rows, std::vector<uint32_t> ids) {
    auto out = std::make_shared<Batch>();
    out->rows = rows.size();
    out->ids = std::move(ids);
    for (const LaneRef& lane : from.lanes) {
        auto to = std::make_shared<Lane>();
        to->add_rows(*lane, rows);
        out->lanes.push_back(std::move(to));
    }
    out->assert_state();
    return out;
}

}  // namespace lockstep::sm::report
