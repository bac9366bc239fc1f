// restore.cc - see restore.h.
#include "sm/backup/restore.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "sm/backup/backup_manifest.h"
#include "sm/backup/backup_target.h"
#include "sm/backup/combined_files.h"
#include "sm/backup/roll_forward.h"
#include "sm/backup/verify_backup.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/io/disk_file.h"

namespace lockstep::sm {

namespace {

using threads::CopyStream, threads::Directory, threads::Disk, threads::DiskFile;

constexpr uint64_t kRestoreMemoryLeast = 64 << 10, kRestoreMemoryMost = 1ull << 40;

bool belongs_to_backup(const std::string& name) {
    return name.starts_with("log.") || name == "data" || name == "data.lsn" || name == kPagesName ||
           name == kManifestName;
}

class Restore {
public:
    Restore(Disk& disk, std::span<const std::string> backups, const std::string& to,
            const RestoreOptions& options, CopyStream stream)
        : disk_(disk),
          paths_(backups),
          to_path_(to),
          to_(Directory::opened(disk, to)),
          options_(options),
          stream_(std::move(stream)),
          files_(disk, to_, stream_) {
        for (const std::string& path : backups) backups_.push_back(Directory::opened(disk, path));
    }
    Result<BackupInfo> run();
    Result<std::vector<std::string>> find_faults();

private:
    Result<void> check_options() const;
    Result<void> read_chain();
    Result<void> plan();
    Result<void> check_target() const;
    Result<void> lock_target();
    Result<void> clear_target();
    Result<void> combine();
    Result<void> check(const BackupManifest& made);
    BackupManifest result();
    const BackupManifest& last() const { return chain_.back(); }

    Disk& disk_;
    const std::span<const std::string> paths_;  // of the backups
    const std::string& to_path_;
    std::vector<Directory> backups_;
    Directory to_;  // open from lock_target() on
    const RestoreOptions& options_;
    CopyStream stream_;
    CombinedFiles files_;
    std::optional<RollForward> roll_;  // with an archive
    std::vector<BackupManifest> chain_;
    std::optional<DiskFile> mark_;  // the target's manifest, locked while this restore works
};

Result<BackupInfo> Restore::run() {
    TRY(check_options());
    TRY(read_chain());
    TRY(plan());
    TRY(check_target());
    if (roll_) TRY(roll_->find_time(stream_));
    TRY(lock_target());
    TRY(clear_target());
    TRY(combine());
    if (roll_) TRY(roll_->run(to_, files_.lsns(), stream_));
    else TRY(files_.copy_log(backups_.back(), last()));
    const BackupManifest made = result();
    TRY(files_.write_lsns("data.lsn", made));
    TRY(files_.write_superblocks(made.superblock));
    TRY(check(made));
    TRY(disk_.sync_directory(to_.here()));
    TRY(files_.write_manifest(kManifestName, made));
    return TRY(read_manifest(disk_, to_)).info();
}

// What run() would refuse, but for the target.
Result<std::vector<std::string>> Restore::find_faults() {
    TRY(check_options());
    DCHECK(backups_.size() == paths_.size() && !roll_);
    std::vector<std::string> faults;
    for (const Directory& directory : backups_) {
        const Result<BackupManifest> manifest = read_manifest(disk_, directory);
        if (!manifest) {
            faults.push_back(directory.path() + ": " + manifest.error().text());
            continue;
        }
        for (const std::string& fault : TRY(sm::find_faults(disk_, directory, *manifest, stream_)))
            faults.push_back(directory.path() + ": " + fault);
    }
    if (!faults.empty()) return faults;
    Result<void> done = read_chain();
    if (done) done = plan();
    if (done && roll_) done = roll_->find_time(stream_);
    if (done && roll_) done = roll_->check(stream_);
    if (done) return faults;
    if (done.error().code == ErrorCode::out_of_memory) return std::unexpected(done.error());
    // The chain ends before the backup that does not fit.
    const bool whole = chain_.size() == backups_.size();
    DCHECK(!whole || options_.archive);
    const std::string at = whole ? std::string(*options_.archive) : backups_[chain_.size()].path();
    faults.push_back(at + ": " + done.error().text());
    return faults;
}

Result<void> Restore::check_options() const {
    if (paths_.empty()) return fail(ErrorCode::bad_backup, "no backup is given");
    DCHECK(backups_.size() == paths_.size());
    if (options_.memory_bytes < kRestoreMemoryLeast || options_.memory_bytes > kRestoreMemoryMost)
        return fail(ErrorCode::bad_argument, "memory_bytes of a restore", options_.memory_bytes);
    if (options_.archive && options_.archive->empty())
        return fail(ErrorCode::bad_argument, "archive of a restore: the path is empty");
    if (!options_.archive && (options_.until || options_.until_time || options_.history))
        return fail(ErrorCode::bad_argument, "a restore to a point needs the log archive");
    return {};
}

Result<void> Restore::plan() {
    DCHECK(!chain_.empty());
    if (options_.archive)
        roll_.emplace(TRY(RollForward::plan(disk_, backups_.back(), last(), options_)));
    return {};
}

Result<void> Restore::read_chain() {
    for (const Directory& backup : backups_) {
        const BackupManifest manifest = TRY(read_manifest(disk_, backup));
        DCHECK(chain_.size() < backups_.size());
        const auto refuse = [&](const char* what) {
            return fail_with(ErrorCode::bad_backup, what, backup.path());
        };
        if (chain_.empty() && manifest.incremental())
            return refuse("the first backup must be a full one");
        if (!chain_.empty() && !manifest.incremental())
            return refuse("only the first backup may be a full one");
        if (!chain_.empty()) TRY(check_follows(last(), manifest, backup.path()));
        DCHECK(chain_.empty() || last().end <= manifest.end);
        chain_.push_back(manifest);
    }
    DCHECK(chain_.size() == backups_.size() && !chain_.front().incremental());
    return {};
}

// RS-1. Only what a restore has begun and not finished may be there. What lies in a source would
// go with it, and changes what the source is.
Result<void> Restore::check_target() const {
    std::vector<std::string> sources(paths_.begin(), paths_.end());
    if (options_.archive) sources.emplace_back(*options_.archive);
    for (const std::string& source : sources)
        if (lies_within(to_path_, source))
            return fail_with(ErrorCode::bad_path, "restore: the target lies in what is restored",
                             to_path_ + " is " + source +
                                 ", or lies in it; name a new or an empty directory elsewhere");
    if (!to_.is_open() && !disk_.exists(to_.here())) return {};
    const std::vector<std::string> names = TRY(disk_.list(to_.here()));
    if (names.empty()) return {};
    if (std::ranges::all_of(names, belongs_to_backup) && TRY(is_unfinished(disk_, to_))) return {};
    return fail_with(ErrorCode::bad_path, "restore: the directory is not empty",
                     to_path_ + "; name a new or an empty one");
}

// RS-4. Two restores into one directory would mix their files. Another one may have ended since the
// first check, so the check is repeated under the lock.
Result<void> Restore::lock_target() {
    DCHECK(!mark_);
    {
        // The store is for those who may read the backup.
        const DiskFile source =
            TRY(DiskFile::open(disk_, backups_.back() / kManifestName, Disk::kReadOnly));
        TRY(disk_.make_files_like(source.id()));
    }
    if (!to_.is_open()) {
        TRY(disk_.make_directory(to_.here()));
        to_ = TRY(Directory::open(disk_, to_.here()));
    }
    DCHECK(to_.is_open() && !mark_);
    mark_.emplace(TRY(DiskFile::open(disk_, to_ / kManifestName, Disk::kCreate | Disk::kDirect)));
    const Result<void> locked = disk_.lock_exclusive(mark_->id());
    if (locked) return check_target();
    if (locked.error().code != ErrorCode::store_locked) return locked;
    return fail_with(ErrorCode::store_locked, "restore: another one works in this directory",
                     to_path_ + "; let it end, or name a new or an empty directory");
}

Result<void> Restore::clear_target() {
    DCHECK(mark_);
    for (const std::string& name : TRY(disk_.list(to_.here())))
        if (name != kManifestName) TRY(disk_.unlink(to_ / name));
    return disk_.sync_directory(to_.here());
}

// The last backup may have fewer pages than the first, or bring more.
Result<void> Restore::combine() {
    const uint64_t pages = last().pages;
    const DiskFile data =
        TRY(DiskFile::open(disk_, to_ / "data", Disk::kCreate | Disk::kExclusive | Disk::kDirect));
    TRY(disk_.allocate(data.id(), pages * kPageBytes));
    TRY(files_.copy_data(backups_[0], std::min(chain_[0].pages, pages), data.id()));
    TRY(disk_.sync_now(data.id()));
    bool whole = false;
    for (size_t i = 0; i < chain_.size(); ++i) {
        if (i > 0) TRY(files_.lay_over(backups_[i], chain_[i], pages));
        whole = TRY(files_.add_lsns(backups_[i], chain_[i]));
    }
    DCHECK(!chain_.empty() && pages > 0);
    if (!whole)
        return fail_with(ErrorCode::bad_backup, "data.lsn is missing or damaged",
                         backups_.back().path("data.lsn") + "; " + kBackupRemedy);
    return {};
}

// RS-2. Reads what the target has now, so it also finds what a device has lost.
Result<void> Restore::check(const BackupManifest& made) {
    const std::vector<std::string> faults = TRY(sm::find_faults(disk_, to_, made, stream_));
    if (faults.empty()) return {};
    return fail_with(
        ErrorCode::bad_backup, "a restored file",
        faults.front() + " (verify_restore() or `lockstep verify-backup` names the file)");
}

// What the target becomes.
BackupManifest Restore::result() {
    BackupManifest manifest = last();
    if (roll_) roll_->note_in(manifest);
    manifest.pages = files_.lsns().size();
    manifest.restored = 1;
    return full_backup_of(manifest);
}

}  // namespace

Result<BackupInfo> restore_on(Disk& disk, std::span<const std::string> backups,
                              const std::string& to, const RestoreOptions& options,
                              threads::CopySteps steps) {
    return Restore(disk, backups, to, options, TRY(CopyStream::create(steps))).run();
}

Result<std::vector<std::string>> verify_on(Disk& disk, std::span<const std::string> backups,
                                           const RestoreOptions& options,
                                           threads::CopySteps steps) {
    return Restore(disk, backups, {}, options, TRY(CopyStream::create(steps))).find_faults();
}

}  // namespace lockstep::sm
