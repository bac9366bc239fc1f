// mutants_snapshot.h - the mutants of snapshots and versions, a part of the table in mutants.h.
#pragma once

// clang-format off
// name, test program to try first, what is wrong
#define LOCKSTEP_SNAPSHOT_MUTANTS(X) \
    X(snapshot_off_by_one, sm_snapshot_test, \
      "a snapshot sees a transaction whose commit record stands at its place") \
    X(first_version_only, sm_snapshot_test, "a reader takes the newest version it must not miss") \
    X(version_missing, sm_snapshot_test, "a change leaves no version") \
    X(version_of_each_change, sm_snapshot_upkeep_test, \
      "each change of a transaction leaves a version, not only the first") \
    X(version_dropped_early, sm_snapshot_test, \
      "a version that some snapshot needs is taken out of the middle of its chain") \
    X(version_freed_early, sm_snapshot_upkeep_test, "the cleaner frees a version that is needed") \
    X(renewed_in_part, sm_snapshot_upkeep_test, \
      "a version that is renewed in place keeps the state of its earlier change") \
    X(renewed_holds_up, sm_snapshot_upkeep_test, \
      "a renewed version keeps its old place in the queue, so those behind it are not freed") \
    X(group_used_once, sm_snapshot_upkeep_test, \
      "versions that one change makes together count as one reference to their writer") \
    X(group_cut, sm_snapshot_upkeep_test, \
      "of the versions that one change makes together only the first one goes") \
    X(group_freed_early, sm_snapshot_upkeep_test, \
      "the memory of versions made together is freed as soon as one of them goes") \
    X(part_of_page, sm_snapshot_upkeep_test, \
      "a reader applies the part of a version to the page, and not to the newer versions") \
    X(part_not_extended, sm_snapshot_upkeep_test, \
      "a version keeps only what its transaction changed first") \
    X(part_uncovered, sm_snapshot_upkeep_test, \
      "a version goes although the one below does not cover its part") \
    X(version_tags_lost, sm_snapshot_upkeep_test, \
      "a version that goes hides those of other records in its bucket") \
    X(expelled_unmarked, sm_snapshot_upkeep_test, \
      "the oldest snapshot loses its versions silently") \
    X(snapshot_unvalidated, sm_snapshot_model_test, \
      "a snapshot's read does not check that its page has stayed as it was") \
    X(snapshot_sees_ghosts, sm_snapshot_test, "a snapshot's scan returns deleted records") \
    X(ghost_removed_early, sm_snapshot_upkeep_test, \
      "a ghost is removed as if no snapshot saw it alive") \
    X(erased_key_freed_early, sm_snapshot_upkeep_test, \
      "the cleaner frees the key of an erased record that a snapshot sees") \
    X(erased_keys_left_out, sm_snapshot_upkeep_test, \
      "a snapshot's scan passes over erased keys beyond the bound of one look") \
    X(loaded_over_erased, sm_snapshot_upkeep_test, \
      "a bulk load makes a snapshot forget the records that were erased before") \
    X(chain_freed_under_snapshot, sm_snapshot_test, \
      "an overflow chain is freed that a snapshot reads") \
    X(no_catch_up, sm_snapshot_test, \
      "changes of live transactions from before the first snapshot have no versions") \
    X(ended_snapshot_kept, sm_txn_watch_test, \
      "a snapshot that was ended for its idle time keeps its versions") \
    X(orphan_snapshot_open, sm_txn_watch_test, \
      "the snapshot of a transaction whose thread has ended stays open") \
    X(gone_root_trusted, sm_snapshot_test, \
      "the root of an index that was just dropped is read as if it were still there") \
    X(settled_unchecked, sm_snapshot_upkeep_test, \
      "a version is renewed although a snapshot lies between it and the one below") \
    X(renewed_uncovered, sm_snapshot_upkeep_test, \
      "a version of a whole record is renewed as one of a part") \
    X(second_version_in_part, sm_snapshot_upkeep_test, \
      "a second version has a part that the first one lacks, so the chain grows") \
    X(erased_keys_given_up, sm_snapshot_upkeep_test, \
      "the cleaner looks at erased keys no more once none could go for a while") \
    X(chain_error_first, sm_snapshot_test, \
      "a scan calls the large value of a dropped index damaged") \
    X(run_unprobed, sm_snapshot_run_test, \
      "a reader does not look for the run of keys that its key was inserted with") \
    X(run_too_wide, sm_snapshot_run_test, \
      "a run also hides the key behind its last one") \
    X(run_over_erased, sm_snapshot_run_test, \
      "keys that have versions and no place in a leaf become one run") \
    X(run_prefix_kept, sm_snapshot_run_test, \
      "a scan takes what it has found out about one prefix for those that follow") \
    X(run_replaces_run, sm_snapshot_run_test, \
      "a run takes the place of another run with the same prefix") \
    X(aborted_keeps_key, sm_snapshot_run_test, \
      "the key of a record that was rolled back is kept for snapshots") \
    X(run_chain_forked, sm_snapshot_run_test, \
      "two workers that insert runs of one prefix make two chains of versions") \
    X(aborted_runs_stay, sm_snapshot_run_test, \
      "runs of writers that were rolled back stay in their chain") \
    X(empty_key_shares_prefix, sm_snapshot_run_test, \
      "a scan takes the empty key for a neighbour of keys of one byte")
// clang-format on
