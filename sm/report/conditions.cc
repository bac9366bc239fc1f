// conditions.cc - narrows the sets of rows column by column.
#include "sm/report/conditions.h"

#include <map>
#include <mutex>

#include "threads/base/error_detail.h"
#include "threads/base/try.h"

namespace lockstep::sm::report {

Unexpected no_column(std::string_view name) {
    return fail_with(ErrorCode::bad_argument, "plan",
                     "there is no column \"" + std::string(name.substr(0, 48)) + "\"");
}
Unexpected overflow() {
    return fail_with(ErrorCode::bad_argument, "plan", "a result does not fit 64 bits");
}

Result<Conditions> Conditions::make(std::span<const std::vector<Where>* const> of,
                                    const Schema& schema, const Shared& shared) {
    DCHECK(of.size() == shared.sets->reports());
    Conditions out;
    std::map<size_t, std::vector<std::vector<const Where*>>> by_column;
    for (size_t report = 0; report < of.size(); ++report)
        for (const Where& where : *of[report]) {
            const auto column = schema.find(where.column);
            if (!column) return no_column(where.column);
            auto& all = by_column[*column];
            all.resize(of.size());
            all[report].push_back(&where);
        }
    for (const auto& [column, conditions] : by_column)
        out.indexes_.push_back(
            {column, TRY(PredicateIndex::make(schema.fields[column].kind, conditions, *shared.sets,
                                              *shared.texts))});
    return out;
}

void Conditions::select(const Batch& batch, const Shared& shared, std::vector<uint32_t>& rows,
                        std::vector<uint32_t>& ids) {
    DCHECK(batch.table == nullptr);
    batch.assert_state();
    if (batch.ids.empty()) all_.assign(batch.rows, IdSets::kAll);
    else all_ = batch.ids;
    for (OfColumn& one : indexes_) {
        std::unique_lock texts(shared.texts->mutex, std::defer_lock);
        if (one.index.reads_texts()) texts.lock();
        const std::lock_guard lock(shared.sets->mutex);
        one.index.narrow(*batch.lanes[one.column], *shared.sets, all_);
    }
    rows.clear();
    ids.clear();
    for (uint32_t i = 0; i < batch.rows; ++i)
        if (all_[i] != IdSets::kEmpty) {
            rows.push_back(i);
            ids.push_back(all_[i]);
        }
    DCHECK(rows.size() == ids.size() && rows.size() <= batch.rows);
}

BatchRef select(Conditions& conditions, const BatchRef& batch, const Shared& shared, size_t lanes) {
    lanes = std::min(lanes, batch->lanes.size());
    if (conditions.empty() && lanes == batch->lanes.size()) return batch;
    std::vector<uint32_t> rows, ids;
    conditions.select(*batch, shared, rows, ids);
    if (rows.empty()) return nullptr;
    if (!shared.many()) ids.clear();
    auto out = std::make_shared<Batch>();
    out->rows = rows.size();
    out->ids = std::move(ids);
    out->lanes.assign(batch->lanes.begin(), batch->lanes.begin() + static_cast<ptrdiff_t>(lanes));
    if (out->rows == batch->rows) return out;
    return pick(*out, rows, std::move(out->ids));
}

}  // namespace lockstep::sm::report
