// combined_files.h - the files of a backup that is put together from other backups.
//
// Concepts   The data file has the pages of a full backup, and over them those of each incremental
//            one. The log, if it is copied, is that of the last one. What a page must have
//            (data.lsn) is what the newest backup says of it that knows it: an incremental backup
//            does not know the pages that it has not read.
// Blocking   All calls block the calling kernel thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sm/backup/backup_manifest.h"
#include "threads/base/check.h"
#include "threads/io/copy_stream.h"
#include "threads/io/io.h"
#include "txn/log/log_files.h"

namespace lockstep::sm {

class CombinedFiles {
public:
    // The files lie in directory `to`. The bytes pass through `stream`. All outlive the object.
    CombinedFiles(threads::Disk& disk, const threads::Directory& to, threads::CopyStream& stream)
        : disk_(disk), to_(to), stream_(stream) {}
    // The first `pages` pages of the data file in directory `from`. What that file lacks stays
    // zeros.
    Result<void> copy_data(const threads::Directory& from, uint64_t pages, threads::FileId data);
    // The pages of the incremental backup in directory `from`, those below `pages`, into the data
    // file, which is there. It is synced.
    Result<void> lay_over(const threads::Directory& from, const BackupManifest& manifest,
                          uint64_t pages);
    // Adds what the backup in `directory` knows, earlier backups first. False: its data.lsn is
    // missing or damaged, and nothing is known of some pages.
    Result<bool> add_lsns(const threads::Directory& directory, const BackupManifest& manifest);
    // What was added, by page; 0: not known.
    std::vector<uint64_t>& lsns() { return lsns_; }
    // Pages of which add_lsns() has learned more than the backup before said. Ascending.
    const std::vector<PageId>& raised() const { return raised_; }
    // The pages that lay_over() has written.
    const std::vector<PageId>& laid_over() const { return laid_over_; }
    // What was added, in a file of that name. `result`: the backup that comes into being.
    Result<void> write_lsns(const char* name, const BackupManifest& result);
    // The log of the backup in directory `from`, which it has up to its end, and a log.mark for it.
    // No file of these names may be there.
    Result<void> copy_log(const threads::Directory& from, const BackupManifest& manifest);
    Result<void> write_superblocks(Superblock block);
    // The block of a manifest, into the file of that name, which is there. It is read again: an
    // older one would say what the other files are not.
    Result<void> write_manifest(const char* name, const BackupManifest& manifest);

private:
    void assert_state() const {
        DCHECK(raised_.size() <= lsns_.size());
        DCHECK(raised_.empty() || raised_.back().value < lsns_.size());
    }
    Result<void> copy_file(const threads::Directory& from, const std::string& name, uint64_t end);
    Result<void> copy_bytes(const threads::Directory& from, const std::string& name,
                            threads::FileId to, uint64_t end);
    Result<void> write_pages(threads::FileId data, std::span<const Page> run, uint64_t pages);

    threads::Disk& disk_;
    const threads::Directory& to_;
    threads::CopyStream& stream_;
    std::vector<uint64_t> lsns_;  // by page; 0: not known
    std::vector<PageId> raised_, laid_over_;
};

// Writes the log.mark of a log that ends at `end`.
Result<void> write_mark(threads::Disk& disk, const txn::LogFiles& files, uint64_t end);

// What the manifest of an incremental backup becomes when earlier ones have brought the other
// pages.
BackupManifest full_backup_of(BackupManifest manifest);

}  // namespace lockstep::sm
