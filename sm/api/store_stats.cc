// store_stats.cc - the public statistics: of a store, as values and as text, and of a thread.
#include <lockstep/report.h>
#include <lockstep/store.h>
#include "sm/engine/engine.h"
#include "sm/observe/metrics.h"

namespace lockstep {

using threads::ParkReason;

ThreadWaits thread_waits() {
    const threads::Thread* self = threads::current();
    if (self == nullptr) [[unlikely]]
        return {};
    const auto waited = [self](threads::ParkReason reason) {
        return self->waited[static_cast<size_t>(reason)];
    };
    return {.lock = waited(threads::ParkReason::lock),
            .page = waited(threads::ParkReason::page_read) + waited(threads::ParkReason::latch) +
                    waited(threads::ParkReason::io),
            .log = waited(threads::ParkReason::log)};
}

StoreStats Store::stats() const {
    const sm::Call call(engine_.get());
    return call ? engine_->stats() : StoreStats{};
}

std::string Store::metrics() const {
    const sm::Call call(engine_.get());
    if (!call || engine_->forked()) return {};
    return sm::metrics_text(stats(), steps_stats(), report_stats());
}

}  // namespace lockstep
