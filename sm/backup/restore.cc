// restore.cc - see restore.h.
#include "sm/backup/restore.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "sm/backup/backup_manifest.h"
#include "sm/backup/log_extension.h"
#include "sm/backup/verify_backup.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/base/mutants.h"
#include "threads/io/aligned_buffer.h"

namespace lockstep::sm {

namespace {

using threads::Disk;

constexpr uint64_t kPieceBytes = 1 << 20;
constexpr uint32_t kSuperblocks = 2;

bool belongs_to_backup(const std::string& name) {
    return name.starts_with("log.") || name == "data" || name == "data.lsn" || name == kPagesName ||
           name == kManifestName;
}

// A file that is closed when the function ends.
class OpenFile {
public:
    static Result<OpenFile> open(Disk& disk, const std::string& path, uint32_t flags) {
        return OpenFile(disk, TRY(disk.open(path, flags)));
    }
    OpenFile(OpenFile&& o) noexcept
        : disk_(o.disk_), id_(std::exchange(o.id_, threads::FileId{-1})) {}
    OpenFile& operator=(OpenFile&&) = delete;
    ~OpenFile() {
        if (id_.value >= 0) disk_.close(id_);
    }
    threads::FileId id() const { return id_; }

private:
    OpenFile(Disk& disk, threads::FileId id) : disk_(disk), id_(id) {}
    Disk& disk_;
    threads::FileId id_;
};

class Restore {
public:
    Restore(Disk& disk, std::span<const std::string> backups, const std::string& to,
            const RestoreOptions& options)
        : disk_(disk), backups_(backups), to_(to), options_(options) {}
    Result<BackupInfo> run();

private:
    Result<void> read_chain();
    Result<void> clear_target();
    Result<void> copy_data(threads::FileId data);
    Result<void> lay_over(size_t number, threads::FileId data);
    Result<void> write_superblocks();
    Result<void> check();
    Result<void> copy_others();
    Result<void> copy_file(const std::string& name);
    Result<void> complete();
    BackupManifest result() const;
    const BackupManifest& last() const { return chain_.back(); }
    Page& page_at(uint64_t offset) { return *reinterpret_cast<Page*>(buffer_.get() + offset); }

    Disk& disk_;
    const std::span<const std::string> backups_;
    const std::string& to_;
    const RestoreOptions& options_;
    std::optional<LogExtension> extension_;  // with an archive
    std::vector<BackupManifest> chain_;
    threads::AlignedBuffer buffer_;
};

Result<BackupInfo> Restore::run() {
    TRY(read_chain());
    if (!options_.archive.empty()) extension_ = TRY(LogExtension::plan(disk_, last(), options_));
    else if (options_.until != kLsnNone || options_.until_time != 0)
        return fail(ErrorCode::bad_argument, "a restore to a point needs the log archive");
    buffer_ = TRY(threads::make_aligned_buffer(kPieceBytes, threads::PageSize::huge));
    TRY(clear_target());
    {
        const OpenFile data = TRY(
            OpenFile::open(disk_, to_ + "/data", Disk::kCreate | Disk::kExclusive | Disk::kDirect));
        TRY(disk_.allocate(data.id(), last().pages * kPageBytes));
        TRY(copy_data(data.id()));
        for (size_t i = 1; i < chain_.size(); ++i) TRY(lay_over(i, data.id()));
        TRY(disk_.sync_now(data.id()));
    }
    TRY(copy_others());
    if (extension_) TRY(extension_->run(to_));
    TRY(write_superblocks());
    TRY(check());
    TRY(complete());
    return TRY(read_manifest(disk_, to_)).info();
}

Result<void> Restore::read_chain() {
    if (backups_.empty()) return fail(ErrorCode::bad_backup, "no backup is given");
    for (const std::string& directory : backups_) {
        if (directory == to_)
            return fail_with(ErrorCode::bad_path, "restore: the target is one of the backups",
                             to_ + "; name a new or an empty directory");
        const BackupManifest manifest = TRY(read_manifest(disk_, directory));
        DCHECK(chain_.size() < backups_.size());
        const auto refuse = [&](const char* what, const std::string& more = {}) {
            return fail_with(ErrorCode::bad_backup, what, directory + more);
        };
        if (chain_.empty() && manifest.incremental())
            return refuse("the first backup must be a full one");
        if (!chain_.empty() && !manifest.incremental())
            return refuse("only the first backup may be a full one");
        if (!chain_.empty() && (manifest.superblock.uuid[0] != last().superblock.uuid[0] ||
                                manifest.superblock.uuid[1] != last().superblock.uuid[1]))
            return refuse("the backups are of different stores");
        if (!chain_.empty() && manifest.since_end != last().end)
            return refuse("an incremental backup does not follow the one before it",
                          " begins at LSN " + std::to_string(manifest.since_end) +
                              ", the one before it ends at LSN " + std::to_string(last().end));
        DCHECK(chain_.empty() || last().end <= manifest.end);
        chain_.push_back(manifest);
    }
    DCHECK(chain_.size() == backups_.size() && !chain_.front().incremental());
    return {};
}

// RS-1. Only what a restore has begun and not finished is taken away.
Result<void> Restore::clear_target() {
    TRY(disk_.make_directory(to_));
    const std::vector<std::string> names = TRY(disk_.list(to_));
    const bool ours = std::ranges::all_of(names, belongs_to_backup) &&
                      disk_.exists(to_ + "/" + kManifestName) && !read_manifest(disk_, to_);
    if (!names.empty() && !ours)
        return fail_with(ErrorCode::bad_path, "restore: the directory is not empty",
                         to_ + "; name a new or an empty one");
    for (const std::string& name : names)
        if (name != kManifestName) TRY(disk_.unlink(to_ + "/" + name));
    const OpenFile mark =
        TRY(OpenFile::open(disk_, to_ + "/" + kManifestName, Disk::kCreate | Disk::kDirect));
    return disk_.sync_directory(to_);
}

Result<void> Restore::copy_data(threads::FileId data) {
    const OpenFile from =
        TRY(OpenFile::open(disk_, backups_[0] + "/data", Disk::kReadOnly | Disk::kDirect));
    const uint64_t end = chain_[0].pages * kPageBytes;
    static_assert(kPieceBytes % kPageBytes == 0);
    DCHECK(end > 0);
    for (uint64_t at = 0; at < end; at += kPieceBytes) {
        const uint64_t bytes = std::min(kPieceBytes, end - at);
        std::memset(buffer_.get(), 0, bytes);
        TRY(disk_.read_now(from.id(), at, buffer_.get(), bytes));
        // The last backup may have fewer pages.
        const uint64_t wanted = last().pages * kPageBytes;
        if (at < wanted)
            TRY(disk_.write_now(data, at, buffer_.get(), std::min(bytes, wanted - at)));
    }
    return {};
}

Result<void> Restore::lay_over(size_t number, threads::FileId data) {
    if (chain_[number].pages_copied == kSuperblocks) return {};  // nothing had changed: no file
    const OpenFile from = TRY(OpenFile::open(disk_, backups_[number] + "/" + kPagesName,
                                             Disk::kReadOnly | Disk::kDirect));
    DCHECK(number > 0 && number < chain_.size());
    const uint64_t end = (chain_[number].pages_copied - kSuperblocks) * kPageBytes;
    for (uint64_t at = 0; at < end; at += kPieceBytes) {
        const uint64_t bytes = std::min(kPieceBytes, end - at);
        if (TRY(disk_.read_now(from.id(), at, buffer_.get(), bytes)) < bytes)
            return fail_with(ErrorCode::bad_backup, "file pages is too short", backups_[number]);
        for (uint64_t offset = 0; offset < bytes; offset += kPageBytes) {
            const Page& page = page_at(offset);
            const PageId id = page.id();
            // A number that is wrong would spoil another page, and check() finds that.
            if (id.value < last().pages && !MUTANT(restore_skips_overlay))
                TRY(disk_.write_now(data, uint64_t{id.value} * kPageBytes, &page, kPageBytes));
        }
    }
    return {};
}

Result<void> Restore::write_superblocks() {
    const OpenFile data = TRY(OpenFile::open(disk_, to_ + "/data", Disk::kDirect));
    Superblock block = result().superblock;
    for (uint32_t i = 0; i < kSuperblocks; ++i) {
        const uint32_t number = make_superblock_page(block, page_at(0));
        DCHECK(number < kSuperblocks);
        TRY(disk_.write_now(data.id(), number * kPageBytes, buffer_.get(), kPageBytes));
    }
    return disk_.sync_now(data.id());
}

Result<void> Restore::copy_others() {
    const std::string& from = backups_.back();
    for (const std::string& name : TRY(disk_.list(from)))
        if (name.starts_with("log.") || name == "data.lsn") TRY(copy_file(name));
    return {};
}

// The length stays: a log segment may begin with a hole.
Result<void> Restore::copy_file(const std::string& name) {
    const OpenFile from =
        TRY(OpenFile::open(disk_, backups_.back() + "/" + name, Disk::kReadOnly | Disk::kDirect));
    const OpenFile made = TRY(
        OpenFile::open(disk_, to_ + "/" + name, Disk::kCreate | Disk::kExclusive | Disk::kDirect));
    const uint64_t end = TRY(disk_.size(from.id()));
    TRY(disk_.allocate(made.id(), end));
    for (uint64_t at = 0; at < end; at += kPieceBytes) {
        const uint64_t bytes = std::min(kPieceBytes, end - at);
        if (TRY(disk_.read_now(from.id(), at, buffer_.get(), bytes)) < bytes)
            return fail_with(ErrorCode::bad_backup, "a file of the backup is too short",
                             backups_.back() + "/" + name);
        TRY(disk_.write_now(made.id(), at, buffer_.get(), bytes));
    }
    return disk_.sync_now(made.id());
}

// RS-2. Reads what the target has now, so it also finds what a device has lost.
Result<void> Restore::check() {
    if (MUTANT(restore_unchecked)) return {};
    const std::vector<std::string> faults = TRY(find_faults(disk_, to_, result()));
    if (faults.empty()) return {};
    Error error{.code = ErrorCode::bad_backup, .what = "a restored file"};
    set_error_detail(error, faults.front());
    return std::unexpected(error);
}

// What the target becomes: a full backup.
BackupManifest Restore::result() const {
    BackupManifest manifest = last();
    manifest.since_redo = manifest.since_end = 0;
    manifest.pages_copied = manifest.pages;
    if (extension_) extension_->note_in(manifest);
    return manifest;
}

Result<void> Restore::complete() {
    TRY(disk_.sync_directory(to_));
    const auto block = std::make_unique<ManifestBlock>();
    encode_manifest(result(), *block);
    const OpenFile file = TRY(OpenFile::open(disk_, to_ + "/" + kManifestName, Disk::kDirect));
    TRY(disk_.write_now(file.id(), 0, block->bytes, sizeof block->bytes));
    return disk_.sync_now(file.id());
}

}  // namespace

Result<BackupInfo> restore_on(Disk& disk, std::span<const std::string> backups,
                              const std::string& to, const RestoreOptions& options) {
    return Restore(disk, backups, to, options).run();
}

}  // namespace lockstep::sm
