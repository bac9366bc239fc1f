// roll_forward.h - the part of a restore that brings the state of a backup forward to a point, with
// the log archive.
//
// Concepts   plan() finds the pieces of the archive and refuses what cannot be reached, before
//            anything is written.
//            run() reads the log once: that of the backup, from its checkpoint on, and then the
//            archive's. It checks each record and applies it to the pages. So the target needs only
//            the log of transactions that have not ended at the point, and its first open has
//            nothing to redo (RC-5).
//            A point in time is the end of the newest time record that is not later. So the state
//            has nothing that committed behind it (AR-4). find_time() looks for it first: what lies
//            behind it must not get into the pages.
// Blocking   Blocks the calling kernel thread.
#pragma once

#include <string>
#include <vector>

#include <lockstep/backup.h>
#include "sm/backup/restore_log.h"
#include "sm/backup/restored_pages.h"
#include "sm/recovery/recovery_parts.h"

namespace lockstep::sm {

class RollForward {
public:
    // `backup`: the last one, in `directory`. Errors: bad_archive, bad_argument, those of the disk.
    static Result<RollForward> plan(threads::Disk& disk, const threads::Directory& directory,
                                    const BackupManifest& backup, const RestoreOptions& options);
    // For a restore to a time: reads the archive's log, and refuses a time that it does not reach.
    // Nothing is written. Errors: bad_archive, those of the disk.
    Result<void> find_time(threads::CopyStream& stream);
    // The directory `to` has the pages of the backup, with `lsns` as in restored_pages.h, and no
    // log. Comes last. Errors: bad_archive, bad_backup, out_of_memory, those of the disk.
    Result<void> run(const threads::Directory& to, std::vector<uint64_t>& lsns,
                     threads::CopyStream& stream);
    // Reads the log that run() would read, and writes nothing. In place of run(). Errors: those of
    // run().
    Result<void> check(threads::CopyStream& stream);
    // What is different from the backup, after run().
    void note_in(BackupManifest& manifest) const;

private:
    RollForward(threads::Disk& disk, ArchiveIndex index, threads::Directory directory,
                const BackupManifest& backup, const RestoreOptions& options);
    // `pages`: the records are applied to them; null: only checked.
    Result<void> take_records(RestoreLog& log, RestoredPages* pages, threads::CopyStream& stream);
    Result<void> note(const txn::LogRecordView& record);
    Result<void> keep_log(RestoreLog& log, const threads::Directory& to,
                          threads::CopyStream& stream);
    Result<void> write_log(const txn::LogFiles& files, uint64_t at, const std::byte* from,
                           uint64_t bytes) const;
    bool by_time() const { return options_.until_time.has_value(); }
    void assert_state() const {
        DCHECK(backup_.end <= end_ && end_ <= chain_end_);
        DCHECK(!by_time() || end_time_ <= *options_.until_time);
        DCHECK(!options_.until || end_ <= options_.until->value);  // RS-3
    }

    threads::Disk* disk_;
    ArchiveIndex index_;
    threads::Directory directory_;  // of the backup
    BackupManifest backup_;
    RestoreOptions options_;
    uint64_t chain_end_;        // the archive has the log up to here
    uint64_t end_;              // the restored state's point
    Nanos end_time_;            // of the newest time record below end_
    Analysis analysis_;         // which transactions have not ended
    uint64_t last_record_ = 0;  // the begin of the newest one that was applied
    uint64_t log_begin_ = 0;    // of the target's log
    ArchiveHeader last_{};      // of the archive's piece with the last byte
};

}  // namespace lockstep::sm
