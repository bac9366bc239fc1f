#!/usr/bin/env python3
"""salvage_test.py - damages pages of a store at random; `lockstep salvage` must give every record
of the sound pages, invent none, and name what is lost.

Usage: salvage_test.py LOCKSTEP
"""

import json
import os
import shutil
import struct
import sys
import tempfile

from cli_store import (
    fail,
    from_json,
    make_rng,
    random_contents,
    read_json,
    readable,
    run,
    same,
    write_json,
)

LOCKSTEP = os.path.abspath(sys.argv[1])
PAGE = 8192
BTREE = 3


def pages_of(path):
    with open(os.path.join(path, "data"), "rb") as file:
        data = file.read()
    return [data[at : at + PAGE] for at in range(0, len(data), PAGE)]


def used(pages):
    bits = pages[2][64:]
    return [p for p in range(3, len(pages)) if bits[p // 8] >> (p % 8) & 1]


def kind_of(page):
    """(kind, level, object)"""
    return page[24], page[25], struct.unpack_from("<I", page, 20)[0]


def records_in(leaf):
    return struct.unpack_from("<H", leaf, 32)[0] - struct.unpack_from("<H", leaf, 46)[0]


def damage(rng, path, victims):
    pages = pages_of(path)
    with open(os.path.join(path, "data"), "r+b") as file:
        for page in victims:
            how = rng.randrange(3)
            if how == 0:
                fresh = bytes(PAGE)
            elif how == 1:
                fresh = bytearray(pages[page])
                fresh[rng.randrange(PAGE)] ^= 1 << rng.randrange(8)
            else:
                fresh = pages[rng.choice([p for p in range(3, len(pages)) if p != page])]
                if fresh == pages[page]:
                    fresh = bytes(PAGE)
            file.seek(page * PAGE)
            file.write(fresh)


def in_a_loss(losses, name, key):
    """Whether a listed loss accounts for the record."""
    for loss in losses:
        if loss.get("object") != "index " + readable(name):
            continue
        if loss["what"] == "range":
            if from_json(loss["from"]) <= key and (
                "before" not in loss or key < from_json(loss["before"])
            ):
                return True
        if loss["what"] == "value" and from_json(loss["key"]) == key:
            return True
    return False


def compare(saved, losses, contents, what):
    """Saved records are the original ones; each missing one is accounted for."""
    missing = 0
    for name, records in contents.items():
        found = saved.get(name)
        if isinstance(records, dict):
            if found is None:
                found = {}
            for key, value in found.items():
                if records.get(key) != value:
                    fail(f"{what}: {name!r} {key!r} is invented")
            for key in records.keys() - found.keys():
                missing += 1
                if not in_a_loss(losses, name, key):
                    fail(f"{what}: {name!r} {key!r} is missing, and no loss names it: {losses}")
        else:
            found = sorted(found or [])
            rest = sorted(records)
            for record in found:
                if record not in rest:
                    fail(f"{what}: heap record {record[:50]!r} is invented")
                rest.remove(record)
            if rest and not any(loss.get("object") == "heap log" for loss in losses):
                fail(f"{what}: {len(rest)} heap records are missing, and no loss names the heap")
            missing += len(rest)
    if set(saved) - set(contents):
        fail(f"{what}: invented names {set(saved) - set(contents)}")
    return missing


def salvage(path, status):
    dump = path + ".json"
    text = run(LOCKSTEP, "salvage", path, "-o", dump, "--json", status=status)
    report = json.loads(text)
    with open(dump, "rb") as file:
        saved = read_json(file.read())
    if report["records"] != sum(map(len, saved.values())):
        fail("the report counts other records than the dump has")
    return saved, report


def rounds(rng, store, contents, folder):
    pages = pages_of(store)
    in_use = used(pages)
    catalog = [p for p in in_use if kind_of(pages[p])[2] == 1]
    others = [p for p in in_use if p not in catalog]
    missing = 0
    for turn in range(8):
        path = os.path.join(folder, f"damaged{turn}")
        shutil.copytree(store, path)
        victims = rng.sample(others, rng.randint(1, len(others) // 4))
        damage(rng, path, victims)
        saved, report = salvage(path, 2)
        count = compare(saved, report["losses"], contents, f"round {turn}")
        full = [p for p in victims if kind_of(pages[p])[:2] == (BTREE, 0) and records_in(pages[p])]
        if full and not count:
            fail(f"round {turn}: a leaf was damaged, and nothing is missing")
        named = {p for loss in report["losses"] for p in loss.get("pages", [])}
        if set(victims) - named:
            fail(f"round {turn}: no loss names the pages {set(victims) - named}")
        missing += count
    print(f"{len(in_use)} pages in use; {missing} records lost in 8 rounds")


def check_truncated(store, contents, folder, rng):
    path = os.path.join(folder, "short")
    shutil.copytree(store, path)
    last = max(used(pages_of(store)))
    os.truncate(os.path.join(path, "data"), (last // 2) * PAGE + rng.randrange(PAGE))
    saved, report = salvage(path, 2)
    compare(saved, report["losses"], contents, "truncated")


def check_catalog(store, contents, folder):
    """Without the catalog objects are called by their numbers; every record is there."""
    path = os.path.join(folder, "nameless")
    shutil.copytree(store, path)
    pages = pages_of(store)
    with open(os.path.join(path, "data"), "r+b") as file:
        for page in [0, 1, *(p for p in used(pages) if kind_of(pages[p])[2] == 1)]:
            file.seek(page * PAGE)
            file.write(b"x" * PAGE)
    saved, report = salvage(path, 2)
    if not all(name.startswith(b"object-") for name in saved):
        fail(f"names without a catalog: {list(saved)}")
    wanted = sorted(sorted(r.items()) for r in contents.values() if isinstance(r, dict))
    found = sorted(sorted(r.items()) for r in saved.values() if isinstance(r, dict))
    if wanted != found or not any(isinstance(r, list) for r in saved.values()):
        fail("without a catalog: records differ")


def check_map(store, contents, folder):
    """Without the map of used pages a freed page's old records must not come back."""
    path = os.path.join(folder, "mapless")
    shutil.copytree(store, path)
    with open(os.path.join(path, "data"), "r+b") as file:
        file.seek(2 * PAGE)
        file.write(bytes([255]) * PAGE)
    saved, report = salvage(path, 0)
    same(saved, contents, "without a map")
    if not any("map of used pages is lost" in loss["why"] for loss in report["losses"]):
        fail("the damaged map is not named")


def main():
    rng = make_rng("salvage_test")
    folder = tempfile.mkdtemp(prefix="lockstep-salvage-")
    try:
        store = os.path.join(folder, "store")
        contents = random_contents(rng, 6000)
        run(LOCKSTEP, "load", store, "--fill", "60", stdin=write_json(contents, rng))
        saved, report = salvage(store, 0)
        same(saved, contents, "sound store")
        if report["losses"]:
            fail(f"losses of a sound store: {report['losses']}")
        rounds(rng, store, contents, folder)
        check_truncated(store, contents, folder, rng)
        check_catalog(store, contents, folder)
        check_map(store, contents, folder)
        damage(rng, store, rng.sample(used(pages_of(store))[20:], 3))
        text = run(LOCKSTEP, "salvage", store, "--into", store + ".new", status=2, says="lost: ")
        run(LOCKSTEP, "verify", store + ".new", says=" 0 faults")
        compare(read_json(run(LOCKSTEP, "dump", store + ".new")),
                json.loads(run(LOCKSTEP, "salvage", store, "-o", os.devnull, "--json", status=2))[
                    "losses"], contents, "into a store")
        print(f"6 passed, 0 failed\n{text.decode(errors='replace')[-300:]}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
