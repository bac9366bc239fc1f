// mutants.h - the table of mutants: faults compiled in on purpose, to prove that the tests notice
// them.
//
// Concepts   MUTANT(name) stands at the place of the fault. In a normal build it is the constant
//            `false`, so its branch does not exist. A build with LOCKSTEP_MUTANTS contains all
//            mutants. The environment variable LOCKSTEP_MUTANT picks one at program start.
//            tools/planted.py runs the tests with each in turn. `where` names the test program that
//            should notice the mutant first.
#pragma once

// clang-format off
// name, test program to try first, what is wrong
#define LOCKSTEP_MUTANT_TABLE(X) \
    X(lost_wakeup, threads_thread_test, \
      "a park overlooks the token of a wake that came before it") \
    X(timer_stays, threads_timer_test, "a thread that was woken in time leaves its timer behind") \
    X(event_missed, threads_event_test, "a wait does not look whether the event is set already") \
    X(waiter_left_queued, threads_event_test, "a waiter that times out stays in its queue") \
    X(semaphore_double_grant, threads_event_test, "a semaphore hands out units and keeps them") \
    X(semaphore_unfair, threads_event_test, "newcomers pass those who wait for a semaphore") \
    X(latch_wake_forgotten, threads_latch_test, \
      "a released latch does not wake who wants it exclusively") \
    X(latch_version_kept, threads_latch_test, \
      "a change under an exclusive latch leaves the version as it was") \
    X(upgrade_unvalidated, threads_latch_test, \
      "an optimistic reader becomes the writer of a page that has changed") \
    X(stray_not_unlinked, threads_steps_test, \
      "a member that blocks stays in the ring of its team") \
    X(ctx_with_latch, threads_steps_test, "CTX passes the CPU on with an exclusive latch held") \
    X(ring_predecessor_stale, threads_steps_test, \
      "CTX does not note who stands before the running member") \
    X(team_without_bound, threads_steps_test, "a team takes all that wait") \
    X(mail_lost, threads_runtime_test, \
      "of several wake-ups from other workers only the first counts") \
    X(io_full_is_error, threads_io_wait_test, "no space is told as an input/output error") \
    X(u_lets_u_in, txn_lock_mode_test, "two may hold U at once") \
    X(ix_beside_s, txn_lock_mode_test, \
      "a writer's intention is compatible with S on the whole index") \
    X(gap_unguarded, isolation_phantom_test, "an insert does not mind a protected gap") \
    X(u_covers_x, txn_lock_mode_test, "who holds U need not ask for X") \
    X(conversion_at_the_end, txn_lock_manager_test, "a conversion queues behind new requests") \
    X(waiters_passed, txn_lock_manager_test, \
      "a grant does not mind what those before it wait for") \
    X(deadlock_undetected, txn_lock_deadlock_test, "nobody looks for a cycle") \
    X(deadlock_worst_victim, txn_lock_deadlock_test, "the victim is who has done most") \
    X(conversion_waits_behind, txn_lock_deadlock_test, \
      "a conversion is taken to wait for those before it") \
    X(cycle_unconfirmed, txn_lock_deadlock_test, "a cycle is believed without looking again") \
    X(escalation_forgets, txn_lock_object_test, \
      "S on the whole index is taken for the right to write its records") \
    X(intentions_not_materialised, txn_lock_object_test, \
      "S or X on an index does not see who has noted an intention") \
    X(gone_store_locked, sm_object_life_test, \
      "who holds a handle of a dropped index or heap may go on using it") \
    X(strong_not_counted, txn_lock_object_test, "who asks for the whole index does not say so") \
    X(release_wakes_nobody, txn_lock_manager_test, "a released lock is not handed on") \
    X(timeout_ignored, txn_lock_manager_test, "a wait for a lock goes on behind its deadline") \
    X(missing_sync, txn_log_test, "the log is written and not synced") \
    X(sync_error_ignored, txn_log_fault_test, "a failed sync of the log counts as done") \
    X(group_commit_early, txn_log_test, \
      "a flush wakes those who wait for the next one, and they believe it") \
    X(commit_does_not_wait, txn_transaction_test, "a durable commit returns at once") \
    X(reader_does_not_wait, txn_transaction_test, \
      "a durable reader returns before what it read is durable") \
    X(log_checksum_unread, txn_log_crash_test, "a log record is believed whatever its checksum") \
    X(log_checksum_without_lsn, txn_log_crash_test, "a record validates at any place of the log") \
    X(mark_ahead, txn_log_crash_test, "the mark records an end that is not durable yet") \
    X(mark_ignored, txn_log_crash_test, "damage in the durable log is cut off") \
    X(mark_unsynced, txn_log_stamp_test, "a power cut may take back what the mark has said") \
    X(mark_stays_behind, txn_log_stamp_test, "a log that comes to rest is not marked to its end") \
    X(stamped_ahead, txn_log_stamp_test, \
      "a commit record says that the log is durable up to its present end") \
    X(stamp_ignored, txn_log_stamp_test, \
      "what later records say about the durable end is not looked at") \
    X(torn_tail_kept, txn_log_crash_test, "what a torn tail has left is not cleared") \
    X(last_block_lost, txn_log_test, "an opened log begins its block with zeros") \
    X(truncate_too_far, sm_checkpoint_test, "log that a checkpoint still needs is recycled") \
    X(segment_name_unsynced, txn_log_crash_test, "a recycled segment's name is not synced") \
    X(undo_space_unpromised, txn_log_space_test, \
      "a record takes the room that its rollback would need") \
    X(ring_too_full, txn_log_test, "the log's ring is filled over what is not written yet") \
    X(chain_broken, sm_rollback_test, "a record does not name the one before it") \
    X(no_page_image, sm_page_change_test, \
      "the first change after a checkpoint does not bring the page") \
    X(horizon_not_raised, sm_checkpoint_test, "a checkpoint does not ask for new images") \
    X(page_lsn_not_set, sm_page_change_test, "a change leaves the page's lsn as it was") \
    X(page_not_dirty, sm_page_change_test, "a changed page is not noted as dirty") \
    X(no_clr, sm_rollback_test, "a compensation is undone like any record") \
    X(wrong_undo_next, sm_rollback_test, "a compensation names the record that it undoes") \
    X(redo_skips_wrongly, sm_recovery_test, \
      "redo takes a page that lacks the record for one that has it") \
    X(redo_repeats, sm_recovery_test, "redo applies what the page has already") \
    X(redo_differs, simulator, \
      "redo leaves a byte that nobody looks at different from what the change made of it") \
    X(savepoint_off_by_one, sm_rollback_test, \
      "a rollback to a savepoint undoes the record before it") \
    X(loser_kept, sm_recovery_test, "restart leaves the newest loser as it is") \
    X(winner_undone, sm_recovery_test, "restart does not see commit records") \
    X(live_not_listed, sm_checkpoint_test, "a checkpoint does not list live transactions") \
    X(checkpoint_begins_late, sm_checkpoint_test, "redo starts at the end of the checkpoint") \
    X(checkpoint_writes_nothing, sm_checkpoint_test, \
      "a checkpoint is named without writing what is dirty") \
    X(data_not_synced, sm_buffer_pool_write_test, "a checkpoint does not sync the data file") \
    X(page_before_log, sm_buffer_pool_write_test, "a page is written before its log") \
    X(changed_page_clean, sm_buffer_pool_write_test, \
      "a page that changed while it was written counts as clean") \
    X(failed_write_clean, sm_buffer_pool_write_test, "a page whose write failed counts as clean") \
    X(dirty_evicted, sm_buffer_pool_test, "a dirty page is evicted unwritten") \
    X(checksum_without_page_id, sm_page_test, "a page validates at any place of the volume") \
    X(checksum_unread, sm_buffer_pool_test, "a page is believed whatever its checksum") \
    X(lost_write_unseen, sm_lost_write_test, \
      "a page is believed although it is older than its last write") \
    X(written_lsns_unsaved, sm_lost_write_test, \
      "a checkpoint does not save which lsns pages have") \
    X(read_not_repeated, sm_buffer_pool_test, "a read that failed once is not tried again") \
    X(repair_without_log, sm_repair_test, "a damaged page is given up although the log has it") \
    X(superblock_in_place, sm_superblock_test, "the superblock overwrites the copy that counts") \
    X(superblock_unsynced, sim_crash_recovery_test, \
      "log is recycled before the new superblock is durable") \
    X(next_key_off_by_one, isolation_phantom_test, \
      "an insert asks for the gap above the wrong key") \
    X(half_gap_unprotected, isolation_phantom_test, \
      "who cuts a gap that it protects keeps one half only") \
    X(scan_end_unprotected, isolation_phantom_test, "a scan to the end does not protect the end") \
    X(scan_bound_unprotected, isolation_phantom_test, \
      "a scan does not protect the gap behind its range's last key") \
    X(backward_gap_unprotected, isolation_phantom_test, \
      "a backward scan does not protect the gap it begins in") \
    X(read_lock_given_back, isolation_hermitage_test, \
      "read locks of scans go back at every level") \
    X(fetch_unlocked, isolation_hermitage_test, "a fetch gives its lock back at every level") \
    X(cursor_sees_ghosts, sm_btree_cursor_test, "a cursor stands on erased records") \
    X(separator_wrong, sm_btree_test, "a split's separator is the left page's last key") \
    X(fence_not_updated, sm_btree_test, "a split leaves the left page's high fence") \
    X(prefix_too_long, sm_btree_node_test, "one byte too many of the fences counts as common") \
    X(split_without_parent, sm_btree_test, \
      "a split's record lacks the separator's place in the parent") \
    X(hint_outlives_leaf, sm_btree_stale_leaf_test, \
      "a leaf is looked for where it was before it was freed") \
    X(cursor_outlives_leaf, sm_btree_stale_leaf_test, \
      "a cursor goes on in a leaf that has been freed") \
    X(merge_link_stale, sm_btree_test, "a merge leaves the pointer to the page that it frees") \
    X(ghost_cleaned_under_lock, sm_btree_test, \
      "a ghost goes while its eraser may still roll back") \
    X(chain_freed_early, sm_btree_undo_test, \
      "pages of a large value are free while its writer may still roll back") \
    X(chain_leaked, sm_btree_test, "pages of a large value that is gone stay taken") \
    X(undo_erase_keeps_ghost, sm_btree_undo_test, "undoing an erase leaves the record erased") \
    X(undo_update_keeps_new, sm_btree_undo_test, "undoing an update puts the new bytes there") \
    X(heap_forward_lost, sm_heap_test, "the stub of a moved record points to the wrong slot") \
    X(heap_undo_wrong_bytes, sm_heap_test, "undoing a heap update puts the new bytes there") \
    X(heap_fetch_unlocked, isolation_hermitage_test, "a heap fetch takes no lock") \
    X(heap_scan_unlocked, isolation_hermitage_test, \
      "a serializable scan of a heap does not lock it") \
    X(heap_bytes_taken_early, sm_heap_test, \
      "the room of an erased record is used while its eraser may still roll back") \
    X(heap_map_stale, sm_heap_test, "room that an erase makes is not noted in the map") \
    X(space_counted_wrong, sm_space_map_test, "the search for a free page stops one too early") \
    X(catalogue_stale, sm_store_test, "a dropped object is still found by its name") \
    X(dropped_pages_leak, sm_store_test, "a dropped object's pages stay taken") \
    X(victim_not_retried, sm_store_test, "run() gives up a deadlock's victim") \
    X(failed_goes_on, sm_store_test, \
      "a transaction may go on after an error that half did something") \
    X(bulk_undo_missing, sm_btree_test, "a bulk load that is rolled back stays")
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

}  // namespace lockstep::mutants

#define MUTANT(name) ::lockstep::mutants::on(::lockstep::mutants::Mutant::name)
#else
#define MUTANT(name) false
#endif
