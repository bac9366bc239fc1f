#!/usr/bin/env python3
"""icache_test - lockstep-icache from outside: bad input, exact repetition, and its simulator
against cachegrind on a real program.

Usage: icache_test.py LOCKSTEP_ICACHE
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ICACHE = pathlib.Path(sys.argv[1]).resolve()
BELOW_A_FILE = f"{ICACHE}/results"  # nobody can make it, root neither


def run(*words, expect=0, program=ICACHE, **more):
    done = subprocess.run(
        [str(program), *map(str, words)], capture_output=True, text=True, timeout=200, **more
    )
    assert (
        done.returncode == expect
    ), f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def test_bad_input(scratch):
    for bad in ("65536", "65537,2,64", "65536,3,64", "65536,2,48", "48K,8", "nonsense"):
        done = run("run", "fetch", "--no-time", "--geometry", bad, expect=2)
        assert "geometry" in done.stderr, done.stderr
    assert "workload" in run("run", "bake", "--no-time", expect=2).stderr
    assert "CTX point" in run("run", "fetch", "--no-time", "--points", "nowhere", expect=1).stderr
    assert "auto" in run("run", "fetch", "--no-time", "--points", "auto:/nowhere", expect=1).stderr
    done = run("run", "fetch", "--seconds", "nan", expect=105)
    assert "--seconds: nan is not a number" in done.stderr, done.stderr
    # Before a long run, and not behind it.
    for words in (("run", "fetch", "--json"), ("trace", "fetch:off:1", "--out")):
        done = run(*words, BELOW_A_FILE, expect=1)
        assert BELOW_A_FILE in done.stderr and "Not a directory" in done.stderr, done.stderr
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(ICACHE), "counters"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1 and b"No space left on device" in done.stderr, done
    # Results that are lost behind the run.
    few = ("--no-time", "--threads", 1, "--rounds", 1, "--warm-rounds", 1, "--geometry", "48K,12")
    done = run("run", "fetch", *few, "--json", "/dev/full", expect=1)
    assert "/dev/full" in done.stderr and "No space left on device" in done.stderr, done.stderr
    (scratch / "no_trace").write_bytes(b"12345678 this is no trace")
    assert "no trace" in run("simulate", scratch / "no_trace", expect=2).stderr
    assert "bad_path" in run("simulate", scratch / "missing", expect=1).stderr
    # Beside a copy of the program there is no tracer: as where valgrind was missing when it was
    # built.
    alone = scratch / "alone" / "lockstep-icache"
    alone.parent.mkdir()
    shutil.copy(ICACHE, alone)
    done = run("run", "fetch", "--no-time", expect=1, program=alone)
    assert "install valgrind" in done.stderr, done.stderr
    # Whatever this machine has, it says so in words.
    text = run("counters").stdout
    assert "hardware counters:" in text or "cycles" in text, text


def test_repetition(scratch):
    outputs = []
    for i in range(2):
        file = scratch / f"run{i}.json"
        run(
            "run",
            "fetch",
            "update",
            "--threads",
            5,
            "--rounds",
            5,
            "--no-time",
            "--geometry",
            "4K,4,64",
            "--json",
            file,
        )
        outputs.append(json.loads(file.read_text()))
    same = [output["comparisons"] for output in outputs]
    assert same[0] == same[1], "two runs of one seed differ"
    check_provenance(outputs[0]["provenance"])
    run(
        "run",
        "fetch",
        "--threads",
        5,
        "--rounds",
        5,
        "--no-time",
        "--geometry",
        "4K,4,64",
        "--seed",
        2,
        "--json",
        scratch / "other.json",
    )
    other = json.loads((scratch / "other.json").read_text())["comparisons"]
    assert other != same[0], "another seed changes nothing: is it used?"
    check_comparison(same[0][0])


def check_provenance(found):
    """What was run, in words that a reader can repeat."""
    [p] = found
    assert "run fetch update --threads 5" in p["command"], p["command"]
    assert p["plan"] == ["fetch:off:5", "fetch:ctx:5", "update:off:5", "update:ctx:5"], p["plan"]
    assert p["points"]["set"] == "manual" and "btree_leaf" in p["points"]["names"], p["points"]
    assert p["order"]["lock_policy"] == "fifo" and p["order"]["tuner"] == "off", p["order"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", p["date"]), p["date"]
    for part in ("processor", "caches", "kernel"):
        assert p["machine"][part], part
    for part in ("commit", "compiler"):
        assert p["build"][part], part
    differs = " ".join(p["differs"])
    assert "mode ctx here" in differs and "no tuner here" in differs, differs
    assert "lock policy" not in differs, "fifo is the driver's policy too"


def test_equal_modes_under_load(scratch):
    """STEPS off against itself, while other processes use both cores: whatever the noise, the tool
    must not say that one of them is faster."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * (os.cpu_count() or 1))
    ]
    try:
        done = run(
            *("run", "fetch", "--mode", "off", "--threads", 4, "--rounds", 3),
            *("--seconds", 1, "--geometry", "48K,12", "--json", scratch / "equal.json"),
        )
    finally:
        for process in busy:
            process.kill()
            process.wait()
    time = json.loads((scratch / "equal.json").read_text())["comparisons"][0]["time"]
    assert time["verdict"] in ("no difference seen", "too noisy to tell"), time
    assert f"native time: {time['verdict']}" in done.stdout, done.stdout
    assert time["pairs"] == 32 and time["quiet_pairs"] <= 32, time


def check_comparison(c):
    """A team's statistics agree, and teams do what they are for."""
    machine = c["machines"][0]
    assert c["team"]["units"] == c["serial"]["units"] == 25
    assert (
        500
        < c["serial"]["instructions"]
        < c["team"]["instructions"]
        < 2 * c["serial"]["instructions"]
    ), c["team"]
    assert machine["serial_warm"]["l1i"] <= machine["serial_cold"]["l1i"]
    assert machine["team_cold"]["follower"] < 0.5 * machine["team_cold"]["leader"], machine
    total = (
        machine["team_cold"]["leader"]
        + 4 * machine["team_cold"]["follower"]
        + machine["team_cold"]["other"]
    )
    assert abs(total / 5 - machine["team_cold"]["l1i"]) < 1e-6, machine


def test_against_cachegrind(scratch):
    """A small share of cachegrind_check.py, which compares all cases."""
    check = pathlib.Path(__file__).resolve().parent / "cachegrind_check.py"
    done = run(check, ICACHE, "--small", program=sys.executable)
    print(done.stdout, end="")
    assert "DIFFERS" not in done.stdout, done.stdout


def main():
    for test in (
        test_bad_input,
        test_repetition,
        test_equal_modes_under_load,
        test_against_cachegrind,
    ):
        with tempfile.TemporaryDirectory() as scratch:
            test(pathlib.Path(scratch))
        print(f"{test.__name__}: passed", flush=True)


if __name__ == "__main__":
    main()
