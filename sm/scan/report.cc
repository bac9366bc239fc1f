// report.cc - the public report and scan: references to what the service has.
#include <lockstep/report.h>

#include "sm/scan/service.h"
#include "threads/base/try.h"

namespace lockstep {

namespace {
[[gnu::cold]] Unexpected closed() { return fail(ErrorCode::store_closed, "report"); }
}  // namespace

Scan::Scan() = default;
Scan::Scan(std::shared_ptr<sm::scan::ScanState> state) : state_(std::move(state)) {
    DCHECK(state_ != nullptr && state_->service != nullptr);
}
Scan::~Scan() { cancel(); }
Scan::Scan(Scan&&) noexcept = default;
Scan& Scan::operator=(Scan&& other) noexcept {
    if (this != &other) {
        cancel();
        state_ = std::move(other.state_);
    }
    return *this;
}

std::span<const Column> Scan::columns() const {
    return state_ ? std::span<const Column>(state_->selected->columns) : std::span<const Column>();
}

Result<bool> Scan::next(Block& out) {
    if (!state_) return false;
    return state_->service->next(*state_, out);
}

Result<void> Scan::each_block(FunctionRef<Result<bool>(const Block&)> fn) {
    if (!state_) return {};
    return state_->service->each(state_, fn);
}

double Scan::progress() const { return state_ ? state_->service->progress(*state_) : 1; }

uint64_t Scan::behind() const { return state_ ? state_->service->behind(*state_) : 0; }

void Scan::cancel() {
    if (state_) state_->service->cancel(*state_);
}

Report::Report() = default;
Report::Report(std::shared_ptr<sm::scan::ReportState> state) : state_(std::move(state)) {
    DCHECK(state_ != nullptr && state_->service != nullptr);
}
Report::~Report() = default;
Report::Report(Report&&) noexcept = default;
Report& Report::operator=(Report&&) noexcept = default;

Result<Scan> Report::scan(std::string_view name, const ScanOptions& options) {
    if (!state_) return closed();
    return Scan(TRY(state_->service->scan(*state_, name, options)));
}

Lsn Report::sees() const { return state_ ? state_->sees : kLsnNone; }

}  // namespace lockstep
