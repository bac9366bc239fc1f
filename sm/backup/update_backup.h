// update_backup.h - brings a full backup up to date in place, on a disk of the caller's choice.
//
// Invariants UB-1 Before any file of the full backup is changed, the incremental one has been found
//                 sound, and `backup.before` is durable (BM-3). So an update that was cut off is
//                 recognised, and each of its steps can be repeated.
//            UB-2 What the update writes is read again and checked before it counts. A page that it
//                 does not write is at least as new as the incremental backup says, or is read and
//                 checked too. [checked: check()]
// Blocking   Blocks the calling kernel thread.
#pragma once

#include <string>

#include <lockstep/backup.h>
#include "threads/io/copy_stream.h"
#include "threads/io/io.h"

namespace lockstep::sm {

// update_backup() of backup.h. `steps`: how each file is copied and checked.
Result<BackupInfo> update_on(threads::Disk& disk, const std::string& full, const std::string& next,
                             threads::CopySteps steps = threads::CopySteps::alternate);

}  // namespace lockstep::sm
