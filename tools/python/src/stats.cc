// stats.cc - of the Python binding: counters, metrics, transactions that run.
#include <nanobind/stl/string.h>

#include <string>
#include <vector>

#include "tools/python/src/core.h"

namespace lockstep::python {

namespace {

// clang-format off
#define LOCKSTEP_STATS_FIELDS(X) \
    X(commits) X(aborts) X(deadlock_retries) X(transactions_live) X(transactions_waiting) \
    X(packets_timed) X(lock_grants_at_once) X(lock_waits) X(lock_wait_nanos) X(deadlocks) \
    X(lock_timeouts) X(escalations) X(log_records) X(log_bytes) X(log_flushes) X(log_syncs) \
    X(log_used_bytes) X(log_capacity_bytes) X(durable_waits) X(pool_frames) X(pool_resident) \
    X(pool_dirty) X(page_reads) X(page_writes) X(evictions) X(page_repairs) X(lost_writes) \
    X(checkpoints) X(pages_total) X(reads_ahead) X(read_waiters) X(needs_walked) X(needs_used) \
    X(snapshots_open) X(snapshot_oldest_nanos) X(snapshots_too_old) X(version_bytes) X(switches) \
    X(threads_live) X(threads_max) X(worker_sleeps) X(remote_wakes) X(memory_pool) \
    X(memory_locks) X(memory_log) X(memory_stacks) X(backups) X(backup_bytes) X(backup_failures) \
    X(backup_page_repairs) X(archive_pieces) X(archive_bytes) X(archive_failures) \
    X(archive_gaps) X(archive_backlog_bytes) X(prepared_open) X(prepared_oldest_nanos) \
    X(pages_to_free) X(leaves_to_clean)
// clang-format on

#define LOCKSTEP_COUNT(field) +1
constexpr size_t kFields = 0 LOCKSTEP_STATS_FIELDS(LOCKSTEP_COUNT);
#undef LOCKSTEP_COUNT
static_assert(sizeof(lockstep_stats) == sizeof(size_t) + kFields * sizeof(uint64_t),
              "a counter of lockstep_stats is missing above");

nb::dict stats(Number store) {
    lockstep_stats counted;
    counted.size = sizeof counted;
    call_at_once([&](lockstep_error* error) {
        return lockstep_get_stats(handle<lockstep_store>(store), &counted, error);
    });
    nb::dict result;
#define LOCKSTEP_TAKE(field) result[#field] = counted.field;
    LOCKSTEP_STATS_FIELDS(LOCKSTEP_TAKE)
#undef LOCKSTEP_TAKE
    return result;
}

template <class Read>
nb::str text_of(Number store, Read read) {
    std::string text(size_t{64} << 10, '\0');
    for (size_t bytes = 0;; text.resize(bytes)) {
        call_at_once([&](lockstep_error* error) {
            return read(handle<lockstep_store>(store), text.data(), text.size(), &bytes, error);
        });
        if (bytes <= text.size()) return nb::str(text.data(), bytes);
    }
}

struct Info {
    lockstep_transaction_info info;
    std::string waits_for, gid;
    std::vector<uint64_t> ids;
};

nb::list transactions(Number store) {
    std::vector<Info> found;
    const auto each = [](void* arg, const lockstep_transaction_info* info) {
        static_cast<std::vector<Info>*>(arg)->push_back(
            {*info,
             info->waits_for,
             string_of(info->gid),
             {info->waits_for_ids, info->waits_for_ids + info->waits_for_count}});
        return true;
    };
    call([&](lockstep_error* error) {
        return lockstep_transactions(handle<lockstep_store>(store), each, &found, error);
    });
    nb::list result;
    for (const Info& one : found) {
        const lockstep_transaction_info& i = one.info;
        nb::list ids;
        for (const uint64_t id : one.ids) ids.append(id);
        result.append(nb::make_tuple(i.id, i.age_nanos, i.thread, i.worker, i.state, i.read_only,
                                     i.internal, i.marked, i.locks, i.log_bytes, i.undo_bytes,
                                     i.log_pinned_bytes, one.waits_for, i.waited_nanos,
                                     nb::tuple(ids), bytes_of(one.gid)));
    }
    return result;
}

template <int (*kEnd)(lockstep_store*, uint64_t, lockstep_error*)>
void end_transaction(Number store, nb::handle given) {
    const auto id = whole<uint64_t>(given, "id");
    call([&](lockstep_error* error) { return kEnd(handle<lockstep_store>(store), id, error); });
}

}  // namespace

void add_stats(nb::module_& module) {
    module.def("stats", stats);
    module.def("metrics", [](Number store) { return text_of(store, lockstep_metrics); });
    module.def("failure", [](Number store) { return text_of(store, lockstep_failure); });
    module.def("transactions", transactions);
    module.def("end_transaction", end_transaction<lockstep_end_transaction>, nb::arg(),
               nb::arg().none());
    module.def("cancel_transaction", end_transaction<lockstep_cancel_transaction>, nb::arg(),
               nb::arg().none());
}

}  // namespace lockstep::python
