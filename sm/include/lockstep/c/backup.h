// backup.h - of the C interface: copies of a running store (<lockstep/backup.h>).
#ifndef LOCKSTEP_C_BACKUP_H
#define LOCKSTEP_C_BACKUP_H

#include <lockstep/c/base.h>
#include <lockstep/c/store.h>

// NOLINTBEGIN
#ifdef __cplusplus
extern "C" {
#endif
// A complete backup, or the one just made: lockstep::BackupInfo. Set `size` before a call.
typedef struct lockstep_backup_info {
    size_t size;
    uint64_t lsn;
    uint64_t redo_from;
    uint64_t since;
    uint64_t store[2];
    uint64_t pages;
    uint64_t pages_copied;
    uint64_t pages_zeroed;
    uint64_t bytes;
    uint64_t log_bytes;
    uint64_t nanos;
    uint64_t ended_at;  // the moment of `lsn`: nanoseconds since 1970, UTC
    uint64_t history;
} lockstep_backup_info;

// How a backup is made.
typedef struct lockstep_backup_options {
    size_t size;
    uint64_t bytes_per_second;          // of pages and log, from 1; LOCKSTEP_UNLIMITED
    const lockstep_backup_info* since;  // incremental to this one; NULL: all pages
    // Called after each megabyte; NULL: not called. It runs on a user thread of the store and must
    // not block.
    void (*progress)(void* arg, uint64_t pages, uint64_t pages_total, uint64_t bytes);
    void* progress_arg;
} lockstep_backup_options;
// Fills the struct with the defaults and sets its size. Never waits.
void lockstep_backup_options_init(lockstep_backup_options* options, size_t size);

// Copies the running store to `directory`, which is made, or empty. `options` and `info` may be
// NULL. Errors: those of lockstep::Store::backup().
int lockstep_backup(lockstep_store* store, const char* directory,
                    const lockstep_backup_options* options, lockstep_backup_info* info,
                    lockstep_error* error);
// Takes the pieces of a backup in order: `bytes` belong into `file` at `offset`. A result that is
// not 0 ends the backup, which then returns it. It runs on a user thread of the store and must not
// block; lockstep_offload() does what blocks.
typedef int (*lockstep_backup_sink)(void* arg, const char* file, uint64_t offset,
                                    lockstep_slice bytes);
// The same to a function.
int lockstep_backup_to(lockstep_store* store, lockstep_backup_sink sink, void* arg,
                       const lockstep_backup_options* options, lockstep_backup_info* info,
                       lockstep_error* error);

// Reads what a backup says of itself. Blocks.
int lockstep_read_backup(const char* directory, lockstep_backup_info* info, lockstep_error* error);
// Checks every page and log record of a backup. `each` and *faults as in lockstep_verify(). Blocks.
int lockstep_verify_backup(const char* directory, lockstep_line each, void* arg, size_t* faults,
                           lockstep_error* error);
// To which point backups are restored: lockstep::RestoreOptions. What was prepared and undecided
// at that point is in doubt in the result (lockstep_list_prepared()).
typedef struct lockstep_restore_options {
    size_t size;
    const char* archive;         // directory of the log archive; NULL: state of the last backup
    const uint64_t* until;       // LSN; NULL: the archive's end
    const uint64_t* until_time;  // or nanoseconds since 1970, UTC; NULL: not by time
    const uint64_t* history;     // whose log is followed; NULL: the backup's
    // Bound on the pages in memory while the archive's log is applied to them.
    uint64_t memory_bytes;
} lockstep_restore_options;
// Fills the struct with the defaults and sets its size. Never waits.
void lockstep_restore_options_init(lockstep_restore_options* options, size_t size);

// Checks what lockstep_restore_backup() with the same backups and options would read, and writes
// nothing. `options` may be NULL; `each` and *faults as in lockstep_verify(). Errors: those of
// lockstep::verify_restore(). Blocks.
int lockstep_verify_restore(const char* const* backups, size_t count,
                            const lockstep_restore_options* options, lockstep_line each, void* arg,
                            size_t* faults, lockstep_error* error);
// Puts `count` backups, a full one and the incremental ones after it, together in directory `to`,
// and brings the result to a point of the log archive. `options` and `info` may be NULL. Errors:
// those of lockstep::restore_backup(). Blocks.
int lockstep_restore_backup(const char* const* backups, size_t count, const char* to,
                            const lockstep_restore_options* options, lockstep_backup_info* info,
                            lockstep_error* error);
// Brings the full backup in directory `full` up to date with the incremental one in directory
// `next`. `info` may be NULL. Errors: those of lockstep::update_backup(). Blocks.
int lockstep_update_backup(const char* full, const char* next, lockstep_backup_info* info,
                           lockstep_error* error);

#ifdef __cplusplus
}
#endif
// NOLINTEND
#endif
