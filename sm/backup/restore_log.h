// restore_log.h - the log that a restore reads: that of the last backup, and behind the backup's
// point that of the archive.
//
// Blocking   Blocks the calling kernel thread.
#pragma once

#include <string>

#include "sm/backup/archive_index.h"
#include "sm/backup/backup_manifest.h"
#include "sm/backup/record_check.h"
#include "threads/base/check.h"
#include "threads/io/copy_stream.h"
#include "txn/log/log_files.h"

namespace lockstep::sm {

class RestoreLog {
public:
    // `directory`: of the backup. All outlive the object.
    RestoreLog(threads::Disk& disk, const threads::Directory& directory,
               const BackupManifest& backup, const ArchiveIndex& index)
        : disk_(disk),
          backup_(backup),
          files_(disk, directory, backup.superblock.log_segment_bytes),
          archive_(disk, index, backup.superblock, false) {}
    ~RestoreLog() { close(); }
    RestoreLog(const RestoreLog&) = delete;

    // Passes the log from `begin` to `end` through both steps of the stream. A buffer begins with a
    // block, so it may begin with bytes that the one before has, too. Errors: bad_archive,
    // bad_backup, those of the disk and of both steps.
    Result<void> pass(uint64_t begin, uint64_t end, threads::CopyStream& stream,
                      threads::CopyStream::Look look, threads::CopyStream::Write write);
    // Has `records` look at what has been read. Errors: its own, but bad_archive or bad_backup
    // instead of corrupt_log.
    Result<void> check(RecordCheck& records, const threads::CopyBuffer& buffer) const;
    // Of the archive's piece that has the byte. Error: bad_archive.
    Result<ArchiveHeader> piece_at(uint64_t lsn) { return archive_.header_at(lsn); }

private:
    Result<uint64_t> read(uint64_t next, uint64_t end, std::byte* to);
    Result<uint64_t> read_backup(uint64_t next, std::byte* to);
    void close();

    threads::Disk& disk_;
    const BackupManifest& backup_;
    const txn::LogFiles files_;  // of the backup
    ArchiveReader archive_;
    threads::FileId file_{-1};  // of the backup
    uint64_t number_ = 0;       // of its segment
};

}  // namespace lockstep::sm
