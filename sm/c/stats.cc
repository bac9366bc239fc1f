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
#define LOCKSTEP_COPY(field) out.field = s.field;
    LOCKSTEP_COUNTERS(LOCKSTEP_COPY)
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
