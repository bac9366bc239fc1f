// mutants_recovery.h - the mutants of the log, of pages and of recovery; see mutants.h.
#pragma once

// clang-format off
// name, test program to try first, what is wrong
#define LOCKSTEP_RECOVERY_MUTANTS(X) \
    X(writes_never_pause, sm_write_backoff_test, \
      "pages that cannot be written are written again at once") \
    X(sync_behind_write_skipped, threads_sim_disk_test, \
      "no sync follows a durable write that needs one") \
    X(missing_sync, txn_log_crash_test, "the log is written but not synced") \
    X(sync_error_ignored, txn_log_fault_test, "a failed sync of the log counts as successful") \
    X(group_commit_early, txn_log_test, \
      "a flush wakes waiters of the next flush, and their commits return") \
    X(lone_commit_forgotten, txn_log_lazy_test, \
      "the flusher writes lazy commits only when a thread asks for it") \
    X(waiter_unheeded, txn_log_lazy_test, \
      "a durable commit waits until the flusher's lazy interval has passed") \
    X(log_checksum_unread, txn_log_crash_test, "a log record is accepted whatever its checksum") \
    X(log_checksum_before_4_refused, sm_packed_image_test, \
      "a long record of an older format is refused, so recovery ends in front of it") \
    X(log_checksum_without_lsn, txn_log_checksum_test, \
      "a record validates at any position in the log") \
    X(mark_ahead, txn_log_crash_test, \
      "the durable-end record names an end that is not durable yet") \
    X(mark_ignored, txn_log_fault_test, "damage in the durable log is truncated like a torn tail") \
    X(short_segment_unseen, txn_log_fault_test, \
      "a log segment that ends before the durable end is opened") \
    X(log_gap_unseen, txn_log_fault_test, \
      "a restart is content with a log that ends before its end") \
    X(mark_unsynced, txn_log_stamp_test, "the durable-end record is not synced") \
    X(mark_stays_behind, txn_log_stamp_test, \
      "the durable-end record of an idle log does not name its end") \
    X(stamped_ahead, txn_log_crash_test, \
      "the stamp of a commit record names the present end of the log") \
    X(stamp_ignored, txn_log_stamp_test, "the durable-LSN stamps of later records are ignored") \
    X(torn_tail_kept, txn_log_fault_test, "the bytes of a torn tail are not cleared") \
    X(unrecycled_tried_for_ever, txn_log_fault_test, \
      "a thread waits for ever if an old log segment cannot be recycled") \
    X(torn_record_uncounted, txn_log_segment_end_test, \
      "a torn tail is cleared as if no record began below the durable end") \
    X(prepare_stamp_unread, txn_log_stamp_test, \
      "the durable-LSN stamps of prepare records are ignored") \
    X(last_block_lost, txn_log_test, "an opened log overwrites its last block with zeros") \
    X(truncate_too_far, sm_checkpoint_test, \
      "a log segment that a checkpoint still needs is recycled") \
    X(segment_name_unsynced, txn_log_crash_test, "a recycled segment's name is not synced") \
    X(log_step_unsynced, txn_log_grow_test, \
      "the log promises space of its longer file before the file is synced") \
    X(zeros_over_log, txn_log_grow_test, "zeros for a longer log file cover records") \
    X(log_end_by_segment, txn_log_grow_test, \
      "open takes a short log file for a whole segment") \
    X(undo_space_unpromised, txn_log_space_test, \
      "a record takes the log space reserved for its rollback") \
    X(ring_too_full, txn_log_test, "the log ring overwrites unwritten records") \
    X(ring_block_unprotected, txn_log_ring_test, \
      "a full log ring overwrites the block that the next flush writes again") \
    X(ring_freed_early, txn_log_ring_test, \
      "the log ring overwrites what a flush in flight is writing") \
    X(ring_block_stale, txn_log_ring_test, \
      "the last block of a long flush has the bytes of an earlier one") \
    X(next_segment_uncleared, txn_log_segment_end_test, \
      "records of a lost flush stay in the segment behind a torn record") \
    X(stamped_inside_record, txn_log_segment_end_test, \
      "a durable-LSN stamp names a segment's end inside a record") \
    X(boundary_inside_record, txn_log_segment_end_test, \
      "a segment's end inside a record counts as a record boundary") \
    X(stamp_pieces_apart, txn_log_stamp_test, \
      "a durable-LSN stamp across two read pieces is not seen") \
    X(stamp_cut, txn_log_stamp_test, \
      "a durable-LSN stamp that lacks its last bytes in a read piece is not seen") \
    X(stamp_in_first_piece, txn_log_stamp_test, \
      "durable-LSN stamps are looked for in one read piece only") \
    X(chain_broken, sm_rollback_test, \
      "a record does not name the previous record of its transaction") \
    X(image_lsn_short, sm_checkpoint_test, \
      "the full-page-image LSN leaves out the last page that changed before a checkpoint") \
    X(image_without_equal, sm_checkpoint_test, \
      "a page that changed last before a checkpoint logs no image") \
    X(image_lsn_of_restart_short, sm_restart_analysis_test, \
      "restart takes an LSN inside the checkpoint's begin record for the full-page-image LSN") \
    X(no_page_image, sm_page_change_test, \
      "the first change after a checkpoint logs no page image") \
    X(image_sum_unread, sm_page_image_test, \
      "a damaged packed image that unpacks to the right length is taken for the page") \
    X(image_hole_kept, sm_page_image_test, \
      "a packed image leaves old bytes in the page's hole") \
    X(image_lsn_not_raised, sm_checkpoint_test, \
      "a checkpoint does not raise the full-page-image LSN") \
    X(page_lsn_not_set, sm_page_change_test, "a change does not set the page's LSN") \
    X(page_not_dirty, sm_page_change_test, "a changed page is not marked dirty") \
    X(no_clr, sm_rollback_test, "a compensation record is undone like any other") \
    X(wrong_undo_next, sm_rollback_test, \
      "the undo-next LSN of a compensation record names the record that it undoes") \
    X(redo_skips_wrongly, sm_recovery_test, "redo skips a record that the page lacks") \
    X(redo_repeats, sm_recovery_test, "redo applies a record that the page already contains") \
    X(redo_differs, simulator, \
      "redo sets one unused byte to another value than the original change") \
    X(savepoint_off_by_one, sm_rollback_test, \
      "a rollback to a savepoint also undoes the record before it") \
    X(loser_kept, sm_recovery_test, "restart does not undo the newest loser") \
    X(winner_undone, sm_recovery_test, "restart ignores commit records") \
    X(live_not_listed, sm_checkpoint_test, "a checkpoint does not list live transactions") \
    X(rolling_back_not_listed, sm_rollback_test, \
      "a checkpoint does not list transactions that are rolling back") \
    X(ended_before_list_undone, sm_restart_analysis_test, \
      "a transaction that ends while a checkpoint takes its list is undone") \
    X(ends_forgotten_early, sm_restart_analysis_test, \
      "the first part of a checkpoint's list makes restart forget who has ended") \
    X(foreign_list_taken, sm_restart_analysis_test, \
      "restart reads the list of another checkpoint") \
    X(first_of_live_forgotten, sm_restart_analysis_test, \
      "restart takes the first record behind a checkpoint for a loser's first") \
    X(busy_page_left_out, sm_buffer_pool_write_test, \
      "a checkpoint leaves out pages that another thread is writing") \
    X(checkpoint_begins_late, sm_checkpoint_test, "redo starts at the end of the checkpoint") \
    X(checkpoint_writes_nothing, sm_checkpoint_test, \
      "a checkpoint completes without writing dirty pages") \
    X(data_not_synced, sm_buffer_pool_write_test, "a checkpoint does not sync the data file") \
    X(page_before_log, sm_buffer_pool_write_test, "a page is written before its log") \
    X(changed_page_clean, sm_buffer_pool_write_test, \
      "a page that changed during its write counts as clean") \
    X(failed_write_clean, sm_buffer_pool_write_test, "a page whose write failed counts as clean") \
    X(dirty_evicted, sm_buffer_pool_test, "a dirty page is evicted unwritten") \
    X(checksum_without_page_id, sm_page_test, "a page validates at any position in the volume") \
    X(checksum_unread, sm_buffer_pool_test, "a page is accepted whatever its checksum") \
    X(lost_write_unseen, sm_lost_write_test, \
      "a page is accepted although it is older than its last write") \
    X(written_lsns_unsaved, sm_lost_write_test, \
      "a checkpoint does not save the pages' written LSNs") \
    X(read_not_repeated, sm_buffer_pool_test, "a failed read is not repeated") \
    X(repair_without_log, sm_buffer_pool_test, "a damaged page is not rebuilt from the log") \
    X(superblock_in_place, sm_superblock_test, "the superblock overwrites its current copy") \
    X(clean_mark_believed, sm_read_only_test, \
      "a store that was killed behind its close is read without recovery") \
    X(superblock_unsynced, sim_crash_recovery_test, \
      "a log segment is recycled before the new superblock is durable") \
    X(update_many_undo_unpromised, sm_rollback_test, \
      "no log space is reserved for undoing each row of a group") \
    X(insert_many_undoes_first, sm_rollback_test, \
      "the undo of many inserts removes the first record only") \
    X(insert_many_undone_early, sm_rollback_test, \
      "the first compensation of many inserts says that all are undone") \
    X(insert_many_stops_at_ghost, sm_rollback_test, \
      "the undo of many inserts ends at the first record that is undone already") \
    X(update_many_undoes_one, sm_rollback_test, "the undo of a group restores its first row only") \
    X(update_many_undone_early, sm_rollback_test, \
      "the first compensation of a group says that the whole group is undone") \
    X(full_disk_called_full_log, txn_log_fault_test, \
      "a full disk is reported as a log that is too small") \
    X(log_pin_tolerated, sm_log_room_test, \
      "a forgotten writer that pins the log is not ended") \
    X(scarce_log_ignored, sm_log_room_test, \
      "writers go on at full speed while the log is scarce") \
    X(hand_never_yields, sm_buffer_pool_test, \
      "the clock hand lets no thread run while it finds no frame") \
    X(promise_again_below_slack, txn_log_space_test, \
      "a promise of the last run is refused in a full log") \
    X(slow_device_is_full, sm_buffer_pool_test, \
      "a pool whose pages wait for a slow device counts as full") \
    X(dirty_scan_never_yields, sm_dirty_pages_test, \
      "a checkpoint lets no thread run while it looks for dirty pages") \
    X(dirty_miscounted, sm_buffer_pool_test, "a page that was written still counts as dirty") \
    X(first_save_is_damage, sm_lost_write_test, \
      "a first save of page LSNs that a crash cut off counts as damaged") \
    X(incomplete_checkpoint_taken, sm_lost_log_end_test, \
      "a log is opened that ends within the checkpoint of its superblock") \
    X(restored_checkpoint_refused, sm_archive_restore_test, \
      "a restored store is refused whose log ends within a checkpoint") \
    X(saved_lsns_unheeded, sm_lost_log_end_test, \
      "data.lsn does not tell how far the log was durable") \
    X(data_unsynced_at_open, sm_sync_again_test, \
      "an open with syncs leaves the data file as a run without them did") \
    X(older_segments_unsynced, sm_sync_again_test, \
      "an open with syncs leaves the log as a run without them did") \
    X(newer_page_believed, sm_lost_write_test, \
      "a page with records that the log has lost is data once the log has grown")
// clang-format on
