// abi.cc - what programs that are compiled with the headers of the C interface rely on: numbers of
// errors, and layouts. A line changes only with a new SONAME (CONTRIBUTING.md).
#include <cstddef>

#include <lockstep/lockstep.h>  // keep: the whole C interface
#include <lockstep/options.h>
#include <lockstep/result.h>

namespace lockstep::c {

template <class Enum>
constexpr int c_number(Enum value) {
    return static_cast<int>(value);
}

static_assert(LOCKSTEP_IO_ERROR == c_number(ErrorCode::io_error));
static_assert(LOCKSTEP_NO_SPACE == c_number(ErrorCode::no_space));
static_assert(LOCKSTEP_LOG_FULL == c_number(ErrorCode::log_full));
static_assert(LOCKSTEP_POOL_FULL == c_number(ErrorCode::pool_full));
static_assert(LOCKSTEP_OUT_OF_MEMORY == c_number(ErrorCode::out_of_memory));
static_assert(LOCKSTEP_CORRUPT_PAGE == c_number(ErrorCode::corrupt_page));
static_assert(LOCKSTEP_LOST_WRITE == c_number(ErrorCode::lost_write));
static_assert(LOCKSTEP_CORRUPT_LOG == c_number(ErrorCode::corrupt_log));
static_assert(LOCKSTEP_CORRUPT_SUPERBLOCK == c_number(ErrorCode::corrupt_superblock));
static_assert(LOCKSTEP_BAD_VERSION == c_number(ErrorCode::bad_version));
static_assert(LOCKSTEP_STORE_FAILED == c_number(ErrorCode::store_failed));
static_assert(LOCKSTEP_STORE_CLOSED == c_number(ErrorCode::store_closed));
static_assert(LOCKSTEP_STORE_LOCKED == c_number(ErrorCode::store_locked));
static_assert(LOCKSTEP_BAD_PATH == c_number(ErrorCode::bad_path));
static_assert(LOCKSTEP_BAD_OPTION == c_number(ErrorCode::bad_option));
static_assert(LOCKSTEP_BAD_ARGUMENT == c_number(ErrorCode::bad_argument));
static_assert(LOCKSTEP_NO_SUCH_OBJECT == c_number(ErrorCode::no_such_object));
static_assert(LOCKSTEP_ALREADY_EXISTS == c_number(ErrorCode::already_exists));
static_assert(LOCKSTEP_WRONG_KIND == c_number(ErrorCode::wrong_kind));
static_assert(LOCKSTEP_DUPLICATE_KEY == c_number(ErrorCode::duplicate_key));
static_assert(LOCKSTEP_NO_SUCH_RECORD == c_number(ErrorCode::no_such_record));
static_assert(LOCKSTEP_KEY_TOO_LONG == c_number(ErrorCode::key_too_long));
static_assert(LOCKSTEP_VALUE_TOO_LONG == c_number(ErrorCode::value_too_long));
static_assert(LOCKSTEP_DEADLOCK == c_number(ErrorCode::deadlock));
static_assert(LOCKSTEP_LOCK_TIMEOUT == c_number(ErrorCode::lock_timeout));
static_assert(LOCKSTEP_SELF_DEADLOCK == c_number(ErrorCode::self_deadlock));
static_assert(LOCKSTEP_TIMEOUT == c_number(ErrorCode::timeout));
static_assert(LOCKSTEP_CANCELLED == c_number(ErrorCode::cancelled));
static_assert(LOCKSTEP_TXN_ENDED == c_number(ErrorCode::txn_ended));
static_assert(LOCKSTEP_TXN_ABORTING == c_number(ErrorCode::txn_aborting));
static_assert(LOCKSTEP_READ_ONLY == c_number(ErrorCode::read_only));
static_assert(LOCKSTEP_WRONG_THREAD == c_number(ErrorCode::wrong_thread));
static_assert(LOCKSTEP_TOO_MANY == c_number(ErrorCode::too_many));
static_assert(LOCKSTEP_ROLLED_BACK == c_number(ErrorCode::rolled_back));
static_assert(LOCKSTEP_UNSUPPORTED == c_number(ErrorCode::unsupported));
static_assert(LOCKSTEP_FORKED == c_number(ErrorCode::forked));
static_assert(LOCKSTEP_ENDED_BY_OPERATOR == c_number(ErrorCode::ended_by_operator));
static_assert(LOCKSTEP_TRANSACTION_TOO_OLD == c_number(ErrorCode::transaction_too_old));
static_assert(LOCKSTEP_NOT_CLOSED == c_number(ErrorCode::not_closed));
static_assert(LOCKSTEP_KEY_FUNCTION_MISSING == c_number(ErrorCode::key_function_missing));
static_assert(LOCKSTEP_INDEX_MISMATCH == c_number(ErrorCode::index_mismatch));
static_assert(LOCKSTEP_SNAPSHOT_TOO_OLD == c_number(ErrorCode::snapshot_too_old));
static_assert(LOCKSTEP_BAD_BACKUP == c_number(ErrorCode::bad_backup));
static_assert(LOCKSTEP_BAD_ARCHIVE == c_number(ErrorCode::bad_archive));
static_assert(LOCKSTEP_ARCHIVE_FAILED == c_number(ErrorCode::archive_failed));

static_assert(int{LOCKSTEP_TEAM_LAST_LEAVER} == c_number(TeamPolicy::last_leaver));
static_assert(int{LOCKSTEP_TEAM_LARGEST} == c_number(TeamPolicy::largest));
static_assert(int{LOCKSTEP_TEAM_OLDEST} == c_number(TeamPolicy::oldest));
static_assert(int{LOCKSTEP_TEAM_T_GATED} == c_number(TeamGate::t_gated));
static_assert(int{LOCKSTEP_TEAM_D_GATED} == c_number(TeamGate::d_gated));
static_assert(int{LOCKSTEP_TEAM_C_GATED} == c_number(TeamGate::c_gated));
static_assert(int{LOCKSTEP_PACKETS_FIFO} == c_number(PacketPolicy::fifo));
static_assert(int{LOCKSTEP_PACKETS_PRIORITY} == c_number(PacketPolicy::priority));
static_assert(int{LOCKSTEP_LOCKS_FIFO} == c_number(LockPolicy::fifo));
static_assert(int{LOCKSTEP_LOCKS_SHORT_FIRST} == c_number(LockPolicy::short_first));
static_assert(int{LOCKSTEP_LOCKS_PRIORITY} == c_number(LockPolicy::priority));
static_assert(int{LOCKSTEP_LOCKS_LOCAL_FIRST} == c_number(LockPolicy::local_first));
static_assert(int{LOCKSTEP_IO_AUTOMATIC} == c_number(IoMethod::automatic));
static_assert(int{LOCKSTEP_IO_URING} == c_number(IoMethod::io_uring));
static_assert(int{LOCKSTEP_IO_POOL} == c_number(IoMethod::pool));
static_assert(int{LOCKSTEP_ARCHIVE_STOPS_WRITERS} == c_number(ArchiveFailure::stop_writers));
static_assert(int{LOCKSTEP_ARCHIVE_GOES_ON} == c_number(ArchiveFailure::go_on));

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
