#!/usr/bin/env python3
"""load_test.py - `lockstep dump` and `load`: every format gives every byte back; wrong input is
named by its line; a load that is killed at any time and resumed gives the same store.

Usage: load_test.py LOCKSTEP
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cli_store import READERS, fail, make_rng, random_contents, read_json, run, same, write_json

LOCKSTEP = os.path.abspath(sys.argv[1])
HEAD = b'{"lockstep_dump":1}\n{"index":"a"}\n'


def check_formats(folder, rng):
    contents = random_contents(rng, 3000)
    first = os.path.join(folder, "first")
    run(LOCKSTEP, "load", first, stdin=write_json(contents, rng))
    for form, reader in READERS.items():
        dump = run(LOCKSTEP, "dump", first, "--format", form)
        same(reader(dump), contents, "dump as " + form)
        copy = os.path.join(folder, "copy-" + form)
        # Less memory than the input: runs are merged.
        run(LOCKSTEP, "load", copy, "--memory", "300K", stdin=dump)
        same(read_json(run(LOCKSTEP, "dump", copy, "--json")), contents, "copy by " + form)
        run(LOCKSTEP, "verify", copy, says=" 0 faults")
        if os.path.exists(os.path.join(copy, "load.tmp")):
            fail("load.tmp is left over")
    only = read_json(run(LOCKSTEP, "dump", first, "cities", "--limit", 5))
    if list(only) != [b"cities"] or len(only[b"cities"]) != 5:
        fail("dump of one index with a limit")
    run(LOCKSTEP, "dump", first, "nowhere", status=1, says="nowhere")
    return first, contents


def check_second_load(first, contents, rng):
    """Into indexes that are not empty: inserts, then replacements."""
    more = {b"cities": {b"new": b"1"}, b"log": [b"one more"]}
    run(LOCKSTEP, "load", first, stdin=write_json(more))
    contents[b"cities"][b"new"] = b"1"
    contents[b"log"].append(b"one more")
    again = {b"cities": {b"new": b"2"}}
    run(LOCKSTEP, "load", first, stdin=write_json(again), status=1,
        says=["duplicate_key", "--resume --replace"])
    run(LOCKSTEP, "load", first, stdin=write_json(again), status=1, says="--resume")
    run(LOCKSTEP, "load", first, "--resume", "--replace", stdin=write_json(again))
    contents[b"cities"][b"new"] = b"2"
    same(read_json(run(LOCKSTEP, "dump", first)), contents, "second load")


def check_errors(folder):
    wrong = {
        HEAD + b'{"index":"a","key":"k","value":"v"}\n': "cut short",
        HEAD + b'{"end":1}\n': "line 3: the input has 0 records, its end row says 1",
        HEAD + b'{"index":"a","key":"k"}\n': "line 3: a record has exactly",
        HEAD + b'{"index":"b","key":"k","value":"v"}\n': "line 3: no row before this one dec",
        HEAD + b'\n{"index":"a","key":"k","value":"v"\n': "line 4: not a JSON text",
        HEAD + b'{"index":"a","key":{"hex":"0g"},"value":"v"}\n': "line 3: key: hex",
        HEAD + b'{"heap":"a","id":"1.1","value":"v"}\n': "line 3: a was declared as index a",
        HEAD + b'{"end":0}\n{"end":0}\n': "line 4: a row behind the end row",
        b'{"lockstep_dump":2}\n': "line 1: version 2",
        b'{"index":"a"}\n': "line 1: the row with the version is missing",
        HEAD + b'{"index":"a","key":"' + b"k" * 1025 + b'","value":"v"}\n': "line 3: a key of 1025",
        HEAD + b'{"index":"a","key":"k","value":"1"}\n' * 1 +
        b'{"index":"a","key":"k","value":"2"}\n{"end":2}\n': "occurs twice, on lines 3 and 4",
        b"row,object,key,value\r\nlockstep_dump,1,,\r\nindex,a,,\r\nrecord,a,b\r\n":
            "line 4: a row has exactly four fields",
        b"row,object,key,value\r\nlockstep_dump,1,,\r\nindex,a,,\r\nrecord,a,b,\\n\r\n":
            "line 4: a backslash",
        b"lockstep_dump 1\nindex 61\nrecord 1 61 62\n": "line 3: no index or heap has this number",
        b"lockstep_dump 1\nindex 61\nrecord 0 6 62\n": "line 3: record:",
        b"nonsense\n": "line 1 is not the first line of a dump",
    }
    good = HEAD + b'{"index":"a","key":"k","value":"v"}\n{"end":1}\n'
    for i, (text, says) in enumerate(wrong.items()):
        path = os.path.join(folder, f"wrong{i}")
        run(LOCKSTEP, "load", path, stdin=text, status=1, says=says)
        if os.path.exists(path):  # nothing of a refused bulk load is in
            if read_json(run(LOCKSTEP, "dump", path)).get(b"a"):
                fail(f"records of a refused input are in the store: {says}")
            run(LOCKSTEP, "load", path, "--resume", stdin=good, status=1, says="no unfinished")
        # The corrected input comes in by one command.
        run(LOCKSTEP, "load", path, stdin=good)
        same(read_json(run(LOCKSTEP, "dump", path)), {b"a": {b"k": b"v"}}, "corrected")


def check_replace(folder):
    """Of a key that occurs twice in the input the last one counts, also in another run."""
    row = '{"index":"a","key":"%s","value":"%s"}\n'
    rows = [row % ("k", "first"), row % ("k", "last")]
    for name, memory, between in ("near", "1G", 0), ("far", "1", 3000):
        more = [row % (f"once {i}", "v" * 600) for i in range(between)]
        text = HEAD + "".join([rows[0], *more, rows[1]]).encode()
        text += b'{"end":%d}\n' % (between + 2)
        path = os.path.join(folder, name)
        run(LOCKSTEP, "load", path, "--memory", memory, "--replace", stdin=text)
        found = read_json(run(LOCKSTEP, "dump", path))[b"a"]
        if found[b"k"] != b"last" or len(found) != between + 1:
            fail(f"{name}: {found[b'k']!r} of {len(found)}")


def check_resume_behind_the_end(folder):
    """The last cut of a load can lie behind the end row: --resume then has no row left to read."""
    row = '{"index":"a","key":"%s","value":"%s"}\n'
    keys = ["twice", *(f"once {i}" for i in range(3000)), "twice"]  # more than a block: two runs
    text = HEAD + "".join(row % (key, "v" * 600) for key in keys).encode() + b'{"end":3002}\n'
    path = os.path.join(folder, "behind")
    for resume in [], ["--resume"]:  # the index is built behind the last cut, and fails both times
        run(LOCKSTEP, "load", path, "--memory", "1", *resume, stdin=text, status=1,
            says="twice occurs twice")


def check_kill(folder, rng):
    """Kills the load at random times until it gets through."""
    contents = random_contents(rng, 20000)
    source = os.path.join(folder, "source.json")
    with open(source, "wb") as file:
        file.write(write_json(contents, rng))
    path = os.path.join(folder, "killed")
    command = [LOCKSTEP, "load", path, source, "--memory", "1M"]
    started = time.monotonic()
    run(LOCKSTEP, "load", os.path.join(folder, "undisturbed"), source, "--memory", "1M")
    whole = time.monotonic() - started
    kills = 0
    for _ in range(40):
        load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            _, text = load.communicate(timeout=max(0.03, whole * rng.uniform(0.1, 0.8)))
        except subprocess.TimeoutExpired:
            load.send_signal(signal.SIGKILL)
            load.communicate()
            kills += 1
            if "--resume" not in command and os.path.exists(path):
                command.append("--resume")
            continue
        if load.returncode == 0:
            break
        if b"has no unfinished load" in text:
            # Killed before it began, or after it had ended.
            if read_json(run(LOCKSTEP, "dump", path)):
                break
            command.remove("--resume")
        elif b"no store" not in text:
            fail(f"resumed load: {text.decode()[-1000:]}")
    else:
        fail("the load makes no progress when it is killed and resumed")
    print(f"killed {kills} times")
    same(read_json(run(LOCKSTEP, "dump", path)), contents, "killed and resumed")
    run(LOCKSTEP, "verify", path, says=" 0 faults")


def main():
    rng = make_rng("load_test")
    folder = tempfile.mkdtemp(prefix="lockstep-load-")
    try:
        first, contents = check_formats(folder, rng)
        check_second_load(first, contents, rng)
        check_errors(folder)
        check_replace(folder)
        check_resume_behind_the_end(folder)
        check_kill(folder, rng)
        print("5 passed, 0 failed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
