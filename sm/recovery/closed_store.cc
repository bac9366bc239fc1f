// closed_store.cc - was a store closed? Asked before it is read without recovery.
//
// Argument   close() takes a checkpoint and then marks the superblock. The next open for
//            writing does not take the mark away; the next checkpoint does. So the mark alone
//            proves nothing. If no change was logged since the checkpoint, the volume holds
//            everything (condition (1) of checkpoint.cc), and no transaction is live. One in doubt
//            is live: its changes are on the volume, and without a restart nothing would keep
//            readers away.
#include "sm/recovery/recovery_parts.h"
#include "threads/base/error_detail.h"

namespace lockstep::sm {

Result<void> require_list(const Superblock& superblock, bool lacks_list, Lsn end) {
    DCHECK(end.value >= superblock.checkpoint_lsn);
    const bool restored = superblock.checkpoint_lsn < superblock.history_begin;
    if (!lacks_list || restored) return {};
    auto error = fail(ErrorCode::corrupt_log, "log", end.value, superblock.checkpoint_lsn);
    set_error_detail(error.error(), "the log ends at LSN " + std::to_string(end.value) +
                                        ", within the checkpoint that begins at LSN " +
                                        std::to_string(superblock.checkpoint_lsn) +
                                        " and was complete once: restore the store from a backup");
    return error;
}

Result<LogSinceCheckpoint> log_since_checkpoint(threads::Disk& disk,
                                                const txn::LogOptions& log_options,
                                                const Superblock& superblock) {
    LogSinceCheckpoint log;
    Analysis analysis(Lsn{superblock.checkpoint_lsn});
    txn::LogReader reader(disk, log_options);
    reader.seek(Lsn{superblock.checkpoint_lsn});
    for (txn::LogRecordView record; TRY(reader.next(record)); ++log.records)
        TRY(analysis.see(record));
    log.changes = analysis.changes();
    log.end = reader.position();
    DCHECK(log.changes <= log.records);
    log.unended = analysis.unended().size();
    log.lacks_list = analysis.lacks_list();
    log.closed = superblock.clean == 1 && log.records > 0 && !log.lacks_list && log.unended == 0 &&
                 log.changes == 0;
    return log;
}

}  // namespace lockstep::sm
