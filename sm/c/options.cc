// options.cc - options of the C interface, from and to those of the C++ interface.
#include <lockstep/c/options.h>

#include <lockstep/c/store.h>
#include "sm/c/objects.h"

namespace lockstep::c {

namespace {

// A number that C names `none` where C++ has no value.
template <class T>
std::optional<T> unless(T given, T none) {
    return given == none ? std::nullopt : std::optional(given);
}

lockstep_steps_options c_struct(const StepsOptions& o) {
    return {.size = sizeof(lockstep_steps_options),
            .mode = static_cast<int>(o.mode),
            .team_max = o.team_max,
            .policy = static_cast<int>(o.policy),
            .gate = static_cast<int>(o.gate),
            .rounds_max = o.rounds_max,
            .points = o.points,
            .window_records = o.window_records,
            .float_state = o.float_state,
            .ignore_latches = o.ignore_latches};
}

lockstep_options c_struct(const Options& o) {
    return {.size = sizeof(lockstep_options),
            .create = o.create,
            .read_only = o.read_only,
            .pin_workers = o.pin_workers,
            .sync = o.sync,
            .control = o.control,
            .workers = o.workers,
            .pool_bytes = o.pool_bytes,
            .stack_bytes = o.stack_bytes,
            .transactions_max = o.transactions_max,
            .user_threads_max = o.user_threads_max,
            .executors = o.executors,
            .packets_max = o.packets_max,
            .packet_policy = static_cast<int>(o.packet_policy),
            .lock_policy = static_cast<int>(o.lock_stage.policy),
            .lock_bypass_max = o.lock_stage.bypass_max,
            .io = static_cast<int>(o.io),
            .transaction_age_max = o.transaction_age_max.value_or(LOCKSTEP_NEVER),
            .log_bytes = o.log_bytes,
            .log_segment_bytes = o.log_segment_bytes.value_or(LOCKSTEP_DERIVED),
            .log_ring_bytes = o.log_ring_bytes.value_or(LOCKSTEP_DERIVED),
            .lazy_flush_interval = o.lazy_flush_interval,
            .checkpoint_log_bytes = o.checkpoint_log_bytes.value_or(LOCKSTEP_DERIVED),
            .lock_timeout = o.lock_timeout,
            .lock_table_bytes_log2 = o.lock_table_bytes_log2,
            .escalate_at = o.escalate_at.value_or(LOCKSTEP_NO_ESCALATION),
            .version_bytes = o.version_bytes.value_or(LOCKSTEP_DERIVED),
            .retries_max = o.retries_max,
            .offload_threads = o.offload_threads,
            .slice_warning = o.slice_warning.value_or(LOCKSTEP_NEVER),
            .logger = nullptr,
            .logger_arg = nullptr,
            .steps = nullptr,
            .archive = o.archive ? o.archive->c_str() : nullptr,
            .archive_sink = nullptr,
            .archive_sink_arg = nullptr,
            .archive_interval = o.archive_interval.value_or(LOCKSTEP_NEVER),
            .archive_backlog_bytes = o.archive_backlog_bytes.value_or(LOCKSTEP_DERIVED),
            .archive_failure = static_cast<int>(o.archive_failure),
            .file_mode = o.file_mode,
            .scan_bytes = o.scan_bytes,
            .scan_share = o.scan_share,
            .scan_workers = o.scan_workers,
            .changes_log_bytes = o.changes_log_bytes};
}

lockstep_retry c_retry(const Retry& r) {
    return {r.first.value, r.deadlocks, r.object.value, r.lock};
}

lockstep_txn_options c_struct(const TxnOptions& o) {
    return {.size = sizeof(lockstep_txn_options),
            .isolation = static_cast<int>(o.isolation),
            .durability = static_cast<int>(o.durability),
            .read_only = o.read_only,
            .operations = o.operations,
            .priority = o.priority,
            .lock_timeout = o.lock_timeout,
            .retry = c_retry(o.retry)};
}

template <class E>
Result<E> option(int value, int count, const char* name) {
    return enum_of<E>(value, count, ErrorCode::bad_option, name);
}

}  // namespace

Result<StepsOptions> steps_of(const lockstep_steps_options* given) {
    static_assert(int{LOCKSTEP_STEPS_CTX} == static_cast<int>(StepsMode::ctx));
    static_assert(int{LOCKSTEP_STEPS_PREFETCH} == static_cast<int>(StepsMode::prefetch));
    const auto o = TRY(sized(given, c_struct(StepsOptions{}), "size of lockstep_steps_options"));
    return StepsOptions{.mode = TRY(option<StepsMode>(o.mode, 7, "steps.mode")),
                        .team_max = o.team_max,
                        .policy = TRY(option<TeamPolicy>(o.policy, 3, "steps.policy")),
                        .gate = TRY(option<TeamGate>(o.gate, 3, "steps.gate")),
                        .rounds_max = o.rounds_max,
                        .points = o.points,
                        .window_records = o.window_records,
                        .float_state = o.float_state,
                        .ignore_latches = o.ignore_latches};
}

Result<Options> options_of(const lockstep_options* given) {
    const auto o = TRY(sized(given, c_struct(Options{}), "size of lockstep_options"));
    Options made{
        .create = o.create,
        .read_only = o.read_only,
        .file_mode = o.file_mode,
        .workers = o.workers,
        .pin_workers = o.pin_workers,
        .pool_bytes = o.pool_bytes,
        .stack_bytes = o.stack_bytes,
        .transactions_max = o.transactions_max,
        .user_threads_max = o.user_threads_max,
        .executors = o.executors,
        .packets_max = o.packets_max,
        .packet_policy = TRY(option<PacketPolicy>(o.packet_policy, 2, "packet_policy")),
        .transaction_age_max = unless(o.transaction_age_max, LOCKSTEP_NEVER),
        .log_bytes = o.log_bytes,
        .log_segment_bytes = unless(o.log_segment_bytes, LOCKSTEP_DERIVED),
        .log_ring_bytes = unless(o.log_ring_bytes, LOCKSTEP_DERIVED),
        .lazy_flush_interval = o.lazy_flush_interval,
        .sync = o.sync,
        .checkpoint_log_bytes = unless(o.checkpoint_log_bytes, LOCKSTEP_DERIVED),
        .changes_log_bytes = o.changes_log_bytes,
        .lock_timeout = o.lock_timeout,
        .lock_table_bytes_log2 = o.lock_table_bytes_log2,
        .lock_stage = {.policy = TRY(option<LockPolicy>(o.lock_policy, 4, "lock_policy")),
                       .bypass_max = o.lock_bypass_max},
        .version_bytes = unless(o.version_bytes, LOCKSTEP_DERIVED),
        .scan_bytes = o.scan_bytes,
        .scan_share = o.scan_share,
        .scan_workers = o.scan_workers,
        .escalate_at = unless(o.escalate_at, LOCKSTEP_NO_ESCALATION),
        .retries_max = o.retries_max,
        .io = TRY(option<IoMethod>(o.io, 3, "io")),
        .slice_warning = unless(o.slice_warning, LOCKSTEP_NEVER),
        .offload_threads = o.offload_threads,
        .control = o.control,
        .archive_interval = unless(o.archive_interval, LOCKSTEP_NEVER),
        .archive_backlog_bytes = unless(o.archive_backlog_bytes, LOCKSTEP_DERIVED),
        .archive_failure = TRY(option<ArchiveFailure>(o.archive_failure, 2, "archive_failure")),
        .steps = TRY(steps_of(o.steps))};
    // Last, because an error above does not destroy the members that are made already.
    if (o.archive != nullptr) made.archive = o.archive;
    if (o.archive_sink != nullptr)
        made.archive_sink = [take = o.archive_sink, arg = o.archive_sink_arg](
                                std::string_view file, uint64_t offset,
                                Slice bytes) -> Result<void> {
            if (take(arg, std::string(file).c_str(), offset, to_c(bytes)) == 0) return {};
            return fail(ErrorCode::cancelled, "result of the archive's sink");
        };
    if (o.logger != nullptr)
        made.logger = [take = o.logger, arg = o.logger_arg](int level, std::string_view text) {
            take(arg, level, text.data(), text.size());
        };
    return made;
}

Result<TxnOptions> txn_options_of(const lockstep_txn_options* given) {
    static_assert(int{LOCKSTEP_SNAPSHOT} == static_cast<int>(Isolation::snapshot));
    static_assert(int{LOCKSTEP_LAZY} == static_cast<int>(Durability::lazy));
    if (given == nullptr) return TxnOptions{};
    const auto o = TRY(sized(given, c_struct(TxnOptions{}), "size of lockstep_txn_options"));
    return TxnOptions{.isolation = TRY(option<Isolation>(o.isolation, 4, "isolation")),
                      .durability = TRY(option<Durability>(o.durability, 2, "durability")),
                      .read_only = o.read_only,
                      .lock_timeout = o.lock_timeout,
                      .operations = o.operations,
                      .priority = o.priority,
                      .retry = {.first = TxnId{o.retry.first},
                                .deadlocks = o.retry.deadlocks,
                                .object = ObjectId{o.retry.object},
                                .lock = o.retry.lock}};
}

}  // namespace lockstep::c

namespace c = lockstep::c;
using lockstep::Result;

void lockstep_options_init(lockstep_options* options, size_t size) {
    c::initialise(options, size, c::c_struct(lockstep::Options{}));
}
void lockstep_steps_options_init(lockstep_steps_options* options, size_t size) {
    c::initialise(options, size, c::c_struct(lockstep::StepsOptions{}));
}
void lockstep_txn_options_init(lockstep_txn_options* options, size_t size) {
    c::initialise(options, size, c::c_struct(lockstep::TxnOptions{}));
}

int lockstep_ctx_points(const char* text, uint32_t* points, lockstep_error* error) {
    const auto call = [&]() -> Result<void> {
        LOCKSTEP_NOT_NULL(text);
        LOCKSTEP_NOT_NULL(points);
        *points = TRY(lockstep::ctx_points_from(text));
        return {};
    };
    return c::report(call(), error);
}

int lockstep_get_options(lockstep_store* store, lockstep_options* options,
                         lockstep_steps_options* steps, lockstep_error* error) {
    return c::on_store(store, error, [&](c::StoreObject& s) -> Result<void> {
        LOCKSTEP_NOT_NULL(options);
        const lockstep::Options& all = s.store.options();
        if (steps != nullptr)
            TRY(c::fill(steps, c::c_struct(s.store.steps_options()),
                        "size of lockstep_steps_options"));
        return c::fill(options, c::c_struct(all), "size of lockstep_options");
    });
}
