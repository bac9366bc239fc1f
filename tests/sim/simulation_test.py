#!/usr/bin/env python3
"""simulation_test.py - runs lockstep-sim over many seeds and holds it to numbers: crash points, and
injections of each kind of fault.
"""

import argparse
import collections
import os
import re
import subprocess
import sys

# Seeds that run under one profile only, without power cuts: their faults are rare in the ordinary
# mixture.
PROFILES = {
    "log_faults": {"log_failure": 1200, "clock": 130, "log_full": 50},
    "data_faults": {"write_errors": 120, "no_space": 90, "lost_writes": 80, "data_failure": 60},
    "full_disk": {"disk_full": 120},
}
# Seeds that failed once. 597: an escalated transaction took the bytes of records that it had erased
# itself, and had no room to roll back.
# 1362: a restart that could not read a page waited for its losers for ever, and had begun to name a
# checkpoint.
# 3285, 5473, 7171 wronged the engine: a store may fail while it is closed, and when it is opened
# again lsns are given out anew.
# So did 301320: a log of 4 MB may be full.
# 125: the removal of ghosts used the table of versions while it was emptied. Later, a sweep freed a
# version between its look and its use, which an assertion took for a fault.
# 24739: two values that were written at the same time had chains with the same number, so what was
# noted of one, which had been rolled back, freed pages of the other (OV-2).
# 45314: a snapshot began while the creator of an index rolled back, and was refused for an index
# that it would not have seen.
# 61786: an index was dropped while the list still had a load of it. A power cut tore a page that
# had been freed, and the open read it.
# 19901, 21686 wronged the engine: a block of the log was lost that held no durable record's bytes.
FAILED_ONCE = [125, 597, 1362, 3285, 5473, 7171, 19901, 21686, 24739, 45314, 61786, 301320]
# The same of irregular work: its version, the seed, the I/O event. 6: a creation was cut off, and
# the archive knew the number of the store that never was. 1220: a restart could not promise space
# again to a transaction in doubt, because the log was full. A single bad read of the superblocks
# failed a backup: by an error (1), or because the older copy was taken (8). 400: a backup failed
# because of a torn free page. Somebody had taken the page before the backup asked whether it was
# free.
FAILED_ONCE_AT = [(1, 6, 49), (1, 1220, 1331), (2, 1, 138), (2, 8, 190), (2, 400, 620)]
# The same with faults, without power cuts. 335728: the record that ends a rollback was written
# although the rollback had failed. 100149: a transaction was ended in the middle of a step of a
# secondary cursor. 100517: the ends of two creators and a dropper of one name came in an order that
# took the name from the living index. 402121: the volume grew while a backup read the superblock,
# and the backup lacked pages. 100005: the clock leapt while log was archived, and writers stopped.
# 100519 wronged the engine: the lists of a store that has failed may lack the newest object.
FAILED_ONCE_WITH = [
    (0, 335728, "log_failure"),
    (2, 100149, "log_failure"),
    (2, 100517, "none"),
    (2, 402121, "any"),
    (3, 100005, "clock"),
    (3, 100519, "log_failure"),
]
# After an open, the oldest writer waited a minute for a checkpoint that was not due.
FAILED_ONCE_SECONDARY = {9917263549: 823}
# Irregular work, and what was compared with the model, at least so often.
IRREGULAR = {
    "snapshots_checked": 500,
    "snapshots_too_old": 20,
    "copies_judged": 30,
    "prepared": 300,
    "in_doubt": 300,
    "backups": 30,
    "shrinks": 50,
    "ended_outside": 100,
    "names_made": 10,
    "names_dropped": 5,
    "names_checked": 100,
    "shared_loads": 5,
    "entry_ranges_checked": 100,
    "hoards": 5,
    "pages_evicted": 100,
    "audits": 10,
    "cycles": 5,
    "late_backups": 10,
    "late_copies_judged": 10,
    "steps_switched": 20,
    "packets_announced": 20,
}
# Crash points in a young log, and power cuts that take length of its file, at least.
YOUNG_LOGS = {"short_log": 500, "log_cut_off": 20}
# What each part injects.
INJECTIONS = {
    "crashes": [
        "log_damage",
        "log_tail_damage",
        "lost_write_log",
        "page_damage",
        "unreadable",
        "no_space_log",
        "read_error",
        "bit_flip",
        "short_transfer",
        "again",
        "slow",
        "killed",
        "power_cut",
        "misuse",
    ],
    "log_faults": ["sync_error", "write_error_log", "clock_jump"],
    "data_faults": ["lost_write", "write_error_data", "no_space_data"],
    "full_disk": ["disk_full"],
}


def run(counts, program, *options):
    done = subprocess.run([program, *map(str, options)], stdout=subprocess.PIPE, text=True)
    print(done.stdout, flush=True)
    if done.returncode != 0:
        sys.exit(f"lockstep-sim {' '.join(map(str, options))}: a seed failed, see above")
    for name, number in re.findall(r"^  (\w+) +(\d+)$", done.stdout, re.M):
        counts[name] += int(number)


def crashes(counts, options, first):
    """Power cuts and kills at I/O events."""
    run(counts, options.program, "--seed", first, "--seeds", options.seeds, "--jobs", 2)


def once(counts, options, _):
    """Seeds that failed once."""
    program = options.program
    for seed in FAILED_ONCE:
        run(counts, program, "--plain", "--seed", seed, "--crash-points", 50)
    for version, seed, event in FAILED_ONCE_AT:
        at_event = ["--workload", "records", "--until", event]
        run(counts, program, "--variety", version, "--seed", seed, *at_event)
    for version, seed, profile in FAILED_ONCE_WITH:
        with_faults = ["--faults", profile, "--crash-points", 0]
        run(counts, program, "--variety", version, "--seed", seed, *with_faults)
    for seed, event in FAILED_ONCE_SECONDARY.items():
        at_event = ["--workload", "records", "--secondary", "--until", event]
        run(counts, program, "--variety", 2, "--seed", seed, *at_event)


def variants(counts, options, first):
    """File systems that ignore durable writes, and secondary indexes."""
    program = options.program
    seeds = max(options.seeds // 6, 2)
    by_sync = ["--sync-after-write", "--seeds", seeds, "--jobs", 2]
    run(counts, program, "--seed", first + 200000, *by_sync)
    failing = [*by_sync, "--faults", "log_failure", "--crash-points", 2]
    run(counts, program, "--seed", first + 300000, *failing)
    # Each index has a secondary one; after each crash both are compared.
    by_value = ["--secondary", "--workload", "records", "--seeds", seeds, "--jobs", 2]
    run(counts, program, "--seed", first + 400000, *by_value)


def faults(counts, options, first):
    """Faults that are rare in the ordinary mixture, without power cuts."""
    for profile, seeds in PROFILES[options.part].items():
        which = ["--seed", first + 100000, "--seeds", seeds * options.times, "--jobs", 2]
        run(counts, options.program, *which, "--faults", profile, "--crash-points", 0)


PARTS = {"crashes": crashes, "variants": variants, "once": once} | dict.fromkeys(PROFILES, faults)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--seeds", type=int, default=112, help="of the parts without faults")
    parser.add_argument("--crash-points", type=int, default=0, help="at least so many in all")
    parser.add_argument("--injections", type=int, default=0, help="at least so many of each kind")
    parser.add_argument(
        "--times",
        type=int,
        default=1,
        help="so many times the seeds of each profile: 50 with --injections 10000",
    )
    options = parser.parse_args()
    first = int(os.environ.get("LOCKSTEP_SEED", "1"))
    print(f"seeds from {first}; LOCKSTEP_SEED sets the first")
    counts = collections.Counter()
    PARTS[options.part](counts, options, first)
    least = dict.fromkeys(INJECTIONS.get(options.part, []), options.injections)
    if options.part == "crashes" and options.injections:
        least |= YOUNG_LOGS | IRREGULAR
    least["crash_points"] = options.crash_points
    few = [f"{counts[name]} of {name}, not {n}" for name, n in least.items() if counts[name] < n]
    if few:
        sys.exit(f"too few: {', '.join(few)}")


if __name__ == "__main__":
    main()
