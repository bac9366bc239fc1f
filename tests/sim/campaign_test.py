#!/usr/bin/env python3
"""campaign_test.py - a campaign of lockstep-sim that is killed goes on, its totals add up, and it
keeps failures.

Usage: campaign_test.py PROGRAM BUILD. A mutant of the program is made from the build."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = ["--seed", "11", "--crash-points", "4", "--depth", "1"]


def run(program, *options, status=0, **environment):
    done = subprocess.run(
        [program, *map(str, options)],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )
    text = done.stdout + done.stderr
    assert done.returncode == status, f"status {done.returncode} of {options}:\n{text}"
    return text


def counts_of(text):
    return {name: int(n) for name, n in re.findall(r"^  (\w+) +(\d+)$", text, re.M)}


def pieces_of(place):
    return sorted((place / "pieces").glob("*.json"))


def kill_after_a_piece(program, place, options):
    """Kills the run when its first pieces are there; returns the bytes of those."""
    with subprocess.Popen(
        [program, "--campaign", place, *map(str, options)], stdout=subprocess.DEVNULL
    ) as running:
        limit = time.monotonic() + 120
        while not pieces_of(place):
            assert running.poll() is None, "the campaign ended without a piece"
            assert time.monotonic() < limit, "no piece in two minutes"
            time.sleep(0.005)
        running.kill()
    return {path: path.read_bytes() for path in pieces_of(place)}


def test_goes_on(program, place):
    options = [*SEEDS, "--seeds", 25, "--piece", 2]
    kept = kill_after_a_piece(program, place, options)
    assert len(kept) < 13, "killed too late"
    text = run(program, "--campaign", place, "--jobs", 2)
    assert "campaign: 25 of 25 seeds" in text, text
    for path, before in kept.items():
        assert path.read_bytes() == before, f"{path} was made again"
    whole = run(program, *SEEDS, "--seeds", 25)
    assert counts_of(text) == counts_of(whole), "the pieces' counts do not add up"
    # Nothing is left to do, and the totals stay the same.
    again = run(program, "--campaign", place)
    assert counts_of(again) == counts_of(whole) and "piece " not in again, again


def test_totals(program, place):
    text = run(program, "--campaign", place, "--totals")
    pieces = [json.loads(path.read_text()) for path in pieces_of(place)]
    points = sum(piece["counts"]["crash_points"] for piece in pieces)
    assert points > 0 and f"| crash_points | {points} |" in text, text
    commit = pieces[0]["commit"]
    assert re.search(rf"^\| {re.escape(commit)} \| 25 \| {points} \|", text, re.M), text


def test_refusals(program, place):
    text = run(program, "--campaign", place, "--depth", 2, status=2)
    assert "was begun with depth 1, not 2" in text, text
    path = pieces_of(place)[0]
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    assert f"{path} is damaged" in run(program, "--campaign", place, status=2)
    # A seed counts once.
    path.write_text(pieces_of(place)[1].read_text())
    assert f"{path} is no piece of this campaign" in run(program, "--campaign", place, status=2)
    path.unlink()
    assert "campaign: 25 of 25 seeds" in run(program, "--campaign", place)
    assert path.read_text() and json.loads(path.read_text())["seeds"] == 2


def mutated(build, place):
    """The program with a mutant, which LOCKSTEP_MUTATION=1 makes wrong."""
    command = [sys.executable, ROOT / "tools/mutate.py", "--build", build, "--resume", place]
    options = ["--programs", "lockstep-sim", "--build-only", "commit_does_not_wait"]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    return str(place / "tree/bin/lockstep-sim")


def test_failures(program, place):
    """A failing seed is kept and shrunk, and the others of the campaign run."""
    options = ["--seeds", 2, "--piece", 1, "--crash-points", 24, "--workload", "records"]
    bad = {"LOCKSTEP_MUTATION": "1"}
    text = run(program, "--campaign", place, *options, status=1, **bad)
    assert "campaign: 2 of 2 seeds" in text, text
    failures = sorted((place / "failures").glob("seed-*.txt"))
    assert failures, "no failure was kept"
    for path in failures:
        kept = path.read_text()
        assert "replay: lockstep-sim --seed" in kept and "shrunk to" in kept, kept
        seed, text = re.search(r"^seed (\d+): (.*)$", kept, re.M).groups()
        replay = re.search(r"^replay: lockstep-sim (.*)$", kept, re.M)[1].split()
        again = run(program, *replay, "--no-shrink", status=1, **bad)
        assert f"FAILED seed {seed}: {text}" in again, again
    # The failure stays one, also for a call that runs nothing.
    assert "FAILED seed" in run(program, "--campaign", place, status=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("build", help="the build of the program")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="campaign_") as place:
        good, bad = pathlib.Path(place) / "good", pathlib.Path(place) / "bad"
        test_goes_on(options.program, good)
        test_totals(options.program, good)
        test_refusals(options.program, good)
        test_failures(mutated(options.build, pathlib.Path(place) / "mutate"), bad)
    print("a campaign goes on, adds up and keeps its failures")


if __name__ == "__main__":
    main()
