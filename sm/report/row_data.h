// row_data.h - the memory of an answer.
#pragma once

#include <memory>
#include <vector>

#include "sm/report/batch.h"
#include "sm/report/texts.h"

namespace lockstep::sm::report {

struct RowData {
    Schema schema;
    std::vector<Lane> lanes;
    size_t rows = 0;
    std::shared_ptr<Texts> texts;

    static Rows make(std::unique_ptr<const RowData> data) {
        DCHECK(data->lanes.size() == data->schema.fields.size());
        Rows out;
        out.data_ = std::move(data);
        return out;
    }
    int64_t at(size_t row, size_t column, ValueKind kind) const {
        CHECK(row < rows && column < lanes.size() && schema.fields[column].kind == kind);
        return lanes[column].values[row];
    }
};

}  // namespace lockstep::sm::report
