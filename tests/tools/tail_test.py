#!/usr/bin/env python3
"""tail_test.py - `lockstep tail`: a copy that is made from its lines equals the store, of a closed
store and of one that is in use; it goes on from the position of a line.

Usage: tail_test.py LOCKSTEP DRIVER
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

from cli_store import fail, make_rng, random_contents, read_json, run, write_json

LOCKSTEP, DRIVER = map(os.path.abspath, sys.argv[1:3])
SMALL = "-w 1 --warmup 0 --pool 64M --log-size 256M".split()


def tail(store, *more):
    return [json.loads(line) for line in run(LOCKSTEP, "tail", store, *more).splitlines()]


def equal(found, wanted, what):
    if found != wanted:
        fail(f"{what}: {str(found)[:2000]} is not {str(wanted)[:2000]}")


def data(spelled):
    return bytes.fromhex(spelled["hex"]) if isinstance(spelled, dict) else spelled.encode()


def apply(lines, contents):
    """Carries the lines out. What does not fit is a KeyError or a fault."""
    for line in lines:
        if line["kind"] == "commit":
            continue
        name = data(line.get("index", line.get("heap")))
        if line["kind"] == "drop":
            del contents[name]
            continue
        records = contents.setdefault(name, {})
        key = data(line["key"]) if "key" in line else line.get("id")
        kind = line["kind"]
        if kind == "insert" and key in records:
            fail(f"inserted twice: {line}")
        if kind in ("insert", "update"):
            records[key] = data(line["value"])
        elif kind == "patch":
            old, at = data(line["old"]), line["offset"]
            equal(records[key][at : at + len(old)], old, "patched bytes")
            records[key] = records[key][:at] + data(line["value"]) + records[key][at + len(old) :]
        elif kind == "erase":
            del records[key]
        elif kind not in ("create", "reset"):
            fail(f"unknown line: {line}")


def check_closed(folder, rng):
    store = os.path.join(folder, "store")
    contents = random_contents(rng, 400)
    run(LOCKSTEP, "load", store, stdin=write_json(contents, rng))
    run(LOCKSTEP, "put", store, "cities", "Lisbon", "P" * 9000)
    first = tail(store)
    copy = {}
    apply(first, copy)
    equal(sorted(copy[b"log"].values()), sorted(contents[b"log"]), "records of a heap")
    # Indexes that were filled by a bulk load are read again.
    dumped = read_json(run(LOCKSTEP, "dump", store))
    for line in first:
        if line["kind"] == "reset":
            copy[data(line["index"])] = dict(dumped[data(line["index"])])
    run(LOCKSTEP, "put", store, "cities", "Lisbon", "Portugal")
    run(LOCKSTEP, "erase", store, "cities", "Lisbon")
    some = {b"cities": {key: b"changed" for key in list(contents[b"cities"])[:50]}}
    run(LOCKSTEP, "load", store, "--replace", stdin=write_json(some))
    more = tail(store, "--from", first[-1]["position"])
    equal([line["kind"] for line in more[:4]], ["update", "commit", "erase", "commit"], "lines")
    apply(more, copy)
    dumped = read_json(run(LOCKSTEP, "dump", store))
    for name, records in dumped.items():
        if name != b"log":
            equal(copy[name], records, "copy")
    equal(tail(store, "--limit", 3, "--from", first[0]["position"]), first[1:4], "lines again")
    equal(tail(store, "--from", "now"), [], "lines from now on")
    run(LOCKSTEP, "tail", store, "--from", "1-2-3-4", status=1, says="1-2-3-4")
    run(LOCKSTEP, "tail", store, "--follow", status=2, says="open")


def check_live(folder):
    store = os.path.join(folder, "busy")
    drive = [DRIVER, "--path", store, *SMALL]
    subprocess.run([*drive, "--duration", "1"], check=True, stdout=subprocess.DEVNULL)
    driver = subprocess.Popen([*drive, "--duration", "600", "--control"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.time() + 60
        while not os.path.exists(os.path.join(store, "control")):
            if time.time() > deadline or driver.poll() is not None:
                fail("no store")
            time.sleep(0.05)
        lines = tail(store, "--from", "now", "--follow", "--limit", 400)
        equal(len(lines), 400, "lines of a store in use")
        commits = [line["commit"] for line in lines]
        equal(commits, sorted(commits), "order of commits")
        again = tail(store, "--follow", "--limit", 399, "--from", lines[0]["position"])
        equal(again, lines[1:], "lines again")
    finally:
        driver.terminate()
        driver.wait(timeout=100)


folder = tempfile.mkdtemp(prefix="lockstep-tail-")
try:
    check_closed(folder, make_rng("tail"))
    check_live(folder)
finally:
    shutil.rmtree(folder)
