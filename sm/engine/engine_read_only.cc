// engine_read_only.cc - opening a closed store without changing any of its files
// (Options::read_only).
//
// Concepts   No file is created, written or locked exclusively. There is no recovery, flusher,
//            checkpointer or ghost cleaner. Every transaction is read-only: the log counts as
//            full, and begin then asks why. So begin on a writable store does not pay for it.
#include "sm/backup/backup_manifest.h"
#include "sm/catalog/catalog.h"
#include "sm/engine/engine.h"
#include "sm/recovery/recovery.h"
#include "threads/base/error_detail.h"

namespace lockstep::sm {

// Where there is no lock file (a copy) or no locks, nothing keeps a writer away.
Result<void> Engine::open_files_to_read() {
    DCHECK(options.read_only);
    constexpr uint32_t kRead = threads::Disk::kReadOnly;
    TRY(check_backup(*disk, directory));
    if (!directory.is_open() || !holds_store())
        return fail_with(ErrorCode::bad_path, "no store",
                         directory.path() + " holds no store; check the path");
    if (disk->exists(directory / "lock")) {
        lock_file_ = TRY(disk->open(directory / "lock", kRead));
        const Result<void> locked = lock_files(disk->lock_shared(lock_file_));
        if (!locked && locked.error().code == ErrorCode::store_locked) return locked;
        if (!locked)
            report(1, "the store is not locked while it is read: " + locked.error().text());
    }
    data_file = TRY(disk->open(directory / "data", kRead | threads::Disk::kDirect));
    if (disk->exists(directory / "data.lsn"))
        lsns_file = TRY(disk->open(directory / "data.lsn", kRead | threads::Disk::kDirect));
    return {};
}

Result<void> Engine::require_closed() {
    DCHECK(options.read_only && superblock.sequence > 0);
    const LogSinceCheckpoint since = TRY(log_since_checkpoint(
        *disk, {.directory = directory, .segment_bytes = superblock.log_segment_bytes},
        superblock));
    TRY(require_list(superblock, since.lacks_list, since.end));
    if (since.closed) return {};
    if (since.changes == 0 && since.unended != 0) {
        auto error =
            fail(ErrorCode::not_closed, "transactions in doubt or without an end", since.unended);
        set_error_detail(error.error(),
                         (since.unended == 1 ? "1 transaction is in doubt or has no end"
                                             : std::to_string(since.unended) +
                                                   " transactions are in doubt or have no end") +
                             std::string(": open the store for writing, and commit or roll "
                                         "back what is in doubt"));
        return error;
    }
    return fail(ErrorCode::not_closed, "changes in the log since the last checkpoint",
                since.changes);
}

// Instead of a restart. On a user thread.
Result<void> Engine::start_reading() {
    DCHECK(!opened_ && log->filling());
    ghost_notes = nullptr;  // ghosts stay
    TRY(pool->start_cleaner());
    TRY(space->open());
    txns->set_next_id(TxnId{superblock.next_txn});
    adopt_catalog(PageId{superblock.catalog_root});
    return catalog->load();
}

}  // namespace lockstep::sm
