// mutants_records.h - the mutants of B-trees, heaps and secondary indexes; see mutants.h.
#pragma once

// clang-format off
// name, test program to try first, what is wrong
#define LOCKSTEP_RECORDS_MUTANTS(X) \
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
    X(hint_outlives_leaf, sm_btree_stale_leaf_test, \
      "a leaf hint is used after its leaf was freed") \
    X(cursor_outlives_leaf, sm_btree_stale_leaf_test, "a cursor continues in a freed leaf") \
    X(merge_link_stale, sm_btree_test, "a merge keeps the pointer to the page that it frees") \
    X(leaves_of_held_index_merged, sm_btree_whole_lock_test, \
      "leaves are merged although a transaction holds the whole index") \
    X(walk_fence_unchecked, sm_btree_wrong_page_test, \
      "a walk over the leaves passes a leaf that begins elsewhere") \
    X(half_operation_kept, sm_half_operation_test, \
      "a transaction goes on although a failed operation could not be undone") \
    X(ghost_of_gap_removed, sm_btree_border_test, \
      "a ghost is removed although the gap below it is protected") \
    X(ghost_of_held_index_removed, sm_btree_border_test, \
      "a ghost is removed while a transaction holds the whole index") \
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
    X(released_after_rollback, sm_btree_model_test, \
      "pages of a large value are freed although a rollback has brought its reference back") \
    X(roots_read_alone, sm_catalog_roots_test, \
      "the first use of each index after an open reads its root alone") \
    X(chain_freed_under_walk, sm_space_reuse_test, \
      "pages of a large value are freed while a walk holds the cleaner") \
    X(chain_leaked, sm_btree_test, "pages of a removed large value are not freed") \
    X(undo_erase_keeps_ghost, sm_btree_undo_test, "undoing an erase leaves the record erased") \
    X(modify_locks_for_reading, sm_btree_modify_test, "modify() locks its key for reading only") \
    X(modify_without_upkeep, sm_secondary_test, "modify() leaves secondary indexes as they were") \
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
    X(cursor_value_unpatched, sm_btree_patch_test, \
      "a cursor that has lost its leaf shows the value from before its patch") \
    X(undo_update_keeps_new, sm_btree_undo_test, "undoing an update writes the new bytes") \
    X(heap_forward_lost, sm_heap_test, "the stub of a moved record points to the wrong slot") \
    X(heap_page_unchecked, sm_heap_wrong_page_test, \
      "a scan of a heap reads whatever page it meets") \
    X(heap_map_unasked, sm_heap_wrong_page_test, \
      "a record whose page lost its writes counts as erased") \
    X(damaged_insert_page_kept, sm_each_page_test, \
      "a worker goes on inserting into a page that cannot be read") \
    X(heap_undo_wrong_bytes, sm_heap_test, "undoing a heap update writes the new bytes") \
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
    X(end_too_low, sm_space_map_shrink_test, \
      "the end of the volume is lowered onto the last page in use") \
    X(given_up_maps_unforgotten, sm_space_map_shrink_test, \
      "the data file is cut while the LSNs of pages behind its end are still known") \
    X(scan_bounds_late, sm_scan_bounds_test, \
      "a scan copies its bounds after other threads may have run") \
    X(lone_place_uncovered, sm_needs_test, \
      "a leaf that a walk has found is not asked whether it still covers the key") \
    X(found_place_unchecked, sm_needs_test, \
      "the slot that a walk has found is not compared with the key again") \
    X(bulk_undo_missing, sm_btree_test, "a bulk load that is rolled back stays") \
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
    X(entry_not_read_again, sm_secondary_test, \
      "a read by a unique key follows the entry that it saw before it waited") \
    X(get_by_key_not_rechecked, sm_secondary_test, \
      "a read by key returns a record that has lost the key") \
    X(walk_prefix_unchecked, sm_btree_many_test, \
      "a group walk does not compare the prefix of a node with the next key") \
    X(walk_end_child_shared, sm_btree_many_test, \
      "a group walk sends keys beyond a node into its last child") \
    X(short_key_length_ignored, sm_btree_node_test, \
      "a key counts as found that equals a record's but for zeros at the end")
// clang-format on
