// log_extension.h - the part of a restore that brings the log of a backup forward to a point, from
// the archive.
//
// Concepts   plan() finds the pieces and refuses what cannot be reached, before it writes.
//            run() copies the log behind the backup's point into the target's segments, checks each
//            record, and cuts the log at the point.
//            A point in time is the end of the newest time record that is not later. So the state
//            has nothing that committed behind it (AR-4).
// Blocking   Blocks the calling kernel thread.
#pragma once

#include <string>

#include <lockstep/backup.h>
#include "sm/backup/archive_index.h"
#include "sm/backup/backup_manifest.h"
#include "sm/backup/record_check.h"
#include "threads/io/copy_stream.h"

namespace lockstep::sm {

class LogExtension {
public:
    // `backup`: the last one. Errors: bad_archive, bad_argument, those of the disk.
    static Result<LogExtension> plan(threads::Disk& disk, const BackupManifest& backup,
                                     const RestoreOptions& options);
    // The directory `to` has the log of the backup. Errors: bad_archive, corrupt_log, those of the
    // disk.
    Result<void> run(const std::string& to, threads::CopyStream& stream);
    // What is different from the backup, after run().
    void note_in(BackupManifest& manifest) const;

private:
    LogExtension(threads::Disk& disk, ArchiveIndex index, const BackupManifest& backup,
                 const RestoreOptions& options);
    Result<void> see(const txn::LogRecordView& record);
    Result<void> copy(const txn::LogFiles& files, ArchiveReader& reader,
                      threads::CopyStream& stream);
    Result<void> check(RecordCheck& records, const threads::CopyBuffer& buffer);
    Result<void> write_log(const txn::LogFiles& files, uint64_t at, const std::byte* from,
                           uint64_t bytes, uint64_t stop);
    Result<void> check_end() const;
    Result<void> cut(const std::string& to) const;
    Result<void> cut_file(threads::FileId file, uint64_t offset) const;
    bool by_time() const { return options_.until_time != 0; }
    void assert_state() const {
        DCHECK(end_ >= backup_.end && chain_end_ >= backup_.end);
        DCHECK(!by_time() || end_time_ <= options_.until_time);
    }

    threads::Disk* disk_;
    ArchiveIndex index_;
    BackupManifest backup_;
    RestoreOptions options_;
    uint64_t chain_end_;     // the archive has the log up to here
    uint64_t end_;           // where the restored log ends
    uint64_t copied_;        // first byte that is not in the target, a block's begin
    Nanos end_time_;         // of the newest time record below end_
    Nanos newest_time_ = 0;  // of any record seen
    bool late_ = false;      // a time record behind the wanted time was seen
    ArchiveHeader last_{};   // of the last piece that was copied
};

}  // namespace lockstep::sm
