// run_stats.cc - counting of aborts, merging of counters.
#include "tpcc/run_stats.h"

namespace lockstep::tpcc {

void TypeStats::merge(const TypeStats& other) {
    latency.merge(other.latency);
    lock_wait.merge(other.lock_wait);
    page_wait.merge(other.page_wait);
    log_wait.merge(other.log_wait);
    for (auto* const wait : {&lock_wait, &page_wait, &log_wait})
        wait->record(0, other.without_waits);
    rolled_back += other.rolled_back;
    for (size_t i = 0; i < kAbortCauses; ++i) aborts[i] += other.aborts[i];
}

void InputCounts::merge(const InputCounts& other) {
    order_lines += other.order_lines;
    order_lines_remote += other.order_lines_remote;
    payments_remote += other.payments_remote;
    payments_by_name += other.payments_by_name;
    order_status_by_name += other.order_status_by_name;
}

void WorkerStats::count_abort(TxnType type, AbortCause cause, Nanos at) {
    const bool measured = measures(at);
    if (keeps_window) window.record_abort(cause, measured);
    if (measured) ++types[static_cast<size_t>(type)].aborts[static_cast<size_t>(cause)];
}

void WorkerStats::merge(const WorkerStats& other) {
    for (size_t i = 0; i < kTxnTypes; ++i) types[i].merge(other.types[i]);
    inputs.merge(other.inputs);
    delivery_interactive.merge(other.delivery_interactive);
    districts_skipped += other.districts_skipped;
    deliveries_with_skips += other.deliveries_with_skips;
    lateness.merge(other.lateness);
    started += other.started;
    started_of_warmup += other.started_of_warmup;
    completed.fetch_add(other.completed.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

}  // namespace lockstep::tpcc
