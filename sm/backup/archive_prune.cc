// archive_prune.cc - see archive_prune.h.
#include "sm/backup/archive_prune.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "sm/backup/archive_file.h"
#include "sm/backup/backup_manifest.h"
#include "threads/base/check.h"
#include "threads/base/error_detail.h"

namespace lockstep::sm {

namespace {

using threads::Directory, threads::Disk;
using Points = std::map<uint64_t, uint64_t>;  // the oldest kept point of each history

Result<Points> points_of(Disk& disk, const ArchiveHeader& archive, const std::string& path,
                         std::span<const std::string> keep) {
    Points points;
    for (const std::string& directory : keep) {
        const BackupManifest backup = TRY(read_manifest(disk, Directory::opened(disk, directory)));
        if (!archive.of(backup.superblock))
            return bad_archive("archive prune", path + " has the log of another store than " +
                                                    directory + ": name backups of its store");
        const auto [at, fresh] = points.try_emplace(backup.superblock.history, backup.end);
        if (!fresh) at->second = std::min(at->second, backup.end);
    }
    DCHECK(!points.empty());
    return points;
}

struct Found {
    std::vector<PieceName> outdated;
    std::vector<std::string> notes;
    ArchivePruned sums;
};

Result<Found> find(Disk& disk, const Directory& directory, const Points& points) {
    Found found;
    for (const std::string& name : TRY(disk.list(directory.here()))) {
        if (const auto piece = PieceName::parse(name)) {
            const auto point = points.find(piece->history);
            if (point == points.end()) ++found.sums.pieces_other;
            else if (piece->end > point->second) ++found.sums.pieces_left;
            else found.outdated.push_back(*piece);
        } else if (name.starts_with("backup-") && !name.ends_with(".new")) {
            const ArchiveFile note = TRY(read_archive_file(disk, directory, name));
            const auto point = points.find(note.header.history);
            if (point != points.end() && note.header.begin < point->second)
                found.notes.push_back(name);
        }
    }
    std::ranges::sort(found.outdated, {},
                      [](const PieceName& piece) { return std::tuple(piece.history, piece.end); });
    for (const PieceName& piece : found.outdated) found.sums.bytes += piece.file_bytes();
    found.sums.pieces = found.outdated.size();
    found.sums.notes = found.notes.size();
    return found;
}

}  // namespace

Result<ArchivePruned> prune_archive(Disk& disk, const std::string& archive,
                                    std::span<const std::string> keep, bool dry) {
    if (keep.empty())
        return fail_with(ErrorCode::bad_argument, "archive prune",
                         "no backup is named; name each backup that you keep");
    const Directory directory = Directory::opened(disk, archive);
    if (!TRY(is_there(disk, directory / kArchiveName)))
        return bad_archive("archive prune", archive + " is no archive: it has no file archive");
    const ArchiveHeader header = TRY(read_archive_file(disk, directory, kArchiveName)).header;
    const Points points = TRY(points_of(disk, header, archive, keep));
    const Found found = TRY(find(disk, directory, points));
    if (dry) return found.sums;
    // The notes first: a page must not be rebuilt from a backup whose log is gone.
    for (const std::string& name : found.notes) TRY(disk.unlink(directory / name));
    for (const PieceName& piece : found.outdated) TRY(disk.unlink(directory / piece.text()));
    TRY(disk.sync_directory(directory.here()));
    return found.sums;
}

}  // namespace lockstep::sm
