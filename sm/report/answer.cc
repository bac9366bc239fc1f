// answer.cc - Report::answer(): what operators read of a report, and how blocks become lanes.
#include <lockstep/plan.h>

#include "sm/report/flow.h"
#include "sm/scan/service.h"
#include "threads/base/try.h"

namespace lockstep {

namespace {

using namespace sm::report;
using sm::scan::ScanState;
using sm::scan::Service;

ValueKind kind_of(ColumnType type) {
    if (type == ColumnType::f32 || type == ColumnType::f64) return ValueKind::real;
    return type < ColumnType::chars ? ValueKind::integer : ValueKind::text;
}
static_assert(ColumnType::chars > ColumnType::time_ns && ColumnType::chars < ColumnType::bytes);

// A scan of the report. Cuts its blocks into batches.
class ScanSource final : public Source {
public:
    ScanSource(std::shared_ptr<ScanState> scan, std::shared_ptr<Texts> texts)
        : scan_(std::move(scan)), texts_(std::move(texts)) {
        for (const Column& column : scan_->selected->columns)
            schema_.fields.push_back({column.name, kind_of(column.type)});
        DCHECK(!schema_.fields.empty());
    }
    ~ScanSource() override {
        scan_->service->watch(*scan_, nullptr);
        scan_->service->cancel(*scan_);
    }
    const Schema& schema() const override { return schema_; }
    Result<Pull> pull(BatchRef& out) override {
        if (row_ == block_.rows()) {
            row_ = 0;
            const auto polled = TRY(scan_->service->poll(*scan_, block_));
            if (polled != Service::Polled::block) {
                block_ = Block();
                return polled == Service::Polled::ended ? Pull::ended : Pull::pending;
            }
        }
        const size_t end = std::min(block_.rows(), row_ + kBatchRows);
        auto batch = std::make_shared<Batch>();
        batch->rows = end - row_;
        for (size_t i = 0; i < schema_.fields.size(); ++i)
            batch->lanes.push_back(TRY(lane_of(i, end)));
        batch->assert_state();
        row_ = end;
        out = std::move(batch);
        return Pull::rows;
    }
    void watch(std::function<void()> ready) override {
        scan_->service->watch(*scan_, std::move(ready));
    }
    double progress() const override { return scan_->service->progress(*scan_); }

private:
    template <class T>
    void add_numbers(size_t column, size_t end, Lane& lane) const {
        const auto numbers = block_.numbers<T>(column);
        for (size_t row = row_; row < end; ++row)
            if constexpr (std::is_floating_point_v<T>)
                lane.values.push_back(real_code(double{numbers[row]}));
            else lane.values.push_back(static_cast<int64_t>(numbers[row]));
    }
    void add_texts(size_t column, size_t end, Lane& lane) const {
        const std::lock_guard lock(texts_->mutex);
        for (size_t row = row_; row < end; ++row)
            lane.values.push_back(texts_->number(block_.text(column, row)));
    }
    // The values from row_ to `end`.
    Result<LaneRef> lane_of(size_t place, size_t end) const {
        const Column& column = block_.columns()[place];
        auto lane = std::make_shared<Lane>();
        lane->values.reserve(end - row_);
        const bool is_signed = column.type >= ColumnType::i8 && column.type <= ColumnType::time_ns;
        switch (column.block_bytes()) {
            case 0: add_texts(place, end, *lane); break;
            case 1:
                is_signed ? add_numbers<int8_t>(place, end, *lane)
                          : add_numbers<uint8_t>(place, end, *lane);
                break;
            case 2:
                is_signed ? add_numbers<int16_t>(place, end, *lane)
                          : add_numbers<uint16_t>(place, end, *lane);
                break;
            case 4:
                column.type == ColumnType::f32 ? add_numbers<float>(place, end, *lane)
                : is_signed                    ? add_numbers<int32_t>(place, end, *lane)
                                               : add_numbers<uint32_t>(place, end, *lane);
                break;
            default:
                column.type == ColumnType::f64 ? add_numbers<double>(place, end, *lane)
                                               : add_numbers<int64_t>(place, end, *lane);
                // A lane has 63 bits for them.
                if (!is_signed &&
                    std::ranges::any_of(lane->values, [](int64_t v) { return v < 0; }))
                    return overflow();
        }
        if (block_.buffers(place).nulls != 0) {
            lane->nulls.resize(lane->values.size());
            for (size_t row = row_; row < end; ++row)
                if (block_.is_null(place, row))
                    lane->nulls[row - row_] = 1, lane->values[row - row_] = 0;
        }
        return LaneRef(std::move(lane));
    }

    const std::shared_ptr<ScanState> scan_;
    const std::shared_ptr<Texts> texts_;
    Schema schema_;
    Block block_;  // whose rows from row_ on are left
    size_t row_ = 0;
};

}  // namespace

Result<std::vector<Rows>> Report::answer(std::span<const Plan> plans,
                                         const AnswerOptions& options) {
    if (!state_) return fail(ErrorCode::store_closed, "report");
    Service& service = *state_->service;
    if (service.forked()) return fail(ErrorCode::forked, "report");
    DCHECK(service.operators != nullptr);
    const Reads reads{
        .state = state_->use->group(),
        .scan = [this, &service](
                    const ScanOptions& scan, const std::string& table,
                    const std::shared_ptr<Texts>& texts) -> Result<std::shared_ptr<Source>> {
            return std::make_shared<ScanSource>(TRY(service.scan(*state_, table, scan)), texts);
        }};
    return service.operators->answer(plans, reads, options);
}

Result<Rows> Report::answer(const Plan& plan, const AnswerOptions& options) {
    auto rows = TRY(answer(std::span(&plan, 1), options));
    CHECK(rows.size() == 1);
    return std::move(rows[0]);
}

Result<Rows> Report::answer(const Plan& plan) { return answer(plan, AnswerOptions{}); }

}  // namespace lockstep
