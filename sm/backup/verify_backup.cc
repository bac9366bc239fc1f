// verify_backup.cc - checks the files of a backup one after the other, without opening it.
#include "sm/backup/verify_backup.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "sm/backup/page_fault.h"
#include "sm/backup/record_check.h"
#include "sm/buffer/written_lsns.h"
#include "threads/io/aligned_buffer.h"
#include "txn/log/durable_end_file.h"
#include "txn/log/log_files.h"

namespace lockstep {

namespace sm {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;
constexpr uint32_t kSuperblocks = 2;
constexpr size_t kFaultsMax = 100;  // told; a file of garbage has as many as pages

class Verifier {
public:
    Verifier(threads::Disk& disk, const std::string& directory, const BackupManifest& manifest)
        : disk_(disk), directory_(directory), manifest_(manifest) {}
    Result<std::vector<std::string>> run();

private:
    using Piece = Result<void> (Verifier::*)(uint64_t at, size_t bytes);
    Result<void> each_piece(const std::string& name, uint64_t from, uint64_t to, Piece look);
    Result<void> load_lsns();
    Result<void> look_at_data(uint64_t at, size_t bytes);
    Result<void> look_at_pages(uint64_t at, size_t bytes);
    Result<void> look_at_log(uint64_t at, size_t bytes);
    Result<void> check_log();
    void check_page(const Page& page, PageId id, uint64_t least);
    void fault(const std::string& text) {
        if (faults_.size() < kFaultsMax) faults_.push_back(text);
        else if (faults_.size() == kFaultsMax) faults_.push_back("and more");
    }
    Page& page_at(size_t offset) { return *reinterpret_cast<Page*>(buffer_.get() + offset); }

    threads::Disk& disk_;
    const std::string& directory_;
    const BackupManifest& manifest_;
    threads::AlignedBuffer buffer_;
    std::unique_ptr<WrittenLsns> lsns_;
    uint64_t segment_begin_ = 0;  // LSN of the first byte of the file being read
    std::unique_ptr<RecordCheck> records_;
    std::vector<std::string> faults_;
};

Result<std::vector<std::string>> Verifier::run() {
    static_assert(kPieceBytes % kPageBytes == 0 && kPieceBytes % txn::kLogBlock == 0);
    manifest_.assert_state();
    buffer_ = TRY(threads::make_aligned_buffer(kPieceBytes, threads::PageSize::huge));
    TRY(load_lsns());
    if (manifest_.incremental())
        TRY(each_piece(kPagesName, 0, (manifest_.pages_copied - 2) * kPageBytes,
                       &Verifier::look_at_pages));
    else TRY(each_piece("data", 0, manifest_.pages * kPageBytes, &Verifier::look_at_data));
    TRY(check_log());
    return std::move(faults_);
}

Result<void> Verifier::load_lsns() {
    const std::string path = directory_ + "/data.lsn";
    lsns_ = TRY(WrittenLsns::create(manifest_.pages));
    if (!disk_.exists(path)) {
        fault("data.lsn: the file is missing");
        return {};
    }
    const threads::FileId file = TRY(disk_.open(path, threads::Disk::kReadOnly));
    const auto loaded =
        lsns_->load(disk_, file, manifest_.superblock.uuid[0] ^ manifest_.superblock.uuid[1]);
    disk_.close(file);
    const uint64_t blocks =
        (manifest_.pages + WrittenLsns::kPagesPerBlock - 1) / WrittenLsns::kPagesPerBlock;
    if (loaded.blocks != blocks || loaded.unknown != 0)
        fault("data.lsn: " + std::to_string(blocks - loaded.blocks + loaded.unknown) + " of " +
              std::to_string(blocks) + " blocks are missing or damaged");
    return {};
}

// Gives the bytes [from, to) of a file to `look`, in pieces in buffer_.
Result<void> Verifier::each_piece(const std::string& name, uint64_t from, uint64_t to, Piece look) {
    DCHECK(from <= to && buffer_ != nullptr);
    if (from == to) return {};
    const std::string path = directory_ + "/" + name;
    if (!disk_.exists(path)) {
        fault(name + ": the file is missing");
        return {};
    }
    const threads::FileId file = TRY(disk_.open(path, threads::Disk::kReadOnly));
    Result<void> done;
    for (uint64_t at = from; done && at < to; at += kPieceBytes) {
        const size_t want = std::min(kPieceBytes, to - at);
        std::memset(buffer_.get(), 0, want);
        const Result<size_t> got = disk_.read_now(file, at, buffer_.get(), want);
        if (got && *got < want)
            fault(name + ": the file ends at " + std::to_string(at + *got) + " instead of " +
                  std::to_string(to));
        done = got ? (this->*look)(at, *got) : Result<void>(std::unexpected(got.error()));
        if (got && *got < want) break;
    }
    disk_.close(file);
    return done;
}

void Verifier::check_page(const Page& page, PageId id, uint64_t least) {
    if (id.value < kSuperblocks && page.kind() != PageKind::superblock)
        return fault("page " + std::to_string(id.value) + ": is no superblock");
    if (const char* what = page_fault(page, id, least, manifest_.end))
        fault("page " + std::to_string(id.value) + ": " + what);
}

Result<void> Verifier::look_at_data(uint64_t at, size_t bytes) {
    for (size_t offset = 0; offset + kPageBytes <= bytes; offset += kPageBytes) {
        DCHECK((at + offset) % kPageBytes == 0);
        const PageId id{static_cast<uint32_t>((at + offset) / kPageBytes)};
        check_page(page_at(offset), id, lsns_->of(id));
    }
    return {};
}

Result<void> Verifier::look_at_pages(uint64_t, size_t bytes) {
    for (size_t offset = 0; offset + kPageBytes <= bytes; offset += kPageBytes) {
        const Page& page = page_at(offset);
        if (page.header.page_id >= manifest_.pages) fault("pages: a page has no valid number");
        else check_page(page, page.id(), lsns_->of(page.id()));
    }
    return {};
}

Result<void> Verifier::look_at_log(uint64_t at, size_t bytes) {
    const auto seen = records_->see(Lsn{segment_begin_ + at}, {buffer_.get(), bytes});
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
        TRY(each_piece(files.segment_path(n).substr(directory_.size() + 1), from - segment_begin_,
                       to - segment_begin_, &Verifier::look_at_log));
    }
    if (records_->position().value != manifest_.end)
        fault("log: no valid record at " + std::to_string(records_->position().value) +
              "; the backup's end is " + std::to_string(manifest_.end));
    const auto mark = txn::DurableEnd::load(disk_, files.mark_path());
    if (!mark || !*mark || (*mark)->durable_end != manifest_.end)
        fault("log.mark: missing, damaged, or of another end");
    return {};
}

}  // namespace

Result<std::vector<std::string>> find_faults(threads::Disk& disk, const std::string& directory,
                                             const BackupManifest& manifest) {
    return Verifier(disk, directory, manifest).run();
}

}  // namespace sm

Result<std::vector<std::string>> verify_backup(std::string_view directory) {
    const std::unique_ptr<threads::Disk> disk = threads::make_disk(threads::IoBackend::pool);
    const std::string path(directory);
    const sm::BackupManifest manifest = TRY(sm::read_manifest(*disk, path));
    return sm::find_faults(*disk, path, manifest);
}

}  // namespace lockstep
