// log_files.h - names and life of the log's files: segments, the segment in preparation, and the
// mark (the durable-end record).
//
// Concepts   "log.NNNNNNNN" is segment N (decimal, 8 digits or more). "log.new" is a segment that
//            is not in place yet. "log.mark" is the mark. A segment gets its number by rename and
//            directory sync. All segments are whole, except that the last one may be shorter. The
//            first segment of a new log grows in steps (log_grow.cc). A crash may also cut short
//            a segment that the flusher has created in haste.
// Blocking   Calls block the calling kernel thread; all of them are rare.
#pragma once

#include <string>
#include <vector>

#include "threads/base/check.h"
#include "threads/io/directory.h"

namespace lockstep::txn {

// Unit of log writes and of alignment in files.
inline constexpr uint64_t kLogBlock = 4096;
inline constexpr uint64_t kLogFirst = 4096;  // LSN of a log's first record
static_assert((kLogBlock & (kLogBlock - 1)) == 0 && kLogFirst % kLogBlock == 0);

inline constexpr uint64_t block_floor(uint64_t lsn) { return lsn & ~(kLogBlock - 1); }
inline constexpr uint64_t block_ceil(uint64_t lsn) { return block_floor(lsn + kLogBlock - 1); }
static_assert(block_floor(kLogBlock - 1) == 0 && block_ceil(1) == kLogBlock);
static_assert(block_ceil(kLogBlock) == kLogBlock);

class LogFiles {
public:
    LogFiles(threads::Disk& disk, threads::Directory directory, uint64_t segment_bytes)
        : disk_(disk), directory_(std::move(directory)), segment_bytes_(segment_bytes) {
        DCHECK(segment_bytes > 0 && segment_bytes % kLogBlock == 0);
    }

    threads::Disk& disk() const { return disk_; }
    uint64_t segment_bytes() const { return segment_bytes_; }
    uint64_t number_of(uint64_t lsn) const { return lsn / segment_bytes_; }
    uint64_t segment_end(uint64_t lsn) const { return (lsn / segment_bytes_ + 1) * segment_bytes_; }
    const threads::Directory& directory() const { return directory_; }
    static std::string segment_name(uint64_t number);
    threads::Place segment(uint64_t number) const { return directory_ / segment_name(number); }
    threads::Place new_segment() const { return directory_ / kNewName; }
    threads::Place mark() const { return directory_ / kMarkName; }
    static constexpr const char *kNewName = "log.new", *kMarkName = "log.mark";
    // For texts.
    std::string segment_path(uint64_t number) const {
        return directory_.path(segment_name(number));
    }

    // Numbers of the existing segments, sorted.
    Result<std::vector<uint64_t>> list() const;
    Result<threads::FileId> open(uint64_t number, uint32_t flags) const {
        return disk_.open(segment(number), flags);
    }
    // Creates "log.new" and allocates blocks for `bytes`; the caller closes the file. Errors:
    // no_space, io_error.
    Result<threads::FileId> start_new(uint64_t bytes) const;
    // Opens segment `number`, allocates its blocks up to `bytes`, and syncs it if `sync`. Blocks.
    // Errors: those of open, no_space, io_error.
    Result<void> extend_now(uint64_t number, uint64_t bytes, bool sync) const;
    // "log.new" or an old segment becomes segment `number`. Durable only after sync_directory.
    Result<void> place_new(uint64_t number) const {
        return disk_.rename(new_segment(), segment(number));
    }
    Result<void> recycle(uint64_t old, uint64_t number) const {
        return disk_.rename(segment(old), segment(number));
    }
    Result<void> sync_directory() const { return disk_.sync_directory(directory_.here()); }

private:
    threads::Disk& disk_;
    threads::Directory directory_;
    uint64_t segment_bytes_;
};

}  // namespace lockstep::txn
