// abi.cc - what programs that are compiled with the headers of the C interface rely on: numbers of
// errors, and layouts. A line changes only with a new SONAME (CONTRIBUTING.md).
#include <cstddef>

#include <lockstep/lockstep.h>  // keep: the whole C interface
#include <lockstep/options.h>
#include <lockstep/result.h>

namespace lockstep::c {

template <class Enum>
constexpr int number_of(Enum value) {
    return static_cast<int>(value);
}

static_assert(LOCKSTEP_IO_ERROR == number_of(ErrorCode::io_error));
static_assert(LOCKSTEP_NO_SPACE == number_of(ErrorCode::no_space));
static_assert(LOCKSTEP_LOG_FULL == number_of(ErrorCode::log_full));
static_assert(LOCKSTEP_POOL_FULL == number_of(ErrorCode::pool_full));
static_assert(LOCKSTEP_OUT_OF_MEMORY == number_of(ErrorCode::out_of_memory));
static_assert(LOCKSTEP_CORRUPT_PAGE == number_of(ErrorCode::corrupt_page));
static_assert(LOCKSTEP_LOST_WRITE == number_of(ErrorCode::lost_write));
static_assert(LOCKSTEP_CORRUPT_LOG == number_of(ErrorCode::corrupt_log));
static_assert(LOCKSTEP_CORRUPT_SUPERBLOCK == number_of(ErrorCode::corrupt_superblock));
static_assert(LOCKSTEP_BAD_VERSION == number_of(ErrorCode::bad_version));
static_assert(LOCKSTEP_STORE_FAILED == number_of(ErrorCode::store_failed));
static_assert(LOCKSTEP_STORE_CLOSED == number_of(ErrorCode::store_closed));
static_assert(LOCKSTEP_STORE_LOCKED == number_of(ErrorCode::store_locked));
static_assert(LOCKSTEP_BAD_PATH == number_of(ErrorCode::bad_path));
static_assert(LOCKSTEP_BAD_OPTION == number_of(ErrorCode::bad_option));
static_assert(LOCKSTEP_BAD_ARGUMENT == number_of(ErrorCode::bad_argument));
static_assert(LOCKSTEP_NO_SUCH_OBJECT == number_of(ErrorCode::no_such_object));
static_assert(LOCKSTEP_ALREADY_EXISTS == number_of(ErrorCode::already_exists));
static_assert(LOCKSTEP_WRONG_KIND == number_of(ErrorCode::wrong_kind));
static_assert(LOCKSTEP_DUPLICATE_KEY == number_of(ErrorCode::duplicate_key));
static_assert(LOCKSTEP_NO_SUCH_RECORD == number_of(ErrorCode::no_such_record));
static_assert(LOCKSTEP_KEY_TOO_LONG == number_of(ErrorCode::key_too_long));
static_assert(LOCKSTEP_VALUE_TOO_LONG == number_of(ErrorCode::value_too_long));
static_assert(LOCKSTEP_DEADLOCK == number_of(ErrorCode::deadlock));
static_assert(LOCKSTEP_LOCK_TIMEOUT == number_of(ErrorCode::lock_timeout));
static_assert(LOCKSTEP_SELF_DEADLOCK == number_of(ErrorCode::self_deadlock));
static_assert(LOCKSTEP_TIMEOUT == number_of(ErrorCode::timeout));
static_assert(LOCKSTEP_CANCELLED == number_of(ErrorCode::cancelled));
static_assert(LOCKSTEP_TXN_ENDED == number_of(ErrorCode::txn_ended));
static_assert(LOCKSTEP_TXN_ABORTING == number_of(ErrorCode::txn_aborting));
static_assert(LOCKSTEP_READ_ONLY == number_of(ErrorCode::read_only));
static_assert(LOCKSTEP_WRONG_THREAD == number_of(ErrorCode::wrong_thread));
static_assert(LOCKSTEP_TOO_MANY == number_of(ErrorCode::too_many));
static_assert(LOCKSTEP_ROLLED_BACK == number_of(ErrorCode::rolled_back));
static_assert(LOCKSTEP_UNSUPPORTED == number_of(ErrorCode::unsupported));
static_assert(LOCKSTEP_FORKED == number_of(ErrorCode::forked));
static_assert(LOCKSTEP_ENDED_BY_OPERATOR == number_of(ErrorCode::ended_by_operator));
static_assert(LOCKSTEP_TRANSACTION_TOO_OLD == number_of(ErrorCode::transaction_too_old));
static_assert(LOCKSTEP_NOT_CLOSED == number_of(ErrorCode::not_closed));
static_assert(LOCKSTEP_KEY_FUNCTION_MISSING == number_of(ErrorCode::key_function_missing));
static_assert(LOCKSTEP_INDEX_MISMATCH == number_of(ErrorCode::index_mismatch));
static_assert(LOCKSTEP_SNAPSHOT_TOO_OLD == number_of(ErrorCode::snapshot_too_old));
static_assert(LOCKSTEP_BAD_BACKUP == number_of(ErrorCode::bad_backup));
static_assert(LOCKSTEP_BAD_ARCHIVE == number_of(ErrorCode::bad_archive));
static_assert(LOCKSTEP_ARCHIVE_FAILED == number_of(ErrorCode::archive_failed));

static_assert(int{LOCKSTEP_TEAM_LAST_LEAVER} == number_of(TeamPolicy::last_leaver));
static_assert(int{LOCKSTEP_TEAM_LARGEST} == number_of(TeamPolicy::largest));
static_assert(int{LOCKSTEP_TEAM_OLDEST} == number_of(TeamPolicy::oldest));
static_assert(int{LOCKSTEP_TEAM_T_GATED} == number_of(TeamGate::t_gated));
static_assert(int{LOCKSTEP_TEAM_D_GATED} == number_of(TeamGate::d_gated));
static_assert(int{LOCKSTEP_TEAM_C_GATED} == number_of(TeamGate::c_gated));
static_assert(int{LOCKSTEP_PACKETS_FIFO} == number_of(PacketPolicy::fifo));
static_assert(int{LOCKSTEP_PACKETS_PRIORITY} == number_of(PacketPolicy::priority));
static_assert(int{LOCKSTEP_LOCKS_FIFO} == number_of(LockPolicy::fifo));
static_assert(int{LOCKSTEP_LOCKS_SHORT_FIRST} == number_of(LockPolicy::short_first));
static_assert(int{LOCKSTEP_LOCKS_PRIORITY} == number_of(LockPolicy::priority));
static_assert(int{LOCKSTEP_LOCKS_LOCAL_FIRST} == number_of(LockPolicy::local_first));
static_assert(int{LOCKSTEP_IO_AUTOMATIC} == number_of(IoMethod::automatic));
static_assert(int{LOCKSTEP_IO_URING} == number_of(IoMethod::io_uring));
static_assert(int{LOCKSTEP_IO_POOL} == number_of(IoMethod::pool));
static_assert(int{LOCKSTEP_ARCHIVE_STOPS_WRITERS} == number_of(ArchiveFailure::stop_writers));
static_assert(int{LOCKSTEP_ARCHIVE_GOES_ON} == number_of(ArchiveFailure::go_on));

// Structs without a size keep their layout; those with one grow at their end.
static_assert(offsetof(lockstep_error, code) == 0);
static_assert(offsetof(lockstep_error, os) == 4);
static_assert(offsetof(lockstep_error, a) == 8);
static_assert(offsetof(lockstep_error, b) == 16);
static_assert(offsetof(lockstep_error, c) == 24);
static_assert(offsetof(lockstep_error, text) == 32);
static_assert(sizeof(lockstep_error) == 1032);
static_assert(offsetof(lockstep_slice, data) == 0);
static_assert(offsetof(lockstep_slice, size) == 8);
static_assert(sizeof(lockstep_slice) == 16);
static_assert(offsetof(lockstep_record_id, page) == 0);
static_assert(offsetof(lockstep_record_id, slot) == 4);
static_assert(sizeof(lockstep_record_id) == 8);
static_assert(offsetof(lockstep_hint, page) == 0);
static_assert(offsetof(lockstep_hint, slot) == 4);
static_assert(offsetof(lockstep_hint, leaves_freed) == 8);
static_assert(sizeof(lockstep_hint) == 12);
static_assert(offsetof(lockstep_lookup, key) == 0);
static_assert(offsetof(lockstep_lookup, buffer) == 16);
static_assert(offsetof(lockstep_lookup, room) == 24);
static_assert(offsetof(lockstep_lookup, bytes) == 32);
static_assert(offsetof(lockstep_lookup, found) == 40);
static_assert(offsetof(lockstep_lookup, hint) == 44);
static_assert(sizeof(lockstep_lookup) == 56);
static_assert(offsetof(lockstep_record, key) == 0);
static_assert(offsetof(lockstep_record, value) == 16);
static_assert(sizeof(lockstep_record) == 32);
static_assert(offsetof(lockstep_savepoint, txn) == 0);
static_assert(offsetof(lockstep_savepoint, number) == 8);
static_assert(sizeof(lockstep_savepoint) == 16);
static_assert(offsetof(lockstep_need, index) == 0);
static_assert(offsetof(lockstep_need, key) == 8);
static_assert(offsetof(lockstep_need, access) == 24);
static_assert(offsetof(lockstep_need, bytes) == 28);
static_assert(sizeof(lockstep_need) == 32);
static_assert(offsetof(lockstep_operation, kind) == 0);
static_assert(offsetof(lockstep_operation, access) == 4);
static_assert(offsetof(lockstep_operation, index) == 8);
static_assert(offsetof(lockstep_operation, heap) == 16);
static_assert(offsetof(lockstep_operation, key) == 24);
static_assert(offsetof(lockstep_operation, value) == 40);
static_assert(offsetof(lockstep_operation, offset) == 56);
static_assert(offsetof(lockstep_operation, buffer) == 64);
static_assert(offsetof(lockstep_operation, room) == 72);
static_assert(offsetof(lockstep_operation, id) == 80);
static_assert(offsetof(lockstep_operation, bytes) == 88);
static_assert(offsetof(lockstep_operation, code) == 96);
static_assert(offsetof(lockstep_operation, found) == 100);
static_assert(sizeof(lockstep_operation) == 104);
static_assert(offsetof(lockstep_request, size) == 0);
static_assert(offsetof(lockstep_request, txn) == 8);
static_assert(offsetof(lockstep_request, store) == 16);
static_assert(offsetof(lockstep_request, options) == 24);
static_assert(offsetof(lockstep_request, operations) == 32);
static_assert(offsetof(lockstep_request, count) == 40);
static_assert(offsetof(lockstep_request, end) == 48);
static_assert(offsetof(lockstep_request, performed) == 56);
static_assert(offsetof(lockstep_request, lsn) == 64);
static_assert(offsetof(lockstep_request, error) == 72);
static_assert(offsetof(lockstep_request, done) == 80);
static_assert(offsetof(lockstep_request, done_arg) == 88);
static_assert(offsetof(lockstep_request, event_fd) == 96);
static_assert(offsetof(lockstep_request, code) == 100);
static_assert(offsetof(lockstep_request, opaque) == 104);
static_assert(offsetof(lockstep_request, gid) == 168);
static_assert(offsetof(lockstep_request, vote) == 184);
static_assert(offsetof(lockstep_prepared_info, gid) == 8);
static_assert(offsetof(lockstep_prepared_info, locks) == 40);
static_assert(offsetof(lockstep_call, procedure) == 8);
static_assert(offsetof(lockstep_call, request) == 16);
static_assert(offsetof(lockstep_call, code) == 32);
static_assert(offsetof(lockstep_call, reply) == 40);
static_assert(offsetof(lockstep_call, text) == 56);
static_assert(sizeof(lockstep_call) == 96);
static_assert(offsetof(ArrowSchema, release) == 56 && sizeof(ArrowSchema) == 72);
static_assert(offsetof(ArrowArray, release) == 64 && sizeof(ArrowArray) == 80);
static_assert(offsetof(ArrowArrayStream, release) == 24 && sizeof(ArrowArrayStream) == 40);
static_assert(offsetof(lockstep_report_options, max_age) == 8);
static_assert(offsetof(lockstep_constant, bytes) == 32 && sizeof(lockstep_constant) == 48);
static_assert(offsetof(lockstep_where, values) == 16 && sizeof(lockstep_where) == 32);
static_assert(offsetof(lockstep_scan_options, where) == 24);
static_assert(offsetof(lockstep_scan_options, decimals) == 44);
static_assert(offsetof(lockstep_procedures, size) == 4);
static_assert(offsetof(lockstep_procedures, names) == 8);
static_assert(offsetof(lockstep_procedures, open) == 16);
static_assert(offsetof(lockstep_procedures, step) == 40);
static_assert(sizeof(lockstep_procedures) == 48);
static_assert(offsetof(lockstep_txn_options, size) == 0);
static_assert(offsetof(lockstep_txn_options, isolation) == 8);
static_assert(offsetof(lockstep_txn_options, durability) == 12);
static_assert(offsetof(lockstep_txn_options, read_only) == 16);
static_assert(offsetof(lockstep_txn_options, operations) == 20);
static_assert(offsetof(lockstep_txn_options, priority) == 24);
static_assert(offsetof(lockstep_txn_options, lock_timeout) == 32);
static_assert(offsetof(lockstep_steps_options, mode) == 8);
static_assert(offsetof(lockstep_steps_options, team_max) == 12);
static_assert(offsetof(lockstep_steps_options, points) == 28);
static_assert(offsetof(lockstep_steps_options, ignore_latches) == 37);
static_assert(offsetof(lockstep_options, create) == 8);
static_assert(offsetof(lockstep_options, workers) == 16);
static_assert(offsetof(lockstep_options, pool_bytes) == 24);
static_assert(offsetof(lockstep_options, log_bytes) == 80);
static_assert(offsetof(lockstep_options, lock_timeout) == 120);
static_assert(offsetof(lockstep_options, logger) == 160);
static_assert(offsetof(lockstep_options, steps) == 176);
static_assert(offsetof(lockstep_options, archive) == 184);
static_assert(offsetof(lockstep_options, archive_failure) == 224);
static_assert(offsetof(lockstep_stats, commits) == 8);
static_assert(offsetof(lockstep_stats, switches) == 304);
static_assert(offsetof(lockstep_stats, memory_stacks) == 368);
static_assert(offsetof(lockstep_stats, archive_backlog_bytes) == 440);
static_assert(offsetof(lockstep_stats, prepared_oldest_nanos) == 456);
static_assert(offsetof(lockstep_backup_info, lsn) == 8);
static_assert(offsetof(lockstep_backup_info, nanos) == 88);
static_assert(offsetof(lockstep_backup_info, history) == 104);
static_assert(offsetof(lockstep_restore_options, history) == 32);
static_assert(offsetof(lockstep_restore_options, memory_bytes) == 40);

}  // namespace lockstep::c
