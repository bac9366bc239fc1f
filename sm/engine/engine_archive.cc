// engine_archive.cc - what an engine does for backups and the log archive: their wiring, and the
// new history of a store that is made from a backup.
#include "sm/backup/archiver.h"
#include "sm/backup/backup_manifest.h"
#include "sm/backup/page_rebuild.h"
#include "sm/engine/engine.h"
#include "sm/host/test_hooks.h"
#include "sm/recovery/recovery.h"
#include "threads/base/rng.h"
#include "threads/base/wall_clock.h"

namespace lockstep::sm {

// The log exists, and nothing is recycled yet.
Result<void> Engine::build_archive() {
    if (options.read_only || (!options.archive && !options.archive_sink)) return {};
    DCHECK(log != nullptr && archiver == nullptr);
    if (!options.test_hooks || !options.test_hooks->disk) {
        archive_disk_ = threads::make_disk(threads::IoBackend::pool);
        TRY(archive_disk_->make_files_like(data_file));
    }
    if (options.archive) {
        archive = std::make_unique<ArchivePlace>(archive_disk(), *options.archive);
        rebuild = std::make_unique<PageRebuild>(*this, *archive);
    }
    archiver = TRY(Archiver::create(*this, archive.get()));
    return {};
}

// A log that gives nothing because it is damaged is no reason to do without the archive. The reader
// of the page gets corrupt_page, which says nothing of the log.
Result<bool> Engine::repair(PageId id, Page& page) {
    DCHECK(log != nullptr && id != kPageNone);
    Result<bool> done = repair_page(*this, id, page);
    if (done.has_value() && *done) return done;
    const auto tell = [&](const char* from, const Error& error) {
        report(1, "page " + std::to_string(id.value) + " cannot be repaired from " + from + ": " +
                      error.text());
    };
    if (!done.has_value()) tell("the log", done.error());
    if (!rebuild) return done;
    done = rebuild->rebuild(id, page);
    if (!done.has_value()) tell("a backup", done.error());
    return done;
}

// A complete backup becomes a store. The new history comes before the end of the backup (BM-2): a
// crash between the two draws another one, whose parent is the backup's all the same.
Result<void> Engine::adopt() {
    DCHECK(!options.read_only && lock_file_.value >= 0);
    if (!disk->exists(directory / kManifestName)) return {};
    TRY(begin_history(TRY(read_manifest(*disk, directory))));
    return adopt_backup(*disk, directory);
}

Result<void> Engine::begin_history(const BackupManifest& backup) {
    DCHECK(!opened_ && log == nullptr && backup.end > superblock.checkpoint_lsn);
    const MonotonicClock own;
    const Clock& clock = options.test_hooks ? *options.test_hooks->clock : own;
    superblock.history_parent = backup.superblock.history;
    superblock.history_begin = backup.end;
    superblock.history =
        Rng(wall_now(clock) ^ superblock.uuid[0] ^ (superblock.history << 1) ^ backup.end).next() |
        1;
    superblock.version = kFormatVersion;
    DCHECK(superblock.history != 0 && superblock.history != superblock.history_parent);
    return write_superblock(*disk, data_file, superblock);
}

}  // namespace lockstep::sm
