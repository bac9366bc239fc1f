// mutants_threads.h - the mutants of user threads, packets, teams and files, a part of the table in
// mutants.h.
#pragma once

// clang-format off
// name, test program to try first, what is wrong
#define LOCKSTEP_THREADS_MUTANTS(X) \
    X(lost_wakeup, threads_thread_test, "a park ignores the token of an earlier wake") \
    X(timer_stays, threads_timer_test, \
      "a thread woken before its deadline leaves its timer armed") \
    X(event_missed, threads_event_test, "a wait does not check whether the event is already set") \
    X(waiter_left_queued, threads_event_test, "a waiter that times out stays in its queue") \
    X(semaphore_double_grant, threads_event_test, \
      "a semaphore grants units without subtracting them") \
    X(follows_the_end, threads_task_word_test, \
      "what follows a task is accepted after its end, and never called") \
    X(semaphore_unfair, threads_event_test, "a new request overtakes waiters of a semaphore") \
    X(condition_queued_late, threads_sync_workers_test, \
      "a wait for a condition unlocks its mutex before it is queued") \
    X(sync_overtakes, threads_sync_test, "a newcomer overtakes the waiters of a semaphore") \
    X(channel_end_untold, threads_sync_test, "a channel that is closed wakes no receiver") \
    X(fd_wait_not_ended, threads_wait_fd_test, \
      "the end of a runtime wakes no wait for a descriptor") \
    X(fd_not_armed_again, threads_wait_fd_test, \
      "a descriptor with waits left is not polled again") \
    X(socket_write_short, threads_socket_test, "a write to a socket sends what fits, once") \
    X(offload_on_the_spot, threads_offload_test, "offload() runs the function on the worker") \
    X(slice_reported_again, threads_slice_watch_test, "a long slice is reported at each look") \
    X(latch_wake_forgotten, threads_latch_test, \
      "a released latch does not wake its exclusive waiter") \
    X(latch_version_kept, threads_latch_test, \
      "a change under an exclusive latch does not change the version") \
    X(upgrade_unvalidated, threads_latch_test, \
      "an optimistic reader upgrades on a page that has changed") \
    X(stray_not_unlinked, threads_steps_test, \
      "a member that blocks stays in the ring of its team") \
    X(ctx_with_latch, threads_steps_test, \
      "CTX switches while the member holds an exclusive latch") \
    X(ring_predecessor_stale, threads_steps_test, \
      "CTX does not record the predecessor of the running member") \
    X(team_without_bound, threads_steps_test, "a team takes all waiting threads") \
    X(mail_lost, threads_runtime_test, \
      "only the first of several wake-ups from other workers takes effect") \
    X(stall_ends_admission, threads_packet_workers_test, \
      "no packet is admitted while all executing threads wait for locks") \
    X(log_wait_counts, threads_packet_test, \
      "an executing thread that waits for the log counts as busy") \
    X(oldest_stack_first, threads_packet_test, "the thread that has rested longest runs first") \
    X(submit_wakes_nobody, threads_packet_workers_test, \
      "a packet does not wake the worker that sleeps") \
    X(sleeps_beside_packets, threads_packet_sleep_test, \
      "a worker goes to sleep without a last look at the queues of the others") \
    X(stealer_polls_nothing, threads_packet_workers_test, \
      "a worker that takes packets from another one does not look for completions") \
    X(team_rest_left, threads_packet_test, \
      "the rest of a team is not continued while a member waits") \
    X(packet_lost_in_theft, threads_packet_workers_test, \
      "of the packets that another worker takes, the last is lost") \
    X(pinned_taken, threads_packet_workers_test, "another worker takes a packet that is pinned") \
    X(withdrawn_still_due, threads_packet_test, \
      "a packet that waits for a time runs although it was withdrawn") \
    X(io_full_is_error, threads_io_wait_test, "a full disk is reported as an I/O error") \
    X(withdraw_home_first, threads_packet_workers_test, \
      "a packet is withdrawn from the worker that it has just left") \
    X(yield_admits_nothing, threads_packet_test, \
      "a packet that yields waits for ever for one that has not begun") \
    X(trial_survives_pause, threads_team_tuner_test, \
      "a candidate stays the setting of a worker that was idle") \
    X(file_on_stderr, threads_posix_disk_test, \
      "a file gets the number of a closed standard stream") \
    X(parent_not_synced, threads_posix_disk_test, "a new directory is not durable in its parent") \
    X(unsynced_directory_left, threads_posix_disk_test, \
      "a directory stays whose parent could not be synced, so the next call syncs nothing") \
    X(log_shares_places, threads_io_stage_test, \
      "requests of the log wait for a place behind reads") \
    X(busy_worker_stalls, threads_packet_test, \
      "a worker that never sleeps does not look whether all busy packets wait") \
    X(wait_for_cpu_counts, threads_slice_watch_test, \
      "a thread that waits for a CPU counts as one that blocks") \
    X(sleep_interrupted, threads_slice_watch_test, \
      "the watch of slices sends its signal to a thread that sleeps in a system call") \
    X(cancel_not_taken_back, threads_task_word_test, \
      "a cancellation that failed cannot be repeated") \
    X(in_flight_length_alone, threads_sim_disk_test, \
      "a crash cuts off writes in flight at the end of a file") \
    X(ctx_in_completion, threads_ctx_test, \
      "a transaction that should run to completion passes the CPU on at points") \
    X(completion_unpinned, threads_completion_test, \
      "a completion wakes a thread whose runtime may be gone")
// clang-format on
