#!/usr/bin/env python3
"""compact_test.py - `lockstep compact`: the same records in fewer pages, and after a kill at any
moment a whole store.

Usage: compact_test.py LOCKSTEP
"""

import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from cli_store import fail, make_rng, random_contents, read_json, run, same, write_json

LOCKSTEP = os.path.abspath(sys.argv[1])


def pages_in_use(path):
    with open(os.path.join(path, "data"), "rb") as file:
        file.seek(2 * 8192 + 32)
        return int.from_bytes(file.read(4), "little")


def some_leaf(path):
    """A page of a user's index at level 0, in the middle of the file."""
    with open(os.path.join(path, "data"), "rb") as file:
        data = file.read()
    for page in range(pages_in_use(path) // 2, len(data) // 8192):
        owner, kind, level = struct.unpack_from("<IBB", data, page * 8192 + 20)
        if kind == 3 and level == 0 and owner >= 16:
            return page
    return fail("no leaf found")


def check_kill(path, contents, rng):
    """Killed at several moments: the store opens and has every record, before and after."""
    shutil.copytree(path, path + ".timed")
    started = time.monotonic()
    run(LOCKSTEP, "compact", path + ".timed")
    whole = time.monotonic() - started
    kills = 0
    for moment in range(14):
        copy = f"{path}.kill"
        shutil.copytree(path, copy)
        compact = subprocess.Popen([LOCKSTEP, "compact", copy], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            compact.wait(timeout=whole * (moment + rng.random()) / 12)
        except subprocess.TimeoutExpired:
            compact.send_signal(signal.SIGKILL)
            compact.wait()
            kills += 1
        same(read_json(run(LOCKSTEP, "dump", copy)), contents, f"killed at {moment}/12")
        run(LOCKSTEP, "compact", copy)  # also removes what the killed run left
        same(read_json(run(LOCKSTEP, "dump", copy)), contents, f"again after {moment}/12")
        if os.path.exists(copy + ".compact"):
            fail("the old store is left over")
        shutil.rmtree(copy)
    print(f"killed {kills} of 14 times")


def check_refusals(path, folder):
    foreign = os.path.join(path, "notes.txt")
    with open(foreign, "w"):
        pass
    run(LOCKSTEP, "compact", path, status=1, says="is not a file of the store")
    run(LOCKSTEP, "compact", path, "--into", os.path.join(folder, "beside"))
    os.unlink(foreign)
    # The socket of a process is no file of others. While it has the store open, that is said.
    with socket.socket(socket.AF_UNIX) as control, open(os.path.join(path, "lock")) as lock:
        control.bind(os.path.join(path, "control"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        run(LOCKSTEP, "compact", path, status=1, says="store_locked")
        fcntl.flock(lock, fcntl.LOCK_UN)
        run(LOCKSTEP, "compact", path, says="rewritten")
    run(LOCKSTEP, "compact", os.path.join(folder, "none"), status=1, says="holds no store")
    damaged = os.path.join(folder, "damaged")
    shutil.copytree(path, damaged)
    with open(os.path.join(damaged, "data"), "r+b") as file:
        file.seek(some_leaf(path) * 8192 + 100)
        file.write(b"damage")
    with open(os.path.join(damaged, "data"), "rb") as file:
        before = file.read()
    run(LOCKSTEP, "compact", damaged, status=1, says="is damaged, and is left as it is")
    with open(os.path.join(damaged, "data"), "rb") as file:
        if file.read()[3 * 8192 :] != before[3 * 8192 :]:
            fail("a damaged store was changed")
    if os.path.exists(damaged + ".compact"):
        fail("an unfinished store is left over")


def check_rights(path):
    """The new store has owner and mode of the old one; and `.` is a name of a store."""
    os.chmod(path, 0o750)
    names = sorted(os.listdir(path))
    for name in names:
        os.chmod(os.path.join(path, name), 0o640)
        if os.geteuid() == 0:
            os.chown(os.path.join(path, name), 65534, 65534)

    def rights(name):
        about = os.stat(os.path.join(path, name))
        return name, about.st_mode, about.st_uid, about.st_gid

    before = [rights(name) for name in (".", *names)]
    subprocess.run([LOCKSTEP, "compact", "."], cwd=path, check=True, stdout=subprocess.DEVNULL)
    after = [rights(name) for name in (".", *names)]
    if before != after:
        fail(f"rights: {before} before, {after} after")


def main():
    rng = make_rng("compact_test")
    folder = tempfile.mkdtemp(prefix="lockstep-compact-")
    try:
        path = os.path.join(folder, "store")
        contents = random_contents(rng, 8000, heaps=False)
        run(LOCKSTEP, "load", path, "--fill", "50", stdin=write_json(contents, rng))
        before = pages_in_use(path)
        check_kill(path, contents, rng)
        check_refusals(path, folder)
        run(LOCKSTEP, "compact", path, says="records rewritten")
        check_rights(path)
        same(read_json(run(LOCKSTEP, "dump", path)), contents, "compacted")
        run(LOCKSTEP, "verify", path, says=" 0 faults")
        if pages_in_use(path) > before * 0.85:
            fail(f"pages in use: {before} before, {pages_in_use(path)} after")
        run(LOCKSTEP, "compact", path, "--end-only", "--json", says='"records":0')
        if os.path.getsize(os.path.join(path, "data")) > (pages_in_use(path) + 8) * 8192:
            fail("free pages at the end are still there")
        same(read_json(run(LOCKSTEP, "dump", path)), contents, "without the end")
        with_heap = os.path.join(folder, "heap")
        more = random_contents(rng, 500)
        run(LOCKSTEP, "load", with_heap, stdin=write_json(more, rng))
        run(LOCKSTEP, "compact", with_heap, status=1, says="--new-record-ids")
        run(LOCKSTEP, "compact", with_heap, "--new-record-ids")
        same(read_json(run(LOCKSTEP, "dump", with_heap)), more, "compacted with a heap")
        print("4 passed, 0 failed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
