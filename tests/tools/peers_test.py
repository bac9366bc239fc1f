#!/usr/bin/env python3
"""Tests of lockstep-peers with the engines that are installed: all workloads, small; its results;
what it says of bad words.

Usage: peers_test.py PROGRAM"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path()
WORKLOADS = {"tpcc", "ycsb-a", "ycsb-b", "ycsb-c", "ycsb-e", "ycsb-f", "tatp"}
ALL = {"lmdb", "wiredtiger", "rocksdb", "sqlite", "berkeleydb"}


def run(*words: str) -> subprocess.CompletedProcess:
    """The finished program."""
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=240)


class Peers(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.json = pathlib.Path(self.scratch.name) / "peers.json"

    def measure(self, *words: str) -> tuple[subprocess.CompletedProcess, dict]:
        done = run("--quick", "--directory", self.scratch.name, "--json",
                   str(self.json), *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        left = [path.name for path in pathlib.Path(self.scratch.name).iterdir()]
        self.assertEqual(left, [self.json.name])
        return done, json.loads(self.json.read_text())

    def test_every_engine_runs_tpcc_soundly(self):
        done, result = self.measure("--workloads", "tpcc", "--workers", "2")
        self.assertIn("all were sound", done.stdout)
        self.assertEqual(len(result["tables"]), 2)  # without and with sync
        for table in result["tables"]:
            names = {row["contestant"] for row in table["rows"]}
            self.assertLessEqual({"driver", "driver-1", "lockstep"}, names)
            self.assertTrue(names & ALL, "no peer is installed")
            for row in table["rows"]:
                self.assertGreater(row["median"], 0, row)
                self.assertIn(row["title"], done.stdout)
        for contestant in result["contestants"]:
            for field in ("version", "settings", "isolation", "lost_without_sync"):
                self.assertTrue(contestant[field], contestant)

    def test_the_other_workloads(self):
        others = sorted(WORKLOADS - {"tpcc"})
        # What is given goes before --quick.
        given = ("--seconds", "0.2", "--records", "1000")
        _, result = self.measure("--workloads", ",".join(others), "--workers", "1", *given)
        conditions = result["conditions"]
        chosen = [conditions[name] for name in ("seconds", "ycsb_records", "rounds", "subscribers")]
        self.assertEqual(chosen, [0.2, 1000, 1, 2000])
        self.assertEqual([t["workload"] for t in result["tables"]], others[1:] + others[:1])
        for piece in result["slices"]:
            self.assertGreater(piece["transactions"], 0, piece)
            self.assertEqual(piece["faults"], [])

    def test_bad_words_are_named(self):
        # A file cannot be a folder, for root neither.
        below_a_file = f"{PROGRAM}/x.json"
        for words, expected in (
            (["--engines", "paradox"], "no engine 'paradox'"),
            (["--workloads", "tpcz"], "no workload 'tpcz'"),
            (["--json", below_a_file], f"{below_a_file} cannot be written"),
            (["--seconds", "nan"], "--seconds: nan is not a number"),
            (["--cache", "1K"], "--cache: is not in the range 4M to 1023G: 1K"),
            (["--round", "1"], "no option --round; did you mean --rounds?"),
            (["--seed", "-1"], "--seed: -1 is negative"),
        ):
            done = run(*words)
            self.assertGreater(done.returncode, 1)  # 2, or above 100: the command line's own
            self.assertIn(expected, done.stderr)

    def test_a_full_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "--list"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(b"No space left on device", done.stderr)

    def test_a_kill_leaves_no_tables(self):
        child = subprocess.Popen(
            [PROGRAM, "--quick", "--workloads", "ycsb-c", "--engines", "lockstep", "--seconds",
             "60", "--directory", self.scratch.name], stderr=subprocess.DEVNULL)  # fmt: skip
        until = time.monotonic() + 60
        while not list(pathlib.Path(self.scratch.name).glob("*/loaded-*/data")):
            self.assertLess(time.monotonic(), until, "the load does not begin")
            time.sleep(0.01)
        child.kill()
        child.wait()
        while list(pathlib.Path(self.scratch.name).iterdir()):
            self.assertLess(time.monotonic(), until, "the tables stay")
            time.sleep(0.01)

    def test_the_list_has_all_or_names_the_package(self):
        shown = run("--list").stdout
        for engine in ALL:
            self.assertRegex(shown, rf"(?m)^{engine}\b")
        for missing in shown.split("\n"):
            if "not in this build" in missing:
                self.assertRegex(missing, r"install lib\w+")


if __name__ == "__main__":
    if not PROGRAM.is_file():
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    unittest.main(argv=sys.argv[:1])
