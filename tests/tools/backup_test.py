#!/usr/bin/env python3
"""backup_test.py - `lockstep backup`, `verify-backup` and `restore` of a store that no process has
open; control_test.py makes a backup of one that is open.

Usage: backup_test.py LOCKSTEP
"""

import json
import os
import shutil
import sys
import tempfile

from cli_store import fail, make_rng, random_contents, read_json, run, same, write_json

LOCKSTEP = os.path.abspath(sys.argv[1])


def contents_of(path):
    return read_json(run(LOCKSTEP, "dump", path))


def damage(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(b"garbage")


def main():
    rng = make_rng("backup_test")
    root = tempfile.mkdtemp(prefix="backup_test_", dir=os.getcwd())
    place = lambda name: os.path.join(root, name)  # noqa: E731
    store, full, more = place("store"), place("full"), place("more")
    try:
        before = random_contents(rng, 3000)
        run(LOCKSTEP, "load", store, stdin=write_json(before, rng))
        run(LOCKSTEP, "backup", store, full, says="the state at LSN")
        run(LOCKSTEP, "verify-backup", full, says=" 0 faults")
        at_full = contents_of(store)

        # A second part of the rows, and an incremental backup of it.
        later = {b"later": {b"key%d" % i: b"value%d" % i for i in range(500)}}
        run(LOCKSTEP, "load", store, stdin=write_json(later))
        done = run(LOCKSTEP, "backup", store, more, "--since", full, "--json", "--rate", "100M")
        told = json.loads(done)
        if not 0 < told["pages_copied"] < told["pages"]:
            fail(f"not incremental: {told}")
        run(LOCKSTEP, "verify-backup", full, more, says=" 0 faults")
        at_more = contents_of(store)

        run(LOCKSTEP, "restore", "--backup", full, "--to", place("a"), says="the state at LSN")
        same(contents_of(place("a")), at_full, "full")
        run(LOCKSTEP, "restore", "--backup", full, "--backup", more, "--to", place("b"))
        same(contents_of(place("b")), at_more, "full and incremental")
        run(LOCKSTEP, "verify", place("b"), says=" 0 faults")

        # What must be refused.
        run(LOCKSTEP, "backup", store, full, status=1, says="the directory is not empty")
        run(LOCKSTEP, "backup", store, store, status=1, says="the directory is not empty")
        run(LOCKSTEP, "backup", place("none"), place("c"), status=1, says="bad_path")
        run(LOCKSTEP, "restore", "--backup", more, "--to", place("c"), status=1, says="full one")
        run(LOCKSTEP, "restore", "--backup", full, "--to", full, status=1, says="one of the ")
        run(LOCKSTEP, "restore", "--backup", full, "--to", store, status=1, says="not empty")
        run(LOCKSTEP, "verify-backup", store, status=1, says="no backup in this directory")
        run(LOCKSTEP, "verify", more, status=1, says="an incremental backup")
        if os.path.exists(place("c")):
            fail("a refused command left something")

        # Damage is named, and an unfinished backup is not opened.
        damage(os.path.join(full, "data"), 9 * 8192 + 1000)
        run(LOCKSTEP, "verify-backup", full, status=2, says="page 9: has a wrong checksum")
        run(LOCKSTEP, "restore", "--backup", full, "--to", place("d"), status=1, says="page 9: has")
        run(LOCKSTEP, "verify", place("d"), status=1, says="was not finished")
        os.truncate(os.path.join(more, "backup"), 0)
        run(LOCKSTEP, "verify-backup", more, status=1, says="was not finished")
    finally:
        shutil.rmtree(root)


main()
