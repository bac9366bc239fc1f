// backup.h - copies of a running store: what a backup is told, what it tells, and what can be asked
// of one later. Store::backup() makes them.
//
// Concepts   A backup is a directory with the files of a store and the file `backup`, which is
//            written last. Store::open() opens a complete one as it opens a store after a crash:
//            it recovers the state at BackupInfo::lsn. From then on the directory is a store and
//            no backup any more, so keep a copy or use restore_backup().
//            An incremental backup holds only the pages that have changed since an earlier one. It
//            cannot be opened; restore_backup() puts it together with the earlier ones, and
//            update_backup() brings a full one up to date with it.
// Blocking   Said at each call.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/function.h>
#include <lockstep/function_ref.h>
#include <lockstep/result.h>
#include <lockstep/types.h>

namespace lockstep {

// A complete backup, or the one just made.
struct BackupInfo {
    // The backup is the state at this point: it has each transaction whose commit() returned a
    // point not above it, and no other.
    Lsn lsn{};
    // Where its redo begins: each page that changed later is copied, or its changes are in the log.
    Lsn redo_from{};
    // Of an incremental backup: `lsn` of the earlier one. kLsnNone: it has all pages.
    Lsn since{};
    uint64_t store[2] = {};     // number of the store: its superblock's uuid
    uint64_t pages = 0;         // of the data file
    uint64_t pages_copied = 0;  // of them: all, unless it is incremental
    uint64_t pages_zeroed = 0;  // damaged free pages, of which nothing is needed
    uint64_t bytes = 0;         // of all files of the backup
    uint64_t log_bytes = 0;     // of them: log
    Nanos time = 0;             // how long it took
    // The moment of `lsn`, in nanoseconds since 1970, UTC: what committed later is not in the
    // state. Of a restore with a log archive: the newest time that the log below `lsn` tells.
    Nanos ended_at = 0;
    // Which store of those that one backup gave; 0: none did (see archive.h).
    uint64_t history = 0;
};

// How far a backup is.
struct BackupProgress {
    uint64_t pages = 0, pages_total = 0;  // looked at, and in all
    uint64_t bytes = 0;                   // written so far
    uint64_t log_bytes = 0;               // of them: log
};

// How a backup is made.
struct BackupOptions {
    // Pages and log are copied at most that fast, bytes a second, from 1; nullopt: as fast as
    // possible. Log that is not copied yet cannot be recycled. So what lags more than a quarter of
    // Options::log_bytes behind is copied beyond the limit, and so is the log that is written
    // during the last pieces.
    std::optional<uint64_t> bytes_per_second = {};
    // Copies only the pages that have changed since this backup (read_backup()), a state that the
    // store has had: see BackupInfo::history. If that backup's `redo_from` lies in this run of the
    // store (a checkpoint before it), pages that have not changed are not read either. Must live
    // until the call returns; null: all pages.
    const BackupInfo* since = nullptr;
    // Called after each megabyte of pages or log, on a user thread of the store; null: not called.
    // Must not block its kernel thread, nor wait for writers, which may wait for log to be copied.
    Function<void(const BackupProgress&)> progress = {};
};

// Takes the pieces of a backup, in order: `bytes` belong into the file of that name at `offset`.
// The first piece is file "backup" without bytes, the last one is file "backup" with 4096. What
// lies between pieces of a file is zeros. The bytes are valid until it returns. It runs on a user
// thread of the store and must not block its kernel thread; offload.h does what blocks. An error
// ends the backup.
using BackupSink = FunctionRef<Result<void>(std::string_view file, uint64_t offset, Slice bytes)>;

// Reads the file `backup` of a backup. Blocks the calling kernel thread. Errors: bad_backup (it is
// incomplete, or no backup), bad_path, bad_version, io_error.
Result<BackupInfo> read_backup(std::string_view directory);

// Checks a backup without opening it: each page (checksum, number, LSN), each log record, and the
// length of each file. A restore takes what has no fault. Every fault is a line of text that names
// the file, the page or LSN, and what helps; empty if the backup is sound. Blocks the calling
// kernel thread, reads all files, changes none. Errors: those of read_backup(), out_of_memory.
Result<std::vector<std::string>> verify_backup(std::string_view directory);

// To which point backups are restored, with the log archive of their store (archive.h).
struct RestoreOptions {
    // Directory of the archive; nullopt: the state of the last backup. An empty path is refused.
    std::optional<std::string_view> archive = {};
    // The state at this LSN: it has each transaction whose commit() returned a point not above it.
    // One that was prepared and undecided at that point is in doubt in the result, with its locks:
    // end it as its coordinator has decided (Store::prepared()). nullopt: the archive's end.
    std::optional<Lsn> until = {};
    // Or the state at this time, in nanoseconds since 1970, UTC. It has each transaction that was
    // durable before (commit() or wait_durable() had returned), and none that committed later. It
    // goes by the clock of the machine that ran the store. A crash of that machine may have lost
    // the time of its last flush; BackupInfo::ended_at tells the time that was reached.
    std::optional<Nanos> until_time = {};
    // The history whose log is followed; nullopt: that of the last backup. Another one must come
    // from it.
    std::optional<uint64_t> history = {};
    // Bound on the pages in memory while the archive's log is applied to them, 64 KB .. 1 TB. If
    // that changes more pages, some are written and read several times.
    uint64_t memory_bytes = 1ull << 30;
};

// Checks what restore_backup() with the same arguments would read, and writes nothing: each backup
// as verify_backup() does, that they follow each other, and the archive's log up to the point. Each
// fault is a line of text that begins with the directory of its backup or archive. Blocks the
// calling kernel thread. Errors: bad_argument as of restore_backup(), out_of_memory.
Result<std::vector<std::string>> verify_restore(std::span<const std::string> backups,
                                                const RestoreOptions& options = {});

// Puts backups together in the directory `to`, which is made, or empty: the result is a complete
// full backup, and its first open makes a store of it. `backups`: directories, first a full backup
// and then the incremental ones in their order, each made since the one before. Each page is
// checked. A restore that was cut off may be started again with the same target. Blocks the calling
// kernel thread. Errors: bad_backup (one is incomplete or damaged, or they do not follow each
// other), bad_path (`to` is not empty, or lies in a backup or the archive), bad_argument (a point
// without an archive, an empty path, or memory_bytes out of range), bad_version, store_locked,
// io_error, no_space, out_of_memory. With an archive, its log is applied here, so the first open
// only rolls back what had not committed. Then also bad_archive: of another store, with a gap or a
// damaged file, or it does not reach the point. BackupInfo::lsn is the point that was reached, on a
// record's boundary.
Result<BackupInfo> restore_backup(std::span<const std::string> backups, std::string_view to,
                                  const RestoreOptions& options = {});

// Brings the full backup in directory `full` up to date, in place: with the incremental backup in
// directory `next`, made since it. It becomes a full backup of the state of `next`, which is not
// needed any more. The time that takes grows with what has changed; of the rest of the store it
// reads only data.lsn, a thousandth. So incremental backups can keep a full one current for ever.
// `next` is checked before anything is changed, and what is written is read again and checked. An
// update that was cut off leaves a backup that open and restore refuse until it is repeated with
// the same `next`; one that has succeeded may be repeated too, and changes nothing. Blocks the
// calling kernel thread. Errors: bad_backup (one is incomplete or damaged, `full` is not a full
// backup, or `next` does not follow it), bad_path, bad_version, io_error, no_space, out_of_memory.
Result<BackupInfo> update_backup(std::string_view full, std::string_view next);

}  // namespace lockstep
