"""checked_tree - a temporary tree of sources, and runs of a check over it, for its tests."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = "// {name} - a header for this test.\n#pragma once\n\nnamespace lockstep {{\n{body}\n}}\n"


class CheckedTree(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory(prefix="checks_")
        self.tree = pathlib.Path(self.place.name)
        for folder in (
            "threads/base",
            "txn",
            "sm/include/lockstep",
            "sm/btree",
            "sm/heap",
            "tools",
        ):
            (self.tree / folder).mkdir(parents=True)

    def tearDown(self):
        self.place.cleanup()

    def write(self, path, text):
        (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / path).write_text(text)

    def header(self, path, body):
        self.write(path, HEADER.format(name=pathlib.Path(path).name, body=body))

    def run_check(self, check, *options):
        """(passed, what it printed) of a check over the temporary tree."""
        command = [sys.executable, str(ROOT / check), str(self.tree), *options]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.stderr, "", "the check itself must not fail")
        return done.returncode == 0, done.stdout

    def expect(self, check, said):
        passed, printed = self.run_check(check)
        self.assertFalse(passed, f"{check} passed: {printed}")
        self.assertIn(said, printed)

    def expect_sound(self, check):
        passed, printed = self.run_check(check)
        self.assertTrue(passed, printed)

    def expect_printed(self, check, said):
        passed, printed = self.run_check(check)
        self.assertTrue(passed, printed)
        self.assertIn(said, printed)
