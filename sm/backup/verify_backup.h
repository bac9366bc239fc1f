// verify_backup.h - looks for faults in the files of a backup, on a disk of the caller's choice.
#pragma once

#include <string>
#include <vector>

#include "sm/backup/backup_manifest.h"
#include "sm/buffer/written_lsns.h"
#include "threads/io/copy_stream.h"

namespace lockstep::sm {

// verify_backup() of backup.h for the files that `manifest` describes; the file `backup` is not
// read. `only`: of the data file these pages alone, ascending; null: all. The bytes pass through
// `stream`. Blocks the calling kernel thread.
Result<std::vector<std::string>> find_faults(threads::Disk& disk,
                                             const threads::Directory& directory,
                                             const BackupManifest& manifest,
                                             threads::CopyStream& stream,
                                             const std::vector<PageId>* only = nullptr);

// Fills `lsns` from the data.lsn of a backup. The result is what is wrong with that file, as a
// line of text, or empty. Blocks the calling kernel thread.
Result<std::string> load_lsns(threads::Disk& disk, const threads::Directory& directory,
                              const BackupManifest& manifest, WrittenLsns& lsns);

}  // namespace lockstep::sm
