#!/usr/bin/env python3
"""Tests of lockstep-acked: a sound store passes its check, and the check notices what is lost, what
is too much, and work that is not whole.

Usage: acked_test.py PROGRAM"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else pathlib.Path()


def run(*words):
    """The finished program."""
    command = [PROGRAM, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


class Acked(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="lockstep-acked-")
        self.addCleanup(scratch.cleanup)
        self.place = pathlib.Path(scratch.name)
        self.store, self.acked = self.place / "store", self.place / "acked"

    def work(self, transactions=30, seed=1):
        words = ("--transactions", transactions, "--clients", 3, "--seed", seed)
        done = run("run", self.store, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def check(self, acked, seed=1, clients=3):
        self.acked.write_text(acked)
        return run(
            "check", self.store, "--acked", self.acked, "--seed", seed, "--clients", clients
        )

    def test_work_goes_on_and_is_right(self):
        lines = self.work()
        self.assertEqual(self.check(lines).returncode, 0)
        lines += self.work()
        done = self.check(lines)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(done.stdout.splitlines(), [f"newest: {i} 60" for i in range(3)])

    def test_what_is_lost_is_noticed(self):
        done = self.check(self.work() + "1 31\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("client 1, transaction 31: is lost, the newest one is 30", done.stdout)

    def test_what_was_never_begun_is_noticed(self):
        self.work()
        done = self.check("0 30\n1 30\n2 27\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("client 2, transaction 30: is there and was never begun", done.stdout)

    def test_other_contents_are_noticed(self):
        done = self.check(self.work(), seed=2)
        self.assertEqual(done.returncode, 1)
        for words in ("index rows: ", "account 0 has a wrong balance", "the note is"):
            self.assertIn(words, done.stdout)

    def test_rows_of_a_client_that_is_missing_are_noticed(self):
        self.work()
        done = self.check("0 30\n1 30\n", clients=2)
        self.assertEqual(done.returncode, 1)
        self.assertIn("are wrong or too many", done.stdout)
        self.assertIn("heap notes: 3 records instead of 2", done.stdout)

    def test_no_file_of_the_store_becomes_standard_output(self):
        """The acknowledgements have no place, so the work fails, and the store is sound."""
        closed = subprocess.run(
            [PROGRAM, "run", self.store, "--clients", "3"],
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
            preexec_fn=lambda: os.close(1),
        )
        self.assertNotEqual(closed.returncode, 0)
        self.assertIn("standard output: Bad file descriptor", closed.stderr)
        self.assertEqual(self.check("").returncode, 0)

    def test_a_list_that_is_missing_is_no_empty_list(self):
        self.work()
        done = run("check", self.store, "--acked", self.place / "none", "--clients", 3)
        self.assertEqual(done.returncode, 3)
        self.assertIn("none cannot be read", done.stderr)

    def test_an_empty_store_is_noticed(self):
        self.assertEqual(self.check("").returncode, 0)
        self.assertEqual(self.check("0 1\n").returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
