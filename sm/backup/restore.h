// restore.h - puts backups together, on a disk of the caller's choice.
//
// Concepts   The target becomes a complete full backup: its first open makes a store of it. The
//            pages come from the full backup and then from each incremental one. All other files
//            come from the last one.
// Invariants RS-1 The target has an invalid file `backup` until all its other files are synced. So
//                 a restore that was cut off is recognised, and may begin again. [checked:
//                 clear_target()]
//            RS-2 Each page of the result is sound. A damaged one is an error, unless a later
//                 backup brings that page. [checked: finish_pages()]
// Blocking   Blocks the calling kernel thread.
#pragma once

#include <span>
#include <string>

#include <lockstep/backup.h>
#include "threads/io/io.h"

namespace lockstep::sm {

// restore_backup() of backup.h.
Result<BackupInfo> restore_on(threads::Disk& disk, std::span<const std::string> backups,
                              const std::string& to);

}  // namespace lockstep::sm
