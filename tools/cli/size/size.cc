// size.cc - see size.h.
#include "tools/cli/size/size.h"

#include <algorithm>
#include <cmath>

#include "sm/buffer/buffer_pool.h"
#include "sm/engine/derived_options.h"
#include "threads/base/check.h"
#include "threads/base/memory_reserve.h"
#include "txn/lock/lock_bucket.h"
#include "txn/transaction.h"

namespace lockstep::cli {
namespace {

constexpr uint64_t kMiB = 1ull << 20;

// Of the images that snapshots need, and of the table that finds them.
uint64_t version_bytes(const Options& o) {
    const uint64_t images = o.version_bytes.value_or(std::max(o.pool_bytes / 4, 64 * kMiB));
    return images + std::min(images / 8, 64 * kMiB);
}

std::vector<SizeRow> memory_of(const Options& o, const Load& load) {
    const uint64_t pages = std::max(load.data_bytes, o.pool_bytes) / kPageBytes;
    const uint64_t live = std::min<uint64_t>(load.threads, o.transactions_max);
    DCHECK(pages > 0 && o.log_ring_bytes);
    return {
        {"buffer pool", o.pool_bytes, "pool_bytes"},
        {"descriptors of its frames", o.pool_bytes / kPageBytes * sizeof(sm::FrameInfo),
         "pool_bytes"},
        // A latch word, and the LSN of the last write.
        {"words of the data's pages", pages * 2 * sizeof(uint64_t), "--data"},
        {"versions for snapshots", version_bytes(o), "version_bytes"},
        {"blocks of reports", o.scan_bytes, "scan_bytes"},
        {"stacks", load.threads * o.stack_bytes, "--threads, stack_bytes"},
        {"transactions", live * sizeof(txn::Transaction), "--threads, transactions_max"},
        {"lock table", 1ull << o.lock_table_bytes_log2, "lock_table_bytes_log2"},
        {"locks", live * load.locks * sizeof(txn::LockRequest), "--locks"},
        {"log buffer", *o.log_ring_bytes, "log_ring_bytes"},
        {"reserve", MemoryReserve::kBytes, "always"},
    };
}

}  // namespace

Sizes sizes_of(Options o, const Load& load) {
    DCHECK(load.redo_bytes_a_second > 0 && load.transactions_a_second >= 0);
    derive_log_options(o);
    Sizes sizes{.memory = memory_of(o, load)};
    for (const SizeRow& row : sizes.memory) sizes.memory_bytes += row.bytes;
    sizes.log_bytes = o.log_bytes;
    const uint64_t interval = o.checkpoint_log_bytes.value_or(o.log_bytes / 4);
    // Until a checkpoint ends, by half of the next interval, a restart begins at the one before.
    sizes.redo_bytes = std::min(interval + interval / 2, o.log_bytes);
    sizes.restart_seconds =
        static_cast<double>(sizes.redo_bytes) / static_cast<double>(load.redo_bytes_a_second);
    sizes.log_bytes_a_second =
        load.transactions_a_second * static_cast<double>(load.log_bytes_each);
    if (sizes.log_bytes_a_second == 0) return sizes;
    sizes.checkpoint_seconds = static_cast<double>(interval) / sizes.log_bytes_a_second;
    const double minute = std::ceil(sizes.log_bytes_a_second * 60 * 4 / kMiB) * kMiB;
    sizes.log_bytes_for_a_minute =
        static_cast<uint64_t>(std::clamp<double>(minute, 4.0 * kMiB, 1ull << 40));
    DCHECK(sizes.checkpoint_seconds > 0 && sizes.log_bytes_for_a_minute >= 4 * kMiB);
    return sizes;
}

}  // namespace lockstep::cli
