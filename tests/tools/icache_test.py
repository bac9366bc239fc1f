#!/usr/bin/env python3
"""icache_test - lockstep-icache from outside: bad input, exact repetition, and its simulator
against cachegrind on a real program.

Usage: icache_test.py LOCKSTEP_ICACHE
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ICACHE = pathlib.Path(sys.argv[1]).resolve()
GEOMETRIES = ("65536,2,64", "16384,4,32", "32768,8,64")


def run(*words, expect=0, program=ICACHE, **more):
    done = subprocess.run(
        [str(program), *map(str, words)], capture_output=True, text=True, timeout=200, **more
    )
    assert (
        done.returncode == expect
    ), f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def test_bad_input(scratch):
    for bad in ("65536,2", "65537,2,64", "65536,3,64", "65536,2,48", "nonsense"):
        done = run("run", "fetch", "--no-time", "--geometry", bad, expect=2)
        assert "geometry" in done.stderr, done.stderr
    assert "workload" in run("run", "bake", "--no-time", expect=2).stderr
    assert "CTX point" in run("run", "fetch", "--no-time", "--points", "nowhere", expect=1).stderr
    assert "auto" in run("run", "fetch", "--no-time", "--points", "auto:/nowhere", expect=1).stderr
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
        outputs.append(file.read_text())
    assert outputs[0] == outputs[1], "two runs of one seed differ"
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
    assert (scratch / "other.json").read_text() != outputs[
        0
    ], "another seed changes nothing: is it used?"
    check_comparison(json.loads(outputs[0])["comparisons"][0])


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


def cachegrind(geometry, program, scratch):
    """I and D references and first-level misses, from valgrind's own tool under the same
    environment. Where valgrind chases branches it may execute instructions ahead of a condition
    that the program does not reach, and count them; the tracer does not chase, so cachegrind must
    not."""
    done = subprocess.run(
        [
            "/usr/bin/valgrind.bin",
            "--tool=cachegrind",
            "--vex-guest-chase=no",
            "--cache-sim=yes",
            f"--I1={geometry}",
            f"--D1={geometry}",
            "--LL=8388608,16,64",
            f"--cachegrind-out-file={scratch}/cachegrind.out",
            *program,
        ],
        capture_output=True,
        text=True,
        env={"LC_ALL": "C", "VALGRIND_LAUNCHER": "/usr/bin/valgrind"},
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    number = lambda name: int(
        re.search(name + r":\s+([\d,]+)", done.stderr).group(1).replace(",", "")
    )
    return number("I +refs"), number("I1 +misses"), number("D1 +misses")


def test_against_cachegrind(scratch):
    program = (str(ICACHE), "run", "--help")
    run("record", "--out", scratch / "whole", "--", *program, env={"LC_ALL": "C"})
    words = [word for g in GEOMETRIES for word in ("--geometry", g)]
    ours = json.loads(run("simulate", "--as-cachegrind", scratch / "whole", *words).stdout)
    for geometry, machine in zip(GEOMETRIES, ours["machines"]):
        refs, l1i, l1d = cachegrind(geometry, program, scratch)
        for name, mine, theirs in (
            ("instructions", ours["instructions"], refs),
            ("L1-I misses", machine["l1i"], l1i),
            ("L1-D misses", machine["l1d"], l1d),
        ):
            print(
                f"{geometry:>12} {name:<13} {mine:>10} cachegrind {theirs:>10} "
                f" {100 * (mine / theirs - 1):+.3f}%"
            )
            assert (
                abs(mine / theirs - 1) < 0.01
            ), f"{geometry}: {name} {mine}, cachegrind says {theirs}"


def main():
    for test in (test_bad_input, test_repetition, test_against_cachegrind):
        with tempfile.TemporaryDirectory() as scratch:
            test(pathlib.Path(scratch))
        print(f"{test.__name__}: passed", flush=True)


if __name__ == "__main__":
    main()
