// archive_index.cc - see archive_index.h.
#include "sm/backup/archive_index.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <tuple>
#include <utility>

#include "threads/base/check.h"
#include "threads/worker/io_wait.h"
#include "txn/log/log_record.h"

namespace lockstep::sm {

namespace {

std::string hex(uint64_t number) {
    char text[20];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
    return text;
}

}  // namespace

ArchiveIndex::ArchiveIndex(threads::Directory directory, Pieces pieces)
    : directory_(std::move(directory)), pieces_(std::move(pieces)) {
    // Of pieces that begin together, the longest comes first.
    std::ranges::sort(pieces_, {}, [](const PieceName& piece) {
        return std::tuple(piece.history, piece.begin, UINT64_MAX - piece.end);
    });
    const PieceName* last = nullptr;
    std::erase_if(pieces_, [&](const PieceName& piece) {
        if (last && last->history == piece.history && piece.end <= last->end) return true;
        last = &piece;
        return false;
    });
    assert_state();
}

void ArchiveIndex::assert_state() const {
    DCHECK(std::ranges::is_sorted(pieces_, {}, [](const PieceName& piece) {
        return std::tuple(piece.history, piece.begin, piece.end);
    }));
    DCHECK(path_.empty() || path_.front().below == UINT64_MAX);
}

Result<ArchiveIndex> ArchiveIndex::list(threads::Disk& disk, const threads::Directory& directory,
                                        const BackupManifest& backup) {
    if (!TRY(is_there(disk, directory / kArchiveName)))
        return bad_archive("log archive",
                           directory.path() +
                               " is no archive: its file archive is missing; name the archive of "
                               "the backup's store, or bring the file from a copy of the archive");
    if (!TRY(read_archive_file(disk, directory, kArchiveName)).header.of(backup.superblock))
        return bad_archive("log archive", directory.path() +
                                              " has the log of another store than the backup: name "
                                              "the archive of the backup's store");
    Pieces pieces;
    for (const std::string& name : TRY(disk.list(directory.here())))
        if (const auto piece = PieceName::parse(name)) pieces.push_back(*piece);
    return ArchiveIndex(directory, std::move(pieces));
}

Result<ArchiveIndex> ArchiveIndex::load(threads::Disk& disk, const threads::Directory& directory,
                                        const BackupManifest& backup, uint64_t history) {
    ArchiveIndex index = TRY(list(disk, directory, backup));
    TRY(index.find_path(disk, backup, {history, UINT64_MAX}));
    return index;
}

Result<ArchiveIndex> ArchiveIndex::load(threads::Disk& disk, const threads::Directory& directory,
                                        const BackupManifest& backup, const Superblock& store) {
    ArchiveIndex index = TRY(list(disk, directory, backup));
    Step step{store.history, UINT64_MAX};
    if (store.history != backup.superblock.history && store.history != 0) {
        index.path_.push_back(step);
        step = {store.history_parent, store.history_begin};
    }
    TRY(index.find_path(disk, backup, step));
    return index;
}

Result<void> ArchiveIndex::find_path(threads::Disk& disk, const BackupManifest& backup, Step step) {
    const Superblock& store = backup.superblock;
    for (;;) {
        path_.push_back(step);
        const uint64_t history = step.history, below = step.below;
        assert_state();
        if (history == store.history) {
            if (below >= backup.end) return {};
            return bad_archive("log archive",
                               "history " + hex(path_.front().history) +
                                   " left the backup's history at LSN " + std::to_string(below) +
                                   ", before the backup's point, LSN " +
                                   std::to_string(backup.end) + ": use an earlier backup");
        }
        const auto piece = behind(history, 0);
        if (piece == pieces_.end() || piece->history != history)
            return bad_archive("log archive",
                               directory_.path() + " has no log of history " + hex(history) +
                                   ", or it does not come from the backup's history " +
                                   hex(store.history));
        const ArchiveFile file = TRY(read_archive_file(disk, directory_, piece->text()));
        if (file.header.history == 0 || path_.size() > 1000)
            return bad_archive("log archive", "history " + hex(path_.front().history) +
                                                  " does not come from the backup's history " +
                                                  hex(store.history));
        step = {file.header.history_parent, std::min(below, file.header.history_begin)};
    }
}

ArchiveIndex::Pieces::const_iterator ArchiveIndex::behind(uint64_t history, uint64_t lsn) const {
    return std::ranges::upper_bound(
        pieces_, std::pair(history, lsn), {},
        [](const PieceName& piece) { return std::pair(piece.history, piece.begin); });
}

// The last piece that begins at `lsn` or below reaches farthest of those that do.
std::optional<ArchiveIndex::Place> ArchiveIndex::at(uint64_t lsn) const {
    DCHECK(!path_.empty());
    for (const Step& step : path_) {
        if (lsn >= step.below) continue;
        const uint64_t history = step.history;
        const auto next = behind(history, lsn);
        if (next == pieces_.begin()) continue;
        const PieceName& piece = *std::prev(next);
        if (piece.history != history || piece.end <= lsn) continue;
        return Place{piece, std::min(piece.end, step.below)};  // the newest history that has it
    }
    return {};
}

uint64_t ArchiveIndex::end_of_chain(uint64_t lsn) const {
    for (;;) {
        const std::optional<Place> place = at(lsn);
        if (!place) return lsn;
        const uint64_t end = place->end;
        DCHECK(end > lsn);
        lsn = end;
    }
}

std::optional<uint64_t> ArchiveIndex::next_begin(uint64_t lsn) const {
    std::optional<uint64_t> first;
    for (const Step& step : path_) {
        const auto next = behind(step.history, lsn);
        if (next == pieces_.end() || next->history != step.history || next->begin >= step.below)
            continue;
        first = std::min(first.value_or(UINT64_MAX), next->begin);
    }
    return first;
}

std::string ArchiveIndex::other_histories() const {
    std::string text;
    for (const PieceName& piece : pieces_) {
        if (std::ranges::find(path_, piece.history, &Step::history) != path_.end()) continue;
        const std::string name = hex(piece.history);
        if (text.find(name) == std::string::npos) text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

void ArchiveReader::close() {
    if (file_.value >= 0) disk_.close(std::exchange(file_, threads::FileId{-1}));
    name_.clear();
}

Result<void> ArchiveReader::open(const PieceName& piece) {
    const std::string name = piece.text();
    if (name == name_) return {};
    close();
    const ArchiveFile found = TRY(read_archive_file(disk_, index_.directory(), name));
    const ArchiveHeader& header = found.header;
    if (!header.of(store_) || header.segment_bytes != store_.log_segment_bytes)
        return bad_archive("file of the archive",
                           name + " is of another store: remove it, or bring the right one back");
    if (header.kind != static_cast<uint32_t>(ArchiveKind::piece) || header.begin != piece.begin ||
        header.end != piece.end || header.history != piece.history)
        return bad_archive("file of the archive",
                           name + " has other log than its name says: it was renamed");
    if (found.bytes < piece.file_bytes())
        return bad_archive("file of the archive",
                           name + " is truncated: it has " + std::to_string(found.bytes) + " of " +
                               std::to_string(piece.file_bytes()) +
                               " bytes; bring it from a copy of the archive");
    DCHECK(file_.value < 0 && name_.empty());
    file_ = TRY(
        disk_.open(index_.directory() / name, threads::Disk::kReadOnly | threads::Disk::kDirect));
    name_ = name;
    header_ = header;
    return {};
}

std::string ArchiveReader::name_at(uint64_t lsn) const {
    const auto place = index_.at(lsn);
    if (!place) return {};
    std::string names = index_.directory().path(place->piece.text());
    const auto next = index_.at(place->end);
    if (next && place->end - lsn < txn::kLogRecordMax) names += " or " + next->piece.text();
    return names;
}

Result<ArchiveHeader> ArchiveReader::header_at(uint64_t lsn) {
    const auto place = index_.at(lsn);
    if (!place) return bad_archive("log archive", "no file has LSN " + std::to_string(lsn));
    TRY(open(place->piece));
    DCHECK(header_.begin <= lsn && lsn < header_.end);
    return header_;
}

Result<uint64_t> ArchiveReader::read(uint64_t lsn, uint64_t wanted, std::byte* to, uint64_t bytes) {
    DCHECK(lsn % txn::kLogBlock == 0 && lsn <= wanted && bytes % txn::kLogBlock == 0);
    const auto place = index_.at(wanted);
    if (!place) return uint64_t{0};
    TRY(open(place->piece));
    DCHECK(lsn >= place->piece.first_block());
    const uint64_t useful = std::min(bytes, place->end - lsn);
    DCHECK(place->piece.begin <= wanted && wanted < place->end && useful > wanted - lsn);
    const uint64_t offset = sizeof(ArchiveBlock) + lsn - place->piece.first_block();
    const size_t got = parks_
                           ? TRY(threads::io_read(file_, offset, to, txn::block_ceil(useful),
                                                  "file of the archive", threads::ParkReason::io))
                           : TRY(disk_.read_now(file_, offset, to, txn::block_ceil(useful)));
    if (got < useful) return bad_archive("file of the archive", name_ + " is truncated");
    return useful;
}

}  // namespace lockstep::sm
