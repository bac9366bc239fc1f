#!/usr/bin/env python3
"""prepared_test.py - `lockstep prepared`, `commit` and `rollback`: transactions in doubt of a store
that a process has open, and of a closed one.

Usage: prepared_test.py LOCKSTEP PREPARED_PROGRAM
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import cli_store

LOCKSTEP, PROGRAM = sys.argv[1:3]
UNPRINTABLE = "b\x01\u00ff"
SHOWN = "b\\x01\\xc3\\xbf"
SHOWN_KEY = {"hex": UNPRINTABLE.encode().hex()}  # of a JSON dump


def run(*arguments, **expected):
    return cli_store.run(LOCKSTEP, *arguments, **expected).decode()


def listed(store):
    return sorted(of["gid"] for of in json.loads(run("prepared", store, "--json"))["prepared"])


class Program:
    """A process that has the store open, with transactions in doubt."""

    def __init__(self, store, *gids):
        self.process = subprocess.Popen(
            [PROGRAM, store, *gids], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        said = self.process.stdout.readline()
        assert said == "prepared\n", said

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(timeout=60)

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0, self.process.returncode


def check_open_store(store):
    with Program(store, "a", UNPRINTABLE, "c", "d") as program:
        assert listed(store) == ["a", SHOWN, "c", "d"], listed(store)
        run("prepared", store, says=["GID", "LOCKS", SHOWN, "4 transactions in doubt"])
        run("transactions", store, says=["prepared", f"the decision on gid {SHOWN}"])
        run("commit", store, SHOWN, says=[f"{SHOWN} is committed"])
        run("commit", store, SHOWN, status=1, says=["is not in doubt"])
        told = run("rollback", store, "none", "--json", status=1)
        assert json.loads(told)["ended"] is False
        run("rollback", store, "d", says=["d is rolled back"])
        assert listed(store) == ["a", "c"], listed(store)
        elsewhere = os.fsdecode(os.fsencode(store) + b".\xff")  # not to U+FFFD instead
        run("backup", store, elsewhere, status=1, says=["is not UTF-8"])
        for bad in ("", "x" * 141, "\\", "\\x4", "\\y00"):
            run("commit", store, bad, status=1, says=["a gid has 1 to 140 bytes"])
        program.close()


def check_dump(store):
    """A dump has no change of a transaction in doubt, waits for none, and names them."""
    began = time.monotonic()
    done = subprocess.run([LOCKSTEP, "dump", store], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    assert time.monotonic() - began < 8, "waited for a lock"
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    keys = [row["key"] for row in rows if "key" in row]
    assert keys == [SHOWN_KEY], keys
    assert rows[-1] == {"end": 1}, rows[-1]
    assert "note: " in done.stderr and "2 transactions are in doubt (a, c)" in done.stderr, done
    assert "`lockstep prepared`" in done.stderr, done


def check_closed_store(store):
    run("prepared", store, says=["2 transactions in doubt"])
    remedies = ["2 transactions are in doubt", f"`lockstep prepared {store}`", "`lockstep commit`"]
    run("stat", store, status=3, says=remedies)
    check_dump(store)
    run("verify", store, says=[" 0 faults"])
    # A copy of the records has no log, which alone tells what is not decided yet.
    run("compact", store, status=1, says=["the new store would have their changes"])
    run("salvage", store, "--output", os.devnull, says=["note: 2 transactions are in doubt"])
    told = json.loads(run("commit", store, "", "--json", status=1))
    assert told["error"]["code"] == "bad_argument", told
    told = json.loads(run("prepared", store + ".none", "--json", status=1))
    assert told["error"]["code"] == "bad_path", told
    run("commit", store, "a", says=["a is committed"])
    run("rollback", store, "c", says=["c is rolled back"])
    assert listed(store) == []
    run("verify", store, says=[" 0 faults"])


def check_restored_store(store):
    """The backup of a store with transactions in doubt has them in doubt, too."""
    backup, restored = store + ".backup", store + ".restored"
    run("backup", store, backup)
    run("restore", "--backup", backup, "--to", restored)
    assert listed(restored) == ["e", "f"], listed(restored)
    run("commit", restored, "e", says=["e is committed"])
    run("rollback", restored, "f", says=["f is rolled back"])
    run("verify", restored, says=[" 0 faults"])


def check_killed_store(store):
    with Program(store, "e", "f"):
        pass  # killed
    # The open before the kill has left the mark of the last close in the data file.
    run("salvage", store, "-o", os.devnull, "--json", says=['"closed_properly":false'])
    assert listed(store) == ["e", "f"], listed(store)
    check_restored_store(store)
    run("commit", store, "e", says=["e is committed"])
    run("commit", store, "f", says=["f is committed"])


scratch = tempfile.mkdtemp(prefix="lockstep-prepared-")
try:
    path = os.path.join(scratch, "store")
    check_open_store(path)
    check_closed_store(path)
    check_killed_store(path)
    print("4 passed, 0 failed")
finally:
    shutil.rmtree(scratch, ignore_errors=True)
