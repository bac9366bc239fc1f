// backup_manifest.h - the file `backup` of a backup: it says that the backup is complete, and what
// it holds.
//
// Layout     One block of 4096 bytes; the rest is zeros.
//            offset  0 u64 checksum      XXH3 over bytes 8..4095.
//                    8 char magic[8]     "LSBACKUP".
//                   16 u32 version
//                   20 u32 restored      1: restore_backup() made it, to be opened as a store.
//                   24 Superblock        as in pages 0 and 1 of the backup (superblock.h).
//                  128 u64 end           the state's point: the log's end.
//                  136 u64 pages         of the data file.
//                  144 u64 pages_copied
//                  152 u64 since_redo    an earlier backup's checkpoint_lsn: pages whose lsn is not
//                                        above it are not copied. 0: all pages are.
//                  160 u64 since_end     that backup's `end`, or 0.
//                  168 u64 bytes         of all files.
//                  176 u64 log_bytes
//                  184 u64 pages_zeroed
//                  192 u64 nanos         how long the backup took.
//                  200 u64 ended_at      when `end` was taken: nanoseconds since 1970, UTC.
// Invariants BM-1 The file exists, empty and synced, before any other file of the backup. It gets
//                 its block after all others are synced. So a backup without a valid block is
//                 incomplete, whatever the other files hold. [checked: read_manifest()]
//            BM-2 An open for writing removes the file, and syncs that, before it changes another.
//                 [adopt_backup()]
//            BM-3 While update_backup() changes the files of a backup, the file `backup.before` has
//                 the block that it had. As long as that is valid, the backup is none. [checked:
//                 read_manifest()]
//            BM-4 Backups of an idle store have the same `end`, but their checkpoints may differ. A
//                 backup has copies of pages as of its checkpoint, and its own log repairs them. So
//                 the next one must have each page that changed since that checkpoint. [checked:
//                 check_follows()]
#pragma once

#include <optional>
#include <string>

#include <lockstep/backup.h>
#include "sm/buffer/superblock.h"
#include "threads/io/directory.h"

namespace lockstep::sm {

inline constexpr const char* kManifestName = "backup";
inline constexpr const char* kBeforeName = "backup.before";
// Pages of an incremental backup, one after the other; each says its number in its header.
inline constexpr const char* kPagesName = "pages";
inline constexpr uint64_t kManifestBytes = 4096;
inline constexpr uint32_t kManifestVersion = 2;  // 2: histories, ended_at

// What helps against a file of a backup that is damaged or missing.
inline constexpr const char* kBackupRemedy =
    "bring the file from a copy of the backup, or use another backup";

// Disk::exists() of a path that cannot be looked at is false. This is the error then.
Result<bool> is_there(threads::Disk& disk, const threads::Place& place);

struct BackupManifest {
    uint64_t checksum;
    char magic[8];
    uint32_t version;
    uint32_t restored;
    Superblock superblock;
    uint64_t end;
    uint64_t pages;
    uint64_t pages_copied;
    uint64_t since_redo;
    uint64_t since_end;
    uint64_t bytes;
    uint64_t log_bytes;
    uint64_t pages_zeroed;
    uint64_t nanos;
    uint64_t ended_at;

    bool incremental() const { return since_end != 0; }
    bool same_store(const Superblock& other) const {
        return superblock.uuid[0] == other.uuid[0] && superblock.uuid[1] == other.uuid[1];
    }
    BackupInfo info() const;
    void assert_state() const {
        superblock.assert_state();
        DCHECK(superblock.checkpoint_lsn < end);
        DCHECK(pages_copied <= pages && pages_zeroed <= pages);
        DCHECK((since_redo == 0) == (since_end == 0) && since_redo <= since_end);
        DCHECK(incremental() || pages_copied == pages);
        DCHECK(log_bytes <= bytes && restored <= 1);
    }
};
static_assert(kOnDisk<BackupManifest, 208> && offsetof(BackupManifest, superblock) == 24);
static_assert(offsetof(BackupManifest, end) == 128 && offsetof(BackupManifest, nanos) == 192);
static_assert(offsetof(BackupManifest, ended_at) == 200);
static_assert(sizeof(BackupManifest) <= kManifestBytes);

struct alignas(kManifestBytes) ManifestBlock {
    std::byte bytes[kManifestBytes];
};
// The block of a manifest, with magic, version and checksum.
void encode_manifest(BackupManifest manifest, ManifestBlock& block);
// Errors: bad_backup, bad_version.
Result<BackupManifest> decode_manifest(const ManifestBlock& block, uint64_t bytes);
// Of the backup in `directory`. Blocking. Errors: bad_backup (also if there is none), bad_path,
// bad_version, io_error.
Result<BackupManifest> read_manifest(threads::Disk& disk, const threads::Directory& directory);
// True if the directory has the file without a valid block (BM-1). False also if the block is valid
// and its version or content is refused. Blocking. Errors: bad_path, io_error.
Result<bool> is_unfinished(threads::Disk& disk, const threads::Directory& directory);
// Of a backup that an update has cut off: what it was before. Nothing: no update was cut off.
Result<std::optional<BackupManifest>> read_before(threads::Disk& disk,
                                                  const threads::Directory& directory);

// Error bad_backup if the incremental backup `next`, in `directory`, does not have what changed
// since `earlier` (BM-4), or is of another history.
Result<void> check_follows(const BackupManifest& earlier, const BackupManifest& next,
                           const std::string& directory);

// For an open: nothing if the directory is no backup. A complete full backup becomes a store if
// `writable`. Blocking. Errors: bad_backup (incomplete or incremental), and those of the disk.
Result<void> check_backup(threads::Disk& disk, const threads::Directory& directory);
Result<void> adopt_backup(threads::Disk& disk, const threads::Directory& directory);

}  // namespace lockstep::sm
