// mutants_backup.h - the mutants of backups, of the log archive and of the repair of pages, a part
// of mutants.h.
#pragma once

// clang-format off
// name, test program to try first, what is wrong
#define LOCKSTEP_BACKUP_MUTANTS(X) \
    X(damaged_manifest_unfinished, sm_refused_path_test, \
      "a damaged backup is called unfinished, so an operator deletes it") \
    X(log_hold_ignored, sm_backup_pace_test, \
      "log that a backup has not copied yet is recycled") \
    X(backup_unchecked, sm_backup_test, "a backup copies damaged pages as they are") \
    X(copy_unvalidated, sm_buffer_pool_copy_test, "a copy of a page has two states of it") \
    X(backup_end_unseen, sm_backup_test, "a backup that was not finished can be opened") \
    X(adopted_backup_kept, sm_backup_test, "a backup that was opened still passes for one") \
    X(backup_log_from_checkpoint, sm_backup_test, \
      "a backup lacks the log of transactions older than the checkpoint") \
    X(backup_log_short, sm_backup_test, "a backup lacks the last block of its log") \
    X(backup_unsynced, sm_backup_crash_test, \
      "a backup is complete before its files are durable") \
    X(backup_lags, sm_backup_pace_test, \
      "a slow backup holds up more and more of the log") \
    X(flushed_behind_time, sm_archive_time_test, \
      "a flush takes more of the log than its time record covers") \
    X(archive_unstable, sm_archive_crash_test, \
      "the archive has the begin of a record that a restart does not find") \
    X(stream_writes_dropped, threads_copy_stream_test, \
      "what lies behind a buffer that failed is written") \
    X(stream_reads_on, threads_copy_stream_test, \
      "an error behind the last buffer of a stream counts") \
    X(restore_skips_overlay, sm_backup_incremental_test, \
      "a restore leaves out the pages of incremental backups") \
    X(restore_unchecked, sm_backup_incremental_test, \
      "a restore does not check what it has written") \
    X(archive_failure_unheeded, sm_archive_test, \
      "writers go on although the archive fails and the backlog is full") \
    X(archive_unsynced, sm_archive_crash_test, \
      "a piece of the archive has its name before it is durable") \
    X(archive_skips_start, sm_archive_test, \
      "the archive begins behind the log that the store already has") \
    X(archive_gap_kept, sm_archive_test, \
      "log of a broken chain is kept, although writers shall go on") \
    X(archive_gap_unseen, sm_archive_restore_test, \
      "a restore goes to a gap of the archive and ends there") \
    X(since_of_any_history, sm_backup_incremental_test, \
      "an incremental backup follows one that its store has never been") \
    X(chain_of_any_history, sm_backup_incremental_test, \
      "a restore lays the pages of one history over those of another") \
    X(path_from_any_point, sm_archive_restore_test, \
      "log that left the backup's history before its point is redone on the backup") \
    X(history_of_cut_off_open, sm_backup_incremental_test, \
      "an open that a crash cut off is the parent of the restored store's history") \
    X(histories_mixed, sm_archive_restore_test, \
      "a restore takes log of another history") \
    X(history_kept, sm_archive_restore_test, \
      "a restored store goes on with the history of its backup") \
    X(time_point_late, sm_archive_restore_test, \
      "a restore to a time has what committed later") \
    X(restore_uncut, sm_archive_restore_test, \
      "a restore has log behind its point") \
    X(backup_log_not_applied, sm_archive_restore_test, \
      "a restore applies the archive's log only, not that of the backup") \
    X(restored_page_lost, sm_archive_restore_test, \
      "a restore does not write each page that it has changed") \
    X(unended_log_dropped, sm_archive_restore_test, \
      "a restored store lacks the log of transactions that have not ended") \
    X(restored_not_checkpointed, sm_archive_crash_test, \
      "the first open of a restored store changes pages that a second one will not redo") \
    X(losers_not_listed, sm_archive_crash_test, \
      "the first checkpoint of a restored store forgets what is to be rolled back") \
    X(rebuild_left_out, sm_archive_rebuild_test, \
      "pages are not rebuilt from backups") \
    X(cut_off_update_unseen, sm_backup_crash_test, \
      "a full backup that an update has cut off passes for complete") \
    X(combined_lsns_of_last, sm_backup_update_test, \
      "put together, backups forget what the earlier ones knew of their pages") \
    X(unchanged_in_any_run, sm_backup_incremental_test, \
      "an incremental backup leaves out pages that an earlier run has changed") \
    X(latched_page_unchanged, sm_buffer_pool_copy_test, \
      "an incremental backup leaves out a page that is being changed") \
    X(since_too_late, sm_backup_incremental_test, \
      "an incremental backup lacks pages that changed during the earlier one") \
    X(same_end_same_backup, sm_backup_update_test, \
      "an update does nothing if both backups end at the same LSN") \
    X(gap_of_checkpoints_unseen, sm_backup_incremental_test, \
      "a chain of backups may lack one that ended at the LSN of the one before it") \
    X(refused_backup_unfinished, sm_backup_fault_test, \
      "a restore removes a backup that it cannot read") \
    X(note_overwritten, sm_archive_rebuild_test, \
      "the archive forgets a full backup for an incremental one of the same point") \
    X(own_history_of_piece, sm_archive_rebuild_test, \
      "the archive of a restored store is of no use until it has a piece of the new history") \
    X(gap_end_kept, sm_archive_test, \
      "a gap of the archive is not counted if an earlier one was closed in time") \
    X(repair_from_start, sm_repair_test, \
      "a repair reads the log from where it is kept, which may lie inside a record") \
    X(repair_cut_short, sm_repair_test, \
      "a repair takes a damaged log record for the end of the log") \
    X(repair_error_final, sm_archive_rebuild_test, \
      "a page is not rebuilt from a backup if the live log is damaged") \
    X(archive_before_creation_ends, sm_archive_crash_test, \
      "the archive learns of a store that a crash takes away again") \
    X(map_of_zeros_left_out, sm_backup_incremental_test, \
      "an incremental backup leaves out a space map that was cut off") \
    X(zeros_in_memory_unchanged, sm_space_map_shrink_test, \
      "a page of zeros in memory that was given up counts as unchanged") \
    X(archive_first_for_ever, sm_archive_rebuild_test, \
      "behind a backup of no use, the next one is not tried with the live log first") \
    X(repaired_page_unlogged, sm_repair_test, \
      "the image of a page that was rebuilt is not logged again") \
    X(volume_measured_early, sm_backup_fault_test, \
      "a backup reads the size of the volume before the superblock") \
    X(superblock_read_once, sm_backup_fault_test, \
      "a single bad read of the superblock ends a backup") \
    X(taken_page_not_read_again, sm_backup_fault_test, \
      "a backup fails at a page that was read damaged and is in use now") \
    X(rebuild_from_live_log_only, sm_archive_rebuild_test, \
      "a rebuild does not look for a damaged piece of log at the other place") \
    X(restore_unlocked, sm_refused_path_test, \
      "two restores may work in one directory") \
    X(abandoned_backup_goes_on, sm_control_test, \
      "a backup goes on though its client has closed the connection") \
    X(archive_names_unsynced, sm_archive_test, \
      "log is recycled for a piece whose name is not durable") \
    X(free_page_lsn_claimed, sm_backup_incremental_test, \
      "an incremental backup claims the lsn of a free page that it leaves out") \
    X(backup_of_any_version, sm_backup_version_test, "a backup of a newer format version is read") \
    X(archive_version_retried, sm_backup_version_test, \
      "an open goes on with an archive of another version") \
    X(restored_version_kept, sm_backup_version_test, \
      "a restored store has the format version of its backup") \
    X(backup_lsn_unchecked, sm_backup_fault_test, \
      "a backup takes a page that is older than its last write")
// clang-format on
