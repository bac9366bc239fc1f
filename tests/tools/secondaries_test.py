#!/usr/bin/env python3
"""secondaries_test.py - what `lockstep` does with secondary indexes: a dump describes them, a load
and a salvage name them as left out, compact keeps them, stat shows them.

Usage: secondaries_test.py LOCKSTEP PROGRAM
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from cli_store import READERS, fail, read_json, run, same

LOCKSTEP, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
RECORDS = 4000
FOUND = f"city {RECORDS} address {RECORDS - (RECORDS + 2) // 3}"
BOTH = [
    {"name": "address", "of": "people", "unique": True},
    {"name": "city", "of": "people", "unique": False},
]
ROWS = {
    "json": [
        b'{"secondary":"address","of":"people","unique":true}\n',
        b'{"secondary":"city","of":"people","unique":false}\n',
    ],
    "csv": [b"secondary,address,people,unique\r\n", b"secondary,city,people,\r\n"],
    "hex": [b"secondary 61646472657373 70656f706c65 1\n", b"secondary 63697479 70656f706c65 0\n"],
}


def without_secondaries(dump, form):
    for row in ROWS[form]:
        if dump.count(row) != 1:
            fail(f"the dump has the row {row!r} {dump.count(row)} times")
        dump = dump.replace(row, b"")
    return dump


def objects_of(path):
    """Name -> what stat says."""
    return {o["name"]: o for o in json.loads(run(LOCKSTEP, "stat", path, "--json"))["objects"]}


def secondaries_of(path):
    objects = objects_of(path)
    names = {o["id"]: name for name, o in objects.items()}
    return {name: (names[o["of"]], o["unique"], o["records"])
            for name, o in objects.items() if "of" in o}


def check_shown(store):
    """Verify and stat."""
    run(LOCKSTEP, "verify", store, says=" 0 faults")
    run(LOCKSTEP, "verify", store, says='"city" has no key function')
    text = run(LOCKSTEP, "stat", store).decode()
    for name, says in (("city", "of people"), ("address", "unique, of people")):
        line = next(line for line in text.split("\n") if line.startswith(name + " "))
        if not line.endswith(says):
            fail(f"stat: '{line}' does not end with '{says}'")


def check_dump_and_load(store, folder):
    contents = None
    for form, reader in READERS.items():
        dump = run(LOCKSTEP, "dump", store, "--format", form)
        found = reader(without_secondaries(dump, form))
        if list(found) != [b"people"] or len(found[b"people"]) != RECORDS:
            fail(f"dump as {form}: {[(name, len(r)) for name, r in found.items()]}")
        contents = contents or found
        copy = os.path.join(folder, "copy-" + form)
        report = json.loads(run(LOCKSTEP, "load", copy, "--json", stdin=dump))
        if report["secondaries_left_out"] != BOTH or report["objects"] != 1:
            fail(f"load of {form}: {report}")
        same(read_json(run(LOCKSTEP, "dump", copy)), contents, "copy by " + form)
        if secondaries_of(copy):
            fail("a load has made a secondary index")
        # The remedy: the application makes them again, over all records.
        run(PROGRAM, copy, 0, says=FOUND)
    dump = run(LOCKSTEP, "dump", store)
    run(LOCKSTEP, "load", os.path.join(folder, "text"), stdin=dump, says="city of people is left")
    for name in ("people", "city"):
        some = run(LOCKSTEP, "dump", store, name)
        wanted = ROWS["json"] if name == "people" else ROWS["json"][1:]
        if [row in some for row in ROWS["json"]] != [row in wanted for row in ROWS["json"]]:
            fail(f"dump of {name} alone describes others than {wanted}")
    # Only the store changes a secondary index, and without its function not even the primary.
    run(LOCKSTEP, "load", store, stdin=dump, status=1, says="has the secondary index")
    run(LOCKSTEP, "load", store, "--forget")
    plain = b'{"lockstep_dump":1}\n{"index":"city"}\n{"end":0}\n'
    run(LOCKSTEP, "load", store, stdin=plain, status=1, says="is a secondary index of this store")
    run(LOCKSTEP, "load", store, "--forget")
    run(PROGRAM, store, 0, says=FOUND)
    for row, says in ((b'{"secondary":"s","of":"p"}', "exactly the members"),
                      (b'{"secondary":"a","of":"a","unique":true}', "occurs twice")):
        text = b'{"lockstep_dump":1}\n{"index":"a"}\n' + row + b'\n{"end":0}\n'
        run(LOCKSTEP, "load", os.path.join(folder, "wrong"), stdin=text, status=1, says=says)
        run(LOCKSTEP, "load", os.path.join(folder, "wrong"), "--forget")
    return contents


def check_resumed_load(store, folder):
    """The list of what is left out survives a kill: the state file has it."""
    source, path = os.path.join(folder, "source"), os.path.join(folder, "resumed")
    dump = run(LOCKSTEP, "dump", store)
    end = dump.rindex(b'{"end":')
    # A cut input is no unfinished load: nothing of it is in the store.
    run(LOCKSTEP, "load", path, "--memory", "1", stdin=dump[:end], status=1, says="cut short")
    # After the rows of the secondary indexes comes more than the load keeps in memory.
    more = 4000
    rows = b"".join(b'{"index":"more","key":"%d","value":"%s"}\n' % (n, b"v" * 1000)
                    for n in range(more))
    whole = dump[:end] + b'{"index":"more"}\n' + rows + b'{"end":%d}\n' % (RECORDS + more)
    with open(source, "wb") as file:
        file.write(whole)
    run(LOCKSTEP, "load", path, source, "--resume", status=1, says="no unfinished load")
    load = subprocess.Popen([LOCKSTEP, "load", path, "--memory", "100K"], stdin=subprocess.PIPE)
    load.stdin.write(whole[:whole.rindex(b'{"end":')])
    load.stdin.flush()
    state = pathlib.Path(path, "load.tmp/state.json")
    until = time.monotonic() + 60
    while not state.exists() or json.loads(state.read_text())["records"] <= RECORDS:
        if time.monotonic() > until:
            fail("the load takes no note of what it has read")
        time.sleep(0.01)
    load.kill()
    load.communicate()
    report = json.loads(run(LOCKSTEP, "load", path, source, "--resume", "--json"))
    if report["secondaries_left_out"] != BOTH:
        fail(f"resumed load: {report}")
    run(PROGRAM, path, 0, says=FOUND)


def check_salvage(store, contents, folder):
    report = json.loads(
        run(LOCKSTEP, "salvage", store, "-o", os.path.join(folder, "saved"), "--json"))
    if (report["secondaries_left_out"], report["objects"], report["lost"]) != (BOTH, 1, 0):
        fail(f"salvage: {report}")
    with open(os.path.join(folder, "saved"), "rb") as file:
        same(read_json(without_secondaries(file.read(), "json")), contents, "salvaged")
    fresh = os.path.join(folder, "salvaged")
    run(LOCKSTEP, "salvage", store, "--into", fresh, says="city of people is left out")
    if secondaries_of(fresh):
        fail("salvage has made a secondary index")
    run(PROGRAM, fresh, 0, says=FOUND)
    # A damaged secondary index loses no record. Nothing opens this store: the log repairs the page.
    damaged = os.path.join(folder, "damaged")
    shutil.copytree(store, damaged)
    with open(os.path.join(damaged, "data"), "r+b") as file:
        data = file.read()
        owner = objects_of(store)["city"]["id"]
        leaf = owner.to_bytes(4, "little") + bytes([3, 0])
        in_use = data[2 * 8192 + 64 :]
        page = next(p for p in range(3, len(data) // 8192)
                    if in_use[p // 8] >> (p % 8) & 1
                    and data[p * 8192 + 20 : p * 8192 + 26] == leaf)
        file.seek(page * 8192)
        file.write(bytes(8192))
    run(LOCKSTEP, "salvage", damaged, "--into", fresh + "2", says=f"{RECORDS} records of 1 index")
    run(PROGRAM, fresh + "2", 0, says=FOUND)


def check_compact(store, folder):
    before, path = secondaries_of(store), os.path.join(folder, "compacted")
    if set(before) != {"city", "address"}:
        fail(f"stat shows the secondary indexes {before}")
    shutil.copytree(store, path)
    report = json.loads(run(LOCKSTEP, "compact", path, "--json"))
    if report["records"] != RECORDS or report["secondary_entries"] != sum(
            entry[2] for entry in before.values()):
        fail(f"compact: {report}")
    if secondaries_of(path) != before:
        fail(f"secondary indexes: {before} before, {secondaries_of(path)} after")
    run(LOCKSTEP, "verify", path, says=" 0 faults")
    # The functions are attached to the copied entries, which must be exactly right.
    run(PROGRAM, path, 0, says=FOUND)


def main():
    folder = tempfile.mkdtemp(prefix="lockstep-secondaries-")
    try:
        store = os.path.join(folder, "store")
        run(PROGRAM, store, RECORDS, says=FOUND)
        check_shown(store)
        contents = check_dump_and_load(store, folder)
        check_resumed_load(store, folder)
        check_salvage(store, contents, folder)
        check_compact(store, folder)
        print("5 passed, 0 failed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
