// online_audit.cc - see online_audit.h.
#include "tpcc/online_audit.h"

#include <algorithm>

#include "threads/base/try.h"

namespace lockstep::tpcc {

namespace {
constexpr Nanos kLook = 20 * kMillisecond;  // for the end of the run
}

void OnlineAudit::start() {
    thread_ = db_.store->start([this]() -> Result<void> { return run(); });
}

Result<void> OnlineAudit::stop() {
    stop_.store(true);
    return thread_.join();
}

Result<void> OnlineAudit::run() {
    const MonotonicClock clock;
    const Nanos started = clock.now();
    for (Nanos next = started + every_; !stop_.load();) {
        const Nanos now = clock.now();
        if (now < next) {
            sleep_for(std::min(kLook, next - now));
            continue;
        }
        next = now + every_;
        checks_.push_back({now - started, TRY(check_consistency(db_, Isolation::snapshot))});
        report_(checks_.back());
    }
    return {};
}

}  // namespace lockstep::tpcc
