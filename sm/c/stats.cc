// stats.cc - the C interface of counters, metrics and transactions that run.
#include <lockstep/c/stats.h>

#include <string>
#include <vector>

#include "sm/c/objects.h"

namespace lockstep::c {

namespace {

lockstep_stats c_struct(const StoreStats& s) {
    lockstep_stats out = {};
    out.size = sizeof out;
#define LOCKSTEP_COPY(field) out.field = s.field
    LOCKSTEP_COPY(commits), LOCKSTEP_COPY(aborts), LOCKSTEP_COPY(deadlock_retries);
    LOCKSTEP_COPY(transactions_live), LOCKSTEP_COPY(transactions_waiting);
    LOCKSTEP_COPY(packets_timed), LOCKSTEP_COPY(lock_grants_at_once), LOCKSTEP_COPY(lock_waits);
    LOCKSTEP_COPY(lock_wait_nanos), LOCKSTEP_COPY(deadlocks), LOCKSTEP_COPY(lock_timeouts);
    LOCKSTEP_COPY(escalations), LOCKSTEP_COPY(log_records), LOCKSTEP_COPY(log_bytes);
    LOCKSTEP_COPY(log_flushes), LOCKSTEP_COPY(log_syncs), LOCKSTEP_COPY(log_used_bytes);
    LOCKSTEP_COPY(log_capacity_bytes), LOCKSTEP_COPY(durable_waits), LOCKSTEP_COPY(pool_frames);
    LOCKSTEP_COPY(pool_resident), LOCKSTEP_COPY(pool_dirty), LOCKSTEP_COPY(page_reads);
    LOCKSTEP_COPY(page_writes), LOCKSTEP_COPY(evictions), LOCKSTEP_COPY(page_repairs);
    LOCKSTEP_COPY(lost_writes), LOCKSTEP_COPY(checkpoints), LOCKSTEP_COPY(pages_total);
    LOCKSTEP_COPY(reads_ahead), LOCKSTEP_COPY(read_waiters), LOCKSTEP_COPY(needs_walked);
    LOCKSTEP_COPY(needs_used), LOCKSTEP_COPY(snapshots_open);
    LOCKSTEP_COPY(snapshot_oldest_nanos), LOCKSTEP_COPY(snapshots_too_old);
    LOCKSTEP_COPY(version_bytes), LOCKSTEP_COPY(switches), LOCKSTEP_COPY(threads_live);
    LOCKSTEP_COPY(threads_max), LOCKSTEP_COPY(worker_sleeps), LOCKSTEP_COPY(remote_wakes);
    LOCKSTEP_COPY(memory_pool), LOCKSTEP_COPY(memory_locks), LOCKSTEP_COPY(memory_log);
    LOCKSTEP_COPY(memory_stacks);
    LOCKSTEP_COPY(backups), LOCKSTEP_COPY(backup_bytes), LOCKSTEP_COPY(backup_failures);
    LOCKSTEP_COPY(backup_page_repairs), LOCKSTEP_COPY(archive_pieces);
    LOCKSTEP_COPY(archive_bytes), LOCKSTEP_COPY(archive_failures), LOCKSTEP_COPY(archive_gaps);
    LOCKSTEP_COPY(archive_backlog_bytes);
    LOCKSTEP_COPY(prepared_open), LOCKSTEP_COPY(prepared_oldest_nanos);
#undef LOCKSTEP_COPY
    return out;
}

lockstep_transaction_info c_struct(const TransactionInfo& info) {
    static_assert(sizeof(TxnId) == sizeof(uint64_t), "an id is its number");
    return {.size = sizeof(lockstep_transaction_info),
            .id = info.id.value,
            .age_nanos = info.age,
            .thread = info.thread,
            .worker = info.worker,
            .state = transaction_state_name(info.state),
            .read_only = info.read_only,
            .internal = info.internal,
            .marked = info.marked,
            .locks = info.locks,
            .log_bytes = info.log_bytes,
            .undo_bytes = info.undo_bytes,
            .log_pinned_bytes = info.log_pinned_bytes,
            .waits_for = info.waits_for.c_str(),
            .waited_nanos = info.waited,
            .waits_for_ids = info.waits_for_transactions.empty()
                                 ? nullptr
                                 : &info.waits_for_transactions.data()->value,
            .waits_for_count = info.waits_for_transactions.size(),
            .gid = to_c(info.gid)};
}

}  // namespace
}  // namespace lockstep::c

namespace c = lockstep::c;
using lockstep::Result;

int lockstep_get_stats(lockstep_store* store, lockstep_stats* stats, lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(stats);
        return c::fill(stats, c::c_struct(s.store.stats()), "size of lockstep_stats");
    });
}

int lockstep_metrics(lockstep_store* store, char* buffer, size_t room, size_t* bytes,
                     lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) {
        return c::copy_text(s.store.metrics(), buffer, room, bytes);
    });
}

int lockstep_failure(lockstep_store* store, char* buffer, size_t room, size_t* bytes,
                     lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) {
        const auto why = s.store.failure();
        return c::copy_text(why ? why->text() : std::string(), buffer, room, bytes);
    });
}

int lockstep_transactions(lockstep_store* store,
                          bool (*each)(void* arg, const lockstep_transaction_info* info), void* arg,
                          lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(each);
        for (const auto& info : s.store.transactions()) {
            const lockstep_transaction_info told = c::c_struct(info);
            if (!each(arg, &told)) break;
        }
        return {};
    });
}

int lockstep_end_transaction(lockstep_store* store, uint64_t id, lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) {
        return s.store.end_transaction(lockstep::TxnId{id});
    });
}

int lockstep_cancel_transaction(lockstep_store* store, uint64_t id, lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        return c::cancel_txn(s, lockstep::TxnId{id});
    });
}
