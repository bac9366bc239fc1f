// page_rebuild.h - rebuilds a damaged page that the live log cannot rebuild, from the newest backup
// that the archive knows, and the log since.
//
// Argument   Let B be the backup's begin record. The copy of the page in the backup has every
//            change below B. The log from B to now lies in the backup (up to its point), in the
//            archive and in the live log, which is held meanwhile. Applying it to the copy is what
//            a restart with so much log would do (backup.h), for one page. What the volume has was
//            durable in the log before (BP-1). So the page that results is not older than any
//            thread may expect.
// Invariants PR-1 The log is read from B to its durable end without a gap, and each record is
//                 checked. If something is missing, an older backup is tried. [checked: scan()]
// Blocking   Parks the calling user thread, and blocks its kernel thread for opens and lists. Only
//            threads that want this page wait.
#pragma once

#include <atomic>
#include <string>

#include "sm/backup/archive_target.h"
#include "sm/recovery/restart_env.h"

namespace lockstep::sm {

class PageRebuild {
public:
    PageRebuild(RestartEnv& env, ArchivePlace& archive)
        : env_(env), disk_(archive.disk()), archive_(archive) {}
    // False if no backup gives it. On a user thread.
    Result<bool> rebuild(PageId id, Page& page);
    // Pages rebuilt so far.
    uint64_t count() const { return count_.load(std::memory_order_relaxed); }

private:
    RestartEnv& env_;
    threads::Disk& disk_;  // of the archive and the backups
    ArchivePlace& archive_;
    std::atomic<uint64_t> count_{0};
};

}  // namespace lockstep::sm
