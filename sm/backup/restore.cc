// restore.cc - see restore.h.
#include "sm/backup/restore.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "sm/backup/backup_manifest.h"
#include "sm/backup/backup_pages.h"
#include "sm/backup/log_extension.h"
#include "sm/backup/verify_backup.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/base/mutants.h"
#include "threads/io/aligned_buffer.h"
#include "threads/io/disk_file.h"

namespace lockstep::sm {

namespace {

using threads::CopyBuffer, threads::CopyStream, threads::Disk, threads::DiskFile;

constexpr uint32_t kSuperblocks = 2;

bool belongs_to_backup(const std::string& name) {
    return name.starts_with("log.") || name == "data" || name == "data.lsn" || name == kPagesName ||
           name == kManifestName;
}

// Reads the first `end` bytes of a file for a stream.
class FileReader {
public:
    static Result<FileReader> open(Disk& disk, const std::string& path, uint64_t end) {
        return FileReader(disk, path,
                          TRY(DiskFile::open(disk, path, Disk::kReadOnly | Disk::kDirect)), end);
    }
    Result<bool> operator()(CopyBuffer& buffer) {
        DCHECK(file_.id().value >= 0 && next_ <= end_);
        if (next_ == end_) return false;
        buffer.at = next_;
        buffer.size = std::min(CopyBuffer::kBytes, end_ - next_);
        if (TRY(disk_.read_now(file_.id(), next_, buffer.bytes, buffer.size)) < buffer.size)
            return fail_with(ErrorCode::bad_backup, "a file of the backup is too short", path_);
        next_ += buffer.size;
        DCHECK(buffer.size > 0 && next_ <= end_);
        return true;
    }

private:
    FileReader(Disk& disk, std::string path, DiskFile file, uint64_t end)
        : disk_(disk), path_(std::move(path)), file_(std::move(file)), end_(end) {}

    Disk& disk_;
    std::string path_;
    DiskFile file_;
    uint64_t next_ = 0, end_;
};

// check() looks at all files later.
Result<bool> look_away(CopyBuffer&) { return true; }

class Restore {
public:
    Restore(Disk& disk, std::span<const std::string> backups, const std::string& to,
            const RestoreOptions& options, CopyStream stream)
        : disk_(disk), backups_(backups), to_(to), options_(options), stream_(std::move(stream)) {}
    Result<BackupInfo> run();

private:
    Result<void> read_chain();
    Result<void> clear_target();
    Result<void> copy_data(threads::FileId data);
    Result<void> lay_over(size_t number, threads::FileId data);
    Result<void> write_pages(threads::FileId data, std::span<const Page> pages);
    Result<void> write_superblocks();
    Result<void> check();
    Result<void> copy_others();
    Result<void> copy_file(const std::string& name);
    Result<uint64_t> size_of(const std::string& path);
    // The first `end` bytes.
    Result<void> copy_bytes(const std::string& from, threads::FileId to, uint64_t end);
    Result<void> complete();
    BackupManifest result() const;
    const BackupManifest& last() const { return chain_.back(); }

    Disk& disk_;
    const std::span<const std::string> backups_;
    const std::string& to_;
    const RestoreOptions& options_;
    CopyStream stream_;
    std::optional<LogExtension> extension_;  // with an archive
    std::vector<BackupManifest> chain_;
};

Result<BackupInfo> Restore::run() {
    TRY(read_chain());
    if (!options_.archive.empty()) extension_ = TRY(LogExtension::plan(disk_, last(), options_));
    else if (options_.until != kLsnNone || options_.until_time != 0)
        return fail(ErrorCode::bad_argument, "a restore to a point needs the log archive");
    TRY(clear_target());
    {
        const DiskFile data = TRY(
            DiskFile::open(disk_, to_ + "/data", Disk::kCreate | Disk::kExclusive | Disk::kDirect));
        TRY(disk_.allocate(data.id(), last().pages * kPageBytes));
        TRY(copy_data(data.id()));
        for (size_t i = 1; i < chain_.size(); ++i) TRY(lay_over(i, data.id()));
        TRY(disk_.sync_now(data.id()));
    }
    TRY(copy_others());
    if (extension_) TRY(extension_->run(to_, stream_));
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
        if (!chain_.empty() && !MUTANT(chain_of_any_history) &&
            !manifest.superblock.follows(last().superblock.history, last().end))
            return refuse("an incremental backup is of another history than the one before it",
                          ": one of the two stores was restored and went on by itself");
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
    const DiskFile mark =
        TRY(DiskFile::open(disk_, to_ + "/" + kManifestName, Disk::kCreate | Disk::kDirect));
    return disk_.sync_directory(to_);
}

Result<uint64_t> Restore::size_of(const std::string& path) {
    return disk_.size(TRY(DiskFile::open(disk_, path, Disk::kReadOnly)).id());
}

Result<void> Restore::copy_bytes(const std::string& from, threads::FileId to, uint64_t end) {
    FileReader read = TRY(FileReader::open(disk_, from, end));
    return stream_.run(read, look_away, [&](CopyBuffer& buffer) {
        return disk_.write_now(to, buffer.at, buffer.bytes, buffer.size);
    });
}

// The last backup may have fewer pages than the first, or bring more. What a file that was cut off
// lacks stays zeros in the target, and check() finds that.
Result<void> Restore::copy_data(threads::FileId data) {
    const std::string from = backups_[0] + "/data";
    const uint64_t there = TRY(size_of(from)) / kPageBytes;
    DCHECK(chain_[0].pages > 0 && last().pages > 0);
    return copy_bytes(from, data, std::min({chain_[0].pages, last().pages, there}) * kPageBytes);
}

Result<void> Restore::lay_over(size_t number, threads::FileId data) {
    if (chain_[number].pages_copied == kSuperblocks) return {};  // nothing had changed: no file
    DCHECK(number > 0 && number < chain_.size());
    FileReader read =
        TRY(FileReader::open(disk_, backups_[number] + "/" + kPagesName,
                             (chain_[number].pages_copied - kSuperblocks) * kPageBytes));
    return stream_.run(read, look_away, [&](CopyBuffer& buffer) -> Result<void> {
        if (MUTANT(restore_skips_overlay)) return {};
        return write_pages(data, pages_in(buffer));
    });
}

// Pages in a row at once. A number that is wrong would spoil another page, and check() finds that.
Result<void> Restore::write_pages(threads::FileId data, std::span<const Page> pages) {
    while (!pages.empty()) {
        const uint64_t first = pages[0].id().value;
        size_t n = 1;
        while (n < pages.size() && pages[n].id().value == first + n) ++n;
        DCHECK(n <= pages.size());
        const uint64_t wanted = std::min<uint64_t>(n, last().pages - std::min(first, last().pages));
        if (wanted > 0)
            TRY(disk_.write_now(data, first * kPageBytes, pages.data(), wanted * kPageBytes));
        pages = pages.subspan(n);
    }
    return {};
}

Result<void> Restore::write_superblocks() {
    const DiskFile data = TRY(DiskFile::open(disk_, to_ + "/data", Disk::kDirect));
    Superblock block = result().superblock;
    const auto page = TRY(threads::make_aligned_buffer(kPageBytes, threads::PageSize::huge));
    for (uint32_t i = 0; i < kSuperblocks; ++i) {
        const uint32_t number = make_superblock_page(block, *reinterpret_cast<Page*>(page.get()));
        DCHECK(number < kSuperblocks);
        TRY(disk_.write_now(data.id(), number * kPageBytes, page.get(), kPageBytes));
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
    DCHECK(belongs_to_backup(name) && !backups_.empty());
    const std::string from = backups_.back() + "/" + name;
    const DiskFile made = TRY(
        DiskFile::open(disk_, to_ + "/" + name, Disk::kCreate | Disk::kExclusive | Disk::kDirect));
    const uint64_t end = TRY(size_of(from));
    TRY(disk_.allocate(made.id(), end));
    TRY(copy_bytes(from, made.id(), end));
    return disk_.sync_now(made.id());
}

// RS-2. Reads what the target has now, so it also finds what a device has lost.
Result<void> Restore::check() {
    if (MUTANT(restore_unchecked)) return {};
    const std::vector<std::string> faults = TRY(find_faults(disk_, to_, result(), stream_));
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
    const DiskFile file = TRY(DiskFile::open(disk_, to_ + "/" + kManifestName, Disk::kDirect));
    TRY(disk_.write_now(file.id(), 0, block->bytes, sizeof block->bytes));
    return disk_.sync_now(file.id());
}

}  // namespace

Result<BackupInfo> restore_on(Disk& disk, std::span<const std::string> backups,
                              const std::string& to, const RestoreOptions& options,
                              threads::CopySteps steps) {
    return Restore(disk, backups, to, options, TRY(CopyStream::create(steps))).run();
}

}  // namespace lockstep::sm
