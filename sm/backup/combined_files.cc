// combined_files.cc - see combined_files.h.
#include "sm/backup/combined_files.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "sm/backup/backup_pages.h"
#include "sm/backup/verify_backup.h"
#include "sm/buffer/written_lsns.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"
#include "threads/io/aligned_buffer.h"
#include "threads/io/disk_file.h"
#include "txn/log/durable_end_file.h"
#include "txn/log/log_files.h"

namespace lockstep::sm {

namespace {

using threads::CopyBuffer, threads::Directory, threads::Disk, threads::DiskFile;

// Of a file of a backup that cannot be read.
Unexpected with_remedy(Error error, const std::string& path) {
    set_error_detail(error, path + "; " + kBackupRemedy);
    return Unexpected(error);
}

// Reads the first `end` bytes of a file for a stream.
class FileReader {
public:
    static Result<FileReader> open(Disk& disk, const Directory& from, const std::string& name,
                                   uint64_t end) {
        auto file = DiskFile::open(disk, from / name, Disk::kReadOnly | Disk::kDirect);
        if (!file) return with_remedy(file.error(), from.path(name));
        return FileReader(disk, from, name, std::move(*file), end);
    }
    Result<bool> operator()(CopyBuffer& buffer) {
        DCHECK(file_.id().value >= 0 && next_ <= end_);
        if (next_ == end_) return false;
        buffer.at = next_;
        buffer.size = std::min(CopyBuffer::kBytes, end_ - next_);
        const auto got = disk_.read_now(file_.id(), next_, buffer.bytes, buffer.size);
        if (!got) return with_remedy(got.error(), from_.path(name_));
        if (*got < buffer.size)
            return fail_with(ErrorCode::bad_backup, "a file of the backup is too short",
                             from_.path(name_) + "; " + kBackupRemedy);
        next_ += buffer.size;
        DCHECK(buffer.size > 0 && next_ <= end_);
        return true;
    }

private:
    FileReader(Disk& disk, const Directory& from, std::string name, DiskFile file, uint64_t end)
        : disk_(disk), from_(from), name_(std::move(name)), file_(std::move(file)), end_(end) {}

    Disk& disk_;
    const Directory from_;
    std::string name_;
    DiskFile file_;
    uint64_t next_ = 0, end_;
};

// The result is checked later.
Result<bool> look_away(CopyBuffer&) { return true; }

Result<uint64_t> size_of(Disk& disk, const Directory& from, const std::string& name) {
    const auto file = DiskFile::open(disk, from / name, Disk::kReadOnly);
    if (!file) return with_remedy(file.error(), from.path(name));
    return disk.size(file->id());
}

}  // namespace

Result<void> CombinedFiles::copy_bytes(const Directory& from, const std::string& name,
                                       threads::FileId to, uint64_t end) {
    FileReader read = TRY(FileReader::open(disk_, from, name, end));
    return stream_.run(read, look_away, [&](CopyBuffer& buffer) {
        return disk_.write_now(to, buffer.at, buffer.bytes, buffer.size);
    });
}

Result<void> CombinedFiles::copy_data(const Directory& from, uint64_t pages, threads::FileId data) {
    const uint64_t there = TRY(size_of(disk_, from, "data")) / kPageBytes;
    DCHECK(pages >= kSuperblocks && data.value >= 0);
    return copy_bytes(from, "data", data, std::min(pages, there) * kPageBytes);
}

// Not direct: of pages far from each other the system writes many at a time.
Result<void> CombinedFiles::lay_over(const Directory& from, const BackupManifest& manifest,
                                     uint64_t pages) {
    DCHECK(manifest.incremental() && manifest.pages_copied >= kSuperblocks);
    if (manifest.pages_copied == kSuperblocks) return {};  // nothing had changed: no file
    FileReader read = TRY(FileReader::open(disk_, from, kPagesName,
                                           (manifest.pages_copied - kSuperblocks) * kPageBytes));
    const DiskFile data = TRY(DiskFile::open(disk_, to_ / "data", 0));
    TRY(stream_.run(read, look_away, [&](CopyBuffer& buffer) -> Result<void> {
        return write_pages(data.id(), pages_in(buffer), pages);
    }));
    return disk_.sync_now(data.id());
}

// Pages in a row at once. A number that is wrong would spoil another page; the check of the result
// finds that.
Result<void> CombinedFiles::write_pages(threads::FileId data, std::span<const Page> run,
                                        uint64_t pages) {
    while (!run.empty()) {
        const uint64_t first = run[0].id().value;
        size_t n = 1;
        while (n < run.size() && run[n].id().value == first + n) ++n;
        DCHECK(n <= run.size());
        const uint64_t wanted = std::min<uint64_t>(n, pages - std::min(first, pages));
        if (wanted > 0)
            TRY(disk_.write_now(data, first * kPageBytes, run.data(), wanted * kPageBytes));
        for (const Page& page : run.first(wanted)) laid_over_.push_back(page.id());
        run = run.subspan(n);
    }
    return {};
}

Result<bool> CombinedFiles::add_lsns(const Directory& directory, const BackupManifest& manifest) {
    const auto known = TRY(WrittenLsns::create(manifest.pages));
    const bool whole = TRY(load_lsns(disk_, directory, manifest, *known)).empty();
    lsns_.resize(manifest.pages);
    raised_.clear();
    for (uint32_t p = 0; p < manifest.pages; ++p) {
        const uint64_t lsn = known->of(PageId{p});
        if (lsn > lsns_[p]) raised_.push_back(PageId{p});
        if (lsn != 0) lsns_[p] = lsn;
    }
    DCHECK(lsns_.size() == manifest.pages);
    assert_state();
    return whole;
}

Result<void> CombinedFiles::write_lsns(const char* name, const BackupManifest& result) {
    const DiskFile file = TRY(DiskFile::open(disk_, to_ / name, Disk::kCreate | Disk::kDirect));
    const auto room = TRY(threads::make_aligned_buffer(CopyBuffer::kBytes));
    assert_state();
    DCHECK(lsns_.size() == result.pages);
    TRY(WrittenLsns::make_file(
        result.superblock.store_number(), lsns_, CopyBuffer::kBytes,
        [&]() -> Result<std::byte*> { return room.get(); },
        [&](uint64_t offset, std::span<const std::byte> slots) {
            return disk_.write_now(file.id(), offset, slots.data(), slots.size());
        }));
    return disk_.sync_now(file.id());
}

// What the files have behind the end is not read.
Result<void> CombinedFiles::copy_log(const Directory& from, const BackupManifest& manifest) {
    const uint64_t segment = manifest.superblock.log_segment_bytes;
    const txn::LogFiles source(disk_, from, segment), target(disk_, to_, segment);
    DCHECK(manifest.superblock.log_start < manifest.end);
    for (uint64_t n = source.number_of(manifest.superblock.log_start); n * segment < manifest.end;
         ++n)
        TRY(copy_file(from, txn::LogFiles::segment_name(n),
                      std::min(segment, txn::block_ceil(manifest.end) - n * segment)));
    return write_mark(disk_, target, manifest.end);
}

// The length stays: a log segment may begin with a hole.
Result<void> CombinedFiles::copy_file(const Directory& from, const std::string& name,
                                      uint64_t end) {
    const DiskFile made =
        TRY(DiskFile::open(disk_, to_ / name, Disk::kCreate | Disk::kExclusive | Disk::kDirect));
    DCHECK(made.id().value >= 0 && end % threads::kIoAlignment == 0);
    TRY(disk_.allocate(made.id(), end));
    TRY(copy_bytes(from, name, made.id(), end));
    return disk_.sync_now(made.id());
}

Result<void> CombinedFiles::write_superblocks(Superblock block) {
    const DiskFile data = TRY(DiskFile::open(disk_, to_ / "data", Disk::kDirect));
    const auto page = TRY(threads::make_aligned_buffer(kPageBytes, threads::PageSize::huge));
    for (uint32_t i = 0; i < kSuperblocks; ++i) {
        const uint32_t number = make_superblock_page(block, *reinterpret_cast<Page*>(page.get()));
        DCHECK(number < kSuperblocks);
        TRY(disk_.write_now(data.id(), number * kPageBytes, page.get(), kPageBytes));
    }
    return disk_.sync_now(data.id());
}

Result<void> CombinedFiles::write_manifest(const char* name, const BackupManifest& manifest) {
    const auto block = std::make_unique<ManifestBlock>(), found = std::make_unique<ManifestBlock>();
    encode_manifest(manifest, *block);
    const DiskFile file = TRY(DiskFile::open(disk_, to_ / name, Disk::kDirect));
    TRY(disk_.write_now(file.id(), 0, block->bytes, sizeof block->bytes));
    TRY(disk_.sync_now(file.id()));
    if (TRY(disk_.read_now(file.id(), 0, found->bytes, sizeof found->bytes)) <
            sizeof found->bytes ||
        std::memcmp(found->bytes, block->bytes, sizeof found->bytes) != 0)
        return fail_with(ErrorCode::bad_backup, "the device has lost what was written",
                         to_.path(name));
    return {};
}

Result<void> write_mark(Disk& disk, const txn::LogFiles& files, uint64_t end) {
    const DiskFile file = TRY(DiskFile::open(disk, files.mark(), Disk::kCreate | Disk::kDirect));
    TRY(disk.allocate(file.id(), 2 * txn::DurableEnd::kSlotBytes));
    const txn::DurableEnd mark{
        .sequence = 3, .durable_end = end, .segment_bytes = files.segment_bytes()};
    return mark.store(disk, file.id());
}

BackupManifest full_backup_of(BackupManifest manifest) {
    constexpr uint64_t kPages = WrittenLsns::kPagesPerBlock;
    manifest.since_redo = manifest.since_end = 0;
    manifest.pages_copied = manifest.pages;
    manifest.bytes = manifest.pages * kPageBytes +
                     (manifest.pages + kPages - 1) / kPages * 2 * WrittenLsns::kSlotBytes +
                     manifest.log_bytes + kManifestBytes;
    manifest.assert_state();
    return manifest;
}

}  // namespace lockstep::sm
