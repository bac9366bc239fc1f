// restore.h - puts backups together, on a disk of the caller's choice.
//
// Concepts   The target becomes a complete full backup: its first open makes a store of it. The
//            pages come from the full backup and then from each incremental one. All other files
//            come from the last one. An archive brings all of that forward (roll_forward.h).
// Invariants RS-1 The target has an invalid file `backup` until all its other files are synced. So
//                 a restore that was cut off is recognised, and may begin again. [checked:
//                 clear_target()]
//            RS-2 Each page and log record of the result is sound, and each page is at least as new
//                 as the newest backup that knows it says. Else the restore fails. So a damaged
//                 page of an earlier backup does no harm if a later one brings it. [checked:
//                 check()]
//            RS-3 With an archive the state goes on from the last backup's point without a gap, and
//                 ends at a record's boundary not behind the point that was asked for. [checked:
//                 RollForward]
//            RS-4 One restore works in a directory at a time. [checked: lock_target()]
// Blocking   Blocks the calling kernel thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <lockstep/backup.h>
#include "threads/io/copy_stream.h"
#include "threads/io/io.h"

namespace lockstep::sm {

// restore_backup() of backup.h. `steps`: how each file is copied and checked.
Result<BackupInfo> restore_on(threads::Disk& disk, std::span<const std::string> backups,
                              const std::string& to, const RestoreOptions& options = {},
                              threads::CopySteps steps = threads::CopySteps::alternate);

// verify_restore() of backup.h.
Result<std::vector<std::string>> verify_on(
    threads::Disk& disk, std::span<const std::string> backups, const RestoreOptions& options = {},
    threads::CopySteps steps = threads::CopySteps::alternate);

}  // namespace lockstep::sm
