// update_backup.cc - see update_backup.h.
#include "sm/backup/update_backup.h"

#include <algorithm>
#include <vector>

#include "sm/backup/backup_manifest.h"
#include "sm/backup/backup_pages.h"
#include "sm/backup/combined_files.h"
#include "sm/backup/verify_backup.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/io/disk_file.h"

namespace lockstep::sm {

namespace {

using threads::CopyStream, threads::Directory, threads::Disk, threads::DiskFile;

constexpr const char* kNewLsnsName = "data.lsn.new";

class Update {
public:
    Update(Disk& disk, const std::string& full, const std::string& next, CopyStream stream)
        : disk_(disk),
          full_(Directory::opened(disk, full)),
          next_(Directory::opened(disk, next)),
          stream_(std::move(stream)),
          files_(disk, full_, stream_) {}
    Result<BackupInfo> run();

private:
    Result<void> read_manifests();
    Result<void> check_both() const;
    Result<void> refuse_faults(const Directory& directory, const BackupManifest& manifest,
                               const std::vector<PageId>* only);
    Result<void> mark();
    Result<void> change_pages();
    Result<void> change_log();
    Result<void> check();
    Result<void> unmark();
    void assert_state() const {
        before_.assert_state();
        after_.assert_state();
        DCHECK(!before_.incremental() && after_.incremental());
        DCHECK(before_.end == after_.since_end && before_.end <= after_.end);
    }
    // The same end does not say so (BM-4).
    bool is_done() const {
        const Superblock &before = before_.superblock, &after = after_.superblock;
        return !cut_off_ && after_.incremental() && !before_.incremental() && same_store() &&
               before_.end == after_.end && before.history == after.history &&
               before.checkpoint_lsn >= after.checkpoint_lsn;
    }
    bool same_store() const {
        return before_.superblock.uuid[0] == after_.superblock.uuid[0] &&
               before_.superblock.uuid[1] == after_.superblock.uuid[1];
    }

    Disk& disk_;
    const Directory full_, next_;
    CopyStream stream_;
    CombinedFiles files_;
    bool cut_off_ = false;     // an earlier update was
    BackupManifest before_{};  // of the full backup
    BackupManifest after_{};   // of the incremental one
};

Result<BackupInfo> Update::run() {
    TRY(read_manifests());
    if (is_done()) return before_.info();
    TRY(check_both());
    TRY(refuse_faults(next_, after_, nullptr));
    TRY(mark());
    TRY(change_pages());
    TRY(change_log());
    TRY(check());
    TRY(files_.write_manifest(kManifestName, full_backup_of(after_)));
    TRY(unmark());
    return TRY(read_manifest(disk_, full_)).info();
}

Result<void> Update::read_manifests() {
    const auto before = TRY(read_before(disk_, full_));
    cut_off_ = before.has_value();
    before_ = cut_off_ ? *before : TRY(read_manifest(disk_, full_));
    after_ = TRY(read_manifest(disk_, next_));
    DCHECK(before_.pages > 0 && after_.pages > 0);
    return {};
}

Result<void> Update::check_both() const {
    const auto refuse = [](const char* what, const std::string& where) {
        return fail_with(ErrorCode::bad_backup, what, where);
    };
    if (before_.incremental()) return refuse("only a full backup can be updated", full_.path());
    if (!after_.incremental())
        return refuse("a backup is updated with an incremental one", next_.path());
    TRY(check_follows(before_, after_, next_.path()));
    assert_state();
    return {};
}

Result<void> Update::refuse_faults(const Directory& directory, const BackupManifest& manifest,
                                   const std::vector<PageId>* only) {
    const std::vector<std::string> faults =
        TRY(find_faults(disk_, directory, manifest, stream_, only));
    if (faults.empty()) return {};
    return fail_with(ErrorCode::bad_backup, "a backup is damaged",
                     directory.path() + ": " + faults.front());
}

// UB-1.
Result<void> Update::mark() {
    {
        const DiskFile data = TRY(DiskFile::open(disk_, full_ / "data", Disk::kReadOnly));
        TRY(disk_.make_files_like(data.id()));
    }
    if (cut_off_) return {};
    {
        const DiskFile made =
            TRY(DiskFile::open(disk_, full_ / kBeforeName, Disk::kCreate | Disk::kDirect));
    }
    TRY(disk_.sync_directory(full_.here()));
    return files_.write_manifest(kBeforeName, before_);
}

Result<void> Update::change_pages() {
    assert_state();
    {
        const DiskFile data = TRY(DiskFile::open(disk_, full_ / "data", Disk::kDirect));
        const uint64_t bytes = after_.pages * kPageBytes;
        if (TRY(disk_.size(data.id())) > bytes) TRY(disk_.truncate(data.id(), bytes));
        TRY(disk_.allocate(data.id(), bytes));
        TRY(disk_.sync_now(data.id()));
    }
    TRY(files_.lay_over(next_, after_, after_.pages));
    // A new file: what the full backup knows is read from the old one, also by a repetition.
    (void)TRY(files_.add_lsns(full_, before_));
    (void)TRY(files_.add_lsns(next_, after_));
    TRY(files_.write_lsns(kNewLsnsName, after_));
    TRY(disk_.rename(full_ / kNewLsnsName, full_ / "data.lsn"));
    return disk_.sync_directory(full_.here());
}

Result<void> Update::change_log() {
    for (const std::string& name : TRY(disk_.list(full_.here())))
        if (name.starts_with("log.")) TRY(disk_.unlink(full_ / name));
    TRY(files_.copy_log(next_, after_));
    TRY(files_.write_superblocks(after_.superblock));
    return disk_.sync_directory(full_.here());
}

// UB-2. A repetition does not know what the update that was cut off would have looked at.
Result<void> Update::check() {
    if (cut_off_) return refuse_faults(full_, full_backup_of(after_), nullptr);
    std::vector<PageId> touched = files_.laid_over();
    touched.insert(touched.end(), files_.raised().begin(), files_.raised().end());
    std::erase_if(touched, [](PageId id) { return id.value < kSuperblocks; });  // always looked at
    std::ranges::sort(touched, {}, &PageId::value);
    const auto same = std::ranges::unique(touched);
    touched.erase(same.begin(), same.end());
    DCHECK(touched.size() <= after_.pages);
    DCHECK(touched.empty() || touched.back().value < after_.pages);
    return refuse_faults(full_, full_backup_of(after_), &touched);
}

Result<void> Update::unmark() {
    TRY(disk_.unlink(full_ / kBeforeName));
    return disk_.sync_directory(full_.here());
}

}  // namespace

Result<BackupInfo> update_on(Disk& disk, const std::string& full, const std::string& next,
                             threads::CopySteps steps) {
    return Update(disk, full, next, TRY(CopyStream::create(steps))).run();
}

}  // namespace lockstep::sm
