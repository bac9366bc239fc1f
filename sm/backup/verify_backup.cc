// verify_backup.cc - checks the files of a backup one after the other, without opening it.
#include "sm/backup/verify_backup.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <span>

#include "sm/backup/backup_pages.h"
#include "sm/backup/record_check.h"
#include "threads/io/disk_file.h"
#include "txn/log/durable_end_file.h"
#include "txn/log/log_files.h"

namespace lockstep {

namespace sm {
namespace {

using threads::CopyBuffer, threads::CopyStream, threads::DiskFile;

constexpr size_t kFaultsMax = 100;  // told; a file of garbage has as many as pages

class Verifier {
public:
    Verifier(threads::Disk& disk, const threads::Directory& directory,
             const BackupManifest& manifest, CopyStream& stream, const std::vector<PageId>* only)
        : disk_(disk), directory_(directory), manifest_(manifest), stream_(stream), only_(only) {}
    Result<std::vector<std::string>> run();

private:
    using Look = Result<void> (Verifier::*)(const CopyBuffer& buffer);
    struct Range {  // bytes of a file
        uint64_t begin, end;
    };
    Result<void> look_through(const std::string& name, uint64_t length,
                              std::span<const Range> ranges, Look look);
    Result<std::optional<DiskFile>> open_whole(const std::string& name, uint64_t length);
    std::vector<Range> data_ranges() const;
    Result<void> look_at_data(const CopyBuffer& buffer);
    Result<void> look_at_pages(const CopyBuffer& buffer);
    Result<void> look_at_log(const CopyBuffer& buffer);
    Result<void> check_log();
    Result<void> check_mark(const txn::LogFiles& files);
    void check_page(const char* file, const Page& page, PageId id, uint64_t least);
    void fault(const std::string& text) {
        if (faults_.size() < kFaultsMax) faults_.push_back(text + "; " + kBackupRemedy);
        else if (faults_.size() == kFaultsMax) faults_.push_back("and more");
    }
    threads::Disk& disk_;
    const threads::Directory& directory_;
    const BackupManifest& manifest_;
    CopyStream& stream_;
    const std::vector<PageId>* const only_;
    std::unique_ptr<WrittenLsns> lsns_;
    uint64_t segment_begin_ = 0;  // LSN of the first byte of the file being read
    std::unique_ptr<RecordCheck> records_;
    std::vector<std::string> faults_;
};

Result<std::vector<std::string>> Verifier::run() {
    static_assert(CopyBuffer::kBytes % kPageBytes == 0 && CopyBuffer::kBytes % txn::kLogBlock == 0);
    manifest_.assert_state();
    lsns_ = TRY(WrittenLsns::create(manifest_.pages));
    const uint64_t blocks =
        (manifest_.pages + WrittenLsns::kPagesPerBlock - 1) / WrittenLsns::kPagesPerBlock;
    (void)TRY(open_whole("data.lsn", blocks * 2 * WrittenLsns::kSlotBytes));
    if (const std::string wrong = TRY(load_lsns(disk_, directory_, manifest_, *lsns_));
        !wrong.empty() && faults_.empty())
        fault(wrong);
    const Range copied{0, (manifest_.pages_copied - kSuperblocks) * kPageBytes};
    if (manifest_.incremental())
        TRY(look_through(kPagesName, copied.end, {&copied, 1}, &Verifier::look_at_pages));
    else
        TRY(look_through("data", manifest_.pages * kPageBytes, data_ranges(),
                         &Verifier::look_at_data));
    TRY(check_log());
    return std::move(faults_);
}

// Of the pages to be looked at: neighbours together.
std::vector<Verifier::Range> Verifier::data_ranges() const {
    if (only_ == nullptr) return {{0, manifest_.pages * kPageBytes}};
    std::vector<Range> ranges = {{0, kSuperblocks * kPageBytes}};
    for (const PageId id : *only_) {
        const uint64_t begin = uint64_t{id.value} * kPageBytes;
        DCHECK(begin >= ranges.back().end && id.value < manifest_.pages);
        if (begin != ranges.back().end) ranges.push_back({begin, begin});
        ranges.back().end = begin + kPageBytes;
    }
    return ranges;
}

// The file, if it can be read and has that length; else a fault is told. Empty: it cannot be read.
Result<std::optional<DiskFile>> Verifier::open_whole(const std::string& name, uint64_t length) {
    DCHECK(!name.empty());
    auto file =
        DiskFile::open(disk_, directory_ / name, threads::Disk::kReadOnly | threads::Disk::kDirect);
    const Result<uint64_t> size = file ? disk_.size(file->id()) : std::unexpected(file.error());
    if (!size) {
        fault(name + (size.error().os == ENOENT
                          ? ": the file is missing"
                          : ": the file cannot be read: " + size.error().text()));
        return std::optional<DiskFile>();
    }
    if (*size != length)
        fault(name + ": the file ends at " + std::to_string(*size) + " instead of " +
              std::to_string(length));
    return std::optional(std::move(*file));
}

// Gives these bytes of a file to `look`, as far as it has them.
Result<void> Verifier::look_through(const std::string& name, uint64_t length,
                                    std::span<const Range> ranges, Look look) {
    DCHECK(!ranges.empty() && ranges.back().end <= length);
    if (length == 0) return {};
    const std::optional<DiskFile> file = TRY(open_whole(name, length));
    if (!file) return {};
    size_t at = 0;
    uint64_t next = ranges[0].begin;
    bool ended = false;
    std::optional<Error> unreadable;
    const auto read = [&](CopyBuffer& buffer) -> Result<bool> {
        if (at < ranges.size() && next == ranges[at].end && ++at < ranges.size())
            next = ranges[at].begin;
        if (at == ranges.size() || ended) return false;
        const size_t wanted = std::min(CopyBuffer::kBytes, ranges[at].end - next);
        buffer.at = next;
        const Result<size_t> got = disk_.read_now(file->id(), next, buffer.bytes, wanted);
        if (!got) unreadable = got.error();
        buffer.size = got.value_or(0);
        DCHECK(buffer.size <= wanted && wanted > 0);
        next += buffer.size;
        ended = buffer.size < wanted;
        return buffer.size > 0;
    };
    const auto look_at = [&](const CopyBuffer& buffer) -> Result<bool> {
        TRY((this->*look)(buffer));
        return true;
    };
    TRY(stream_.run(read, look_at, [](CopyBuffer&) { return Result<void>(); }));
    if (unreadable) fault(name + ": the file cannot be read: " + unreadable->text());
    return {};
}

void Verifier::check_page(const char* file, const Page& page, PageId id, uint64_t least) {
    const std::string where = std::string(file) + ": page " + std::to_string(id.value);
    if (id.value < kSuperblocks && page.kind() != PageKind::superblock)
        return fault(where + ": is no superblock");
    if (const char* what = page_fault(page, id, least, manifest_.end)) fault(where + ": " + what);
}

Result<void> Verifier::look_at_data(const CopyBuffer& buffer) {
    DCHECK(buffer.at % kPageBytes == 0);
    auto id = static_cast<uint32_t>(buffer.at / kPageBytes);
    for (const Page& page : pages_in(buffer)) {
        check_page("data", page, PageId{id}, lsns_->of(PageId{id}));
        ++id;
    }
    return {};
}

Result<void> Verifier::look_at_pages(const CopyBuffer& buffer) {
    for (const Page& page : pages_in(buffer)) {
        if (page.header.page_id >= manifest_.pages) fault("pages: a page has no valid number");
        else check_page(kPagesName, page, page.id(), lsns_->of(page.id()));
    }
    return {};
}

Result<void> Verifier::look_at_log(const CopyBuffer& buffer) {
    const auto seen = records_->see(Lsn{segment_begin_ + buffer.at}, {buffer.bytes, buffer.size});
    if (seen) return {};
    return seen.error().code == ErrorCode::corrupt_log ? Result<void>{} : seen;
}

Result<void> Verifier::check_log() {
    const Superblock& block = manifest_.superblock;
    const txn::LogFiles files(disk_, directory_, block.log_segment_bytes);
    records_ = std::make_unique<RecordCheck>(Lsn{block.log_start});
    records_->stop_at(Lsn{manifest_.end});
    DCHECK(block.log_start <= manifest_.end && block.log_segment_bytes > 0);
    const size_t before = faults_.size();
    for (uint64_t n = files.number_of(block.log_start);
         n * block.log_segment_bytes < manifest_.end && faults_.size() == before; ++n) {
        segment_begin_ = n * block.log_segment_bytes;
        const uint64_t from = std::max(segment_begin_, txn::block_floor(block.log_start)),
                       to = std::min(segment_begin_ + block.log_segment_bytes,
                                     txn::block_ceil(manifest_.end));
        const Range range{from - segment_begin_, to - segment_begin_};
        TRY(look_through(txn::LogFiles::segment_name(n), range.end, {&range, 1},
                         &Verifier::look_at_log));
    }
    const uint64_t at = records_->position().value;
    if (at != manifest_.end && faults_.size() == before)
        fault(files_of_record(files, at, manifest_.end) + ": no valid record at LSN " +
              std::to_string(at) + "; the backup's end is LSN " + std::to_string(manifest_.end));
    return check_mark(files);
}

Result<void> Verifier::check_mark(const txn::LogFiles& files) {
    const size_t before = faults_.size();
    (void)TRY(open_whole("log.mark", 2 * txn::DurableEnd::kSlotBytes));
    if (faults_.size() != before) return {};
    const auto mark = txn::DurableEnd::load(disk_, files.mark());
    if (!mark || !*mark || (*mark)->durable_end != manifest_.end)
        fault("log.mark: it is damaged, or has another end than the backup");
    return {};
}

}  // namespace

Result<std::vector<std::string>> find_faults(threads::Disk& disk,
                                             const threads::Directory& directory,
                                             const BackupManifest& manifest, CopyStream& stream,
                                             const std::vector<PageId>* only) {
    DCHECK(only == nullptr || !manifest.incremental());
    return Verifier(disk, directory, manifest, stream, only).run();
}

Result<std::string> load_lsns(threads::Disk& disk, const threads::Directory& directory,
                              const BackupManifest& manifest, WrittenLsns& lsns) {
    const auto file = DiskFile::open(disk, directory / "data.lsn", threads::Disk::kReadOnly);
    if (!file) return "data.lsn: the file cannot be read: " + file.error().text();
    const auto loaded = lsns.load(disk, file->id(), manifest.superblock.store_number());
    const uint64_t blocks =
        (manifest.pages + WrittenLsns::kPagesPerBlock - 1) / WrittenLsns::kPagesPerBlock;
    if (loaded.blocks == blocks && loaded.unknown == 0) return std::string();
    return "data.lsn: " + std::to_string(blocks - loaded.blocks + loaded.unknown) + " of " +
           std::to_string(blocks) + " blocks are missing or damaged";
}

}  // namespace sm

Result<std::vector<std::string>> verify_backup(std::string_view directory) {
    const std::unique_ptr<threads::Disk> disk = threads::make_disk(threads::IoBackend::pool);
    const auto opened = threads::Directory::opened(*disk, directory);
    const sm::BackupManifest manifest = TRY(sm::read_manifest(*disk, opened));
    auto stream = TRY(threads::CopyStream::create(threads::CopySteps::overlap));
    return sm::find_faults(*disk, opened, manifest, stream);
}

}  // namespace lockstep
