// options.cc - every option's range, in one place.
#include <lockstep/options.h>

#include <algorithm>
#include <bit>
#include <string>

#include "sm/engine/derived_options.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/base/try.h"

namespace lockstep {
namespace {

constexpr uint64_t kKiB = 1ull << 10, kMiB = 1ull << 20, kGiB = 1ull << 30, kTiB = 1ull << 40;

Result<void> within(const char* name, uint64_t value, uint64_t low, uint64_t high) {
    DCHECK(low <= high);
    if (value >= low && value <= high) return {};
    Error error = fail(ErrorCode::bad_option, name, value).error();
    set_error_detail(error, "it is " + std::to_string(value) + ", allowed are " +
                                std::to_string(low) + " to " + std::to_string(high));
    return std::unexpected(error);
}

template <class T>
Result<void> within_if_given(const char* name, std::optional<T> value, uint64_t low,
                             uint64_t high) {
    return value ? within(name, *value, low, high) : Result<void>();
}

}  // namespace

void derive_log_options(Options& o) {
    const uint64_t quarter = o.log_bytes / 4;
    if (!o.log_segment_bytes)
        o.log_segment_bytes = std::min<uint64_t>(64 * kMiB, quarter / 4096 * 4096);
    if (!o.log_ring_bytes) o.log_ring_bytes = std::min(32 * kMiB, std::bit_floor(quarter));
}

Result<void> check_options(const Options& given) {
    Options o = given;
    derive_log_options(o);
    if ((o.file_mode & ~0666u) != 0 || (o.file_mode & 0600) != 0600)
        return fail(ErrorCode::bad_option, "file_mode (0600 and what is within 0666)", o.file_mode);
    TRY(within("workers", o.workers, 1, 64));
    TRY(within("scan_workers", o.scan_workers, 0, 64 - o.workers));
    TRY(within("pool_bytes", o.pool_bytes, 4 * kMiB, kTiB - 1));
    TRY(within("stack_bytes", o.stack_bytes, 48 * kKiB, 8 * kMiB));
    TRY(within("transactions_max", o.transactions_max, 16, 65536));
    TRY(within("user_threads_max", o.user_threads_max, 1, 1u << 20));
    TRY(within("executors", o.executors, 1, 1u << 20));
    TRY(within("packets_max", o.packets_max, 16, 1ull << 32));
    TRY(within("packet_policy", static_cast<uint64_t>(o.packet_policy), 0,
               static_cast<uint64_t>(PacketPolicy::priority)));
    TRY(within_if_given("transaction_age_max", o.transaction_age_max, kMillisecond, kNever - 1));
    TRY(within("log_bytes", o.log_bytes, 4 * kMiB, kTiB));
    const uint64_t segment = *o.log_segment_bytes, ring = *o.log_ring_bytes;
    TRY(within("log_segment_bytes", segment, kMiB, kGiB));
    if (segment % 4096 != 0 || o.log_bytes / segment < 4)
        return fail(ErrorCode::bad_option,
                    "log_segment_bytes (a multiple of 4096, at most a quarter of log_bytes)",
                    segment);
    TRY(within("log_ring_bytes", ring, kMiB, kGiB));
    if (!std::has_single_bit(ring) || ring > o.log_bytes / 4)
        return fail(ErrorCode::bad_option,
                    "log_ring_bytes (a power of two, at most a quarter of log_bytes)", ring);
    TRY(within("lazy_flush_interval", o.lazy_flush_interval, 10 * kMicrosecond, 3600 * kSecond));
    TRY(within_if_given("checkpoint_log_bytes", o.checkpoint_log_bytes, kMiB, o.log_bytes / 2));
    TRY(within("changes_log_bytes", o.changes_log_bytes, 0, o.log_bytes / 4));
    TRY(within("lock_timeout", o.lock_timeout, 1, kNever));
    TRY(within("lock_stage.policy", static_cast<uint64_t>(o.lock_stage.policy), 0,
               static_cast<uint64_t>(LockPolicy::local_first)));
    TRY(within("lock_stage.bypass_max", o.lock_stage.bypass_max, 0, 65535));
    TRY(within_if_given("version_bytes", o.version_bytes, kMiB, kTiB));
    TRY(within("scan_bytes", o.scan_bytes, kMiB, kTiB));
    if (!(o.scan_share >= 0.01 && o.scan_share <= 1))
        return fail(ErrorCode::bad_option, "scan_share (0.01 .. 1)");
    TRY(within_if_given("escalate_at", o.escalate_at, 1, UINT32_MAX - 1));
    TRY(within("lock_table_bytes_log2", o.lock_table_bytes_log2, 16, 32));
    TRY(within_if_given("slice_warning", o.slice_warning, kMillisecond, 3600 * kSecond));
    TRY(within("offload_threads", o.offload_threads, 1, 1024));
    TRY(within("retries_max", o.retries_max, 0, 1'000'000));
    if (o.archive && o.archive->empty())
        return fail(ErrorCode::bad_option, "archive (a path is not empty)");
    if (o.archive && o.archive_sink)
        return fail(ErrorCode::bad_option, "archive (a directory or archive_sink, not both)");
    TRY(within_if_given("archive_interval", o.archive_interval, 100 * kMillisecond, kNever - 1));
    TRY(within_if_given("archive_backlog_bytes", o.archive_backlog_bytes, segment,
                        o.log_bytes / 2));
    TRY(within("archive_failure", static_cast<uint64_t>(o.archive_failure), 0,
               static_cast<uint64_t>(ArchiveFailure::go_on)));
    TRY(check_steps_options(o.steps));
    TRY(within("io", static_cast<uint64_t>(o.io), 0, static_cast<uint64_t>(IoMethod::pool)));
    return {};
}

Result<void> check_steps_options(const StepsOptions& o) {
    TRY(within("steps.mode", static_cast<uint64_t>(o.mode), 0,
               static_cast<uint64_t>(StepsMode::ctx)));
    TRY(within("steps.policy", static_cast<uint64_t>(o.policy), 0,
               static_cast<uint64_t>(TeamPolicy::oldest)));
    TRY(within("steps.gate", static_cast<uint64_t>(o.gate), 0,
               static_cast<uint64_t>(TeamGate::c_gated)));
    TRY(within("steps.team_max", o.team_max, 1, 1024));
    TRY(within("steps.rounds_max", o.rounds_max, 1, UINT32_MAX));
    return {};
}

}  // namespace lockstep
