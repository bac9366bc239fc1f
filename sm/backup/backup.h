// backup.h - copies a running store: pages as they are found, and the log that makes a state of
// them.
//
// Concepts   The copy of the pages is fuzzy: transactions go on, and each page is copied at another
//            moment. The log from the last checkpoint's begin record B to an end E makes one state
//            of it, exactly as a restart does: the backup is what a crash at E could have left.
//            BackupManifest says that it is complete, and what it holds.
// Argument   Let the superblock that the backup begins with name B. Each change logged below B was
//            in the volume before that superblock was written (checkpoint.cc, (1)), so every copy
//            has it. The first record of each page above B brings the page with it (checkpoint.cc,
//            (2)), and redo does not look at the copy of such a page (restart_redo.cc). So it does
//            not matter when a page was copied, nor whether a page was copied that the volume did
//            not have yet. Pages behind the end that the file had at the begin came into being
//            above B, and so the log brings them. A page that give_back_space() cuts meanwhile is
//            free at E.
// Invariants BK-1 The log is copied from the superblock's log_start to E without a gap, and E is a
//                 record boundary that is durable. [checked: LogCopy::finish()]
//            BK-2 No copied page has an lsn above E. E is read after the last page was copied, and
//                 a page's lsn is the end of a record. [checked: finish()]
//            BK-3 The log is held from log_start on before the superblock is read, and the hold
//                 moves up as the log is copied (LOG-6). So the store keeps no more log than what
//                 is not copied yet. The size of the volume is read after the superblock: pages
//                 that come later have all their changes above B.
//            BK-4 What is copied is checked: each page (BufferPool::copy_pages()) and each log
//                 record (RecordCheck).
//            BK-5 Only a complete backup has a valid manifest (BM-1).
//            BK-6 An incremental backup has each page whose lsn is above the earlier backup's B.
//                 A page that is not above it has not changed since before the earlier copy began,
//                 so that copy has the same content, if the store has had that backup's state
//                 (Superblock::follows()).
//            BK-7 An incremental backup leaves out a page without reading it only if the buffer
//                 pool knows that no change of it is above the earlier backup's B. The pool knows
//                 that if B lies in this run of the store (BufferPool::may_be_newer()). A change
//                 between the look and E is above this backup's B, so the log brings it.
// Blocking   make_backup() parks; on a user thread of the store.
// Source     C. Mohan et al., "ARIES", 1992, section on fuzzy image copies.
#pragma once

#include <functional>

#include <lockstep/backup.h>
#include "sm/backup/backup_target.h"
#include "sm/recovery/restart_env.h"

namespace lockstep::sm {

// `goes_on` is asked between pieces, and its error ends the backup. Errors: those of
// Store::backup().
Result<BackupInfo> make_backup(RestartEnv& env, BackupTarget& target, const BackupOptions& options,
                               const std::function<Result<void>()>& goes_on);

}  // namespace lockstep::sm
