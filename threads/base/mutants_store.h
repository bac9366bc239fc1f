// mutants_store.h - the mutants of the store and of its calls, a part of the table in mutants.h.
#pragma once

// clang-format off
// name, test program to try first, what is wrong
#define LOCKSTEP_STORE_MUTANTS(X) \
    X(savepoint_lives_on, sm_savepoint_test, \
      "a savepoint that was rolled back can still be rolled back to") \
    X(gone_object_locked, sm_object_life_test, "a handle of a dropped index or heap stays usable") \
    X(failure_unseen, sm_failed_store_test, \
      "a thread that waits for a lock does not look whether the store has failed") \
    X(crew_leaves_one_out, sm_verify_parallel_test, \
      "a parallel check leaves out its last piece") \
    X(catalog_stale, sm_store_test, "a dropped object can still be found by name") \
    X(free_name_shared, sm_open_or_create_test, \
      "transactions that find a name free lock it in S before they create it") \
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
    X(cancel_reported, sm_c_store_test, \
      "a cancelled transaction is told that an operator ended it") \
    X(gate_not_waited, sm_calls_while_closing_test, \
      "close() frees what calls of other kernel threads read") \
    X(late_failure_lost, sm_failure_test, \
      "close() returns no error although the store has stopped while it closed") \
    X(log_keeper_awaited, sm_log_keeper_test, \
      "writers wait without bound for log that a transaction in doubt keeps") \
    X(last_frames_for_all, sm_failed_store_test, \
      "while no page can be written, reads evict each other's pages without end") \
    X(second_close_returns, sm_calls_while_closing_test, \
      "a second close() returns before the store is closed") \
    X(callback_may_end, sm_inside_call_test, \
      "a function that a call calls may end the call's transaction") \
    X(limit_not_told, sm_begin_limit_test, \
      "nobody is told that begin waits for transactions that do not end") \
    X(catalog_name_unbounded, sm_open_or_create_test, \
      "names of indexes and heaps may be longer than the catalog's bound") \
    X(cancelled_begins, sm_handle_cancel_test, \
      "a function that was cancelled before it began runs") \
    X(offload_unnoticed, sm_calls_while_closing_test, \
      "close() in a function of offload() waits for itself") \
    X(refusal_freed_first, sm_c_procedures_test, \
      "the text of a refused call is freed before it is copied") \
    X(tpcc_end_unnoticed, tpcc_run_end_test, \
      "a run lasts until the controller sees that it has ended") \
    X(tpcc_warm_up_counted, tpcc_run_end_test, \
      "the counters of the store have the warm-up") \
    X(tpcc_stall_left_out, tpcc_compare_test, \
      "a second without transactions is no part of the rate") \
    X(tpcc_stock_forgotten, tpcc_consistency_test, \
      "a New-Order leaves the stock of every eighth item as it was") \
    X(build_outside_operation, sm_txn_watch_test, \
      "the build of a secondary index may be ended in its middle") \
    X(order_given_up, sm_txn_watch_test, \
      "an operator's order is lost while the transaction is ended for its idle time") \
    X(savepoint_of_another_txn, sm_savepoint_test, \
      "the savepoint of another transaction is taken") \
    X(set_steps_unordered, sm_store_steps_test, \
      "two calls of set_steps() reach the workers in different orders") \
    X(damaged_drop_ends_open, sm_object_life_test, \
      "a damaged page on the drop list keeps the store from being opened") \
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
      "salvage takes a killed store for one that was closed") \
    X(close_blocks_worker, sm_calls_while_closing_test, \
      "close() on a user thread of another store blocks its worker") \
    X(transactions_freed_early, sm_store_test, \
      "close() frees the objects of transactions that handles refer to") \
    X(refused_request_loses_txn, sm_c_callbacks_test, \
      "a batch whose commit is refused lets go of its transaction") \
    X(moved_txn_kept, sm_run_test, \
      "run() leaves a transaction open that its function has moved elsewhere") \
    X(moved_generation_kept, sm_run_test, \
      "a handle that is left refers to the object of an ended transaction") \
    X(own_join_waits, sm_handle_test, "a function that joins its own handle waits for its end") \
    X(lost_mark_unsaid, sm_open_report_test, "a damaged copy of log.mark is not warned of") \
    X(team_unbounded, sm_needs_team_test, \
      "a team at begin is as large as there are packets, whatever lines it asks for") \
    X(useless_needs_uncounted, sm_needs_team_test, \
      "needs of a packet that lead nowhere do not count") \
    X(orphans_kept_while_closing, sm_close_watch_test, \
      "close() waits for functions that wait for a transaction left open")
// clang-format on
