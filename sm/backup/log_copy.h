// log_copy.h - copies the log of a running store while it is written, piece by piece.
#pragma once

#include <algorithm>
#include <string>

#include "sm/backup/backup_target.h"
#include "sm/backup/record_check.h"
#include "threads/io/offload_pool.h"
#include "txn/log/log.h"
#include "txn/log/log_files.h"

namespace lockstep::sm {

class LogCopy {
public:
    // `hold` keeps the log from `from` on, a record boundary. A kernel thread of `reader` reads and
    // checks.
    LogCopy(threads::Disk& disk, const txn::Log& log, const txn::LogOptions& options,
            txn::LogHold hold, Lsn from, threads::OffloadPool& reader);
    ~LogCopy();
    LogCopy(const LogCopy&) = delete;
    // Copies the whole blocks that are durable now, about `most` bytes at most. Errors:
    // corrupt_log, those of the disk, those of the target.
    Result<void> catch_up(BackupTarget& target, uint64_t most);
    // Bytes that are durable and not copied.
    uint64_t lag() const {
        const uint64_t durable = log_.durable().value;
        return durable - std::min(next_, durable);
    }
    // Copies the rest up to `end`, which is durable, and writes the durable-end record. BK-1.
    Result<void> finish(BackupTarget& target, Lsn end);
    uint64_t bytes() const { return bytes_; }

private:
    void assert_state() const {
        DCHECK(next_ % txn::kLogBlock == 0 && bytes_ % txn::kLogBlock == 0);
        DCHECK((file_.value >= 0) == (open_segment_ != UINT64_MAX));
        DCHECK(check_.position().value <= log_.durable().value);
        DCHECK(hold_.from().value <= next_ + txn::kLogBlock);  // BK-3
    }
    Result<void> copy_to(BackupTarget& target, uint64_t end);
    Result<void> open_segment_of(uint64_t at);

    txn::LogFiles files_;
    const txn::Log& log_;
    threads::OffloadPool& reader_;
    txn::LogHold hold_;
    RecordCheck check_;
    uint64_t next_;  // first byte that is not copied, a block's begin
    uint64_t bytes_ = 0;
    threads::FileId file_{-1};
    uint64_t open_segment_ = UINT64_MAX;
};

}  // namespace lockstep::sm
