// archive_file.h - the files of a log archive: their names, and the block that each begins with.
//
// Concepts   A *piece* holds the log from `begin` to `end`, inside one segment. Behind its block
//            come whole blocks of the log, from block_floor(begin) on; what lies behind `end` is
//            zeros. The file `archive` says whose log the archive has. A file `backup-LSN` names a
//            directory with a backup, so that a damaged page can be rebuilt from it.
// Layout     The first 4096 bytes of each file; the rest of them is zeros:
//            offset  0 u64 checksum      XXH3 over bytes 8..4095.
//                    8 char magic[8]     "LSARCHIV".
//                   16 u32 version
//                   20 u32 kind          ArchiveKind.
//                   24 u64 uuid[2]       of the store.
//                   40 u64 history       with its parent, and where it left that: superblock.h.
//                   48 u64 history_parent
//                   56 u64 history_begin
//                   64 u64 segment_bytes of the log.
//                   72 u64 begin         LSN; of a backup, its point.
//                   80 u64 end
//                   88 u64 path_bytes    of a backup: its path follows at 96.
//            Names of pieces: HISTORY-BEGIN-END.log, with 16 hexadecimal and twice 20 decimal
//            digits.
// Invariants AF-1 A file has its name only when all its bytes are durable. Before, it is called
//                 NAME.new. [DirectoryArchive::finish()]
//            AF-2 Bytes of the log that are durable never change, so two pieces of one history
//                 agree where they overlap.
#pragma once

#include <optional>
#include <string>

#include <lockstep/result.h>
#include "sm/buffer/superblock.h"
#include "txn/log/log_files.h"

namespace lockstep::sm {

inline constexpr const char* kArchiveName = "archive";
inline constexpr uint32_t kArchiveVersion = 1;

enum class ArchiveKind : uint32_t { store = 1, piece = 2, backup = 3 };

struct ArchiveHeader {
    uint64_t checksum;
    char magic[8];
    uint32_t version;
    uint32_t kind;
    uint64_t uuid[2];
    uint64_t history;
    uint64_t history_parent;
    uint64_t history_begin;
    uint64_t segment_bytes;
    uint64_t begin;
    uint64_t end;
    uint64_t path_bytes;

    bool of(const Superblock& block) const {
        return uuid[0] == block.uuid[0] && uuid[1] == block.uuid[1];
    }
    void assert_state() const {
        DCHECK(begin <= end && segment_bytes > 0 && segment_bytes % txn::kLogBlock == 0);
        DCHECK(kind != static_cast<uint32_t>(ArchiveKind::piece) ||
               begin / segment_bytes == (end - 1) / segment_bytes);
    }
};
static_assert(kOnDisk<ArchiveHeader, 96> && offsetof(ArchiveHeader, uuid) == 24);
static_assert(offsetof(ArchiveHeader, history) == 40 && offsetof(ArchiveHeader, begin) == 72);
static_assert(offsetof(ArchiveHeader, path_bytes) == 88);

struct alignas(txn::kLogBlock) ArchiveBlock {
    std::byte bytes[txn::kLogBlock];
    Slice slice() const { return {reinterpret_cast<const char*>(bytes), sizeof bytes}; }
};
inline constexpr size_t kArchivePathMax = sizeof(ArchiveBlock) - sizeof(ArchiveHeader);

// A header of that kind for the store; `begin` and `end` are 0.
ArchiveHeader archive_header(const Superblock& block, ArchiveKind kind);
// `path` has at most kArchivePathMax bytes.
void encode_archive(ArchiveHeader header, std::string_view path, ArchiveBlock& block);

struct ArchiveFile {
    ArchiveHeader header;
    std::string path;    // of a backup
    uint64_t bytes = 0;  // length of the file
};
// Reads and checks the first block. Blocking. Errors: bad_archive that names the file, bad_version.
Result<ArchiveFile> read_archive_file(threads::Disk& disk, const threads::Directory& directory,
                                      const std::string& name);

struct PieceName {
    uint64_t history, begin, end;
    std::string text() const;
    // Empty if `name` is none of a piece.
    static std::optional<PieceName> parse(std::string_view name);
    uint64_t first_block() const { return txn::block_floor(begin); }
    uint64_t file_bytes() const {
        return sizeof(ArchiveBlock) + txn::block_ceil(end) - first_block();
    }
};

// bad_archive with a text that names the thing, the reason and the remedy.
[[gnu::cold]] std::unexpected<Error> bad_archive(const char* what, const std::string& text);

}  // namespace lockstep::sm
