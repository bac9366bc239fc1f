// mutants.h - the table of mutants: faults compiled in on purpose, to prove that the tests notice
// them.
//
// Concepts   MUTANT(name) stands at the place of the fault. In a normal build it is the constant
//            `false`, so its branch does not exist. A build with LOCKSTEP_MUTANTS contains all
//            mutants. The environment variable LOCKSTEP_MUTANT picks one at program start.
//            tools/planted.py runs the tests with each in turn. `where` names the test program that
//            should notice the mutant first. Tables by area stand in mutants_AREA.h and are part of
//            this one.
#pragma once

#include "threads/base/mutants_backup.h"
#include "threads/base/mutants_snapshot.h"
#include "threads/base/mutants_threads.h"
#include "threads/base/mutants_two_phase.h"

// clang-format off
// name, test program to try first, what is wrong
#define LOCKSTEP_MUTANT_TABLE(X) \
    LOCKSTEP_BACKUP_MUTANTS(X) \
    LOCKSTEP_SNAPSHOT_MUTANTS(X) \
    LOCKSTEP_THREADS_MUTANTS(X) \
    LOCKSTEP_TWO_PHASE_MUTANTS(X) \
    X(u_lets_u_in, txn_lock_mode_test, "two owners may hold U at once") \
    X(ix_beside_s, txn_lock_mode_test, "IX is compatible with S on the whole index") \
    X(gap_unguarded, isolation_phantom_test, "an insert ignores a protected gap") \
    X(u_covers_x, txn_lock_mode_test, "a holder of U does not request X") \
    X(conversion_at_the_end, txn_lock_manager_test, "a conversion queues behind new requests") \
    X(waiters_passed, txn_lock_manager_test, "a grant ignores the requests of earlier waiters") \
    X(deadlock_undetected, txn_lock_deadlock_test, "no search for a cycle is made") \
    X(deadlock_worst_victim, txn_lock_deadlock_test, \
      "the victim is the transaction with the most work") \
    X(conversion_waits_behind, txn_lock_deadlock_test, \
      "a conversion counts as waiting for earlier requests") \
    X(cycle_unconfirmed, txn_lock_deadlock_test, "a cycle is not confirmed by a second search") \
    X(escalation_forgets, txn_lock_object_test, \
      "S on the whole index counts as the right to write its records") \
    X(intentions_not_materialised, txn_lock_object_test, \
      "S or X on an index ignores noted intentions") \
    X(savepoint_lives_on, sm_savepoint_test, \
      "a savepoint that was rolled back can still be rolled back to") \
    X(commit_seen_before_noted, txn_commit_order_test, \
      "a snapshot sees a commit before its end is noted for durable readers") \
    X(gone_object_materialised, txn_lock_object_test, \
      "an intention on a dropped object counts as a right once it is in the lock table") \
    X(gone_object_locked, sm_object_life_test, "a handle of a dropped index or heap stays usable") \
    X(strong_not_counted, txn_lock_object_test, "a request for the whole index is not counted") \
    X(look_sees_no_writer, isolation_hermitage_test, \
      "a read at read_committed does not see that another transaction has X on its key") \
    X(look_before_version, sm_committed_read_test, \
      "a read at read_committed looks for writers before it knows the version of the leaf") \
    X(split_moves_nothing, txn_lock_resize_test, \
      "a bucket of the lock table that is split keeps all locks") \
    X(split_forgets_note, txn_lock_resize_test, \
      "the new bucket of a split has no commit note") \
    X(bucket_depth_unchecked, txn_lock_resize_test, \
      "the depth of a bucket is not compared with the lock's name") \
    X(failure_unseen, sm_failed_store_test, \
      "a thread that waits for a lock does not look whether the store has failed") \
    X(release_wakes_nobody, txn_lock_manager_test, \
      "a released lock is not granted to its waiters") \
    X(granted_unwoken, simulator, \
      "a waiter whose lock is granted learns of it only at its deadline") \
    X(timeout_ignored, txn_lock_manager_test, "a lock wait continues past its deadline") \
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
    X(commit_does_not_wait, txn_transaction_test, "a durable commit returns at once") \
    X(reader_does_not_wait, txn_transaction_test, \
      "a durable reader returns before the data that it read is durable") \
    X(commit_not_noted, txn_commit_notes_test, \
      "a commit releases a lock and leaves no note for durable readers") \
    X(commits_of_one_worker, txn_transaction_test, \
      "a reader looks for the newest commit of its own worker only") \
    X(commit_of_writer_unnoted, txn_transaction_test, \
      "a lazy commit is not noted as the newest one of its worker") \
    X(snapshot_waits_for_nothing, txn_transaction_test, \
      "a durable snapshot returns before what it may have read is durable") \
    X(object_commit_not_noted, txn_commit_notes_test, \
      "a commit releases the lock of a whole index and leaves no note") \
    X(removed_ghost_not_noted, sm_durable_reader_test, \
      "with a ghost, the note of the commit that erased it is lost") \
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
    X(next_key_off_by_one, isolation_phantom_test, "an insert locks the gap above the wrong key") \
    X(sibling_ignored, sm_btree_border_test, \
      "behind the last key of a leaf follows the end of the index") \
    X(sibling_wrong_key, sm_btree_border_test, \
      "behind the last key of a leaf follows the last key of the next leaf") \
    X(last_key_for_next, sm_btree_border_test, \
      "behind the last key of a leaf follows that key itself") \
    X(half_gap_unprotected, isolation_phantom_test, \
      "an owner that splits its protected gap keeps only one half") \
    X(scan_end_unprotected, isolation_phantom_test, \
      "a scan to the end does not protect the last gap") \
    X(scan_bound_unprotected, isolation_phantom_test, \
      "a scan does not protect the gap after the last key of its range") \
    X(backward_gap_unprotected, isolation_phantom_test, \
      "a backward scan does not protect its first gap") \
    X(passed_leaf_unchecked, sm_btree_border_test, \
      "a backward scan misses a key that came into a leaf it has passed") \
    X(read_lock_given_back, isolation_hermitage_test, \
      "scans release their read locks at every isolation level") \
    X(fetch_unlocked, isolation_hermitage_test, \
      "a fetch releases its lock at every isolation level") \
    X(cursor_sees_ghosts, sm_btree_cursor_test, "a cursor returns erased records") \
    X(separator_wrong, sm_btree_test, "a split's separator is the left page's last key") \
    X(fence_not_updated, sm_btree_test, "a split leaves the left page's high fence") \
    X(prefix_too_long, sm_btree_node_test, "the common prefix of the fences is one byte too long") \
    X(split_without_parent, sm_btree_test, \
      "a split's record lacks the separator's place in the parent") \
    X(place_unchecked, sm_needs_test, "an announced place counts whatever leaf is there now") \
    X(place_of_another_key, sm_needs_test, \
      "an operation takes the place of the next announced key") \
    X(completion_never_ends, sm_needs_test, \
      "a thread that ran a transaction to completion never joins a team again") \
    X(need_of_another_store, sm_needs_test, "an announced index may be another store's") \
    X(lone_need_not_read, sm_needs_test, \
      "a single announced page that is not in memory is not read") \
    X(ctx_in_completion, threads_ctx_test, \
      "a transaction that should run to completion passes the CPU on at points") \
    X(hint_outlives_leaf, sm_btree_stale_leaf_test, \
      "a leaf hint is used after its leaf was freed") \
    X(cursor_outlives_leaf, sm_btree_stale_leaf_test, "a cursor continues in a freed leaf") \
    X(merge_link_stale, sm_btree_test, "a merge keeps the pointer to the page that it frees") \
    X(ghost_of_gap_removed, sm_btree_border_test, \
      "a ghost is removed although the gap below it is protected") \
    X(ghost_of_held_index_removed, sm_btree_border_test, \
      "a ghost is removed while a transaction holds the whole index") \
    X(note_of_ghost_lost, sm_durable_reader_test, \
      "the commit note of a ghost is lost when it is removed") \
    X(shrink_loses_link, sm_btree_border_test, \
      "a shrinking root loses the first child of its only child") \
    X(shrink_keeps_level, sm_btree_border_test, "a shrinking root keeps its level") \
    X(shrink_leaks_child, sm_btree_border_test, \
      "the page of a shrinking root's only child stays in use") \
    X(chain_number_unread, sm_overflow_chain_test, \
      "a page of another overflow chain passes for one of this chain") \
    X(chain_number_shared, sm_overflow_chain_test, \
      "two writers at the same log end give their overflow chains the same number") \
    X(chain_object_unread, sm_overflow_chain_test, \
      "a page of another object's overflow chain passes for one of this chain") \
    X(ghost_cleaned_under_lock, sm_btree_test, \
      "a ghost is removed while its eraser may still roll back") \
    X(chain_freed_early, sm_btree_model_test, \
      "pages of a large value are freed while its writer may still roll back") \
    X(chain_leaked, sm_btree_test, "pages of a removed large value are not freed") \
    X(undo_erase_keeps_ghost, sm_btree_undo_test, "undoing an erase leaves the record erased") \
    X(modify_locks_for_reading, sm_btree_modify_test, "modify() locks its key for reading only") \
    X(modify_without_upkeep, sm_secondary_test, "modify() leaves secondary indexes as they were") \
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
    X(adjacent_past_leaf, sm_btree_many_test, \
      "an adjacent key is looked for in the leaf of the key before, wherever that ends") \
    X(adjacent_slot_unchecked, sm_btree_many_test, \
      "an adjacent key is taken to be in the slot behind that of the key before") \
    X(adjacent_end_unchecked, sm_btree_many_test, \
      "a key behind the last one of its group counts as one between the group's ends") \
    X(adjacent_last_elsewhere, sm_btree_many_test, \
      "a group's last key with other bytes counts as the end of a run of keys") \
    X(near_slot_low_unchecked, sm_needs_test, \
      "a place is taken though the key before it is not compared") \
    X(near_slot_high_unchecked, sm_needs_test, \
      "a place at a leaf's end is taken though the key may be behind the leaf") \
    X(update_many_place_unchecked, sm_btree_modify_test, \
      "a group's change believes its hint without looking at the key") \
    X(patch_behind_value, sm_btree_patch_test, \
      "a patch may write one byte behind a value") \
    X(patch_behind_large_value, sm_btree_patch_test, \
      "a patch may make a large value one byte longer") \
    X(difference_short, sm_btree_patch_test, \
      "a patch leaves out the last byte that differs") \
    X(refused_note_lost, sm_ghost_cleaner_test, \
      "the notes of a mass delete beyond the bound are dropped") \
    X(cursor_lock_given_away, sm_committed_read_test, \
      "a scan at read_committed that waited for a lock releases it before it reads") \
    X(cursor_value_unpatched, sm_btree_patch_test, \
      "a cursor that has lost its leaf shows the value from before its patch") \
    X(undo_update_keeps_new, sm_btree_undo_test, "undoing an update writes the new bytes") \
    X(heap_forward_lost, sm_heap_test, "the stub of a moved record points to the wrong slot") \
    X(heap_undo_wrong_bytes, sm_heap_test, "undoing a heap update writes the new bytes") \
    X(heap_fetch_unlocked, isolation_hermitage_test, "a heap fetch takes no lock") \
    X(heap_scan_unlocked, isolation_hermitage_test, \
      "a serializable scan of a heap does not lock it") \
    X(heap_bytes_taken_early, sm_heap_test, \
      "space of an erased record is reused while its eraser may still roll back") \
    X(copy_in_locked_slot, sm_heap_test, \
      "a moved record takes a slot that another transaction has locked") \
    X(heap_page_forgotten, sm_heap_space_test, \
      "a page whose free space was locked is not tried again") \
    X(heap_map_stale, sm_heap_test, "the map does not record the space that an erase frees") \
    X(space_counted_wrong, sm_space_map_test, \
      "the search for a free page stops one page too early") \
    X(old_entry_stays, sm_secondary_test, \
      "an update leaves the old entry in a secondary index") \
    X(missing_entry_ignored, sm_secondary_life_test, \
      "an entry that a secondary index lacks is not reported") \
    X(statement_half_done, sm_secondary_test, \
      "a refused entry leaves the record's change behind") \
    X(function_missing_ignored, sm_secondary_life_test, \
      "a secondary index without key function is not kept up") \
    X(secondary_live_early, sm_secondary_life_test, \
      "the creator of a secondary index does not ask the catalog whether it exists") \
    X(secondary_made_unlocked, sm_secondary_life_test, \
      "a secondary index is made while others change its primary") \
    X(secondary_built_empty, sm_secondary_life_test, "a new secondary index is not filled") \
    X(build_takes_ghosts, sm_secondary_build_test, \
      "the building of a secondary index reads erased records") \
    X(sort_run_lost, sm_entry_sort_test, "the sort forgets a run in a file") \
    X(verify_one_way, sm_secondary_life_test, \
      "verify() does not look for records without their entries") \
    X(crew_leaves_one_out, sm_verify_parallel_test, \
      "a parallel check leaves out its last piece") \
    X(end_too_low, sm_space_map_shrink_test, \
      "the end of the volume is lowered onto the last page in use") \
    X(given_up_maps_unforgotten, sm_space_map_shrink_test, \
      "the data file is cut while the LSNs of pages behind its end are still known") \
    X(catalog_stale, sm_store_test, "a dropped object can still be found by name") \
    X(free_name_shared, sm_open_or_create_test, \
      "transactions that find a name free lock it in S before they create it") \
    X(scan_bounds_late, sm_scan_bounds_test, \
      "a scan copies its bounds after other threads may have run") \
    X(damaged_load_swept, sm_object_life_test, \
      "an unfinished load of a damaged index frees pages that a check did not reach") \
    X(destroyed_tree_read, sm_object_life_test, \
      "the unfinished load of a dropped index reads the index's freed pages at open") \
    X(dropped_pages_leak, sm_store_test, "the pages of a dropped object are not freed") \
    X(victim_not_retried, sm_store_test, "run() does not retry a deadlock victim") \
    X(failed_goes_on, sm_store_test, \
      "a transaction may continue after an error left a change half done") \
    X(reaper_ignores_idle, sm_txn_watch_test, \
      "an ended transaction of an idle thread keeps its locks and its log") \
    X(full_disk_called_full_log, txn_log_fault_test, \
      "a full disk is reported as a log that is too small") \
    X(cancel_reported, sm_c_store_test, \
      "a cancelled transaction is told that an operator ended it") \
    X(lone_place_uncovered, sm_needs_test, \
      "a leaf that a walk has found is not asked whether it still covers the key") \
    X(found_place_unchecked, sm_needs_test, \
      "the slot that a walk has found is not compared with the key again") \
    X(gate_not_waited, sm_calls_while_closing_test, \
      "close() frees what calls of other kernel threads read") \
    X(second_close_returns, sm_calls_while_closing_test, \
      "a second close() returns before the store is closed") \
    X(callback_may_end, sm_inside_call_test, \
      "a function that a call calls may end the call's transaction") \
    X(limit_not_told, sm_begin_limit_test, \
      "nobody is told that begin waits for transactions that do not end") \
    X(completion_unpinned, threads_completion_test, \
      "a completion wakes a thread whose runtime may be gone") \
    X(catalog_name_unbounded, sm_open_or_create_test, \
      "names of indexes and heaps may be longer than the catalog's bound") \
    X(cancelled_begins, sm_handle_cancel_test, \
      "a function that was cancelled before it began runs") \
    X(log_pin_tolerated, sm_log_room_test, \
      "a forgotten writer that pins the log is not ended") \
    X(scarce_log_ignored, sm_log_room_test, \
      "writers go on at full speed while the log is scarce") \
    X(tpcc_stock_forgotten, tpcc_consistency_test, \
      "a New-Order leaves the stock of every eighth item as it was") \
    X(bulk_undo_missing, sm_btree_test, "a bulk load that is rolled back stays") \
    X(hand_never_yields, sm_buffer_pool_test, \
      "the clock hand lets no thread run while it finds no frame") \
    X(given_up_lsn_noted, sm_space_map_shrink_test, \
      "a read of a page that was given up notes its LSN") \
    X(given_up_write_not_awaited, sm_space_map_shrink_test, \
      "a write of a page that was given up notes its LSN later") \
    X(cut_without_saved_lsns, sm_space_map_shrink_test, \
      "the data file is cut although the LSNs of pages were not saved") \
    X(heap_places_unbounded, sm_heap_space_test, \
      "the lists of pages with room grow with each erase") \
    X(scan_end_inside_unlocked, isolation_phantom_test, \
      "a scan that ends within a leaf does not protect the gap after its range") \
    X(split_fit_unchecked, sm_btree_long_keys_test, \
      "a long key behind a run of short ones is split off where it does not fit") \
    X(emptied_leaf_unnoted, sm_ghost_cleaner_test, \
      "a leaf whose last record is erased gets no note") \
    X(note_of_large_ghost_stays, sm_ghost_cleaner_test, \
      "the note of a leaf whose ghosts fit into no neighbour stays for ever") \
    X(notes_of_all_indexes, sm_ghost_cleaner_test, \
      "a long delete takes the notes of other indexes") \
    X(dropped_primary_unchecked, sm_secondary_life_test, \
      "a secondary index is made of an index that its transaction has dropped") \
    X(build_outside_operation, sm_txn_watch_test, \
      "the build of a secondary index may be ended in its middle") \
    X(entry_not_read_again, sm_secondary_test, \
      "a read by a unique key follows the entry that it saw before it waited") \
    X(get_by_key_not_rechecked, sm_secondary_test, \
      "a read by key returns a record that has lost the key") \
    X(order_given_up, sm_txn_watch_test, \
      "an operator's order is lost while the transaction is ended for its idle time") \
    X(savepoint_of_another_txn, sm_savepoint_test, \
      "the savepoint of another transaction is taken") \
    X(set_steps_unordered, sm_store_steps_test, \
      "two calls of set_steps() reach the workers in different orders") \
    X(damaged_drop_ends_open, sm_object_life_test, \
      "a damaged page on the drop list keeps the store from being opened") \
    X(promise_again_below_slack, txn_log_space_test, \
      "a promise of the last run is refused in a full log") \
    X(slow_device_is_full, sm_buffer_pool_test, \
      "a pool whose pages wait for a slow device counts as full") \
    X(dirty_scan_never_yields, sm_dirty_pages_test, \
      "a checkpoint lets no thread run while it looks for dirty pages") \
    X(dirty_miscounted, sm_buffer_pool_test, "a page that was written still counts as dirty") \
    X(first_save_is_damage, sm_lost_write_test, \
      "a first save of page LSNs that a crash cut off counts as damaged") \
    X(walk_prefix_unchecked, sm_btree_many_test, \
      "a group walk does not compare the prefix of a node with the next key") \
    X(walk_end_child_shared, sm_btree_many_test, \
      "a group walk sends keys beyond a node into its last child") \
    X(short_key_length_ignored, sm_btree_node_test, \
      "a key counts as found that equals a record's but for zeros at the end") \
    X(system_txn_takes_callers_slot, sm_system_slots_test, \
      "a transaction of the store takes a slot of the callers") \
    X(load_always_unlisted, sm_system_slots_test, \
      "a load whose pages could not be freed leaves the drop list") \
    X(key_function_outside_operation, sm_txn_watch_callback_test, \
      "a transaction whose key function waits is ended in the middle of its change") \
    X(modify_reason_lost, sm_txn_watch_callback_test, \
      "a transaction that is ended while modify() waits gets no reason") \
    X(savepoint_dropped_revived, sm_savepoint_test, \
      "a savepoint that was rolled back becomes valid again with the next one") \
    X(late_creator_takes_name, sm_open_or_create_test, \
      "the late end of a creation takes the name from a newer object") \
    X(late_dropper_takes_name, sm_open_or_create_test, \
      "the late end of a drop takes the name from another object") \
    X(dropped_object_found, sm_open_or_create_test, \
      "a name leads to the dropped object while the end of its drop is late") \
    X(ended_step_goes_on, sm_txn_watch_callback_test, \
      "a step of a secondary cursor goes on when its transaction was ended meanwhile") \
    X(salvage_believes_clean_mark, tools_prepared_test, \
      "salvage takes a killed store for one that was closed")
// clang-format on

#ifdef LOCKSTEP_MUTANTS

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lockstep::mutants {

enum class Mutant : int {
    none,
#define X(name, where, what) name,
    LOCKSTEP_MUTANT_TABLE(X)
#undef X
};

// `chosen` is that much before its initialiser has run.
static_assert(static_cast<int>(Mutant::none) == 0);

inline Mutant choose() {
    const char* wanted = std::getenv("LOCKSTEP_MUTANT");
    if (!wanted || !*wanted) return Mutant::none;
#define X(name, where, what) \
    if (std::strcmp(wanted, #name) == 0) return Mutant::name;
    LOCKSTEP_MUTANT_TABLE(X)
#undef X
    std::fprintf(stderr,
                 "LOCKSTEP_MUTANT: no mutant is called %s; threads/base/mutants.h names them\n",
                 wanted);
    std::exit(3);
}
inline const Mutant chosen = choose();
constexpr bool on(Mutant mutant) {
    return __builtin_is_constant_evaluated() ? false : chosen == mutant;
}
static_assert(!on(Mutant::none));  // constants have none: also const bool x = MUTANT(a) && f();

}  // namespace lockstep::mutants

#define MUTANT(name) ::lockstep::mutants::on(::lockstep::mutants::Mutant::name)
#else
#define MUTANT(name) false
#endif
