// recovery.h - restart after a crash (analysis, redo, undo), checkpoints, single-page repair.
//
// Concepts   ARIES with a checkpoint that writes what was dirty when it began. Redo starts at the
//            begin record of the last completed checkpoint (checkpoint.cc has the argument). The
//            log has the image of every page changed since. Analysis and redo are one pass over the
//            log. Abort and restart share the rollback code.
// Invariants RC-1 Redo applies a part only if the page's lsn is below the record's end.
//            RC-2 Undo follows prev. A compensation record sends it to its undo-next, so nothing is
//                 undone twice.
//            RC-3 The superblock names a checkpoint only when all it promises is durable.
//            RC-4 Recovering one image twice gives identical bytes, except that with an archive
//                 LSNs and free pages may differ (LOG-7).
//            RC-5 The superblock of a restored store may name a record that begins no checkpoint.
//                 Then the volume has every change of the log, and no redo is needed. A restart
//                 completes a checkpoint before it changes a page. [checked: restart()]
//            RC-6 The log has all of the checkpoint that the superblock names, or it is damaged:
//                 the list was durable before the superblock (RC-3). Without it, older losers would
//                 not be known. A restored store is exempt until its first checkpoint: the log that
//                 it has may end with any record. [checked: require_list()]
// Source     C. Mohan et al., "ARIES", 1992; PostgreSQL's checkpoint rule (redo pointer = begin).
#pragma once

#include "sm/recovery/in_doubt.h"
#include "sm/recovery/restart_env.h"

namespace lockstep::sm {

class ExclusivePage;

struct RecoveryReport {
    bool clean = false;  // the store had been closed properly
    Lsn redo_from{}, log_end{};
    uint64_t records = 0, parts_redone = 0, pages_read = 0, losers = 0, undone = 0;
    std::vector<InDoubt> in_doubt;
    // Redo runs while the log is read and analysed; redo_nanos is the time of what remained after
    // that.
    Nanos analysis_nanos = 0, redo_nanos = 0, undo_nanos = 0;
};
// Brings the volume up to the end of the log. Called on a user thread of worker 0 before anything
// else runs; env.superblock is the one just read. Prepared transactions stay in doubt (in_doubt.h).
// Redo runs on all workers, pages divided by number. env.objects is loaded between redo and undo.
// Sets the next TxnId. Ends with a checkpoint unless the store was closed properly.
Result<RecoveryReport> restart(RestartEnv& env, Lsn checkpoint_begin);

// The log since the checkpoint that the superblock names. `closed`: it has no change, and the
// superblock says that the store was closed there. Such a store can be read as it is. Blocking
// reads. Errors: io_error, out_of_memory.
struct LogSinceCheckpoint {
    uint64_t records = 0;  // of the log from the checkpoint on
    uint64_t changes = 0;  // those that are not of a checkpoint
    Lsn end{};             // of the last valid record
    bool closed = false;
    uint64_t unended = 0;     // transactions: in doubt, if there are no changes
    bool lacks_list = false;  // of the checkpoint's transactions: RC-6
};
Result<LogSinceCheckpoint> log_since_checkpoint(threads::Disk& disk,
                                                const txn::LogOptions& log_options,
                                                const Superblock& superblock);
// RC-6. `end`: of the log. Error: corrupt_log.
Result<void> require_list(const Superblock& superblock, bool lacks_list, Lsn end);

// Rebuilds one page from the log (newest image, then its later parts) into `page`. False if the log
// holds no image of it. For damaged pages; blocking reads. Errors: corrupt_log (also if the damaged
// record concerns another page), io_error, out_of_memory, too_many (holds of the log).
Result<bool> repair_page(RestartEnv& env, PageId id, Page& page);
// Logs the image of a page that was rebuilt. False, and nothing has changed, if the log refuses.
// Parks as change_pages() does.
bool log_repaired_page(Env& env, ExclusivePage& page);

class Checkpointer {
public:
    explicit Checkpointer(RestartEnv& env);
    // Begin record and full-page-image LSN, dirty pages, sync, end record, superblock, recycling of
    // the log. One at a time; parks. `fast`: writes do not pause.
    Result<void> run(bool fast);
    // Notes in the superblock that nothing has happened since the last run(). At close, when
    // nothing runs any more.
    Result<void> mark_clean();
    // Background user thread on worker 0: runs when checkpoint_log_bytes have been written since
    // the last one or the log gets full.
    Result<void> start();
    void stop();
    Lsn last_begin() const;
    uint64_t completed() const;
    // Since when checkpoints have failed, and why the last one did. None: it succeeded, or there
    // was none. Any kernel thread.
    struct Failing {
        Nanos since;
        int os;  // errno, or 0
        std::string why;
    };
    std::optional<Failing> failing() const;

private:
    struct Impl;
    Result<void> make(bool fast);
    RestartEnv& env_;
    std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::sm
