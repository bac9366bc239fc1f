// superblock.h - pages 0 and 1 of the volume: what open needs before it can read anything else.
//
// Layout     Behind the page header (offset 32): char magic[8] "LOCKSTEP", u32 version, u32
//            page_bytes, u64 store_uuid[2], u64 checkpoint_lsn, u64 log_start, u64
//            log_segment_bytes, u32 catalog_root, u32 clean, u64 next_txn, u64 sequence, u64
//            history, u64 history_parent, u64 history_begin (zeros before version 4).
// Concepts   A restored store keeps its uuid, and its log goes on from the backup's point. So two
//            stores may have different log at the same LSN. The history tells them apart, as
//            PostgreSQL's timelines do: each store that is made from a backup draws a number.
// Invariants SB-1 Two copies are written in turn with a growing sequence and a sync. The valid copy
//                 with the higher sequence counts. Sequence n lies in page n mod 2, so a write
//                 never touches the copy that counts. [checked: choose_superblock()]
//            SB-2 Versions kFormatVersionOldest to kFormatVersion are opened. Any other version or
//                 page size is bad_version, never a guess. If both copies are damaged, the error is
//                 corrupt_superblock. The same versions of backups are read. [checked:
//                 choose_superblock(), decode_manifest()]
#pragma once

#include "sm/buffer/page.h"
#include "threads/base/on_disk.h"
#include "threads/io/io.h"

namespace lockstep::sm {

// What each version added to the one before:
// 2: CRC-32C on short log records.
// 3: packed page images in the log.
// 4: log kind btree_update_many, CRC-32C on long log records too (log_checksum.h), histories, and
//    time records.
// 5: prepare records (txn/prepare_record.h).
// 6: references to overflow chains list their pages (sm/btree/overflow.h).
inline constexpr uint32_t kFormatVersion = 6;
// A store of this version is opened as well. Open for writing raises its version first.
inline constexpr uint32_t kFormatVersionOldest = 2;

struct Superblock {
    char magic[8];
    uint32_t version;
    uint32_t page_bytes;
    uint64_t uuid[2];
    // Begin record of the last completed checkpoint; in a restored store, see RC-5.
    uint64_t checkpoint_lsn;
    uint64_t log_start;
    uint64_t log_segment_bytes;
    uint32_t catalog_root;
    // 1: closed properly at that checkpoint. Informative: recovery does not rely on it.
    uint32_t clean;
    uint64_t next_txn;
    uint64_t sequence;
    uint64_t history;         // 0: of the store as it was made
    uint64_t history_parent;  // of the backup that it came from
    uint64_t history_begin;   // where it left that history; 0: nowhere

    // Tells the files of one store from those of another.
    uint64_t store_number() const { return uuid[0] ^ uuid[1]; }
    // Is the state at `lsn` of that history an earlier one of this store? Only the store's own
    // history and its parent are known: false of an older one.
    bool follows(uint64_t of, uint64_t lsn) const {
        return of == history || (of == history_parent && lsn <= history_begin);
    }
    bool version_known() const {
        return version >= kFormatVersionOldest && version <= kFormatVersion;
    }
    // The log is kept from `log_start` on, and only a restored store has left a history.
    bool plausible() const {
        return log_start <= checkpoint_lsn && clean <= 1 &&
               (history != 0 || (history_parent == 0 && history_begin == 0));
    }
    void assert_state() const { DCHECK(plausible()); }
};
static_assert(sizeof(Superblock) <= sizeof(Page::body));
static_assert(kOnDisk<Superblock, 104> && offsetof(Superblock, uuid) == 16);
static_assert(offsetof(Superblock, catalog_root) == 56 && offsetof(Superblock, next_txn) == 64);
static_assert(offsetof(Superblock, history) == 80 && offsetof(Superblock, history_begin) == 96);
static_assert(offsetof(Superblock, checkpoint_lsn) == 32 && offsetof(Superblock, sequence) == 72);

// Makes the page of the next copy and advances `block.sequence`. The result is the page's number.
uint32_t make_superblock_page(Superblock& block, Page& page);
// Blocking transfers on the calling kernel thread.
Result<Superblock> read_superblock(threads::Disk& disk, threads::FileId data);
// Writes the copy that is older and syncs; `block.sequence` is advanced.
Result<void> write_superblock(threads::Disk& disk, threads::FileId data, Superblock& block);
// The same from a user thread (only that thread waits), without the sync.
Result<void> store_superblock(threads::FileId data, Superblock& block);

// The valid block of two pages as read (SB-1, SB-2).
Result<Superblock> choose_superblock(const Page& first, const Page& second);

}  // namespace lockstep::sm
