// archive_index.h - which log an archive directory has, and its bytes.
//
// Concepts   The *path* of a history leads back to the history of a backup: each history gives the
//            log from where it left its parent. The index is made of names alone. A piece's first
//            block is read and compared with its name when its bytes are.
// Blocking   load() blocks for its reads. read() blocks, or parks if it is told so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sm/backup/archive_file.h"
#include "sm/backup/backup_manifest.h"

namespace lockstep::sm {

class ArchiveIndex {
public:
    // The log of `history` and of those it came from, down to that of `backup`. Errors: bad_archive
    // (no archive, of another store, no such history, or one that left the backup's before its
    // point), those of the disk.
    static Result<ArchiveIndex> load(threads::Disk& disk, const threads::Directory& directory,
                                     const BackupManifest& backup, uint64_t history);
    // The same of an open store, whose history may have no piece yet.
    static Result<ArchiveIndex> load(threads::Disk& disk, const threads::Directory& directory,
                                     const BackupManifest& backup, const Superblock& store);
    struct Place {
        PieceName piece;
        uint64_t end;  // bytes from here on belong to another history
    };
    // The piece with the byte at `lsn` that reaches farthest, or empty.
    std::optional<Place> at(uint64_t lsn) const;
    // Up to where the log is there without a gap from `lsn` on; `lsn` itself if it is not there.
    uint64_t end_of_chain(uint64_t lsn) const;
    // The first byte behind `lsn`, an end of a chain, at which a piece begins, or empty.
    std::optional<uint64_t> next_begin(uint64_t lsn) const;
    // A history that began behind `lsn` of a store on this path, for an error's text; or empty.
    std::string other_histories() const;
    const threads::Directory& directory() const { return directory_; }

private:
    struct Step {
        uint64_t history, below;  // gives the log below that LSN
    };
    using Pieces = std::vector<PieceName>;
    ArchiveIndex(threads::Directory directory, Pieces pieces);
    static Result<ArchiveIndex> list(threads::Disk& disk, const threads::Directory& directory,
                                     const BackupManifest& backup);
    Result<void> find_path(threads::Disk& disk, const BackupManifest& backup, Step step);
    // The first piece of that history that begins behind `lsn`, or where it would stand.
    Pieces::const_iterator behind(uint64_t history, uint64_t lsn) const;
    void assert_state() const;

    threads::Directory directory_;
    // By history, then by begin. None lies within another of its history, so ends go up as well.
    Pieces pieces_;
    std::vector<Step> path_;  // newest first
};

// Reads pieces of one index.
class ArchiveReader {
public:
    // `parks`: on a user thread.
    ArchiveReader(threads::Disk& disk, const ArchiveIndex& index, const Superblock& store,
                  bool parks)
        : disk_(disk), index_(index), store_(store), parks_(parks) {}
    ~ArchiveReader() { close(); }
    ArchiveReader(const ArchiveReader&) = delete;
    // Reads up to `bytes` from `lsn`, a block's begin whose block holds the byte `wanted`; less at
    // the end of a piece, 0 if no piece has `wanted`. Errors: bad_archive that names the file.
    Result<uint64_t> read(uint64_t lsn, uint64_t wanted, std::byte* to, uint64_t bytes);
    // The files that a damaged record at `lsn` may lie in, for an error.
    std::string name_at(uint64_t lsn) const;
    // Of the piece that has the byte. Errors: bad_archive.
    Result<ArchiveHeader> header_at(uint64_t lsn);

private:
    Result<void> open(const PieceName& piece);
    void close();

    threads::Disk& disk_;
    const ArchiveIndex& index_;
    const Superblock& store_;
    const bool parks_;
    threads::FileId file_{-1};
    std::string name_;
    ArchiveHeader header_{};
};

}  // namespace lockstep::sm
