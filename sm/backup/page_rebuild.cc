// page_rebuild.cc - see page_rebuild.h.
#include "sm/backup/page_rebuild.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sm/backup/archive_index.h"
#include "sm/backup/backup_manifest.h"
#include "sm/backup/backup_pages.h"
#include "sm/backup/record_check.h"
#include "sm/recovery/recovery_parts.h"
#include "threads/io/aligned_buffer.h"
#include "threads/worker/io_wait.h"

namespace lockstep::sm {

namespace {

using threads::Directory, threads::Disk, threads::ParkReason, threads::Place;

constexpr uint64_t kPieceBytes = 1 << 20;

// One backup with those that it follows.
struct Chain {
    std::vector<Directory> directories;     // newest first, the last one is full
    std::vector<BackupManifest> manifests;  // the same
};

// A file of one read after the other; parks.
class ParkingFile {
public:
    explicit ParkingFile(Disk& disk) : disk_(disk) {}
    ~ParkingFile() { close(); }
    ParkingFile(const ParkingFile&) = delete;
    Result<size_t> read(const Place& place, uint64_t offset, void* to, size_t bytes) {
        if (place.in != in_ || place.name != name_) {
            close();
            file_ = TRY(disk_.open(place, Disk::kReadOnly));
            in_ = place.in;
            name_ = place.name;
        }
        return threads::io_read(file_, offset, to, bytes, "file of a backup", ParkReason::io);
    }

private:
    void close() {
        if (file_.value >= 0) disk_.close(std::exchange(file_, threads::FileId{-1}));
        name_.clear();
    }
    Disk& disk_;
    threads::FileId file_{-1};
    // Its place: the directory stays open meanwhile.
    threads::DirectoryId in_ = threads::kNoDirectory;
    std::string name_;
};

// Where the copies and the log of a chain come from.
struct Sources {
    Sources(Disk& disk, Disk& live, ArchiveIndex found, const Superblock& store)
        : index(std::move(found)),
          reader(disk, index, store, true),
          backup_log(disk),
          live_log(live) {}
    const ArchiveIndex index;
    ArchiveReader reader;
    ParkingFile backup_log, live_log;
};

class OnePage {
public:
    OnePage(RestartEnv& env, Disk& disk, const Directory& archive, txn::LogHold hold, PageId id,
            Page& page)
        : env_(env), disk_(disk), archive_(archive), hold_(std::move(hold)), id_(id), page_(page) {}
    Result<bool> from(const Chain& chain);

private:
    Result<void> take_copy(const Chain& chain);
    Result<bool> copy_in(const Directory& directory, const BackupManifest& manifest);
    Result<bool> find_in_pages(const Place& pages, uint64_t count);
    Result<void> scan(const Chain& chain);
    Result<uint64_t> read(uint64_t next, std::byte* to);
    Result<void> apply(const txn::LogRecordView& record);

    RestartEnv& env_;
    Disk& disk_;
    const Directory& archive_;
    const txn::LogHold hold_;
    const PageId id_;
    Page& page_;
    bool known_ = false;
    bool archive_first_ = false;  // of log that the archive and the live log have
    const Chain* chain_ = nullptr;
    std::unique_ptr<Sources> sources_;
};

Result<bool> OnePage::from(const Chain& chain) {
    DCHECK(!chain.manifests.empty() && chain.manifests.size() == chain.directories.size());
    DCHECK(!chain.manifests.back().incremental());
    chain_ = &chain;
    archive_first_ = false;
    known_ = false;
    const BackupManifest& newest = chain.manifests.front();
    sources_ = std::make_unique<Sources>(
        disk_, *env_.disk, TRY(ArchiveIndex::load(disk_, archive_, newest, env_.superblock)),
        newest.superblock);
    TRY(take_copy(chain));
    const Result<void> scanned = scan(chain);
    if (scanned) return known_;
    // What the live log has may be damaged where the archive is not.
    archive_first_ = true;
    known_ = false;
    TRY(take_copy(chain));
    TRY(scan(chain));
    return known_;
}

// The newest copy. A copy that is damaged may do no harm, if the log brings the page.
Result<void> OnePage::take_copy(const Chain& chain) {
    for (size_t i = 0; i < chain.manifests.size() && !known_; ++i) {
        const BackupManifest& manifest = chain.manifests[i];
        if (id_.value >= manifest.pages) continue;  // came into being later
        if (!TRY(copy_in(chain.directories[i], manifest))) continue;
        if (page_fault(page_, id_, 0, manifest.end) != nullptr) return {};
        known_ = page_.header.page_id == id_.value;
    }
    return {};
}

Result<bool> OnePage::copy_in(const Directory& directory, const BackupManifest& manifest) {
    if (manifest.incremental())
        return find_in_pages(directory / kPagesName, manifest.pages_copied - kSuperblocks);
    const size_t got = TRY(sources_->backup_log.read(
        directory / "data", uint64_t{id_.value} * kPageBytes, &page_, kPageBytes));
    return got == kPageBytes;
}

// Pages lie in the order of their numbers.
Result<bool> OnePage::find_in_pages(const Place& pages, uint64_t count) {
    for (uint64_t low = 0, high = count; low < high;) {
        const uint64_t middle = low + (high - low) / 2;
        if (TRY(sources_->backup_log.read(pages, middle * kPageBytes, &page_, kPageBytes)) <
            kPageBytes)
            return fail(ErrorCode::bad_backup, "file pages is too short", middle);
        if (page_.header.page_id == id_.value) return true;
        if (page_.header.page_id < id_.value) low = middle + 1;
        else high = middle;
    }
    return false;
}

// PR-1.
Result<void> OnePage::scan(const Chain& chain) {
    const uint64_t begin = chain.manifests.front().superblock.checkpoint_lsn;
    const uint64_t end = env_.log->durable().value;
    RecordCheck check(Lsn{begin});
    check.on_record([this](const txn::LogRecordView& record) { return apply(record); });
    const auto buffer = TRY(threads::make_aligned_buffer(kPieceBytes));
    for (uint64_t next = begin; next < end;) {
        const uint64_t from = txn::block_floor(next);
        const uint64_t got = TRY(read(next, buffer.get()));
        if (got == 0)
            return bad_archive("log archive",
                               "it lacks the log from LSN " + std::to_string(next) + " on");
        TRY(check.see(Lsn{from}, {buffer.get(), std::min(got, end - from)}));
        DCHECK(from + got > next);
        next = from + got;
    }
    DCHECK(check.position() <= env_.log->tail());
    return {};
}

// From the block of `next` on: as far as one source goes.
Result<uint64_t> OnePage::read(uint64_t next, std::byte* to) {
    const BackupManifest& newest = chain_->manifests.front();
    DCHECK(next >= newest.superblock.checkpoint_lsn && next < env_.log->durable().value);
    const uint64_t from = txn::block_floor(next), live = hold_.from().value;
    const bool in_backup = next < newest.end;
    if (!in_backup && (archive_first_ || next < live)) {
        const uint64_t got = TRY(sources_->reader.read(from, next, to, kPieceBytes));
        if (!archive_first_) return std::min(got, live - from);
        if (got > 0 || next < live) return got;
    }
    const txn::LogFiles files(in_backup ? disk_ : *env_.disk,
                              in_backup ? chain_->directories.front() : env_.log_options.directory,
                              newest.superblock.log_segment_bytes);
    const uint64_t stop = in_backup ? newest.end : env_.log->durable().value;
    const uint64_t bytes = std::min({kPieceBytes, stop - from, files.segment_end(from) - from});
    ParkingFile& file = in_backup ? sources_->backup_log : sources_->live_log;
    const size_t got = TRY(file.read(files.segment(files.number_of(from)),
                                     from % files.segment_bytes(), to, txn::block_ceil(bytes)));
    return std::min<uint64_t>(got, bytes);
}

Result<void> OnePage::apply(const txn::LogRecordView& record) {
    if (record.header->kind < txn::kSmLogKindFirst) return {};
    uint32_t cursor = 0;
    for (PartView part; TRY(next_part(record, cursor, part));) {
        if (part.page != id_) continue;
        const bool brings_page = (part.flags & kPartFresh) || !part.image.empty();
        if (!known_ && !brings_page) continue;
        if (!TRY(redo_part(page_, !brings_page, part, record.end()))) continue;
        DCHECK(page_.header.page_id == id_.value);
        page_.header.lsn = record.end().value;
        known_ = true;
    }
    return {};
}

// Backups that the archive names, by their points.
Result<std::map<uint64_t, std::string>> known_backups(Disk& disk, const Directory& archive,
                                                      const Superblock& store) {
    std::map<uint64_t, std::string> found;
    for (const std::string& name : TRY(disk.list(archive.here()))) {
        if (!name.starts_with("backup-") || name.ends_with(".new")) continue;
        const auto file = read_archive_file(disk, archive, name);
        if (file && file->header.of(store) &&
            file->header.kind == static_cast<uint32_t>(ArchiveKind::backup))
            found[file->header.end] = file->path;
    }
    return found;
}

Result<Chain> chain_of(Disk& disk, const std::map<uint64_t, std::string>& backups, uint64_t point,
                       const Superblock& store) {
    Chain chain;
    for (;;) {
        const auto found = backups.find(point);
        if (found == backups.end())
            return fail(ErrorCode::bad_backup, "an earlier backup is not known", point);
        const Directory directory = Directory::opened(disk, found->second);
        const BackupManifest manifest = TRY(read_manifest(disk, directory));
        // A full backup may have been brought to a later point (update_backup()).
        const bool updated =
            chain.directories.empty() && !manifest.incremental() && manifest.end > point;
        if (!manifest.same_store(store) || (manifest.end != point && !updated))
            return fail(ErrorCode::bad_backup, "another backup lies there now", point);
        // It ends where the one before it ended, and the archive does not know that one.
        if (manifest.incremental() && manifest.since_end >= point)
            return fail(ErrorCode::bad_backup, "an earlier backup is not known", point);
        if (!chain.manifests.empty())
            TRY(check_follows(manifest, chain.manifests.back(), chain.directories.back().path()));
        DCHECK(manifest.end >= point);
        chain.directories.push_back(directory);
        chain.manifests.push_back(manifest);
        if (!manifest.incremental()) return chain;
        point = manifest.since_end;
    }
}

}  // namespace

Result<bool> PageRebuild::rebuild(PageId id, Page& page) {
    const auto archive = archive_.open();
    if (!archive || !disk_.exists(*archive / kArchiveName)) return false;
    DCHECK(threads::current() != nullptr);
    const auto backups = TRY(known_backups(disk_, *archive, env_.superblock));
    OnePage one(env_, disk_, *archive, TRY(env_.log->hold()), id, page);
    for (auto at = backups.rbegin(); at != backups.rend(); ++at) {
        const auto chain = chain_of(disk_, backups, at->first, env_.superblock);
        const Result<bool> done =
            chain ? one.from(*chain) : Result<bool>(std::unexpected(chain.error()));
        if (done.has_value() && *done) {
            DCHECK(page.header.lsn <= env_.log->durable().value);
            count_.fetch_add(1, std::memory_order_relaxed);
            env_.report(1, "page " + std::to_string(id.value) +
                               " was damaged and is rebuilt from "
                               "the backup in " +
                               at->second + " and the log since");
            return true;
        }
        if (!done.has_value())
            env_.report(1, "page " + std::to_string(id.value) + ": the backup in " + at->second +
                               " cannot rebuild it: " + done.error().text());
    }
    return false;
}

}  // namespace lockstep::sm
