#!/usr/bin/env python3
"""bench_test.py - lockstep-bench from outside: options that cannot be used, its results, and what
a kill leaves.

Usage: bench_test.py LOCKSTEP_BENCH
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

BENCH = pathlib.Path(sys.argv[1]).resolve()


def run(*words, says="", status=0):
    done = subprocess.run([BENCH, *words], capture_output=True, text=True, timeout=200)
    text = done.stdout + done.stderr
    assert done.returncode == status and says in text, (words, done.returncode, says, text)
    return text


def test_bad_options():
    for words, says in (
        (["--seconds", "nan"], "--seconds: nan is not a number"),
        (["--warehouses", "-1"], "--warehouses: "),
        (["--threads", "-1"], "--threads: "),
        (["--bytes", "1K"], "--bytes: is not in the range 4M to 1023G: 1K"),
        (["--second", "1"], "no option --second; did you mean --seconds?"),
    ):
        # CLI11: 109 if there is no such option, 105 if its value cannot be used.
        status = 109 if words[0] == "--second" else 105
        run("fetch", *words, says=f"lockstep-bench: {says}", status=status)
    run("fetsh", says="no benchmark 'fetsh'; --list shows them", status=2)
    run("switch", "--path", "/proc/nothing", says="--path: /proc/nothing: ", status=2)
    # A file cannot be a folder, for root neither.
    below = f"{BENCH}/x"
    run("switch", "--json", below, says=f"[--json]: {below} cannot be written", status=2)


def test_results(scratch):
    file = scratch / "switch.json"
    run("switch", "--duration", "0.01", "--json", file)  # the driver's name of --seconds
    found = json.loads(file.read_text())
    assert found["benchmark"] == "switch" and len(found) > 1, found


def test_what_is_left(scratch):
    """The tables are gone after the end, Ctrl-C and a kill."""
    place = scratch / "tmp"
    place.mkdir()
    for ending in (signal.SIGINT, signal.SIGKILL):
        child = subprocess.Popen(
            [BENCH, "fetch", "--bytes", "64M", "--seconds", "60"],
            stdout=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": str(place)},
        )
        until = time.monotonic() + 60
        while not list(place.glob("*/**/data")):
            assert time.monotonic() < until and child.poll() is None, "the load does not begin"
            time.sleep(0.01)
        child.send_signal(ending)
        assert child.wait(timeout=60) == -ending, child.returncode
        while os.listdir(place):
            assert time.monotonic() < until, os.listdir(place)
            time.sleep(0.01)


def test_the_temporary_directory_is_a_new_one(scratch):
    """What another program has left there stays."""
    place = scratch / "shared"

    def leave_something():
        left = place / f"lockstep-bench.{os.getpid()}"
        left.mkdir(parents=True)
        (left / "precious").touch()

    subprocess.run(
        [BENCH, "switch", "--seconds", "0.01"],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(place)},
        preexec_fn=leave_something,
        check=True,
    )
    assert len(list(place.glob("*/precious"))) == 1, "it is gone"


with tempfile.TemporaryDirectory(prefix="lockstep-bench-test-") as directory:
    test_bad_options()
    test_results(pathlib.Path(directory))
    test_what_is_left(pathlib.Path(directory))
    test_the_temporary_directory_is_a_new_one(pathlib.Path(directory))
print("lockstep-bench does as scripts rely on")
