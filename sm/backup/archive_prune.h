// archive_prune.h - removes from a log archive what no kept backup needs.
//
// Concepts   A restore to any later point reads the log from the point of a backup on. So pieces
//            that end at or before the oldest kept point of their history serve nobody. Pieces of
//            histories that no kept backup names stay, because backups of those may exist.
// Blocking   For its reads, removals and one sync of the directory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <lockstep/result.h>
#include "threads/io/directory.h"

namespace lockstep::sm {

struct ArchivePruned {
    uint64_t pieces = 0;        // removed, or that would be
    uint64_t bytes = 0;         // of them
    uint64_t notes = 0;         // of backups that are older than the kept ones
    uint64_t pieces_left = 0;   // of the histories of the kept backups
    uint64_t pieces_other = 0;  // of other histories
};

// `keep`: directories of backups, at least one. `dry`: removes nothing. Errors: bad_argument (no
// backup named), bad_archive (no archive, or of another store than a backup), bad_backup, those of
// the disk. After an error the archive still serves each kept backup: the oldest go first.
Result<ArchivePruned> prune_archive(threads::Disk& disk, const std::string& archive,
                                    std::span<const std::string> keep, bool dry);

}  // namespace lockstep::sm
