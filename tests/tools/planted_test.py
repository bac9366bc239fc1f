#!/usr/bin/env python3
"""planted_test - `planted.py --first-only` tests each mutant it is given, or stops and names it."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANT, PROGRAM = "lost_write_unseen", "sm_lost_write_test"


class FirstOnly(unittest.TestCase):
    def run_with(self, programs):
        with tempfile.TemporaryDirectory(prefix="planted_test_") as place:
            folder = pathlib.Path(place) / "bin"
            folder.mkdir()
            for name, text in programs.items():
                (folder / name).write_text("#!/bin/sh\n" + text + "\n")
                (folder / name).chmod(0o755)
            return subprocess.run(
                [
                    sys.executable,
                    ROOT / "tools/planted.py",
                    "--build",
                    place,
                    "--first-only",
                    "--skip-baseline",
                    MUTANT,
                ],
                capture_output=True,
                text=True,
            )

    def test_a_program_that_fails_catches_the_mutant(self):
        done = self.run_with({PROGRAM: "exit 1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 of 1 mutants caught", done.stdout)

    def test_a_missing_program_is_named(self):
        done = self.run_with({"sm_other_test": "exit 1"})
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{MUTANT} ({PROGRAM})", done.stderr)


if __name__ == "__main__":
    unittest.main()
