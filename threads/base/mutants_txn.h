// mutants_txn.h - the mutants of locks, transactions and isolation; see mutants.h.
#pragma once

// clang-format off
// name, test program to try first, what is wrong
#define LOCKSTEP_TXN_MUTANTS(X) \
    X(u_lets_u_in, txn_lock_mode_test, "two owners may hold U at once") \
    X(ix_beside_s, txn_lock_mode_test, "IX is compatible with S on the whole index") \
    X(gap_unguarded, isolation_phantom_test, "an insert ignores a protected gap") \
    X(u_covers_x, txn_lock_mode_test, "a holder of U does not request X") \
    X(conversion_at_the_end, txn_lock_manager_test, "a conversion queues behind new requests") \
    X(waiters_passed, txn_lock_manager_test, "a grant ignores the requests of earlier waiters") \
    X(deadlock_undetected, txn_lock_deadlock_test, "no search for a cycle is made") \
    X(deadlock_worst_victim, txn_lock_deadlock_test, \
      "the victim is the transaction with the most work") \
    X(repetition_is_new, sm_repeat_storm_test, \
      "a repeated deadlock victim is as young as a new transaction") \
    X(repetition_waits_for_no_turn, sm_repeat_storm_test, \
      "a repeated deadlock victim begins at once") \
    X(winner_not_in_line, txn_lock_line_test, \
      "a repetition does not wait for the transaction that defeated it") \
    X(conversion_waits_behind, txn_lock_deadlock_test, \
      "a conversion counts as waiting for earlier requests") \
    X(cycle_unconfirmed, txn_lock_deadlock_test, "a cycle is not confirmed by a second search") \
    X(escalation_forgets, txn_lock_object_test, \
      "S on the whole index counts as the right to write its records") \
    X(intentions_not_materialised, txn_lock_object_test, \
      "S or X on an index ignores noted intentions") \
    X(commit_seen_before_noted, txn_commit_order_test, \
      "a snapshot sees a commit before its end is noted for durable readers") \
    X(gone_object_materialised, txn_lock_object_test, \
      "an intention on a dropped object counts as a right once it is in the lock table") \
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
    X(release_wakes_nobody, txn_lock_manager_test, \
      "a released lock is not granted to its waiters") \
    X(granted_unwoken, simulator, \
      "a waiter whose lock is granted learns of it only at its deadline") \
    X(timeout_ignored, txn_lock_manager_test, "a lock wait continues past its deadline") \
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
    X(read_lock_given_back, isolation_hermitage_test, \
      "scans release their read locks at every isolation level") \
    X(fetch_unlocked, isolation_hermitage_test, \
      "a fetch releases its lock at every isolation level") \
    X(note_of_ghost_lost, sm_durable_reader_test, \
      "the commit note of a ghost is lost when it is removed") \
    X(cursor_lock_given_away, sm_committed_read_test, \
      "a scan at read_committed that waited for a lock releases it before it reads") \
    X(heap_fetch_unlocked, isolation_hermitage_test, "a heap fetch takes no lock") \
    X(heap_scan_unlocked, isolation_hermitage_test, \
      "a serializable scan of a heap does not lock it") \
    X(slots_made_unoffered, sm_begin_limit_test, \
      "new transaction slots are not given to those who wait for one") \
    X(begin_inside_call, sm_orphan_test, \
      "an ended transaction stays while its thread waits in begin for a slot") \
    X(orphan_is_nested, sm_orphan_test, \
      "a transaction left open counts as one of the thread that uses its Thread object now")
// clang-format on
