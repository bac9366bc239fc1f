// mutants_two_phase.h - the mutants of two-phase commit, a part of the table in mutants.h.
#pragma once

// clang-format off
// name, test program to try first, what is wrong
#define LOCKSTEP_TWO_PHASE_MUTANTS(X) \
    X(in_doubt_rolled_back, sm_prepared_restart_test, \
      "restart rolls back transactions in doubt") \
    X(in_doubt_unlocked, sm_prepared_restart_test, \
      "restart gives transactions in doubt no locks") \
    X(in_doubt_keeps_u, sm_prepared_restart_test, \
      "restart gives a transaction in doubt its U back, which admits no S") \
    X(in_doubt_undo_unpromised, sm_prepared_restart_test, \
      "no log space is reserved for the rollback of a transaction in doubt") \
    X(in_doubt_chain_freed, sm_prepared_restart_test, \
      "open frees large values that a transaction in doubt has replaced") \
    X(in_doubt_read_only, sm_prepared_restart_test, \
      "a store with transactions in doubt can be opened for reading only") \
    X(prepared_not_listed, sm_prepared_restart_test, \
      "a checkpoint does not list prepared transactions") \
    X(prepare_unforced, sm_prepared_restart_test, \
      "prepare() returns before its record is durable") \
    X(prepare_lists_no_reads, sm_prepared_restart_test, \
      "a prepare record lacks the read locks") \
    X(prepare_releases_reads, sm_prepared_test, "prepare() releases the read locks") \
    X(second_phase_lazy, sm_prepared_restart_test, \
      "commit_prepared() returns before the commit is durable") \
    X(second_call_ahead, sm_prepared_test, \
      "a second call says that nothing is in doubt while the first one is at work") \
    X(gid_taken_twice, sm_prepared_test, "two transactions can be prepared under one gid") \
    X(read_only_vote_early, sm_prepared_restart_test, \
      "a reader votes before what it has read is durable") \
    X(schema_prepared, sm_prepared_test, \
      "a transaction that changed the schema can be prepared") \
    X(gid_made_under_lock, sm_prepared_allocation_test, \
      "the entry of a gid is allocated under the spin lock") \
    X(gid_freed_under_lock, sm_prepared_allocation_test, \
      "the entry of a gid is freed under the spin lock") \
    X(xid_unsound, tools_xa_test, \
      "a gid that is no XID's is taken for one if its length is right") \
    X(old_prepare_read_again, txn_log_stamp_test, \
      "an open reads the log once more for each old prepare record") \
    X(compact_forgets_in_doubt, tools_prepared_test, "compact drops transactions in doubt")
// clang-format on
