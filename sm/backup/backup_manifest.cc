// backup_manifest.cc - see backup_manifest.h.
#include "sm/backup/backup_manifest.h"

#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/io/disk_file.h"

namespace lockstep::sm {

namespace {

constexpr char kManifestMagic[8] = {'L', 'S', 'B', 'A', 'C', 'K', 'U', 'P'};

uint64_t checksum_of(const ManifestBlock& block) {
    return XXH3_64bits(block.bytes + sizeof(uint64_t), kManifestBytes - sizeof(uint64_t));
}

constexpr const char* kOfFile = "backup";
constexpr const char* kOfStore = "format version of a backup";

// What bad_version says of the file at `path`.
std::string text_of_version(const std::string& path, const Error& error) {
    const std::string oldest =
        error.what == kOfStore ? std::to_string(kFormatVersionOldest) + " to " : "";
    return path + (error.what == kOfStore ? " is of a store of format version " : " has version ") +
           std::to_string(error.a) + ", this program reads " + oldest + std::to_string(error.b) +
           (error.a > error.b ? ": use a newer program" : ": use the program that made it");
}

threads::Place path_of(const threads::Directory& directory) { return directory / kManifestName; }
threads::Place before_of(const threads::Directory& directory) { return directory / kBeforeName; }

// The bytes that the file has.
Result<size_t> read_bytes(threads::Disk& disk, const threads::Place& place, ManifestBlock& block) {
    const threads::DiskFile file =
        TRY(threads::DiskFile::open(disk, place, threads::Disk::kReadOnly));
    std::memset(block.bytes, 0, sizeof block.bytes);
    return disk.read_now(file.id(), 0, block.bytes, sizeof block.bytes);
}

Result<BackupManifest> read_block(threads::Disk& disk, const threads::Directory& directory,
                                  const char* name) {
    const auto block = std::make_unique<ManifestBlock>();
    const size_t got = TRY(read_bytes(disk, directory / name, *block));
    Result<BackupManifest> manifest = decode_manifest(*block, got);
    if (manifest) return manifest;
    Error error = manifest.error();
    const bool version = error.code == ErrorCode::bad_version;
    const std::string path = directory.path(name);
    set_error_detail(error, version ? text_of_version(path, error) : path);
    return std::unexpected(error);
}

bool is_valid(const ManifestBlock& block, uint64_t bytes) {
    BackupManifest manifest;
    std::memcpy(&manifest, block.bytes, sizeof manifest);
    return bytes >= kManifestBytes &&
           std::memcmp(manifest.magic, kManifestMagic, sizeof kManifestMagic) == 0 &&
           manifest.checksum == checksum_of(block);
}

}  // namespace

Result<bool> is_there(threads::Disk& disk, const threads::Place& place) {
    if (disk.exists(place)) return true;
    const auto opened = threads::DiskFile::open(disk, place, threads::Disk::kReadOnly);
    if (opened || opened.error().os == ENOENT) return opened.has_value();
    return std::unexpected(opened.error());
}

BackupInfo BackupManifest::info() const {
    assert_state();
    return {.lsn = Lsn{end},
            .redo_from = Lsn{superblock.checkpoint_lsn},
            .since = Lsn{since_end},
            .store = {superblock.uuid[0], superblock.uuid[1]},
            .pages = pages,
            .pages_copied = pages_copied,
            .pages_zeroed = pages_zeroed,
            .bytes = bytes,
            .log_bytes = log_bytes,
            .time = nanos,
            .ended_at = ended_at,
            .history = superblock.history};
}

void encode_manifest(BackupManifest manifest, ManifestBlock& block) {
    manifest.assert_state();
    std::memcpy(manifest.magic, kManifestMagic, sizeof kManifestMagic);
    manifest.version = kManifestVersion;
    std::memset(block.bytes, 0, sizeof block.bytes);
    std::memcpy(block.bytes, &manifest, sizeof manifest);
    manifest.checksum = checksum_of(block);
    std::memcpy(block.bytes, &manifest.checksum, sizeof manifest.checksum);
}

Result<BackupManifest> decode_manifest(const ManifestBlock& block, uint64_t bytes) {
    BackupManifest manifest;
    std::memcpy(&manifest, block.bytes, sizeof manifest);
    if (bytes == 0)  // BM-1
        return fail(ErrorCode::bad_backup,
                    "the backup was not finished: delete the directory and make it again");
    if (!is_valid(block, bytes))
        return fail(ErrorCode::bad_backup,
                    "file backup is damaged, or its write was cut off: use another backup");
    if (manifest.version != kManifestVersion)
        return fail(ErrorCode::bad_version, kOfFile, manifest.version, kManifestVersion);
    // SB-2: its log and pages could be misread.
    if (!manifest.superblock.version_known())
        return fail(ErrorCode::bad_version, kOfStore, manifest.superblock.version, kFormatVersion);
    if (manifest.superblock.checkpoint_lsn >= manifest.end || manifest.restored > 1 ||
        manifest.superblock.log_start > manifest.superblock.checkpoint_lsn ||
        manifest.pages_copied > manifest.pages || manifest.pages < 2 ||
        manifest.pages_zeroed > manifest.pages || manifest.log_bytes > manifest.bytes ||
        manifest.superblock.log_segment_bytes == 0 ||
        (manifest.since_redo == 0) != (manifest.since_end == 0) ||
        manifest.since_redo > manifest.since_end ||
        (manifest.since_end == 0 && manifest.pages_copied != manifest.pages))
        return fail(ErrorCode::bad_backup, "file backup contradicts itself", manifest.end);
    manifest.assert_state();
    return manifest;
}

Result<BackupManifest> read_manifest(threads::Disk& disk, const threads::Directory& directory) {
    if (!TRY(is_there(disk, path_of(directory))))
        return fail_with(ErrorCode::bad_backup,
                         "no backup in this directory: file backup is missing",
                         directory.path() + "; name the directory of a backup");
    if (TRY(read_before(disk, directory)))  // BM-3
        return fail_with(ErrorCode::bad_backup,
                         "an update of the backup was cut off: repeat it with the same incremental "
                         "backup",
                         directory.path());
    return read_block(disk, directory, kManifestName);
}

Result<bool> is_unfinished(threads::Disk& disk, const threads::Directory& directory) {
    if (!TRY(is_there(disk, path_of(directory)))) return false;
    const auto block = std::make_unique<ManifestBlock>();
    const size_t got = TRY(read_bytes(disk, path_of(directory), *block));
    DCHECK(got <= kManifestBytes);
    return !is_valid(*block, got);
}

// A block that is not valid was never durable, so nothing has been changed.
Result<std::optional<BackupManifest>> read_before(threads::Disk& disk,
                                                  const threads::Directory& directory) {
    if (!TRY(is_there(disk, before_of(directory)))) return std::optional<BackupManifest>();
    const auto before = read_block(disk, directory, kBeforeName);
    if (!before && before.error().code == ErrorCode::bad_backup)
        return std::optional<BackupManifest>();
    return std::optional(TRY(before));
}

Result<void> check_follows(const BackupManifest& earlier, const BackupManifest& next,
                           const std::string& directory) {
    const auto refuse = [&](const char* what, const std::string& more = {}) {
        return fail_with(ErrorCode::bad_backup, what, directory + more);
    };
    if (!next.same_store(earlier.superblock)) return refuse("the backups are of different stores");
    constexpr const char* kGap = "an incremental backup does not follow the one before it";
    if (next.since_end != earlier.end)
        return refuse(kGap, " begins at LSN " + std::to_string(next.since_end) +
                                ", the one before it ends at LSN " + std::to_string(earlier.end));
    const uint64_t checkpoint = earlier.superblock.checkpoint_lsn;
    if (next.since_redo > checkpoint)  // BM-4
        return refuse(kGap, " has the pages changed since LSN " + std::to_string(next.since_redo) +
                                ", the one before it needs those since LSN " +
                                std::to_string(checkpoint) + ": a backup between them is missing");
    if (!next.superblock.follows(earlier.superblock.history, earlier.end))
        return refuse("an incremental backup is of another history than the one before it",
                      ": one of the two stores was restored and went on by itself");
    DCHECK(earlier.end <= next.end);
    return {};
}

Result<void> check_backup(threads::Disk& disk, const threads::Directory& directory) {
    if (!disk.exists(path_of(directory))) return {};
    const BackupManifest manifest = TRY(read_manifest(disk, directory));  // BM-1
    if (!manifest.incremental()) return {};
    return fail(ErrorCode::bad_backup,
                "an incremental backup: restore it together with the earlier ones",
                manifest.since_end, manifest.end);
}

Result<void> adopt_backup(threads::Disk& disk, const threads::Directory& directory) {
    if (!disk.exists(path_of(directory))) return {};
    if (disk.exists(before_of(directory))) TRY(disk.unlink(before_of(directory)));
    TRY(disk.unlink(path_of(directory)));  // BM-2
    return disk.sync_directory(directory.here());
}

}  // namespace lockstep::sm
